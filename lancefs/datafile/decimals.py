"""Decimals of up to 18 digits in 64 bits instead of the 128 bits that data files store.

Purpose: DuckDB keeps such decimals in 64 bits. Half of the bytes are copied for it, and it need not
convert them.

Form: the field of a column is replaced by one with the same ids, whose type is `decimal64`. Values
become 64 bits wide as early as a page allows: plain ones as they are copied out of chunks, those
of a dictionary before they are looked up. What is decoded in another way is converted as an array.

The high bits have to repeat the sign of the low ones. Otherwise a value is damaged, or lies below a
null and is whatever the writer had there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, stored_values, valid_slots
from lancefs.datafile.blocks import Array, Block, Constant, Dictionary, FixedWidth, Ints, Mask
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import take, to_decimal64
from lancefs.datafile.logical_types import decimal64_type
from lancefs.errors import CorruptFile

_STORED, _DECIMAL64 = 128, 64  # bits of a value


@lru_cache(maxsize=4096)  # the same for all files of a table
def decimal64_field(field: Field) -> Field | None:
    """Return the field by which a column of decimals is read in 64 bits; None for other columns."""
    if field.children or decimal64_type(field.storage_type) is None:
        return None
    way = field.way and (*field.way[:-1], replace(field.way[-1], is_decimal64=True))
    return replace(field, is_decimal64=True, way=way)


def decimal64_values(values: FixedWidth) -> FixedWidth | None:
    """Return decimals in 64 bits; None where one, which may be below a null, takes more.

    Args:
        values: Decimals of 128 bits, or those of 64 bits already, which alone are signed.

    Raises:
        CorruptFile: The values have another width.
    """
    if values.bits == _DECIMAL64 and values.values.dtype == np.int64:
        return values
    if values.bits != _STORED:
        raise CorruptFile(f"values of {values.bits} bits where decimals of {_STORED} were expected")
    low, fits = _low_words(values.values)
    return FixedWidth(_DECIMAL64, low) if fits else None


def decimal64_block(block: Block, data_type: pa.DataType, valid: Mask | None) -> Block:
    """Return the values of a page in 64 bits.

    Args:
        block: The values; see `decimal64_values`.
        data_type: Their type, a `decimal64`.
        valid: Which slots are not null; None where all are valid.

    Raises:
        CorruptFile: A value that is not null takes more bits, or the values have another width.
    """
    match block:
        case FixedWidth():
            found = decimal64_values(block)
            return found or FixedWidth(_DECIMAL64, _without_garbage(block.values, data_type, valid))
        case Dictionary(indices, FixedWidth() as items):
            found = decimal64_values(items)
            if found is not None:
                return Dictionary(indices, found)
            looked_up = FixedWidth(_STORED, take(items.values, indices))
            return decimal64_block(looked_up, data_type, valid)
        case Dictionary(indices, items):
            return Dictionary(indices, decimal64_block(items, data_type, None))
        case Constant(bytes() as value, length):
            if len(value) * 8 != _STORED:
                raise CorruptFile(f"a constant decimal of {len(value)} bytes")
            one = FixedWidth(_STORED, np.frombuffer(value, "V16"))
            is_seen = length > 0 and (valid is None or bool(valid.any()))
            low = decimal64_block(one, data_type, np.array([is_seen]))
            assert isinstance(low, FixedWidth)
            return Constant(low.values.tobytes(), length)
        case _:
            return block


def decimal64_array(array: pa.Array) -> pa.Array:
    """Return decimals in 64 bits.

    Args:
        array: An array of a type that has a `decimal64_type`, or of that type.

    Raises:
        CorruptFile: A value that is not null takes more bits.
    """
    data_type = decimal64_type(array.type)
    if data_type is None:
        return array
    values, nulls = stored_values(array, "V16"), array.null_count
    low, fits = _low_words(values)
    if not fits:
        low = _without_garbage(values, data_type, valid_slots(array))
    validity = None
    if nulls:
        validity = bitmap(valid_slots(array)) if array.offset else array.buffers()[0]
    return pa.Array.from_buffers(data_type, len(array), [validity, pa.py_buffer(low)], nulls)


def decimal64_items(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return dictionary-encoded decimals with items in 64 bits, unless an item takes more."""
    items = array.dictionary
    data_type = decimal64_type(items.type)
    if data_type is None:
        return array
    low, fits = _low_words(stored_values(items, "V16"))
    if not fits:
        return array
    low_items = pa.Array.from_buffers(data_type, len(items), [None, pa.py_buffer(low)], 0)
    return pa.DictionaryArray.from_arrays(array.indices, low_items, safe=False)


def _low_words(values: Array) -> tuple[Ints, bool]:
    """Return the low bits of numbers of 128 bits, and whether these are the numbers."""
    data = np.ascontiguousarray(values).view(np.uint8)
    return to_decimal64(data, np.zeros(1, np.int64), np.array([len(data)]))


def _without_garbage(values: Array, data_type: pa.DataType, valid: Mask | None) -> Ints:
    """Return the low bits of decimals, of which only those below nulls may take more bits."""
    words = np.ascontiguousarray(values).view("<i8").reshape(-1, 2)
    wrong = words[:, 1] != words[:, 0] >> (_DECIMAL64 - 1)
    if valid is not None:
        wrong &= valid
    if wrong.any():
        number = int.from_bytes(values[int(np.argmax(wrong))].tobytes(), "little", signed=True)
        raise CorruptFile(
            f"the number {number} takes more than {_DECIMAL64} bits; decimals of "
            f"{data_type.precision} digits do not"
        )
    low: Ints = words[:, 0].copy()
    return low
