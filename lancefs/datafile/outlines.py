"""Outlines: columns without their values, as they are read where only their structure is wanted.

The outline of a column is an array of the same structure, with the same nulls and the same lists.
In place of strings it has their lengths, in place of all other values zeros that take little room.
So whatever there is for arrays serves outlines, too; only how the values of a page are read is
different, which saves what decoding them costs, and mostly reading them.

A field and its outline have the same ids, by which files find them: they are read one by one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from lancefs.datafile.blocks import (
    Block,
    Constant,
    Dictionary,
    FixedSizeList,
    FixedWidth,
    lengths_of,
)
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import is_variable_width
from lancefs.errors import CorruptFile

# The type of lengths in an outline: no other values of an outline have it.
LENGTHS = pa.int64()

_FIXED = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_fixed_size_binary)


@lru_cache(maxsize=4096)  # the same for all files of a table
def outline_of(field: Field) -> Field | None:
    """Return the field that a column's outline is read as.

    Args:
        field: The column, or a part of it.

    Returns:
        A field with the same ids; None where the values must be read to know what readers see:
        JSON, which is shown as a text of another length; blobs; packed structs, whose members have
        no pages of their own; dictionaries, which are read whole before anything is laid out; and
        fixed-size lists of strings, of which Arrow keeps other items below nulls than of lengths.

    Raises:
        UnsupportedFeature: A type of the field or below it is not known; it is named.
        CorruptFile: A type makes no sense.
    """
    if field.is_json or field.is_blob or field.is_packed:
        return None
    if field.is_leaf:
        if pa.types.is_null(field.storage_type) or field.logical_type == "struct":
            return replace(field, metadata={})  # it has no values
        logical_type = _outline_type(field.storage_type)
        if logical_type is None:
            return None
        return replace(field, logical_type=logical_type, metadata={}, is_outline=True)
    children = [outline for child in field.children if (outline := outline_of(child))]
    if len(children) < len(field.children):
        return None
    return replace(field, metadata={}, children=tuple(children), is_outline=True)


def _outline_type(data_type: pa.DataType) -> str | None:
    """Return the logical type that the outline of a leaf has; None where it has no outline.

    Arrow treats fixed-size lists in two ways, by the type of their items: what it leaves below a
    null when it drops rows differs between booleans and numbers. So their outlines differ, too.
    """
    if is_variable_width(data_type):
        return "int64"
    if pa.types.is_boolean(data_type):
        return "bool"
    if data_type == pa.binary(0):
        return "fixed_size_binary:0"
    if pa.types.is_fixed_size_list(data_type):
        items, size = _outline_type(data_type.value_type), data_type.list_size
        return None if items in (None, "int64") else f"fixed_size_list:{items}:{size}"
    return "int8" if any(check(data_type) for check in _FIXED) else None


def zeros(data_type: pa.DataType, count: int) -> Block:
    """Return values of no content.

    Args:
        data_type: The type of an outline, but `LENGTHS`. It comes from the schema: who asks for
            fixed-size lists has checked that as many items are in the file.
        count: How many.
    """
    if pa.types.is_fixed_size_list(data_type):
        size = data_type.list_size
        return FixedSizeList(size, zeros(data_type.value_type, count * size), None, count)
    return Constant(bytes(-(-data_type.bit_width // 8)), count)


def without_values(block: Block, data_type: pa.DataType) -> Block:
    """Return what an outline has of values that had to be decoded.

    Args:
        block: The values.
        data_type: The type of the outline.

    Raises:
        CorruptFile: They are of another kind than the column's.
    """
    if isinstance(block, Constant) and block.value is None:
        return block
    if isinstance(block, Dictionary):
        return Dictionary(block.indices, without_values(block.items, data_type))
    if data_type == LENGTHS:
        return FixedWidth(64, lengths_of(block))
    if not pa.types.is_fixed_size_list(data_type):
        return zeros(data_type, block.length)
    if not isinstance(block, FixedSizeList):
        raise CorruptFile("values that are no fixed-size lists, where the column is of such")
    items = without_values(block.items, data_type.value_type)
    return FixedSizeList(block.dimension, items, block.validity, block.length)
