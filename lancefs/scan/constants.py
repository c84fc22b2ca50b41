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

from lancefs.datafile.buffers import Array, number_dtype


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
    present = [value for value in values if value is not None]
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        numbers = np.array(_filled(values, 0), dtype=number_dtype(data_type))
        return _of_buffers(data_type, len(values), numbers, valid=_validity(values))
    if pa.types.is_boolean(data_type):
        bits = _bits(_filled(values, False))
        return _of_buffers(data_type, len(values), bits, valid=_validity(values))
    kinds = (pa.types.is_string, pa.types.is_large_string)
    is_text = any(is_kind(data_type) for is_kind in kinds)
    if is_text and all(isinstance(value, str) for value in present):
        pieces = [value.encode() for value in _filled(values, "")]
        return _of_pieces(pieces, data_type, _validity(values))
    kinds = (pa.types.is_binary, pa.types.is_large_binary)
    is_binary = any(is_kind(data_type) for is_kind in kinds)
    if is_binary and all(isinstance(value, bytes) for value in present):
        return _of_pieces(_filled(values, b""), data_type, _validity(values))
    return pa.array(values, data_type)


def decimals_of_units(numbers: Iterable[int], data_type: pa.DataType) -> pa.Array:
    """Return decimals, given without their points and within the bounds of the type."""
    pieces = [one.to_bytes(data_type.byte_width, "little", signed=True) for one in numbers]
    return _of_buffers(data_type, len(pieces), np.frombuffer(b"".join(pieces), np.uint8))


def _filled(values: Sequence[Any], missing: Any) -> list[Any]:
    """Return values with another one in place of None."""
    return [missing if value is None else value for value in values]


def _bits(values: Sequence[bool]) -> Array:
    return np.packbits(np.array(values, dtype=bool), bitorder="little")


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """Return which values are not None; None where all are."""
    present = [value is not None for value in values]
    return None if all(present) else pa.py_buffer(_bits(present))


def _of_pieces(
    pieces: Sequence[bytes], data_type: pa.DataType, valid: pa.Buffer | None = None
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
