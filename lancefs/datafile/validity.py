"""Columns reduced to their validity: which values are missing, without the values.

Purpose: `count(c)` and `c IS NULL` use nothing else of a column.

Form: the field of a column is replaced by one with the same ids and with booleans as its leaves, so
that code that handles fields and arrays (structs around a member, several files, missing columns)
handles it without change. A part of a data file is read through its first leaf alone, which decides
about the validity of all that is around it. Only pages are read in another way: those that say that
nothing is missing are not read at all, of others no value is decompressed
(`v2_1.layouts.outline_pages`, `v2_0.array_outlines`, `legacy.encodings`).

A field and its validity have the same ids, by which files find them: one read has only one of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lancefs.datafile.fields import Field

# The type of a column as its validity: true where there is a value, null where none is.
VALIDITY = pa.bool_()


@lru_cache(maxsize=4096)  # the same for all files of a table
def validity_of(field: Field) -> Field | None:
    """Return the field by which the validity of a column is read.

    Args:
        field: The column, or a member of a struct as a column.

    Returns:
        A field with the same ids. None where the values are read to know it: blobs; packed structs,
        and members of these; dictionaries, whose items may be missing too; and values of the null
        type and structs without members, which have no bytes.

    Raises:
        UnsupportedFeature: The type of the field, or of one below it, is not known; it is named.
        CorruptFile: A type is invalid.
    """
    *around, column = field.way or (field,)
    if any(struct.is_packed for struct in around):
        return None
    reduced = _reduce_to_validity(column)
    if reduced is None or not around:
        return reduced
    return replace(reduced, name=field.name, way=(*around, reduced))


def _reduce_to_validity(field: Field) -> Field | None:
    if field.is_blob or field.is_packed:
        return None
    if field.is_leaf:
        kind = field.storage_type
        if field.logical_type == "struct" or pa.types.is_null(kind) or pa.types.is_dictionary(kind):
            return None
        return replace(field, logical_type="bool", metadata={}, is_outline=True, is_validity=True)
    children = [
        child for each in field.children if (child := _reduce_to_validity(each)) is not None
    ]
    if len(children) < len(field.children):
        return None
    # The entries of a map need a key and a value, of which the first leaf is one.
    logical_type = "list" if field.logical_type == "map" else field.logical_type
    return replace(
        field,
        logical_type=logical_type,
        metadata={},
        children=tuple(children),
        is_outline=True,
        is_validity=True,
    )


def validity_array(array: pa.Array) -> pa.BooleanArray:
    """Return true for each value of an array, and null where the value is missing."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray) and array.dictionary.null_count:
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), VALIDITY)
    valid = array.buffers()[0]
    if valid is None:
        ones = pa.py_buffer(np.full(-(-len(array) // 8), 0xFF, np.uint8))
        return pa.Array.from_buffers(VALIDITY, len(array), [None, ones])
    return pa.Array.from_buffers(VALIDITY, len(array), [valid, valid], offset=array.offset)
