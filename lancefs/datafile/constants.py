"""Arrow arrays and scalars from Python constants, built from bytes so that pandas stays unloaded.

`pa.array` and `pa.scalar` of Python values import pandas, if it is installed: a third of the time
that a new process needs for its first filter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap
from lancefs.datafile.buffers import number_dtype, to_arrow_numbers

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def null_of(data_type: pa.DataType) -> pa.Scalar:
    """Return the missing value of a type."""
    return pa.nulls(1, data_type)[0]


def scalar_of(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """Return a value as a scalar; see `array_of`."""
    return null_of(data_type) if value is None else array_of([value], data_type)[0]


def array_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Return values as an array.

    Args:
        values: Values that Arrow itself takes for the type, None for those that are missing.
        data_type: The type.
    """
    present = np.array([value is not None for value in values], np.bool_)
    valid = None if present.all() else bitmap(present)
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        numbers = np.array(_fill(values, 0), dtype=number_dtype(data_type))
        return _of_buffers(data_type, len(values), numbers, valid=valid)
    if pa.types.is_boolean(data_type):
        bits = bitmap(np.array(_fill(values, False), np.bool_))
        return _of_buffers(data_type, len(values), bits, valid=valid)
    kinds = (pa.types.is_string, pa.types.is_large_string)
    texts = _fill(values, "")
    if any(is_kind(data_type) for is_kind in kinds) and _are(texts, str):
        return _of_pieces([value.encode() for value in texts], data_type, valid)
    kinds = (pa.types.is_binary, pa.types.is_large_binary)
    pieces = _fill(values, b"")
    if any(is_kind(data_type) for is_kind in kinds) and _are(pieces, bytes):
        return _of_pieces(pieces, data_type, valid)
    return pa.array(values, data_type)


def lists_of(values: Sequence[Sequence[Any]], data_type: pa.DataType) -> pa.Array:
    """Return lists, none of which is missing, as an array.

    Args:
        values: The items of each list, or the pairs of each map.
        data_type: A type of lists or of maps, whose parts `array_of` takes.
    """
    ends = np.array(list(itertools.accumulate(map(len, values), initial=0)), np.int32)
    items = [item for value in values for item in value]
    offsets = to_arrow_numbers(ends)
    if not pa.types.is_map(data_type):
        return pa.ListArray.from_arrays(offsets, array_of(items, data_type.value_type))
    keys = array_of([key for key, _ in items], data_type.key_type)
    return pa.MapArray.from_arrays(
        offsets, keys, array_of([item for _, item in items], data_type.item_type)
    )


def times_of(values: Sequence[datetime | None], data_type: pa.DataType) -> pa.Array:
    """Return times with a zone as an array of timestamps in microseconds."""
    numbers = [None if value is None else (value - _EPOCH) // _MICROSECOND for value in values]
    return array_of(numbers, pa.int64()).cast(data_type)


def decimals_of_units(numbers: Iterable[int], data_type: pa.DataType) -> pa.Array:
    """Return decimals, given without their points and within the bounds of the type."""
    pieces = [one.to_bytes(data_type.byte_width, "little", signed=True) for one in numbers]
    return _of_buffers(data_type, len(pieces), np.frombuffer(b"".join(pieces), np.uint8))


def _fill(values: Sequence[Any], missing: Any) -> list[Any]:
    """Return values with another one in place of None."""
    return [missing if value is None else value for value in values]


def _are(values: Sequence[Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _of_pieces(
    pieces: Sequence[bytes], data_type: pa.DataType, valid: pa.Buffer | None
) -> pa.Array:
    is_large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    ends = list(itertools.accumulate(map(len, pieces), initial=0))
    offsets = np.array(ends, np.int64 if is_large else np.int32)
    text = np.frombuffer(b"".join(pieces), np.uint8)
    return _of_buffers(data_type, len(pieces), offsets, text, valid=valid)


def _of_buffers(
    data_type: pa.DataType, count: int, *buffers: Any, valid: pa.Buffer | None = None
) -> pa.Array:
    return pa.Array.from_buffers(data_type, count, [valid, *map(pa.py_buffer, buffers)])
