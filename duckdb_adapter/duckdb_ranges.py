"""Durations, timestamps, dates and times that Arrow can hold and DuckDB cannot.

DuckDB counts microseconds in 64 bits and days in 32. Beyond that it fails with an error that names
no column, takes a date for another one, or, over a time of day beyond 24 hours, shuts the database.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.logical_types import entries_type, has_type, storage_of
from lancefs.errors import UnsupportedFeature

_MICROSECONDS = 2**63 - 2  # the largest number stands for infinity
_MAX_DAYS = 2**31 - 2
_DAY_MS = 86_400_000
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def is_limited(kind: pa.DataType) -> bool:
    """Whether a type, or one below it, has values that DuckDB does not hold."""
    return _is_limited(storage_of(kind))


@lru_cache(4096)
def _is_limited(kind: pa.DataType) -> bool:
    return has_type(kind, _has_limits)


def check_range(array: pa.Array, name: str) -> None:
    """Check that DuckDB holds all values of a column of a type that `is_limited`.

    Args:
        array: Values of the column.
        name: Its name, for the error.

    Raises:
        UnsupportedFeature: A value is out of DuckDB's range.
    """
    pending = [array]
    while pending:
        one = pending.pop()
        if isinstance(one, pa.ExtensionArray):
            one = one.storage
        elif pa.types.is_dictionary(one.type):
            one = one.dictionary_decode()
        limits = _limits(one.type)
        if limits is not None:
            _check(one, limits, name)
        elif pa.types.is_struct(one.type):
            pending.extend(one.flatten())  # what stands below a null does not count
        elif one.type.num_fields and is_limited(one.type):
            is_map = pa.types.is_map(one.type)
            pending.append((one.cast(entries_type(one.type)) if is_map else one).flatten())


def _check(array: pa.Array, limits: tuple[int, int], name: str) -> None:
    """Check that all values lie between two numbers, both included."""
    numbers = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    extremes = pc.min_max(numbers)
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    if least is None or limits[0] <= least <= most <= limits[1]:
        return
    value = least if least < limits[0] else most
    raise UnsupportedFeature(
        f"column {name!r}: the value {value} of the type {array.type} is out of the range that "
        f"DuckDB holds, {limits[0]} to {limits[1]}; leave the column out, or read it with "
        "lancefs.open"
    )


def _has_limits(kind: pa.DataType) -> bool:
    return _limits(kind.value_type if pa.types.is_dictionary(kind) else kind) is not None


def _limits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return the least and the largest value that DuckDB holds; None where it holds all."""
    if pa.types.is_time(kind):
        return 0, 86_400 * _PER_SECOND[kind.unit]
    if pa.types.is_date64(kind):
        return -_MAX_DAYS * _DAY_MS, _MAX_DAYS * _DAY_MS
    is_converted = pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz)
    if is_converted and kind.unit in ("s", "ms"):
        most = _MICROSECONDS // (_PER_SECOND["us"] // _PER_SECOND[kind.unit])
        return -most, most
    return None
