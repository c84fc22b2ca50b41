"""Conditions on single columns as intervals of their values.

An interval of numbers says exactly which values pass. An interval of texts is one of their keys,
which are their first bytes (`kernels.bounds`): no text passes whose key is outside of it, but not
all texts pass whose keys are inside of it. So it is with floats, whose keys are whole numbers in
their order, NaN being the greatest one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.arrays import is_text, stored_values, text_keys, value_type
from lancefs.datafile.buffers import Array, Ints, Mask
from lancefs.datafile.kernels import NumberKeys, among_numbers
from lancefs.datafile.kernels.bounds import KEY_BYTES, MAX_KEY, MIN_KEY, text_key
from lancefs.forks import cached_property
from lancefs.scan.condition_trees import (
    Combination,
    ConditionTree,
    SingleCondition,
    TextMatch,
)
from lancefs.scan.expressions import Comparison, Membership

# Enough digits for a decimal of any scale in the units of any other.
_EXACT = Context(prec=200)
# Widest span of a set of numbers that is looked up in a table with an entry for each number.
_TABLE = 4 * 1024 * 1024
# The least key of a float, and the greatest one, that of NaN.
_LEAST_KEY, _GREATEST_KEY = -(1 << 63), (1 << 63) - 1
# Up to here, integers are floats of 64 bits.
_EXACT_INTEGERS = 1 << 53
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
        self._keys = NumberKeys(self.numbers)

    @property
    def low(self) -> Ints:
        """The numbers, as the least ones of ranges."""
        return self.numbers

    @property
    def high(self) -> Ints:
        """The numbers, as the greatest ones of ranges."""
        return self.numbers

    def has(self, values: Array) -> Mask:
        """Tell which values, of up to 64 bits and none above the greatest int64, are in the set."""
        return among_numbers(values, self._keys)

    def intersection(self, other: NumberSet | RangeSet) -> NumberSet | None:
        """Return the numbers that are in this set and another one; None for none."""
        both = self.numbers[other.has(self.numbers)]
        return NumberSet(both) if len(both) else None


class RangeSet:
    """A set of numbers that are given by ranges, of at least one.

    Args:
        low: The least number of each range (int64), in any order.
        high: The greatest number of each, none below its least one.

    Attributes:
        low: The least numbers of ranges with gaps between them, ascending.
        high: Their greatest numbers.
    """

    def __init__(self, low: Ints, high: Ints) -> None:
        order = np.argsort(low)
        low, reached = low[order], np.maximum.accumulate(high[order])
        is_first = np.ones(len(low), np.bool_)
        is_first[1:] = low[1:] > reached[:-1]
        self.low = low[is_first]
        self.high = reached[np.append(is_first[1:], True)]
        self._span = int(self.high[-1]) - int(self.low[0])

    @cached_property
    def _table(self) -> Mask | None:
        """Whether each number from the least one is there; None where they lie far apart."""
        if self._span >= _TABLE:
            return None
        steps = np.zeros(self._span + 2, np.int8)
        steps[self.low - self.low[0]] = 1
        steps[self.high - self.low[0] + 1] -= 1
        return np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)

    def has(self, values: Array) -> Mask:
        """Tell which values, of up to 64 bits and none above the greatest int64, are in the set."""
        if self._table is not None:
            # Differences wrap around, and are then beyond the table.
            places = np.subtract(values, self.low[0], dtype=np.int64)
            found: Mask = self._table.take(places, mode="clip")
            found &= places.view(np.uint64) < np.uint64(len(self._table))
            return found
        at = np.searchsorted(self.high, values)
        return (at < len(self.high)) & (self.low.take(at, mode="clip") <= values)

    def intersection(self, other: RangeSet | NumberSet) -> RangeSet | NumberSet | None:
        """Return the numbers that are in this set and another one; None for none."""
        if isinstance(other, NumberSet):
            return other.intersection(self)
        # Each range meets those of the other set from the first that ends in it or behind it on.
        first = np.searchsorted(other.high, self.low)
        count = np.maximum(np.searchsorted(other.low, self.high, "right") - first, 0)
        if not count.any():
            return None
        mine = np.repeat(np.arange(len(count)), count)
        theirs = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
        low = np.maximum(self.low[mine], other.low[theirs])
        return RangeSet(low, np.minimum(self.high[mine], other.high[theirs]))


class Interval(NamedTuple):
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
    among: NumberSet | RangeSet | None = None

    @property
    def parts(self) -> tuple[Ints, Ints] | None:
        """The ranges of numbers that pass, ascending: the ends of each; None for the interval."""
        return None if self.among is None else (self.among.low, self.among.high)

    @property
    def is_empty(self) -> bool:
        """Whether no value passes."""
        return self.low > self.high

    def intersection(self, other: Interval) -> Interval:
        """Return the interval of the numbers that pass this one and another one."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        among = self.among or other.among
        if self.among is not None and other.among is not None:
            among = self.among.intersection(other.among)
            if among is None:
                low, high = 1, 0
        return Interval(self.column, low, high, among)


