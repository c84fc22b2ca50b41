"""Counting the rows that pass a condition from an index alone, without reading a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.datafile.row_ranges import rows_of
from lancefs.errors import CorruptFile, LanceError
from lancefs.index.address_maps import AddressMap
from lancefs.index.bitmap import Bitmap
from lancefs.index.btree import BTree
from lancefs.index.lookup import MAX_ROWS, TableIndices
from lancefs.index.predicates import ColumnTest
from lancefs.index.row_sets import RowSet, join
from lancefs.index.segments import ColumnIndex, IndexSegment
from lancefs.table.fragment_reader import FragmentReader

# The kinds of indices that count, those first that do it quicker.
_KINDS = ("Bitmap", "BTree")
# Bitmaps that are always counted, and the share of the rows of the table that more of them may be:
# counting a bitmap takes as long as scanning so many rows.
_FEW_BITMAPS = 64
_BITMAPS_SHARE = 1 / 4096

# Returns the reader of a fragment.
ReaderOf = Callable[[int], FragmentReader]


class Count(NamedTuple):
    """Rows that pass a condition.

    Attributes:
        rows: Number of live rows, in the fragments that were counted.
        counted: Ids of these fragments.
    """

    rows: int
    counted: frozenset[int]


def count_rows(indices: TableIndices, test: ColumnTest, reader_of: ReaderOf) -> Count | None:
    """Count the rows that pass a condition in the fragments that a BITMAP or BTREE index covers.

    Args:
        indices: The indices of the version.
        test: The condition.
        reader_of: Returns the reader of a fragment.

    Returns:
        None if no index tells.
    """
    known = [one for one in indices.over(test.field_id) if one.kind in _KINDS]
    for index in sorted(known, key=lambda one: _KINDS.index(one.kind)):
        counted = _count_with(indices, index, test, reader_of)
        if counted is not None:
            return counted
    return None


def _count_with(
    indices: TableIndices, index: ColumnIndex, test: ColumnTest, reader_of: ReaderOf
) -> Count | None:
    rows, counted, sets = 0, set[int](), list[RowSet]()
    for segment in index.segments:
        opened, covered = indices.open(index, segment), segment.covered.tolist()
        if opened is None:
            continue
        if not counted.isdisjoint(covered):  # their rows would count twice
            return None
        try:
            pages = opened.pages_for(test)
            if pages is None:
                return None
            assert isinstance(opened, Bitmap | BTree)
            if isinstance(opened, BTree):
                part = _count_in_tree(indices, segment, opened, test, pages)
            else:
                part = _count_in_maps(indices, segment, opened, test, pages, reader_of)
            if part is None:
                return None
            if isinstance(part, RowSet):
                sets.append(part)
            else:
                rows += part
            counted.update(covered)
        except pa.ArrowException:  # the filter does not fit the values: the scan says so
            return None
        except LanceError as error:
            indices.give_up(segment, error)
    if sets:
        rows += _count_in_set(join(sets), reader_of)
    return Count(rows, frozenset(counted)) if counted else None


def _count_in_tree(
    indices: TableIndices, segment: IndexSegment, opened: BTree, test: ColumnTest, pages: Ints
) -> int | RowSet | None:
    """Return the rows that a segment of a BTREE index finds, or their number; None for a scan.

    Where it holds as many rows as live in the fragments that it covers, it holds these: then the
    numbers of rows in its pages are enough.
    """
    live = indices.coverage.live_rows(segment)
    if live is not None and int(live.sum()) == opened.entries:
        return opened.count(pages, test, indices.max_read)
    if opened.rows_in(pages) > indices.max_read:
        return None
    numbers = opened.find(pages, test, MAX_ROWS)
    return None if numbers is None else indices.coverage.rows_of(segment, numbers, opened.entries)


def _count_in_maps(
    indices: TableIndices,
    segment: IndexSegment,
    opened: Bitmap,
    test: ColumnTest,
    pages: Ints,
    reader_of: ReaderOf,
) -> int | RowSet | None:
    """Return the rows that a segment of a BITMAP index finds, or their number; None for a scan."""
    if len(pages) > indices.most(_BITMAPS_SHARE, _FEW_BITMAPS):
        return None
    if indices.coverage.has_addresses(segment):
        maps = list(opened.maps_of(pages))
        named = (number for one in maps for number, _ in one.bitmaps)
        indices.coverage.check_fragments(segment, named)
        return _count_in_bitmaps(maps, segment, reader_of)
    numbers = opened.find(pages, test, MAX_ROWS)
    return None if numbers is None else indices.coverage.rows_of(segment, numbers, opened.entries)


def _count_in_bitmaps(
    maps: Iterable[AddressMap], segment: IndexSegment, reader_of: ReaderOf
) -> int:
    """Return how many live rows of covered fragments some maps name."""
    from pyroaring import BitMap

    covered, count = set(segment.covered.tolist()), 0
    deleted: dict[int, BitMap] = {}
    for one in maps:
        for fragment_id, bitmap in one.bitmaps:
            if fragment_id not in covered or not bitmap:
                continue
            reader = reader_of(fragment_id)
            if bitmap.max() >= reader.physical_rows:
                raise CorruptFile(
                    f"the index {segment.index.name} names row {bitmap.max()} of fragment "
                    f"{fragment_id}, which has {reader.physical_rows}"
                )
            if fragment_id not in deleted:
                deleted[fragment_id] = BitMap(reader.deleted)
            count += len(bitmap) - bitmap.intersection_cardinality(deleted[fragment_id])
    return count


def _count_in_set(rows: RowSet, reader_of: ReaderOf) -> int:
    """Return how many live rows a set has in the fragments that it covers."""
    count = 0
    for number in rows.fragments.tolist():
        offsets = rows_of(rows.ranges_of(number))
        count += len(np.setdiff1d(offsets, reader_of(number).deleted, assume_unique=True))
    return count
