"""Filters, tested on rows.

Most filters say between which values columns lie. That is tested on the numbers as they are stored:
one look at each, with no temporary array, where Arrow's expressions take several; of decimals they
take five times as long. All others are left to Arrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs import expressions
from lancefs.datafile.buffers import Mask
from lancefs.datafile.kernels import within
from lancefs.datafile.selection import mask_of, valid_slots
from lancefs.expressions import Comparison

# Digits enough for every decimal of one scale in the units of another.
_EXACT = Context(prec=200)
_TEMPORAL = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration)


@dataclass(frozen=True, slots=True)
class Interval:
    """A column between two numbers, or equal to one of them, in the units that it is stored in."""

    column: str
    low: int
    high: int


class Condition:
    """A filter.

    Args:
        expression: True for the rows that pass.
    """

    def __init__(self, expression: pc.Expression) -> None:
        self.expression = expression
        self._comparisons = expressions.comparisons(expression)
        self._intervals: dict[pa.Schema, list[Interval] | None] = {}

    def passed(self, batch: pa.RecordBatch) -> Mask:
        """Tell which rows pass.

        Args:
            batch: The columns that the filter reads.

        Raises:
            pyarrow.ArrowInvalid: It does not fit the columns.
        """
        if batch.schema not in self._intervals:
            self._intervals[batch.schema] = intervals(self._comparisons, batch.schema)
        known = self._intervals[batch.schema]
        if known is None:
            return mask_of(pc.fill_null(expressions.matching(self.expression, batch), False))
        mask = _within(batch, known[0])
        for interval in known[1:]:
            mask &= _within(batch, interval)
        return mask


def intervals(comparisons: Iterable[Comparison] | None, schema: pa.Schema) -> list[Interval] | None:
    """Return what comparisons that are all true say of columns; None where it is something else.

    Args:
        comparisons: Of the columns.
        schema: Of the columns.
    """
    found: dict[str, Interval] = {}
    for comparison in comparisons or ():
        if len(schema.get_all_field_indices(comparison.column)) != 1:
            return None
        one = _interval(comparison, schema.field(comparison.column).type)
        if one is None:
            return None
        known = found.get(one.column, one)
        both = Interval(one.column, max(one.low, known.low), min(one.high, known.high))
        found[one.column] = both
    return list(found.values()) or None


def _interval(comparison: Comparison, data_type: pa.DataType) -> Interval | None:
    """Return what a comparison says of a column; None where its numbers do not tell."""
    bounds = _bounds(data_type)
    if bounds is None:
        return None
    low, high = bounds
    if comparison.operator != "is_valid":
        value = _stored(comparison.value, data_type)
        if value is None:
            return None
        match comparison.operator:
            case "equal":
                low, high = max(low, math.ceil(value)), min(high, math.floor(value))
            case "greater":
                low = max(low, math.floor(value) + 1)
            case "greater_equal":
                low = max(low, math.ceil(value))
            case "less":
                high = min(high, math.ceil(value) - 1)
            case "less_equal":
                high = min(high, math.floor(value))
    return Interval(comparison.column, low, high)


def _bounds(data_type: pa.DataType) -> tuple[int, int] | None:
    """Return the least and the greatest number that a type stores; None where it stores others."""
    if pa.types.is_unsigned_integer(data_type):
        return 0, (1 << data_type.bit_width) - 1
    is_whole = pa.types.is_signed_integer(data_type) or pa.types.is_decimal128(data_type)
    if not is_whole and not any(is_one(data_type) for is_one in _TEMPORAL):
        return None
    return -(1 << data_type.bit_width - 1), (1 << data_type.bit_width - 1) - 1


def _stored(value: pa.Scalar | None, data_type: pa.DataType) -> int | Decimal | None:
    """Return a literal in the units that a type stores; None where Arrow would convert either."""
    if value is None or not value.is_valid:
        return None
    if pa.types.is_decimal128(data_type) and pa.types.is_decimal(value.type):
        exact: Decimal = value.as_py().scaleb(data_type.scale, _EXACT)
        return exact
    if pa.types.is_integer(data_type) and pa.types.is_integer(value.type):
        return int(value.as_py())
    return int(value.value) if value.type == data_type else None


def _within(batch: pa.RecordBatch, interval: Interval) -> Mask:
    """Tell which rows have a value within an interval."""
    array = batch.column(interval.column)
    low, high = interval.low, interval.high
    if low > high:
        return np.zeros(len(array), np.bool_)
    first, last, width = array.offset, array.offset + len(array), array.type.bit_width // 8
    if width == 16:
        mask = within(np.frombuffer(array.buffers()[1], "V16", last)[first:], low, high)
    else:
        sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
        values = np.frombuffer(array.buffers()[1], f"<{sign}{width}", last)[first:]
        mask = values >= low
        mask &= values <= high
    valid = valid_slots(array)
    return mask if valid is None else mask & valid