@dataclass(frozen=True, slots=True, eq=False)
class TextInterval:
    """A range of the keys of a column of texts.

    Attributes:
        column: The name of the column.
        low: The least key of a text that may pass.
        high: The greatest one.
        points: The keys in between of texts that may pass, ascending; None for all.
    """

    column: str
    low: bytes
    high: bytes
    points: Array | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no value passes."""
        return self.low > self.high

    @property
    def parts(self) -> tuple[Array, Array] | None:
        """The ranges of keys that may pass, ascending: the ends of each; None for the interval."""
        return None if self.points is None else (self.points, self.points)

    def intersection(self, other: TextInterval) -> TextInterval:
        """Return the interval of the keys within this one and another one."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        points = self.points if other.points is None else other.points
        if self.points is not None and other.points is not None:
            points = np.intersect1d(self.points, other.points)
            if not len(points):
                low, high, points = MAX_KEY, MIN_KEY, None
        return TextInterval(self.column, low, high, points)


ValueInterval: TypeAlias = Interval | TextInterval
AnyInterval = TypeVar("AnyInterval", Interval, TextInterval)


def intersect(intervals: dict[str, AnyInterval], interval: AnyInterval) -> None:
    """Intersect the interval of a column with one that must hold as well."""
    known = intervals.get(interval.column)
    intervals[interval.column] = interval if known is None else known.intersection(interval)


def union(intervals: Sequence[Interval], data_type: pa.DataType) -> Interval:
    """Return the interval of the numbers that pass at least one of some intervals of a column.

    Args:
        intervals: One or more.
        data_type: Type of the column. Where a set cannot hold its numbers, more of them pass.
    """
    full = [each for each in intervals if not each.is_empty]
    if len(full) < 2:
        return full[0] if full else intervals[0]
    column = full[0].column
    if not may_be_in_set(data_type):
        return Interval(column, min(one.low for one in full), max(one.high for one in full))
    low, high = (np.concatenate(ends) for ends in zip(*map(_parts_within, full), strict=True))
    if not len(low):
        return Interval(column, 1, 0)
    both = RangeSet(low, high)
    are_points = np.array_equal(both.low, both.high)
    among = (NumberSet(both.low) if are_points else both) if len(both.low) > 1 else None
    return Interval(column, int(both.low[0]), int(both.high[-1]), among)


def _parts_within(interval: Interval) -> tuple[Ints, Ints]:
    """Return the ranges of numbers that pass, all of which lie between the ends."""
    if interval.parts is None:
        return np.array([interval.low], np.int64), np.array([interval.high], np.int64)
    low, high = (ends.clip(interval.low, interval.high) for ends in interval.parts)
    is_there = (interval.parts[0] <= interval.high) & (interval.parts[1] >= interval.low)
    return low[is_there], high[is_there]


