"""Rows that segments name, as bitmaps of their row ids, or of their offsets in each fragment.

To join bitmaps takes less time than to name the rows of frequent values, or to find those of many
row ids, one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lancefs.datafile.buffers import Ints, UInts
from lancefs.errors import CorruptFile
from lancefs.index.bitmap import Bitmap
from lancefs.index.labels import LabelList
from lancefs.index.open_segments import OpenSegment
from lancefs.index.predicates import ColumnTest
from lancefs.index.segments import Coverage, IndexSegment
from lancefs.table.bitmaps import set_of_ids
from lancefs.table.row_metadata import OFFSET_BITS

if TYPE_CHECKING:
    from pyroaring import BitMap, BitMap64

# Offsets of rows by the ids of their fragments.
FragmentRows: TypeAlias = "dict[int, BitMap]"


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


def rows_of_values(
    coverage: Coverage,
    segment: IndexSegment,
    opened: Bitmap,
    pages: Ints,
    fragments: Collection[int],
) -> FragmentRows:
    """Return the rows that a segment names, of which there may be none in some fragments.

    Args:
        coverage: Says which rows there may be.
        segment: The segment, which names rows by their addresses.
        opened: The segment, open.
        pages: The positions of the values that the rows have.
        fragments: Ids of fragments that the segment covers; bitmaps of others are not parsed.

    Raises:
        CorruptFile: It names a row twice, or a row that cannot be.
    """
    parts: dict[int, list[BitMap]] = {}
    for one in opened.maps_of(pages):
        coverage.check_fragments(segment, one.fragments)
        filled = [(number, bitmap) for number, bitmap in one.bitmaps(fragments) if bitmap]
        highest = [(number << OFFSET_BITS) + bitmap.max() for number, bitmap in filled]
        coverage.check_highest(segment, np.sort(np.array(highest, np.uint64)))
        for number, bitmap in filled:
            parts.setdefault(number, []).append(bitmap)
    rows = {number: reduce(or_, own) for number, own in parts.items()}
    if any(len(own) != sum(map(len, parts[number])) for number, own in rows.items()):
        raise _named_twice(segment)
    return rows


def common_addresses(tests: Sequence[Mapping[int, BitMap]], most: int) -> UInts | None:
    """Return the addresses of the rows that pass all of some tests; None for more than `most`.

    Args:
        tests: The rows that pass each test, by the ids of their fragments.
        most: Number of rows.
    """
    first, *others = tests
    numbers = sorted(set(first).intersection(*others))
    common = {number: reduce(and_, (rows[number] for rows in tests)) for number in numbers}
    if sum(map(len, common.values())) > most:
        return None
    parts = [
        np.frombuffer(rows.to_array(), np.uint32) + np.uint64(number << OFFSET_BITS)
        for number, rows in common.items()
        if rows
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])


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
