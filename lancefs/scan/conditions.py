"""Evaluation of filters for rows.

Most filters are ranges of columns. A range is evaluated on the numbers as they are stored, in one
pass and without temporary arrays; Arrow's expressions need several passes, and five times as long
for decimals. What a filter asks of a dictionary-encoded column is evaluated on the dictionary, if
it asks each column alone. Arrow evaluates all other filters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import indices_of, mask_of, stored_values, valid_slots
from lancefs.datafile.buffers import Array, Ints, Mask
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import holds, take, within
from lancefs.errors import InvalidFilter
from lancefs.forks import cached_property
from lancefs.scan import expressions
from lancefs.scan.condition_trees import (
    Combination,
    ConditionTree,
    Negation,
    SingleCondition,
    TextMatch,
    conditions_of,
)
from lancefs.scan.constants import scalar_of
from lancefs.scan.expressions import Comparison, ExpressionNode, Membership, TextPart
from lancefs.table.members import nested, paths_of

# Enough digits for a decimal of any scale in the units of any other.
_EXACT = Context(prec=200)
_FALSE = scalar_of(False, pa.bool_())
# Characters of a filter that an error shows.
_SHOWN = 100
# Numbers between the least and the greatest one of a set that are looked up in a table.
_TABLE = 4 * 1024 * 1024
_FLOATS = (pa.types.is_float32, pa.types.is_float64)
_TEMPORAL = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration)


class NumberSet:
    """A set of numbers, of at least one.

    Args:
        numbers: The numbers (int64), in any order.

    Attributes:
        numbers: The numbers, ascending, each once.
    """

    def __init__(self, numbers: Ints) -> None:
        self.numbers = np.unique(numbers)
        self._low = self.numbers[0]
        self._span = int(self.numbers[-1]) - int(self._low)

    @cached_property
    def _table(self) -> Mask | None:
        """Whether each number from the least one is there; None where they lie far apart."""
        if self._span >= _TABLE:
            return None
        table = np.zeros(self._span + 1, np.bool_)
        table[self.numbers - self._low] = True
        return table

    def has(self, values: Array) -> Mask:
        """Tell which values, of up to 64 bits and none above the greatest int64, are in the set."""
        if self._table is None:
            wanted = pa.array(self.numbers.astype(values.dtype))
            return mask_of(pc.is_in(pa.array(values), value_set=wanted))
        # Differences wrap around, and are then beyond the span.
        places = np.subtract(values, self._low, dtype=np.int64)
        found: Mask = self._table.take(places, mode="clip")
        found &= places.view(np.uint64) <= np.uint64(self._span)
        return found


@dataclass(frozen=True, slots=True)
class Interval:
    """A range of a column.

    Attributes:
        column: The name of the column.
        low: The least number that passes, in the units that the column stores.
        high: The greatest number that passes.
        among: The numbers in between that pass; None for all.
    """

    column: str
    low: int
    high: int
    among: NumberSet | None = None


# A condition on one column, as it is evaluated; and of several.
ValueTest: TypeAlias = Interval | SingleCondition
Test: TypeAlias = "ValueTest | Negation[ValueTest] | Combination[Test]"


class Condition:
    """A filter.

    Args:
        expression: True for the rows that pass.
        text: The SQL text of the filter, for errors; None for a filter that is an expression.
        fields: The columns that the filter reads, where there are members of structs among them.
        tree: The expression as a tree, where it is known already.

    Attributes:
        expression: As the argument.
        tree: The expression as a tree; None if it cannot be analysed.
    """

    def __init__(
        self,
        expression: pc.Expression,
        text: str | None = None,
        fields: Sequence[Field] = (),
        *,
        tree: ExpressionNode | None = None,
    ) -> None:
        self.expression = expression
        self._text = text
        self._paths = paths_of(fields)
        self.tree = tree or expressions.clear_tree(expression)
        self._terms = conditions_of(self.tree)
        self._tests: dict[pa.Schema, list[Test] | None] = {}

    def takes_items(self, schema: pa.Schema) -> bool:
        """Tell whether the filter takes dictionary-encoded columns: it tests each column alone.

        Args:
            schema: The columns that the filter reads, with the types of their values.
        """
        return len(schema) == 1 or self.tests_columns_alone(schema)

    def tests_columns_alone(self, schema: pa.Schema) -> bool:
        """Tell whether the filter tests each column alone, and none by an expression of Arrow.

        Args:
            schema: As for `takes_items`.
        """
        return self._by_column(schema) is not None

    def tested_for_nulls(self, columns: Iterable[str]) -> set[str]:
        """Return those of the columns of which the filter asks only whether values are missing.

        Args:
            columns: The names of the columns that the filter reads, and paths of members.
        """
        found = expressions.null_tests(self.tree)
        return {
            column
            for column in columns
            if found.get(column) and not any(name.startswith(f"{column}.") for name in found)
        }

    @cached_property
    def missing_columns(self) -> set[str]:
        """Columns whose values are missing in all rows that pass."""
        return expressions.missing_columns(self.tree)

    def passed(self, batch: pa.RecordBatch) -> Mask:
        """Return a mask of the rows that pass.

        Args:
            batch: The columns that the filter reads.

        Raises:
            pyarrow.ArrowInvalid: The filter is an expression that does not fit the columns, or a
                value in them.
            InvalidFilter: The filter is SQL text and fails for a value, such as a zero divisor.
        """
        tests = self._by_column(batch.schema)
        if tests is not None:
            return _evaluate_all(batch, tests)
        if batch.num_columns == 1 and pa.types.is_dictionary(batch.schema.types[0]):
            return self._evaluate_on_dictionary(batch)
        return self._evaluate(batch)

    def intervals(self, schema: pa.Schema) -> dict[str, Interval]:
        """Return intervals of columns: no row passes with a value, or a null, outside of one.

        Args:
            schema: The columns that the filter reads.
        """
        found: dict[str, Interval] = {}
        for term in (
            () if self.tree is None else expressions.chain_terms(self.tree, expressions.AND)
        ):
            test = expressions.as_test(term)
            if test is None or len(schema.get_all_field_indices(test.column)) != 1:
                continue
            interval = _interval_of_test(test, schema.field(test.column).type)
            if interval is not None:
                _narrow(found, interval)
        return found

    def _by_column(self, schema: pa.Schema) -> list[Test] | None:
        if schema not in self._tests:
            self._tests[schema] = by_column(self._terms, schema)
        return self._tests[schema]

    def _evaluate(self, batch: pa.RecordBatch) -> Mask:
        try:
            passed = expressions.matching(self.expression, nested(batch, self._paths))
        except pa.ArrowInvalid as error:
            if self._text is None:
                raise
            text = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}…"
            raise InvalidFilter(f"the filter {text!r} fails for a row: {error}") from error
        return mask_of(pc.fill_null(passed, _FALSE))

    def _evaluate_on_dictionary(self, batch: pa.RecordBatch) -> Mask:
        """Return a mask of the rows that pass, for a dictionary-encoded column."""
        array = batch.column(0)
        items = pa.concat_arrays([array.dictionary, pa.nulls(1, array.type.value_type)])
        passed = self._evaluate(pa.RecordBatch.from_arrays([items], names=batch.schema.names))
        return _look_up(array, passed)


def by_column(terms: Iterable[ConditionTree] | None, schema: pa.Schema) -> list[Test] | None:
    """Return a filter as conditions on single columns.

    Args:
        terms: The filter is true where all of them are; None for any other filter.
        schema: The columns that the filter reads.

    Returns:
        An interval for each column of stored numbers, and other conditions. None if Arrow must
        evaluate the filter.
    """
    intervals: dict[str, Interval] = {}
    others: list[Test] = []
    for term in terms or ():
        test = _test_of(term, schema)
        if test is None:
            return None
        if isinstance(test, Interval):
            _narrow(intervals, test)
        else:
            others.append(test)
    return [*intervals.values(), *others] or None


def _test_of(term: ConditionTree, schema: pa.Schema) -> Test | None:
    """Return a condition as it is evaluated; None if Arrow must evaluate it."""
    if isinstance(term, Combination):
        tests = [_test_of(part, schema) for part in term.terms]
        known = [test for test in tests if test is not None]
        return Combination(term.is_all, tuple(known)) if len(known) == len(tests) else None
    if isinstance(term, Negation):
        inner = _column_test(term.term, schema)
        return None if inner is None else Negation(inner, term.of_null)
    return _column_test(term, schema)


def _column_test(term: SingleCondition, schema: pa.Schema) -> ValueTest | None:
    if len(schema.get_all_field_indices(term.column)) != 1:
        return None
    data_type = schema.field(term.column).type
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    if isinstance(term, TextMatch):
        return term if pa.types.is_string(data_type) else None
    is_float = any(is_kind(data_type) for is_kind in _FLOATS)
    if isinstance(term, Comparison) and term.operator == "is_nan":
        return term if is_float else None
    interval = _interval_of_test(term, data_type)
    if interval is not None:
        return interval
    is_compared = is_float or pa.types.is_string(data_type) or pa.types.is_boolean(data_type)
    return term if is_compared and _has_type(term, data_type) else None


def _narrow(intervals: dict[str, Interval], interval: Interval) -> None:
    """Narrow the interval of a column to one that must hold as well."""
    known = intervals.get(interval.column, interval)
    low, high = max(interval.low, known.low), min(interval.high, known.high)
    among = known.among or interval.among
    if known.among is not None and interval.among is not None and known is not interval:
        both = np.intersect1d(known.among.numbers, interval.among.numbers)
        if not len(both):
            low, high = 1, 0
        among = NumberSet(both) if len(both) else None
    intervals[interval.column] = Interval(interval.column, low, high, among)


def _has_type(test: Comparison | Membership | TextPart, data_type: pa.DataType) -> bool:
    if isinstance(test, Membership):
        return bool(test.values.type == data_type)
    if isinstance(test, TextPart):
        return bool(pa.types.is_string(data_type))
    return test.value is None or (test.value.type == data_type and test.value.is_valid)


def _interval_of_test(
    test: Comparison | Membership | TextPart, data_type: pa.DataType
) -> Interval | None:
    """Return a test as a range of stored numbers, or some numbers in a range; None for others."""
    if isinstance(test, TextPart):
        return None
    if isinstance(test, Comparison):
        return interval_of(test, data_type)
    bounds, is_alike = stored_bounds(data_type), test.values.type == data_type
    if bounds is None or not is_alike or pa.types.is_decimal(data_type):
        return None
    if bounds[1] > np.iinfo(np.int64).max or not len(test.values):
        return None
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    numbers = stored_values(test.values, f"<{sign}{data_type.bit_width // 8}")
    among = NumberSet(numbers.astype(np.int64))
    return Interval(test.column, int(among.numbers[0]), int(among.numbers[-1]), among)


def interval_of(comparison: Comparison, data_type: pa.DataType) -> Interval | None:
    """Return a comparison as a range of stored numbers; None if it is no such range.

    Args:
        comparison: The comparison.
        data_type: Type of the column.
    """
    bounds = stored_bounds(data_type)
    if bounds is None:
        return None
    low, high = bounds
    if comparison.operator != "is_valid":
        value = _in_stored_units(comparison.value, data_type)
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


def stored_bounds(data_type: pa.DataType) -> tuple[int, int] | None:
    """Return the least and the greatest number that a type stores; None for other values."""
    if pa.types.is_unsigned_integer(data_type):
        return 0, (1 << data_type.bit_width) - 1
    is_number = pa.types.is_signed_integer(data_type) or _is_decimal(data_type)
    if not is_number and not any(is_kind(data_type) for is_kind in _TEMPORAL):
        return None
    return -(1 << data_type.bit_width - 1), (1 << data_type.bit_width - 1) - 1


def _is_decimal(data_type: pa.DataType) -> bool:
    """Whether values are decimals of 64 or 128 bits."""
    return bool(pa.types.is_decimal(data_type)) and data_type.bit_width in (64, 128)


def _in_stored_units(value: pa.Scalar | None, data_type: pa.DataType) -> int | Decimal | None:
    """Return a literal in the units that a type stores; None if Arrow would convert a side."""
    if value is None or not value.is_valid:
        return None
    is_number = pa.types.is_decimal(value.type) or pa.types.is_integer(value.type)
    if _is_decimal(data_type) and is_number:
        return Decimal(value.as_py()).scaleb(data_type.scale, _EXACT)
    if pa.types.is_integer(data_type) and pa.types.is_integer(value.type):
        return int(value.as_py())
    return int(value.value) if value.type == data_type else None


def _evaluate_all(batch: pa.RecordBatch, tests: Sequence[Test]) -> Mask:
    """Return a mask of the rows that pass all tests."""
    mask = _evaluate_test(batch, tests[0])
    for test in tests[1:]:
        mask &= _evaluate_test(batch, test)
    return mask


def _evaluate_test(batch: pa.RecordBatch, test: Test) -> Mask:
    """Return a mask of the rows that pass a test."""
    if isinstance(test, Combination):
        if test.is_all:
            return _evaluate_all(batch, test.terms)
        mask = _evaluate_test(batch, test.terms[0])
        for other in test.terms[1:]:
            mask |= _evaluate_test(batch, other)
        return mask
    tested, passes_null = (test.term, test.of_null) if isinstance(test, Negation) else (test, False)
    array = batch.column(tested.column)
    if pa.types.is_dictionary(array.type):
        return _look_up(array, np.append(_test_values(array.dictionary, test), passes_null))
    return _test_values(array, test)


def _test_values(array: pa.Array, test: ValueTest | Negation[ValueTest]) -> Mask:
    if isinstance(test, Negation):
        mask = ~_test_values(array, test.term)
        valid = None if test.of_null else valid_slots(array)
        return mask if valid is None else mask & valid
    return _within(array, test) if isinstance(test, Interval) else _compare(array, test)


def _look_up(array: pa.DictionaryArray, passed: Mask) -> Mask:
    """Return a mask of the rows whose items pass.

    Args:
        array: The dictionary-encoded column.
        passed: Whether each item of the dictionary passes; then whether null does.
    """
    mask = take(passed.view(np.uint8), indices_of(array)).view(np.bool_)
    valid = valid_slots(array)
    if valid is None:
        return mask
    return mask | ~valid if passed[-1] else mask & valid


def _compare(array: pa.Array, test: SingleCondition) -> Mask:
    """Return a mask of the values for which a condition is true, by functions of Arrow."""
    if isinstance(test, TextPart):
        return _hold(array, test.text.encode())
    if isinstance(test, Membership):
        return mask_of(pc.is_in(array, value_set=test.values))
    if isinstance(test, TextMatch):
        texts = pc.utf8_lower(array) if test.in_lower_case else array
        match = getattr(pc, test.function)
        found = match(texts, test.pattern, ignore_case=test.ignore_case)
    elif test.value is None:  # `is_valid` and `is_nan`
        found = getattr(pc, test.operator)(array)
    else:
        found = getattr(pc, test.operator)(array, test.value)
    return mask_of(pc.fill_null(found, _FALSE) if found.null_count else found)


def _hold(array: pa.StringArray, part: bytes) -> Mask:
    """Return a mask of the strings that hold a text."""
    if not len(array):
        return np.zeros(0, np.bool_)
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    mask = holds(places, np.frombuffer(data or b"", np.uint8), part)
    valid = valid_slots(array)
    return mask if valid is None else mask & valid


def _between(values: Array, low: int, high: int) -> Mask:
    """Return a mask of the numbers from `low` to `high`, which no bound is beyond their type."""
    mask: Mask
    if low == high:
        mask = values == low
        return mask
    limits = np.iinfo(values.dtype)
    mask = values >= low if low > limits.min else np.ones(len(values), np.bool_)
    if high < limits.max:
        mask &= values <= high
    return mask


def _within(array: pa.Array, interval: Interval) -> Mask:
    """Return a mask of the stored numbers within an interval."""
    low, high = interval.low, interval.high
    if low > high:
        return np.zeros(len(array), np.bool_)
    width = array.type.bit_width // 8
    if width == 16:
        mask = within(stored_values(array, "V16"), low, high)
    else:
        sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
        values = stored_values(array, f"<{sign}{width}")
        mask = _between(values, low, high)
        if interval.among is not None:
            mask &= interval.among.has(values)
    valid = valid_slots(array)
    return mask if valid is None else mask & valid
