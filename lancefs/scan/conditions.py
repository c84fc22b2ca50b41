"""Evaluation of filters for rows.

Most filters are ranges of columns. A range is evaluated on the numbers as they are stored, in one
pass and without temporary arrays; Arrow's expressions need several passes, and five times as long
for decimals. What a filter asks of a dictionary-encoded column is evaluated on the dictionary, if
it asks each column alone. Arrow evaluates all other filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import (
    indices_of,
    mask_of,
    stored_values,
    strings_of,
    true_slots,
    valid_slots,
    value_type,
)
from lancefs.datafile.buffers import Mask, to_arrow_numbers
from lancefs.datafile.constants import array_of
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import among, holds, take, within
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
    text_match,
)
from lancefs.scan.expressions import Comparison, ExpressionNode, Membership
from lancefs.scan.intervals import (
    Interval,
    TextInterval,
    ValueInterval,
    float_interval_of,
    intersect,
    interval_of,
    is_float,
    may_be_in_set,
    text_interval_of,
    union,
)
from lancefs.table.members import nested, paths_of

# Characters of a filter that an error shows.
_SHOWN = 100
# In batches of `_MIN_ROWS` rows or more, a test of texts copies the rows that passed the tests
# before it, if these are at most the share `_MAX_LEFT`, and tests the copies.
_MIN_ROWS = 4096
_MAX_LEFT = 1 / 8
# Fewer texts than these are looked up in a list by Arrow: a call of the kernel costs more.
_MIN_AMONG = 256
# Functions that are true only of texts that contain their pattern.
_HOLDING = ("match_substring", "starts_with", "ends_with")
# The letters beyond ASCII whose lower case is a letter of ASCII.
_LIKE_ASCII = ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "\N{KELVIN SIGN}")
# From this number on, single values of a column that are joined by OR are looked up as a set.
_MIN_JOINED = 4


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
        self._tests: list[tuple[pa.Schema, list[Test] | None]] = []

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

    def evaluate(self, batch: pa.RecordBatch, counted: Mask | None = None) -> Mask:
        """Return a mask of the rows that pass.

        Args:
            batch: The columns that the filter reads.
            counted: The rows of which the answer is used, a mask; None for all. The filter may fail
                for others, such as deleted ones.

        Raises:
            pyarrow.ArrowInvalid: The filter is an expression that does not fit the columns, or a
                value in them.
            InvalidFilter: The filter is SQL text and fails for a value, such as a zero divisor.
        """
        tests = self._by_column(batch.schema)
        if tests is not None:
            return _evaluate_all(batch, tests)
        if batch.num_columns == 1 and pa.types.is_dictionary(batch.schema.types[0]):
            return self._evaluate_on_dictionary(batch, counted)
        return self._evaluate(batch, counted)

    def intervals(self, schema: pa.Schema) -> dict[str, ValueInterval]:
        """Return intervals of columns; no row passes whose value is null or outside of one.

        Args:
            schema: The columns that the filter reads.
        """
        numbers: dict[str, Interval] = {}
        texts: dict[str, TextInterval] = {}
        types = {name: schema.field(name).type for name in schema.names if _is_unique(name, schema)}
        has_floats = any(map(is_float, types.values()))
        for term in (
            () if self.tree is None else expressions.chain_terms(self.tree, expressions.AND)
        ):
            of_floats = float_interval_of(conditions_of(term)) if has_floats else None
            if of_floats is not None and is_float(types.get(of_floats.column, pa.null())):
                intersect(numbers, of_floats)
                continue
            test = expressions.as_test(term) or text_match(term)
            if test is None:
                for either in _intervals_of_any(conditions_of(term) or (), types).values():
                    intersect(numbers, either)
                continue
            if test.column not in types:
                continue
            data_type = types[test.column]
            if (interval := interval_of(test, data_type)) is not None:
                intersect(numbers, interval)
            elif (of_keys := text_interval_of(test, data_type)) is not None:
                intersect(texts, of_keys)
        return {**numbers, **texts}

    def _by_column(self, schema: pa.Schema) -> list[Test] | None:
        for known, tests in self._tests:  # few, and not all of them have a hash
            if known == schema:
                return tests
        tests = by_column(self._terms, schema)
        self._tests.append((schema, tests))
        return tests

    def _evaluate(self, batch: pa.RecordBatch, counted: Mask | None) -> Mask:
        try:
            return self._passed(batch)
        except pa.ArrowInvalid as error:
            if counted is not None and not counted.all():
                return self._evaluate_counted(batch, counted)
            if self._text is None:
                raise
            text = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}…"
            raise InvalidFilter(f"the filter {text!r} fails for a row: {error}") from error

    def _evaluate_counted(self, batch: pa.RecordBatch, counted: Mask) -> Mask:
        """Evaluate the filter for some rows; the others do not pass."""
        rows = np.flatnonzero(counted)
        mask = np.zeros(len(counted), np.bool_)
        mask[rows] = self._evaluate(batch.take(to_arrow_numbers(rows)), None)
        return mask

    def _evaluate_on_dictionary(self, batch: pa.RecordBatch, counted: Mask | None) -> Mask:
        """Return a mask of the rows that pass, for a dictionary-encoded column."""
        array, names = batch.column(0), batch.schema.names
        items = pa.concat_arrays([array.dictionary, pa.nulls(1, array.type.value_type)])
        try:
            passed = self._passed(pa.RecordBatch.from_arrays([items], names=names))
        except pa.ArrowInvalid:  # perhaps for an item that no row has
            values = pa.RecordBatch.from_arrays([array.dictionary_decode()], names=names)
            return self._evaluate(values, counted)
        return _look_up(array, passed)

    def _passed(self, batch: pa.RecordBatch) -> Mask:
        passed = expressions.evaluate_filter(self.expression, nested(batch, self._paths))
        if not pa.types.is_boolean(passed.type):
            raise InvalidFilter(
                f"the filter {expressions.to_text(self.expression)} is {passed.type} for a row; "
                "a condition was expected, which is true or false"
            )
        return true_slots(passed)


def _intervals_of_any(
    terms: Sequence[ConditionTree], types: Mapping[str, pa.DataType]
) -> dict[str, Interval]:
    """Return intervals of columns of numbers, within which values are where conditions are true.

    Args:
        terms: The conditions, all of which are true.
        types: The types of columns, by their names.
    """
    found: dict[str, Interval] = {}
    for term in terms:
        if isinstance(term, Negation):
            continue
        if not isinstance(term, Combination):
            known = types.get(term.column)
            interval = None if known is None else interval_of(term, known)
            inner = {} if interval is None else {term.column: interval}
        elif term.is_all:
            inner = _intervals_of_any(term.terms, types)
        else:
            first, *others = (_intervals_of_any([each], types) for each in term.terms)
            columns = set(first).intersection(*others)
            inner = {
                name: union([each[name] for each in (first, *others)], types[name])
                for name in columns
            }
        for interval in inner.values():
            intersect(found, interval)
    return found


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
            intersect(intervals, test)
        else:
            others.append(test)
    return [*intervals.values(), *others] or None


def _test_of(term: ConditionTree, schema: pa.Schema) -> Test | None:
    """Return a condition as it is evaluated; None if Arrow must evaluate it."""
    if isinstance(term, Combination):
        tests = [_test_of(part, schema) for part in term.terms]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests):
            return None
        joined = _intersect_all(known) if term.is_all else _join_values(known, schema)
        return joined[0] if len(joined) == 1 else Combination(term.is_all, tuple(joined))
    if isinstance(term, Negation):
        inner = _column_test(term.term, schema)
        return None if inner is None else Negation(inner, term.of_null)
    return _column_test(term, schema)


def _intersect_all(tests: Sequence[Test]) -> list[Test]:
    """Return tests that have to be true, with one interval for each column."""
    intervals: dict[str, Interval] = {}
    for test in tests:
        if isinstance(test, Interval):
            intersect(intervals, test)
    return [*intervals.values(), *(each for each in tests if not isinstance(each, Interval))]


def _join_values(tests: Sequence[Test], schema: pa.Schema) -> list[Test]:
    """Return tests of which one has to be true, with many values or ranges of a column as one set.

    Each test is a pass over the column, and looking up a set takes as long as three of them.

    Args:
        tests: The tests.
        schema: The columns that the filter reads.
    """
    values: dict[str, list[ValueTest]] = {}
    others: list[Test] = []
    for test in tests:
        if isinstance(test, Negation | Combination) or not _is_of_values(test, schema):
            others.append(test)
        else:
            values.setdefault(test.column, []).append(test)
    for found in values.values():
        others += [_join(found, schema)] if len(found) >= _MIN_JOINED else found
    return others


def _is_of_values(test: ValueTest, schema: pa.Schema) -> bool:
    """Whether a test is true for some numbers of up to 64 bits, or for some texts."""
    if isinstance(test, Interval):
        return may_be_in_set(value_type(schema.field(test.column).type))
    if isinstance(test, Membership):
        return bool(pa.types.is_string(test.values.type))
    if not isinstance(test, Comparison) or test.operator != "equal":
        return False
    return test.value is not None and bool(pa.types.is_string(test.value.type))


def _join(tests: Sequence[ValueTest], schema: pa.Schema) -> ValueTest:
    """Return tests of values of one column, of which one has to be true, as one."""
    intervals = [test for test in tests if isinstance(test, Interval)]
    if intervals:
        return union(intervals, value_type(schema.field(intervals[0].column).type))
    texts = list[pa.Array]()
    for test in tests:
        if isinstance(test, Membership):
            texts.append(test.values)
        elif isinstance(test, Comparison) and test.value is not None:
            texts.append(array_of([test.value.as_py()], test.value.type))
    return Membership(tests[0].column, pa.concat_arrays(texts))


def _column_test(term: SingleCondition, schema: pa.Schema) -> ValueTest | None:
    if not _is_unique(term.column, schema):
        return None
    data_type = value_type(schema.field(term.column).type)
    if isinstance(term, TextMatch):
        return term if pa.types.is_string(data_type) else None
    if isinstance(term, Comparison) and term.operator == "is_nan":
        return term if is_float(data_type) else None
    interval = interval_of(term, data_type)
    if interval is not None:
        return interval
    is_compared = (
        is_float(data_type) or pa.types.is_string(data_type) or pa.types.is_boolean(data_type)
    )
    return term if is_compared and _has_type(term, data_type) else None


def _is_unique(column: str, schema: pa.Schema) -> bool:
    """Whether a name means one column."""
    return len(schema.get_all_field_indices(column)) == 1


def _has_type(test: Comparison | Membership, data_type: pa.DataType) -> bool:
    if isinstance(test, Membership):
        return bool(test.values.type == data_type)
    return test.value is None or (test.value.type == data_type and test.value.is_valid)


def _evaluate_all(batch: pa.RecordBatch, tests: Sequence[Test]) -> Mask:
    """Return a mask of the rows that pass all tests."""
    mask = _evaluate_test(batch, tests[0])
    for test in tests[1:]:
        names = sorted(_columns_of(test))
        # Only of texts it pays to test no more than the rows that are left: to copy the values of
        # other types takes longer than to test all of them.
        has_texts = any(pa.types.is_string(batch.column(name).type) for name in names)
        is_long = has_texts and len(mask) >= _MIN_ROWS
        if not is_long or np.count_nonzero(mask) > len(mask) * _MAX_LEFT:
            mask &= _evaluate_test(batch, test)
            continue
        slots = np.flatnonzero(mask)
        mask[slots] = _evaluate_test(batch.select(names).take(to_arrow_numbers(slots)), test)
    return mask


def _columns_of(test: Test) -> set[str]:
    """Return the columns that a test reads."""
    if isinstance(test, Combination):
        return set().union(*map(_columns_of, test.terms))
    return {(test.term if isinstance(test, Negation) else test).column}


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
    if isinstance(test, Membership):
        return _among(array, test)
    if isinstance(test, TextMatch):
        if test.part is not None:
            return _hold(array, test.part.encode())
        if test.in_lower_case and test.function in _HOLDING and test.pattern.isascii():
            return _match_in_lower_case(array, test)
        found = _match(array, test)
    elif test.value is None:  # `is_valid` and `is_nan`
        found = getattr(pc, test.operator)(array)
    else:
        found = getattr(pc, test.operator)(array, test.value)
    return true_slots(found)


def _match(array: pa.StringArray, test: TextMatch) -> pa.BooleanArray:
    """Evaluate a condition on texts by Arrow: null where a text is missing."""
    texts = pc.utf8_lower(array) if test.in_lower_case else array
    match = getattr(pc, test.function)
    return match(texts, test.pattern, ignore_case=test.ignore_case)


def _match_in_lower_case(array: pa.StringArray, test: TextMatch) -> Mask:
    """Return a mask of the strings that match in lower case, of which most cannot.

    Args:
        array: The strings.
        test: A condition that strings hold an ASCII text, somewhere or at one of their ends.
    """
    mask = _hold(array, test.pattern.encode(), any_case=True)
    for letter in _LIKE_ASCII:
        mask |= _hold(array, letter.encode())
    if mask.any():
        left = array.take(to_arrow_numbers(np.flatnonzero(mask)))
        mask[mask] = mask_of(_match(left, test))
    return mask


def _hold(array: pa.StringArray, part: bytes, any_case: bool = False) -> Mask:
    """Return a mask of the strings that hold a text; see `holds`."""
    if not len(array):
        return np.zeros(0, np.bool_)
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    mask = holds(places, np.frombuffer(data or b"", np.uint8), part, any_case)
    valid = valid_slots(array)
    return mask if valid is None else mask & valid


def _among(array: pa.Array, test: Membership) -> Mask:
    """Return a mask of the values that are one of the literals of a test."""
    is_long = pa.types.is_string(array.type) and len(array) >= _MIN_AMONG
    if not is_long or not len(test.values):
        return mask_of(pc.is_in(array, value_set=test.values))
    mask = among(*strings_of(array), test.texts)
    valid = valid_slots(array)
    return mask if valid is None else mask & valid


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
        numbers = interval.among
        if numbers is None:
            mask = (values >= low) & (values <= high)
        else:
            mask = numbers.has(values)
            if low > numbers.low[0] or high < numbers.high[-1]:
                mask &= (values >= low) & (values <= high)
    valid = valid_slots(array)
    return mask if valid is None else mask & valid
