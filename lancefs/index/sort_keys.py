"""Sort keys: the values of a column in a form that NumPy compares as indices order them.

Numbers, dates and times are the integers that are stored; decimals are unscaled integers; texts and
binary values are bytes; floats are floats, NaN being the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of, stored_values

SortKeys: TypeAlias = npt.NDArray[Any]

_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def has_byte_keys(data_type: pa.DataType) -> bool:
    """Tell whether the sort keys of a type are bytes."""
    return any(is_kind(data_type) for is_kind in _TEXTS)


def is_boxed(data_type: pa.DataType) -> bool:
    """Tell whether the sort keys of a type are Python objects, which take long to make."""
    return has_byte_keys(data_type) or pa.types.is_decimal128(data_type)


def is_stored_number(data_type: pa.DataType) -> bool:
    """Tell whether the sort keys of a type are the integers that it stores."""
    return (
        pa.types.is_integer(data_type)
        or pa.types.is_temporal(data_type)
        or pa.types.is_decimal128(data_type)
    ) and not pa.types.is_interval(data_type)


def has_keys(data_type: pa.DataType) -> bool:
    """Tell whether the values of a type have sort keys."""
    is_float = pa.types.is_float32(data_type) or pa.types.is_float64(data_type)
    return (
        is_float
        or pa.types.is_boolean(data_type)
        or has_byte_keys(data_type)
        or is_stored_number(data_type)
    )


def sort_keys(array: pa.Array) -> SortKeys:
    """Return the sort keys of values.

    Args:
        array: Values of a type that has keys, none of them missing.
    """
    data_type = array.type
    if pa.types.is_boolean(data_type):
        return numbers_of(array.cast(pa.uint8()))
    if pa.types.is_floating(data_type):
        return numbers_of(array.cast(pa.float64()))
    if has_byte_keys(data_type):
        return as_keys(array.cast(pa.large_binary()).to_pylist(), np.dtype(object))
    if data_type.bit_width == 128:
        halves = stored_values(array, "<u8,<i8")
        numbers = zip(halves["f1"].tolist(), halves["f0"].tolist(), strict=True)
        return as_keys([(high << 64) + low for high, low in numbers], np.dtype(object))
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    return stored_values(array, f"<{sign}{data_type.bit_width // 8}")


def as_keys(values: Sequence[Any], dtype: np.dtype[Any]) -> SortKeys:
    """Return sort keys as an array of the type that `sort_keys` returns."""
    keys: SortKeys = np.empty(len(values), dtype)
    keys[:] = values
    return keys
