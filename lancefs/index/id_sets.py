"""Rows that segments name by stable row ids, as sets of these: counted, but not looked for.

To find the rows of many ids takes longer than to join the bitmaps that name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from lancefs.datafile.buffers import Ints
from lancefs.errors import CorruptFile
from lancefs.index.bitmap import Bitmap
from lancefs.index.labels import LabelList
from lancefs.index.opened import OpenSegment
from lancefs.index.predicates import AllOf, ColumnTest, Predicate
from lancefs.index.segments import Coverage, IndexSegment
from lancefs.table.bitmaps import set_of_ids

if TYPE_CHECKING:
    from pyroaring import BitMap64


def ids_named(
    coverage: Coverage,
    segment: IndexSegment,
    opened: OpenSegment,
    pages: Ints,
    test: ColumnTest,
    most: int,
) -> BitMap64 | None:
    """Return the ids of the live rows that a segment finds in the fragments that it covers.

    Args:
        coverage: Says which these are.
        segment: The segment, which names rows by their ids.
        opened: The segment, open.
        pages: Its pages, or bitmaps, to read for the test.
        test: The test.
        most: Rows that are named one by one at most.

    Returns:
        None for more than `most` such rows.

    Raises:
        CorruptFile: The segment names a row twice, or an id that no row ever had; or two rows have
            the same id.
    """
    live = coverage.live_ids(segment)
    if isinstance(opened, Bitmap):
        others = opened.others(pages)  # each row has one value
        if len(others) < len(pages):
            return live - _of_values(coverage, segment, opened, others)
        return live & _of_values(coverage, segment, opened, pages)
    if isinstance(opened, LabelList):
        return live & _checked(coverage, segment, opened.rows_of(pages, test))
    numbers = opened.find(pages, test, most)
    if numbers is None:
        return None
    found = _checked(coverage, segment, set_of_ids(numbers))
    if len(found) < len(numbers):
        raise _named_twice(segment)
    return live & found


def ids_passing(predicate: Predicate, ids_of_test: Callable[[ColumnTest], BitMap64]) -> BitMap64:
    """Return the ids of the rows that pass a predicate.

    Args:
        predicate: The predicate.
        ids_of_test: Returns the ids of the rows that pass each of its tests.
    """
    if isinstance(predicate, ColumnTest):
        return ids_of_test(predicate)
    join = and_ if isinstance(predicate, AllOf) else or_
    return reduce(join, (ids_passing(part, ids_of_test) for part in predicate.parts))


def _of_values(coverage: Coverage, segment: IndexSegment, opened: Bitmap, pages: Ints) -> BitMap64:
    found = _union(segment, (one.as_set() for one in opened.maps_of(pages)))
    return _checked(coverage, segment, found)


def _union(segment: IndexSegment, parts: Iterable[BitMap64]) -> BitMap64:
    from pyroaring import BitMap64

    found, size = BitMap64(), 0
    for part in parts:
        size += len(part)
        found |= part
    if len(found) < size:
        raise _named_twice(segment)
    return found


def _checked(coverage: Coverage, segment: IndexSegment, found: BitMap64) -> BitMap64:
    if found:
        coverage.check_ids(segment, found.max())
    return found


def _named_twice(segment: IndexSegment) -> CorruptFile:
    return CorruptFile(f"the index {segment.index.name} names a row twice")
