"""Constants of filters: the arrays that Arrow itself makes of Python values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lancefs.datafile.constants import array_of, decimals_of_units, null_of, scalar_of

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float16(), [1.5]),
    (pa.float32(), [0.1, -0.0]),
    (pa.float64(), [float("inf"), 1e-300]),
    (pa.bool_(), [True, False, True]),
    (pa.string(), ["", "Zoë", "a\0b"]),
    (pa.large_string(), ["x"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.large_binary(), [b"ab", b"c"]),
    (pa.binary(2), [b"ab"]),
    (pa.string_view(), ["a", "more than twelve letters"]),
    (pa.int32(), [1, None]),
    (pa.string(), ["a", None]),
    (pa.bool_(), [None, True, False]),
    (pa.large_binary(), [b"ab", None, b""]),
    (pa.float64(), [None, None]),
    (pa.string(), []),
    (pa.int64(), []),
]


@pytest.mark.parametrize(("data_type", "values"), VALUES, ids=str)
def test_values_are_those_of_arrow(data_type: pa.DataType, values: list[Any]) -> None:
    made = array_of(values, data_type)
    made.validate(full=True)
    assert made.equals(pa.array(values, data_type))
    for value in values:
        assert scalar_of(value, data_type).equals(pa.scalar(value, data_type))


@pytest.mark.parametrize("data_type", [pa.null(), pa.bool_(), pa.string(), pa.timestamp("us")])
def test_missing_values_have_a_type(data_type: pa.DataType) -> None:
    assert null_of(data_type).equals(pa.scalar(None, data_type))
    assert scalar_of(None, data_type).equals(pa.scalar(None, data_type))


@pytest.mark.parametrize("data_type", [pa.decimal128(38, 2), pa.decimal256(76, 2)], ids=str)
def test_decimals_are_made_of_their_units(data_type: pa.DataType) -> None:
    made = decimals_of_units([-1, 0, 10 ** (data_type.precision) - 1], data_type)
    made.validate(full=True)
    assert made.to_pylist()[:2] == [Decimal("-0.01"), Decimal("0.00")]
    assert str(made[2]) == "9" * (data_type.precision - 2) + ".99"
    assert decimals_of_units([], data_type).equals(pa.array([], data_type))
