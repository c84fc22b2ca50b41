"""Counting the rows that pass a filter from indices alone, without reading a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.row_ranges import is_among
from lancefs.errors import CorruptFile
from lancefs.index.bitmap import Bitmap, RowTallies
from lancefs.index.btree import BTree
from lancefs.index.column_indices import BROKEN
from lancefs.index.contents import Wanted
from lancefs.index.labels import LabelList
from lancefs.index.lookup import MAX_ROWS, TableIndices
from lancefs.index.named_sets import FragmentRows, ids_named, rows_of_values
from lancefs.index.open_segments import OpenSegment
from lancefs.index.plans import Plan, plan_with
from lancefs.index.predicates import (
    AllOf,
    ColumnTest,
    Predicate,
    UnfitTest,
    evaluate,
    is_exact,
    tests_of,
)
from lancefs.index.row_sets import offsets_by_fragment
from lancefs.index.segments import IndexSegment
from lancefs.index.zonemap import ZoneMap
from lancefs.table.bitmaps import bitmap_of, set_of_ids
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.row_metadata import OFFSET_BITS

if TYPE_CHECKING:
    from pyroaring import BitMap, BitMap64

# The kinds of indices that count rows, the quickest first.
_KINDS = ("Bitmap", "LabelList", "BTree")
# Up to `_FEW_BITMAPS` bitmaps are always counted. More are counted if the table has 1 /
# `_BITMAPS_SHARE` rows for each: counting a bitmap takes as long as scanning that many rows.
_FEW_BITMAPS = 64
_BITMAPS_SHARE = 1 / 4096
# The same where their rows are only counted, which is kept for the next time.
_TALLIES_SHARE = 1 / 256
# Rows of BTREE indices that are always read for a filter on several columns; and the number of them
# that takes as long to read as one row named by another index takes to test.
_FEW_TREE_ROWS = 16 * 1024
_TREE_ROWS_A_ROW = 8

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


def count_rows(indices: TableIndices, predicate: Predicate, reader_of: ReaderOf) -> Count | None:
    """Count the rows that pass a predicate in the fragments that all indices asked cover.

    Args:
        indices: The indices of the version.
        predicate: What the rows must pass.
        reader_of: Returns the reader of a fragment.

    Returns:
        None if BITMAP, LABEL_LIST, BTREE and ZONEMAP indices do not tell, or a scan is quicker.
    """
    if not is_exact(predicate):
        return None
    try:
        return _Counting(indices, reader_of).count(predicate)
    except UnfitTest:  # the scan says so, if such a row is left
        return None


@dataclass(frozen=True, slots=True)
class _Counting:
    """Counts rows by the indices of a version.

    Attributes:
        indices: The indices.
        reader_of: Returns the reader of a fragment.
    """

    indices: TableIndices
    reader_of: ReaderOf

    def count(self, predicate: Predicate) -> Count | None:
        """Count the rows that pass a predicate; None if indices do not tell."""
        if not isinstance(predicate, ColumnTest):
            return self._count_joined(predicate)
        if predicate.excludes is not None:
            return self._count_excluding(predicate, predicate.excludes)
        missing = self._count_missing(predicate) if _is_of_missing(predicate) else None
        if missing is not None:
            return missing
        plans = self._plans(predicate, _TALLIES_SHARE)
        counts = (self._count_tested(plan, predicate) for plan in plans)
        return next((counted for counted in counts if counted is not None), None)

    def _count_excluding(self, test: ColumnTest, excluded: Wanted) -> Count | None:
        """Count values that do not hold something, as all less those that do, or are missing."""
        others = replace(
            test, keeps_null=True, contents=excluded, contents_suffice=True, excludes=None
        )
        counted = self.count(others)
        if counted is None:
            return None
        live = sum(self.reader_of(number).num_rows for number in counted.counted)
        return Count(live - counted.rows, counted.counted)

    def _count_missing(self, test: ColumnTest) -> Count | None:
        """Count missing values by zones, in fragments without deleted rows; None without any."""
        rows, counted = 0, set[int]()
        for index in self.indices.over(test.field_id):
            plan = plan_with(self.indices, index, test) if index.kind == "ZoneMap" else None
            if plan is None or not plan.covers_once:
                continue
            for segment, opened, _ in plan.segments:
                counts = self.indices.coverage.row_counts(segment)
                if counts is None or not isinstance(opened, ZoneMap):
                    continue
                whole = counts[1] == 0
                fragments = segment.covered[whole]
                zoned, missing = opened.missing_in(fragments, counts[0][whole])
                rows += missing
                counted.update(fragments[zoned].tolist())
            if counted:
                return Count(rows, frozenset(counted))
        return None

    def _plans(self, test: ColumnTest, share: float) -> Iterator[Plan]:
        """Yield how the indices over a column answer a test exactly, the quickest one first.

        Args:
            test: The test.
            share: Bitmaps that may be read, as a share of the rows of the table.
        """
        known = [one for one in self.indices.over(test.field_id) if one.kind in _KINDS]
        most = self.indices.most(share, _FEW_BITMAPS)
        for index in sorted(known, key=lambda one: _KINDS.index(one.kind)):
            plan = plan_with(self.indices, index, test)
            if plan is None or not plan.covers_once:
                continue
            if all(
                opened.is_exact_for(test) and (isinstance(opened, BTree) or len(pages) <= most)
                for _, opened, pages in plan.segments
            ):
                yield plan

    # One test

    def _count_tested(self, plan: Plan, test: ColumnTest) -> Count | None:
        """Count the rows that pass a test; None if the index does not tell."""

        def count(part: tuple[IndexSegment, OpenSegment, Ints]) -> Count | None:
            segment, opened, pages = part
            try:
                rows = self._count_in(segment, opened, test, pages)
            except BROKEN as error:
                self.indices.give_up(segment, error)
                return Count(0, frozenset())
            return None if rows is None else Count(rows, frozenset(segment.covered.tolist()))

        counts = self.indices.do_each(count, plan.segments)
        known = [one for one in counts if one is not None]
        counted = frozenset[int]().union(*(one.counted for one in known))
        if len(known) < len(counts) or not counted:
            return None
        return Count(sum(one.rows for one in known), counted)

    def _count_in(
        self, segment: IndexSegment, opened: OpenSegment, test: ColumnTest, pages: Ints
    ) -> int | None:
        """Count the rows that a segment finds; None for a scan.

        Where a BTREE holds as many rows as live in the fragments that it covers, it holds these:
        then the numbers of rows in its pages are enough.
        """
        coverage = self.indices.coverage
        if segment.holds_row_ids and isinstance(opened, Bitmap | LabelList):
            named = ids_named(coverage, segment, opened, pages, test, MAX_ROWS)
            return None if named is None else len(named)
        if isinstance(opened, BTree):
            most = self.indices.max_read_of(opened, test)
            live = coverage.live_rows(segment)
            if live is not None and int(live.sum()) == opened.entries:
                return opened.count(pages, test, most)
            if opened.rows_in(pages) > most:
                return None
        if isinstance(opened, Bitmap) and coverage.has_addresses(segment):
            return self._count_bitmaps(segment, opened, pages)
        if isinstance(opened, LabelList) and coverage.has_addresses(segment):
            return self._count_set(segment, opened.rows_of(pages, test))
        found = self._named_offsets(segment, opened, test, pages)
        if found is None:
            return None
        return sum(
            len(offsets) - int(is_among(self.reader_of(number).deleted, offsets).sum())
            for number, offsets in found
        )

    def _count_bitmaps(self, segment: IndexSegment, opened: Bitmap, pages: Ints) -> int:
        """Count the rows that have some values; bitmaps are looked at where rows are deleted."""
        others = opened.others(pages)
        is_rest = len(others) < len(pages)  # each row has one value
        named = _by_fragment(opened.tallies(others if is_rest else pages))
        self.indices.coverage.check_fragments(segment, named.fragments)
        physical, deleted = self._row_counts(segment)
        is_own = is_among(named.fragments, segment.covered)
        own = np.searchsorted(segment.covered, named.fragments[is_own])
        _check_offsets(segment, own, named.highest[is_own], physical)
        _check_counts(segment, own, named.counts[is_own], physical)
        counts = np.zeros(len(physical), np.int64)
        counts[own] = named.counts[is_own]
        wanted = physical - counts if is_rest else counts
        is_whole = deleted == 0
        rows = int(wanted[is_whole].sum())
        with_deleted = set(segment.covered[~is_whole & (wanted > 0)].tolist())
        if not with_deleted:
            return rows
        found = self._rows_of_values(segment, opened, pages, with_deleted)
        return rows + sum(self._count_live(number, own) for number, own in found.items())

    def _count_set(self, segment: IndexSegment, rows: BitMap64) -> int:
        """Count those of some addresses that are live rows of fragments that a segment covers."""
        if rows:
            self.indices.coverage.check_fragments(segment, [rows.max() >> OFFSET_BITS])
        physical, deleted = self._row_counts(segment)
        count = 0
        for number, length, gone in zip(
            segment.covered.tolist(), physical.tolist(), deleted.tolist(), strict=True
        ):
            base = number << OFFSET_BITS
            own, highest = rows.range_cardinality(base, base + length), base + (1 << OFFSET_BITS)
            if rows.range_cardinality(base + length, highest):
                behind = rows.next_set_bit(base + length) - base
                raise _beyond(segment, number, behind, length)
            if own and gone:
                addresses = self.reader_of(number).deleted.astype(np.uint64) + np.uint64(base)
                own -= rows.intersection_cardinality(set_of_ids(addresses))
            count += own
        return count

    def _row_counts(self, segment: IndexSegment) -> tuple[Ints, Ints]:
        """Return the rows of each covered fragment, deleted ones included, and its deleted rows."""
        counts = self.indices.coverage.row_counts(segment)
        if counts is not None:
            return counts
        readers = [self.reader_of(number) for number in segment.covered.tolist()]
        return (
            np.array([reader.physical_rows for reader in readers], np.int64),
            np.array([len(reader.deleted) for reader in readers], np.int64),
        )

    # Several tests

    def _count_joined(self, predicate: Predicate) -> Count | None:
        """Count the rows that pass several tests; None if a scan is quicker, or has to tell."""
        plans = dict[int, Plan]()  # by the id of the test's object
        for test in tests_of(predicate):
            plan = next(self._plans(test, _BITMAPS_SHARE), None)
            if plan is None:
                return None
            plans[id(test)] = plan
        covered = [plan.covered for plan in plans.values()]
        # A fragment that only some of the indices cover is scanned, for which they name rows.
        if any(one != covered[0] for one in covered) or self._is_scanned(predicate, plans):
            return None
        segments = [segment for plan in plans.values() for segment, _, _ in plan.segments]
        if all(segment.holds_row_ids for segment in segments):
            return self._count_ids(predicate, plans, covered[0])
        found, left = dict[int, FragmentRows](), set(covered[0])
        parts = predicate.parts if isinstance(predicate, AllOf) else [predicate]

        def order(part: Predicate) -> tuple[bool, int]:  # only bitmaps are read by their fragments
            has_bitmaps = any(plans[id(test)].source.kind == "Bitmap" for test in tests_of(part))
            return has_bitmaps, _fewest_rows(part, plans)

        for part in sorted(parts, key=order):
            there = set[int]()
            for test in tests_of(part):
                rows = self._rows_of_test(plans[id(test)], test, left)
                if rows is None:
                    return None
                found[id(test)] = rows
                there |= rows.keys()
            left &= there  # in other fragments no row passes all parts
            if not left:
                break
        nothing = bitmap_of(range(0))

        def passing(number: int) -> BitMap:
            return evaluate(predicate, lambda test: found[id(test)].get(number, nothing))

        count = sum(self._count_live(number, passing(number)) for number in left)
        return Count(count, covered[0])

    def _count_ids(
        self, predicate: Predicate, plans: Mapping[int, Plan], covered: frozenset[int]
    ) -> Count | None:
        """Count the rows that pass several tests, where all indices name rows by stable ids."""
        from pyroaring import BitMap64

        coverage, found = self.indices.coverage, dict[int, BitMap64]()
        for test in tests_of(predicate):
            found[id(test)] = BitMap64()
            for segment, opened, pages in plans[id(test)].segments:
                try:
                    ids = ids_named(coverage, segment, opened, pages, test, MAX_ROWS)
                except BROKEN as error:
                    self.indices.give_up(segment, error)
                    return None
                if ids is None:
                    return None
                found[id(test)] |= ids
        return Count(len(evaluate(predicate, lambda test: found[id(test)])), covered)

    def _is_scanned(self, predicate: Predicate, plans: Mapping[int, Plan]) -> bool:
        """Tell whether testing the rows of a part of a predicate is quicker than reading all."""
        trees = [plan.rows for plan in plans.values() if plan.source.kind == "BTree"]
        if max(trees, default=0) > self.indices.max_read:
            return True
        named = _fewest_rows(predicate, plans)
        return isinstance(predicate, AllOf) and sum(trees) > max(
            _FEW_TREE_ROWS, _TREE_ROWS_A_ROW * named
        )

    # Rows that segments name; a damaged one, or one that names a row that cannot be, is an error

    def _rows_of_test(self, plan: Plan, test: ColumnTest, among: Set[int]) -> FragmentRows | None:
        """Return the rows of some fragments that pass a test; None if an index does not tell."""
        found: FragmentRows = {}
        for segment, opened, pages in plan.segments:
            wanted = among & set(segment.covered.tolist())
            if not wanted:
                continue
            try:
                if isinstance(opened, Bitmap) and self.indices.coverage.has_addresses(segment):
                    found |= self._rows_of_values(segment, opened, pages, wanted)
                    continue
                offsets = self._named_offsets(segment, opened, test, pages)
            except BROKEN as error:
                self.indices.give_up(segment, error)
                return None
            if offsets is None:
                return None
            found |= {number: bitmap_of(rows) for number, rows in offsets if number in wanted}
        return found

    def _rows_of_values(
        self, segment: IndexSegment, opened: Bitmap, pages: Ints, among: Set[int]
    ) -> FragmentRows:
        """Return the rows that have some values, in some fragments of those that are covered."""
        coverage, others = self.indices.coverage, opened.others(pages)
        is_rest = len(others) < len(pages)  # each row has one value
        rows = rows_of_values(coverage, segment, opened, others if is_rest else pages, among)
        for number, own in rows.items():  # the manifest may not say how many rows a fragment has
            length = self.reader_of(number).physical_rows
            if own.max() >= length:
                raise _beyond(segment, number, own.max(), length)
        if not is_rest:
            return rows
        whole = {number: bitmap_of(range(self.reader_of(number).physical_rows)) for number in among}
        return {n: every - rows[n] if n in rows else every for n, every in whole.items()}

    def _count_live(self, fragment_id: int, rows: BitMap) -> int:
        """Return how many rows of a fragment are not deleted."""
        deleted = bitmap_of(self.reader_of(fragment_id).deleted)
        return len(rows) - rows.intersection_cardinality(deleted)

    def _named_offsets(
        self, segment: IndexSegment, opened: OpenSegment, test: ColumnTest, pages: Ints
    ) -> Iterable[tuple[int, Ints]] | None:
        """Return the rows that a segment finds in the fragments it covers; None for too many."""
        numbers = opened.find(pages, test, MAX_ROWS)
        if numbers is None:
            return None
        addresses = self.indices.coverage.addresses_of(segment, numbers, opened.entries)
        return offsets_by_fragment(addresses, segment.covered)


def _is_of_missing(test: ColumnTest) -> bool:
    """Tell whether all missing values pass a test, and no others."""
    is_only = test.intervals is not None and not test.intervals
    return is_only and test.keeps_null and test.contents_suffice


def _beyond(segment: IndexSegment, fragment_id: int, highest: int, rows: int) -> CorruptFile:
    return CorruptFile(
        f"the index {segment.index.name} names row {highest} of fragment {fragment_id}, "
        f"which has {rows}"
    )


def _check_offsets(segment: IndexSegment, own: Ints, highest: Ints, physical: Ints) -> None:
    """Refuse rows that are not in their fragments.

    Args:
        segment: The segment.
        own: Positions of fragments among those that it covers.
        highest: The highest offset that it names in each of them.
        physical: The rows of each covered fragment.
    """
    is_beyond = highest >= physical[own]
    if is_beyond.any():
        first = int(is_beyond.argmax())
        raise _beyond(segment, segment.covered[own[first]], highest[first], physical[own[first]])


def _check_counts(segment: IndexSegment, own: Ints, counts: Ints, physical: Ints) -> None:
    """Refuse more rows than a fragment has, which different values cannot have.

    Args:
        segment: The segment.
        own: Positions of fragments among those that it covers.
        counts: How many rows it names in each of them.
        physical: The rows of each covered fragment.
    """
    are_many = counts > physical[own]
    if are_many.any():
        first = int(are_many.argmax())
        number, rows = segment.covered[own[first]], physical[own[first]]
        raise CorruptFile(
            f"the index {segment.index.name} names {counts[first]} rows of fragment {number}, "
            f"which has {rows}"
        )


def _by_fragment(tallies: RowTallies) -> RowTallies:
    """Return the number of rows of all bitmaps in each fragment, and the highest offset."""
    order = np.argsort(tallies.fragments, kind="stable")
    fragments = tallies.fragments[order]
    starts = np.flatnonzero(np.diff(fragments, prepend=-1))
    if not len(starts):
        return tallies
    counts = np.add.reduceat(tallies.counts[order], starts)
    highest = np.maximum.reduceat(tallies.highest[order], starts)
    return RowTallies(fragments[starts], counts, highest)


def _fewest_rows(predicate: Predicate, plans: Mapping[int, Plan]) -> int:
    """Return how many rows have to be tested where only some parts are looked up, about."""
    if isinstance(predicate, ColumnTest):
        return plans[id(predicate)].rows
    sizes = [_fewest_rows(part, plans) for part in predicate.parts]
    return min(sizes) if isinstance(predicate, AllOf) else sum(sizes)
