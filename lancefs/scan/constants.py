"""Constants of filters as Arrow arrays and scalars, made of bytes.

`pa.array` and `pa.scalar` of Python values import pandas, if it is installed: a third of the time
that a new process needs for its first filter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import to_arrow_numbers


def null_of(data_type: pa.DataType) -> pa.Scalar:
    """Return the missing value of a type."""
    return pa.nulls(1, data_type)[0]


def scalar_of(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """Return a value as a scalar; see `array_of`."""
    return null_of(data_type) if value is None else array_of([value], data_type)[0]


def array_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Return values as an array.

    Args:
        values: Values that Arrow itself takes for the type.
        data_type: The type.
    """
    is_number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type)
    if is_number and None not in values:
        return to_arrow_numbers(np.array(values, dtype=data_type.to_pandas_dtype()))
    if pa.types.is_boolean(data_type) and None not in values:
        bits = np.packbits(np.array(values, dtype=bool), bitorder="little")
        return _of_buffers(data_type, len(values), bits)
    kinds = (pa.types.is_string, pa.types.is_large_string)
    is_text = any(is_kind(data_type) for is_kind in kinds)
    if is_text and all(isinstance(value, str) for value in values):
        return _of_pieces([value.encode() for value in values], data_type)
    kinds = (pa.types.is_binary, pa.types.is_large_binary)
    is_binary = any(is_kind(data_type) for is_kind in kinds)
    if is_binary and all(isinstance(value, bytes) for value in values):
        return _of_pieces(values, data_type)
    return pa.array(values, data_type)


def decimals_of_units(numbers: Iterable[int], data_type: pa.DataType) -> pa.Array:
    """Return decimals, given without their points and within the bounds of the type."""
    pieces = [one.to_bytes(data_type.byte_width, "little", signed=True) for one in numbers]
    return _of_buffers(data_type, len(pieces), np.frombuffer(b"".join(pieces), np.uint8))


def _of_pieces(pieces: Sequence[bytes], data_type: pa.DataType) -> pa.Array:
    is_large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    ends = list(itertools.accumulate(map(len, pieces), initial=0))
    offsets = np.array(ends, np.int64 if is_large else np.int32)
    return _of_buffers(data_type, len(pieces), offsets, np.frombuffer(b"".join(pieces), np.uint8))


def _of_buffers(data_type: pa.DataType, count: int, *buffers: Any) -> pa.Array:
    return pa.Array.from_buffers(data_type, count, [None, *map(pa.py_buffer, buffers)])
