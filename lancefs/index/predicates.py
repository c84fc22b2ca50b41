"""Predicates that indices can answer: tests of single columns, joined by AND and OR.

A predicate never has to be the whole filter: the rows that it names are a superset of those that
pass, and the scan evaluates the filter itself on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Mask
from lancefs.datafile.logical_types import is_list
from lancefs.index.contents import Wanted, every, some

T = TypeVar("T")

# The lowest and the highest sort key (see `sort_keys`) of an interval, both included; None for an
# open end.
KeyInterval: TypeAlias = tuple[Any, Any]


class UnfitTest(Exception):
    """A test does not fit some values: the filter fails for them, or for the type of the column."""


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A condition that reads one column.

    Attributes:
        field_id: The column.
        data_type: Type of its values.
        intervals: Intervals that hold all values that may pass, and perhaps others; None where
            nothing is known of these values.
        keeps_null: Whether a missing value may pass.
        contents: What all values that may pass hold, and perhaps others; None where nothing is
            known of it.
        passes: Tells which values of an array of the column pass, exactly as the scan does; raises
            `UnfitTest`.
        is_exact: Whether the rows that pass are those of the filter, and not a superset.
        contents_suffice: Whether all values that hold `contents` pass, and missing ones where
            `keeps_null`; no others do.
        intervals_suffice: Whether all values between the ends of an interval pass, which may be
            left out themselves.
        excludes: What values that are not missing hold if they do not pass, and no others do; None
            where nothing is known of it. No missing value passes then.
    """

    field_id: int
    data_type: pa.DataType
    intervals: Sequence[KeyInterval] | None
    keeps_null: bool
    contents: Wanted | None
    passes: Callable[[pa.Array], Mask]
    is_exact: bool = True
    contents_suffice: bool = False
    intervals_suffice: bool = False
    excludes: Wanted | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Predicates that are all true for rows that pass.

    Attributes:
        parts: The predicates.
        is_whole: Whether they are all that the rows must pass, and not a part of it.
    """

    parts: tuple[Predicate, ...]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Predicates of which one is true for rows that pass."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = ColumnTest | AllOf | AnyOf

# True for no row. `all_of` and `any_of` keep it out of what they return, unless it is all of it.
NEVER = AnyOf(())


def all_of(parts: Iterable[Predicate | None]) -> Predicate | None:
    """Join predicates by AND, tests of the same column as one; None stands for an unknown part."""
    given = list(parts)
    known = [part for part in given if part is not None]
    if NEVER in known:
        return NEVER
    merged = _by_column(known, _test_all)
    is_whole = len(known) == len(given)
    if len(merged) != 1:
        return AllOf(merged, is_whole) if merged else None
    (only,) = merged
    if is_whole:
        return only
    return replace(only, is_exact=False) if isinstance(only, ColumnTest) else AllOf(merged, False)


def is_exact(predicate: Predicate) -> bool:
    """Tell whether the rows that pass a predicate are those of the filter, and not a superset."""
    if isinstance(predicate, ColumnTest):
        return predicate.is_exact
    is_whole = isinstance(predicate, AnyOf) or predicate.is_whole
    return is_whole and all(map(is_exact, predicate.parts))


def tests_of(predicate: Predicate) -> Iterator[ColumnTest]:
    """Yield the tests of a predicate."""
    if isinstance(predicate, ColumnTest):
        yield predicate
    else:
        for part in predicate.parts:
            yield from tests_of(part)


def evaluate(predicate: Predicate, of_test: Callable[[ColumnTest], T]) -> T:
    """Return which rows pass a predicate.

    Args:
        predicate: The predicate, with at least one part where it has parts.
        of_test: Returns the rows that pass a test: a mask, or a set that has `&` and `|`.
    """
    if isinstance(predicate, ColumnTest):
        return of_test(predicate)
    join: Callable[[Any, Any], T] = and_ if isinstance(predicate, AllOf) else or_
    return reduce(join, (evaluate(part, of_test) for part in predicate.parts))


def is_of_values(test: ColumnTest) -> bool:
    """Tell whether a test looks for single values."""
    known = test.intervals is not None and not test.keeps_null
    return known and all(low is not None and low == high for low, high in test.intervals or ())


def tests_lists(predicate: Predicate) -> bool:
    """Tell whether a predicate tests a column of lists."""
    if isinstance(predicate, ColumnTest):
        return is_list(predicate.data_type)
    return any(map(tests_lists, predicate.parts))


def any_of(parts: Iterable[Predicate | None]) -> Predicate | None:
    """Join predicates by OR, tests of the same column as one; None if one of them is unknown."""
    known = []
    for part in parts:
        if part is None:
            return None
        if part != NEVER:
            known.append(part)
    merged = _by_column(known, _test_any)
    return merged[0] if len(merged) == 1 else AnyOf(merged)


def _by_column(
    parts: Iterable[Predicate], merge: Callable[[list[ColumnTest]], ColumnTest]
) -> tuple[Predicate, ...]:
    """Replace the tests of each column by one test."""
    tests: dict[int, list[ColumnTest]] = {}
    others: list[Predicate] = []
    for part in parts:
        if isinstance(part, ColumnTest):
            tests.setdefault(part.field_id, []).append(part)
        else:
            others.append(part)
    merged = (group[0] if len(group) == 1 else merge(group) for group in tests.values())
    return (*merged, *others)


def _test_all(tests: list[ColumnTest]) -> ColumnTest:
    known = [test.intervals for test in tests if test.intervals is not None]
    return ColumnTest(
        tests[0].field_id,
        tests[0].data_type,
        reduce(_common, known) if known else None,
        all(test.keeps_null for test in tests),
        every(test.contents for test in tests),
        lambda array: np.logical_and.reduce([test.passes(array) for test in tests]),
        all(test.is_exact for test in tests),
        all(test.contents_suffice for test in tests),
        # What is common to several intervals of each test is not told; see `_common`.
        all(test.intervals_suffice and len(test.intervals or ()) == 1 for test in tests),
    )


def _test_any(tests: list[ColumnTest]) -> ColumnTest:
    known = [test.intervals for test in tests if test.intervals is not None]
    return ColumnTest(
        tests[0].field_id,
        tests[0].data_type,
        [interval for part in known for interval in part] if len(known) == len(tests) else None,
        any(test.keeps_null for test in tests),
        some(test.contents for test in tests),
        lambda array: np.logical_or.reduce([test.passes(array) for test in tests]),
        all(test.is_exact for test in tests),
        all(test.contents_suffice for test in tests),
        all(test.intervals_suffice for test in tests),
    )


def _common(left: Sequence[KeyInterval], right: Sequence[KeyInterval]) -> Sequence[KeyInterval]:
    """Return intervals that hold all keys of both sides, and perhaps others.

    Exact where one side is a single interval; otherwise the shorter side is the answer.
    """
    if len(left) > len(right):
        left, right = right, left
    if len(left) != 1:
        return left
    ((low, high),) = left
    clipped = [
        (
            _higher(low, other_low),
            other_high if high is None or (other_high is not None and other_high < high) else high,
        )
        for other_low, other_high in right
    ]
    return [one for one in clipped if None in one or one[0] <= one[1]]


def intervals_of(predicate: Predicate, field_id: int) -> Sequence[KeyInterval] | None:
    """Return intervals that hold all values of a column in rows that pass; None for any values.

    Args:
        predicate: The predicate.
        field_id: The column.
    """
    if isinstance(predicate, ColumnTest):
        return predicate.intervals if predicate.field_id == field_id else None
    parts = [intervals_of(part, field_id) for part in predicate.parts]
    known = [part for part in parts if part is not None]
    if isinstance(predicate, AllOf):
        return reduce(_common, known) if known else None
    return [one for part in known for one in part] if len(known) == len(parts) else None


def _higher(left: Any, right: Any) -> Any:
    """Return the higher one of two lower ends: NaN is above all numbers, None below them."""
    if left is None or right is None:
        return right if left is None else left
    return right if right != right or right > left else left
