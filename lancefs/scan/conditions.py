"""Filters, tested on rows.

Most filters say between which values columns lie. That is tested on the numbers as they are stored:
one look at each, with no temporary array, where Arrow's expressions take several; of decimals they
take five times as long. What a filter says of a single column is tested on the items of its
dictionary, where it comes with one. All else is left to Arrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import indices_of, mask_of, stored_values, valid_slots
from lancefs.datafile.buffers import Mask
from lancefs.datafile.kernels import take, within
from lancefs.scan import expressions
from lancefs.scan.expressions import Comparison

# Digits enough for every decimal of one scale in the units of another.
_EXACT = Context(prec=200)
_TEMPORAL = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration)


@dataclass(frozen=True, slots=True)
class Interval:
    """A column between two numbers, or equal to one of them, in the units that it is stored in."""

    column: str
    low: int
    high: int


# What is said of one column.
Test: TypeAlias = Interval | Comparison


class Condition:
    """A filter.

    Args:
        expression: True for the rows that pass.
    """

    def __init__(self, expression: pc.Expression) -> None:
        self.expression = expression
        self._comparisons = expressions.comparisons(expression)
        self._tests: dict[pa.Schema, list[Test] | None] = {}

    def takes_items(self, schema: pa.Schema) -> bool:
        """Whether columns may come dictionary-encoded, as each is tested without the others.

        Args:
            schema: The columns that the filter reads, with the types of their values.
        """
        return len(schema) == 1 or self._by_column(schema) is not None

    def passed(self, batch: pa.RecordBatch) -> Mask:
        """Tell which rows pass.

        Args:
            batch: The columns that the filter reads.

        Raises:
            pyarrow.ArrowInvalid: It does not fit the columns.
        """
        tests = self._by_column(batch.schema)
        if tests is not None:
            mask = _passed(batch, tests[0])
            for test in tests[1:]:
                mask &= _passed(batch, test)
            return mask
        if batch.num_columns == 1 and pa.types.is_dictionary(batch.schema.types[0]):
            return self._passed_by_items(batch)
        return self._evaluated(batch)

    def _by_column(self, schema: pa.Schema) -> list[Test] | None:
        if schema not in self._tests:
            self._tests[schema] = by_column(self._comparisons, schema)
        return self._tests[schema]

    def _evaluated(self, batch: pa.RecordBatch) -> Mask:
        return mask_of(pc.fill_null(expressions.matching(self.expression, batch), False))

    def _passed_by_items(self, batch: pa.RecordBatch) -> Mask:
        """Tell which rows pass, of a column that comes with a dictionary and may have nulls."""
        array = batch.column(0)
        items = pa.concat_arrays([array.dictionary, pa.nulls(1, array.type.value_type)])
        passed = self._evaluated(pa.RecordBatch.from_arrays([items], names=batch.schema.names))
        return _looked_up(array, passed)


def by_column(comparisons: Iterable[Comparison] | None, schema: pa.Schema) -> list[Test] | None:
    """Return what comparisons that are all true say of columns; None where it is something else.

    Args:
        comparisons: Of the columns.
        schema: Of the columns.
    """
    intervals: dict[str, Interval] = {}
    others: list[Test] = []
    for comparison in comparisons or ():
        if len(schema.get_all_field_indices(comparison.column)) != 1:
            return None
        data_type = schema.field(comparison.column).type
        if pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        one = _interval(comparison, data_type)
        if one is not None:
            known = intervals.get(one.column, one)
            both = Interval(one.column, max(one.low, known.low), min(one.high, known.high))
            intervals[one.column] = both
        elif pa.types.is_string(data_type) and _has_type(comparison.value, data_type):
            others.append(comparison)
        else:
            return None
    return [*intervals.values(), *others] or None


def _has_type(value: pa.Scalar | None, data_type: pa.DataType) -> bool:
    return value is None or (value.type == data_type and value.is_valid)


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
    is_number = pa.types.is_decimal(value.type) or pa.types.is_integer(value.type)
    if pa.types.is_decimal128(data_type) and is_number:
        return Decimal(value.as_py()).scaleb(data_type.scale, _EXACT)
    if pa.types.is_integer(data_type) and pa.types.is_integer(value.type):
        return int(value.as_py())
    return int(value.value) if value.type == data_type else None


def _passed(batch: pa.RecordBatch, test: Test) -> Mask:
    """Tell which rows pass a test of one of their columns."""
    array = batch.column(test.column)
    if pa.types.is_dictionary(array.type):
        return _looked_up(array, np.append(_tested(array.dictionary, test), False))
    return _tested(array, test)


def _tested(array: pa.Array, test: Test) -> Mask:
    return _within(array, test) if isinstance(test, Interval) else _compared(array, test)


def _looked_up(array: pa.DictionaryArray, passed: Mask) -> Mask:
    """Tell which rows pass, of a column that comes with a dictionary.

    Args:
        array: The column.
        passed: For each item of the dictionary; then for null.
    """
    mask = take(passed.view(np.uint8), indices_of(array)).view(np.bool_)
    valid = valid_slots(array)
    if valid is None:
        return mask
    return mask | ~valid if passed[-1] else mask & valid


def _compared(array: pa.Array, test: Comparison) -> Mask:
    """Tell which strings compare with another one as a test says."""
    if test.value is None:
        return mask_of(array.is_valid())
    return mask_of(pc.fill_null(getattr(pc, test.operator)(array, test.value), False))


def _within(array: pa.Array, interval: Interval) -> Mask:
    """Tell which numbers are within an interval."""
    low, high = interval.low, interval.high
    if low > high:
        return np.zeros(len(array), np.bool_)
    width = array.type.bit_width // 8
    if width == 16:
        mask = within(stored_values(array, "V16"), low, high)
    else:
        sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
        values = stored_values(array, f"<{sign}{width}")
        limits = np.iinfo(values.dtype)
        mask = values >= low if low > limits.min else np.ones(len(array), np.bool_)
        if high < limits.max:
            mask &= values <= high
    valid = valid_slots(array)
    return mask if valid is None else mask & valid
