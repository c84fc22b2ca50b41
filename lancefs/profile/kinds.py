"""Columns in the forms in which they are profiled: plain values, lengths, norms.

Times are profiled as the numbers that they are stored as, half floats as floats, texts as texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import bitmap, mask_of, numbers_of
from lancefs.datafile.buffers import Array, Mask, to_arrow_numbers
from lancefs.datafile.constants import scalar_of
from lancefs.datafile.logical_types import is_list

Kind: TypeAlias = Literal["number", "time", "bool", "text", "bytes", "list", "vector", "other"]

_TIMES = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def plain_values(array: pa.Array) -> pa.Array:
    """Return an array without extension types and dictionaries around its values."""
    if isinstance(array, pa.ExtensionArray):
        return plain_values(array.storage)
    return plain_values(array.dictionary_decode()) if _is_dictionary(array.type) else array


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return a type without the extension type and the dictionary around it."""
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    return plain_type(data_type.value_type) if _is_dictionary(data_type) else data_type


def kind_of(data_type: pa.DataType) -> Kind:
    """Return how a plain type is profiled; `other` has no values to profile."""
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        return "number"
    if pa.types.is_decimal(data_type):
        return "number"
    if any(is_kind(data_type) for is_kind in _TIMES):
        return "time"
    if pa.types.is_boolean(data_type):
        return "bool"
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return "text"
    if any(is_kind(data_type) for is_kind in _BYTES):
        return "bytes"
    if is_list(data_type):
        return "list"
    if pa.types.is_fixed_size_list(data_type) and is_number(data_type.value_type):
        return "vector"
    return "other"


def is_number(data_type: pa.DataType) -> bool:
    """Whether values are whole numbers or floats, of any width."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type))


def as_stored(array: pa.Array, kind: Kind) -> pa.Array:
    """Return plain values as they are counted and ordered: times as numbers, texts as bytes.

    Zeros have no sign, which Arrow counts as two values.
    """
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    if pa.types.is_floating(array.type):
        return pc.add(array, scalar_of(0.0, array.type))
    if kind == "text":
        is_large = pa.types.is_large_string(array.type)
        return array.cast(pa.large_binary() if is_large else pa.binary())
    if kind != "time":
        return array
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())


def as_shown(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values of `as_stored` in the plain type of their column."""
    if array.type == data_type:
        return array
    return array.cast(data_type) if pa.types.is_float16(data_type) else array.view(data_type)


def lengths_of(array: pa.Array, kind: Kind) -> pa.Array | None:
    """Return the lengths of texts in characters, of bytes, and of lists; None for other kinds."""
    if kind == "text":
        return pc.utf8_length(array)
    if kind == "bytes" and not pa.types.is_fixed_size_binary(array.type):
        return pc.binary_length(array)
    if kind != "list":
        return None
    if pa.types.is_map(array.type):
        return _numbers(np.diff(numbers_of(array.offsets)), mask_of(array.is_valid()))
    return pc.list_value_length(array)


def norms_of(array: pa.FixedSizeListArray) -> pa.Array:
    """Return the Euclidean norms of vectors; a vector with a missing item has none."""
    size, count = array.type.list_size, len(array)
    items = array.values.slice(array.offset * size, count * size)
    numbers = items.cast(pa.float64()) if items.type.bit_width < 32 else items
    table = numbers_of(numbers).reshape(count, size)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", table, table, dtype=np.float64))
    valid = mask_of(array.is_valid())
    if items.null_count:
        valid = valid & mask_of(items.is_valid()).reshape(count, size).all(axis=1)
    return _numbers(norms, valid)


def _numbers(values: Array, valid: Mask) -> pa.Array:
    """Return numbers as an Arrow array, of which some may be missing."""
    array = to_arrow_numbers(values)
    buffers = [bitmap(valid), array.buffers()[1]]
    return pa.Array.from_buffers(array.type, len(array), buffers)


def parts_of(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield a column, and after a struct its members; one that lies in a missing struct is missing.

    Args:
        name: The name of the column.
        array: Its values.
    """
    array = plain_values(array)
    yield name, array
    if pa.types.is_struct(array.type):
        for member, values in zip(array.type, array.flatten(), strict=True):
            yield from parts_of(f"{name}.{member.name}", values)


def _is_dictionary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(data_type))