def text_interval_of(test: SingleCondition, data_type: pa.DataType) -> TextInterval | None:
    """Return an interval with the keys of all texts that pass; None where a condition sets none.

    Args:
        test: The condition.
        data_type: Type of the column.
    """
    if not is_text(value_type(data_type)):
        return None
    if isinstance(test, Membership):
        if not is_text(test.values.type) or not len(test.values):
            return None
        points = np.unique(text_keys(test.values))
        return TextInterval(test.column, points[0], points[-1], points)
    if isinstance(test, TextMatch):
        start = test.start.encode()[:KEY_BYTES]
        high = start.ljust(KEY_BYTES, b"\xff")
        return TextInterval(test.column, text_key(test.start), high) if start else None
    if test.value is None or not test.value.is_valid or not is_text(test.value.type):
        return None
    key = text_key(test.value.as_py())
    match test.operator:
        case "equal":
            return TextInterval(test.column, key, key)
        case "greater" | "greater_equal":
            return TextInterval(test.column, key, MAX_KEY)
        case "less" | "less_equal":
            return TextInterval(test.column, MIN_KEY, key)
    return None


def interval_of(test: SingleCondition, data_type: pa.DataType) -> Interval | None:
    """Return a condition as an interval of stored numbers; None for any other condition.

    Args:
        test: The condition.
        data_type: Type of the column.
    """
    if isinstance(test, Comparison):
        return _interval_of_comparison(test, data_type)
    if not isinstance(test, Membership):
        return None
    if test.values.type != data_type or not may_be_in_set(data_type):
        return None
    if pa.types.is_decimal(data_type) or not len(test.values):
        return None
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    numbers = stored_values(test.values, f"<{sign}{data_type.bit_width // 8}")
    among = NumberSet(numbers.astype(np.int64))
    return Interval(test.column, int(among.numbers[0]), int(among.numbers[-1]), among)


def float_interval_of(terms: Sequence[ConditionTree] | None) -> Interval | None:
    """Return an interval with the keys of all floats that pass; None where conditions set none.

    Args:
        terms: Conditions on columns of any types, all of which are true; None for other ones. One
            is taken that compares a column, or that is joined by OR with a test of it for NaN.
    """
    if terms is None or len(terms) != 1:
        return None
    (term,) = terms
    tests = term.terms if isinstance(term, Combination) and not term.is_all else (term,)
    known = [test for test in tests if isinstance(test, Comparison)]
    compared = [test for test in known if test.operator != "is_nan"]
    if len(known) < len(tests) or len(compared) != 1 or len({test.column for test in known}) > 1:
        return None
    operator, key = compared[0].operator, _float_key(compared[0].value)
    if key is None:
        return None
    column = known[0].column
    match operator:
        case "greater":
            return Interval(column, key + 1, _GREATEST_KEY)
        case "greater_equal":
            return Interval(column, key, _GREATEST_KEY)
    if len(known) > 1:  # NaN is outside of all others
        return None
    match operator:
        case "equal":
            return Interval(column, key, key)
        case "less":
            return Interval(column, _LEAST_KEY, key - 1)
        case "less_equal":
            return Interval(column, _LEAST_KEY, key)
    return None


def is_float(data_type: pa.DataType) -> bool:
    """Whether a type is one of floats that have keys: of 32 or 64 bits."""
    return bool(pa.types.is_float32(data_type) or pa.types.is_float64(data_type))


def float_keys(values: npt.NDArray[np.floating[Any]]) -> Ints:
    """Return whole numbers in the order of floats, the same for zeros of both signs."""
    bits = (values.astype(np.float64) + 0.0).view(np.int64)
    keys = np.where(bits < 0, bits ^ _GREATEST_KEY, bits)
    return np.where(np.isnan(values), _GREATEST_KEY, keys)


def _float_key(value: pa.Scalar | None) -> int | None:
    """Return the key of a literal; None of NaN, and of one that Arrow would round or refuse."""
    if value is None or not value.is_valid:
        return None
    number = value.as_py() if is_float(value.type) or pa.types.is_integer(value.type) else None
    if number is None or (isinstance(number, int) and abs(number) > _EXACT_INTEGERS):
        return None
    return None if math.isnan(number) else int(float_keys(np.array([number], np.float64))[0])


def _interval_of_comparison(comparison: Comparison, data_type: pa.DataType) -> Interval | None:
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


def may_be_in_set(data_type: pa.DataType) -> bool:
    """Whether a type stores numbers that a `NumberSet` can hold."""
    bounds = stored_bounds(data_type)
    return bounds is not None and bounds[1] <= np.iinfo(np.int64).max


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
