"""Looking up a filter in the indices of a version: the rows that may pass it.

Indices only ever narrow a scan. What cannot be answered (an unknown kind or version, a missing or
damaged file, a condition that no index knows, fragments that no segment covers) is scanned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, UInts
from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.forks import cached_property
from lancefs.index.bitmap import Bitmap
from lancefs.index.btree import BTree
from lancefs.index.claims import IndexClaim, of_any
from lancefs.index.column_indices import BROKEN, ColumnIndices, indices_of_kind
from lancefs.index.named_sets import FragmentRows, common_addresses, rows_of_values
from lancefs.index.open_segments import OpenSegment, open_segment
from lancefs.index.plans import Plan, plan_with
from lancefs.index.predicates import (
    AllOf,
    AnyOf,
    ColumnTest,
    Predicate,
    UnfitTest,
    is_of_values,
    tests_lists,
    tests_of,
)
from lancefs.index.row_sets import RowSet, intersection, join, of_addresses, union
from lancefs.index.segments import ColumnIndex, Coverage, IndexSegment
from lancefs.index.zones import Zones
from lancefs.printable import get_logger, plural
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_table import Fragments
from lancefs.table.fragments import sum_known
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import per_version
from lancefs.table.row_metadata import OFFSET_BITS

logger = get_logger(__name__)

# Limits of a look-up, as shares of the rows of the table: the rows of the index that are read, the
# rows that pass, and the ranges that these form. Beyond them a scan is quicker, although the rows
# of an index are read much quicker than those of a table.
_READ_SHARE = 1 / 3
_PASSED_SHARE = 1 / 10
_RANGES_SHARE = 1 / 32
# The same for rows that come in zones: these are read as they lie in the table.
_ZONES_SHARE = 1 / 2
# Least rows of an index from which it is estimated how scattered the others are.
_SAMPLED_ROWS = 1024
# Rows and ranges that are looked up however small the table is.
_SMALL_ROWS = 16 * 1024
_SMALL_RANGES = 256
# Rows that a scan decodes and tests in less time than many pages of an index are read.
_NEAR_ROWS = 64 * 1024
# Rows that are looked up at most: their numbers, and their ranges, are held in memory.
MAX_ROWS = 2 * 1024 * 1024
# If one condition leaves at most this many rows, no other condition is looked up.
_FEW_ROWS = 1024
# Rows of an index that are read from a store in about the time of a request.
_REQUEST_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What the indices of a version say of a filter.

    Attributes:
        candidates: By the id of the fragment, ranges of the rows that may pass; None for all rows.
            Fragments without such rows are left out. None in place of the mapping: a scan of all
            rows must tell.
        notes: What was looked up, and why something was not, a line each.
        claims: What is true for the rows that are named, unless an index is wrong.
    """

    candidates: Mapping[int, Sequence[RowRange] | None] | None
    notes: tuple[str, ...]
    claims: tuple[IndexClaim, ...] = ()

    def claims_in(self, fragment_id: int) -> tuple[IndexClaim, ...]:
        """Return what is true for the rows that are named in a fragment."""
        return tuple(claim for claim in self.claims if fragment_id in claim.fragments)


class TableIndices(ColumnIndices):
    """The scalar indices of one version, as far as a filter can be looked up in them.

    Args:
        files: Finds the files of the version.
        fragments: The fragments of the version.
        coverage: Says where the rows are that segments name.
        indices: The indices that can be asked.
    """

    def __init__(
        self,
        files: TableFiles,
        fragments: Fragments,
        coverage: Coverage,
        indices: Sequence[ColumnIndex],
    ) -> None:
        super().__init__(files, coverage, indices, _say_unused)
        self.fragments = fragments
        self._checked: set[str] = set()  # ids of segments whose zones are complete
        self._latest: tuple[bytes, Answer] | None = None  # see `look_up_once`
        self._tested: Answer | None = None

    def look_up_once(self, predicate: Predicate, key: bytes) -> Answer:
        """Return which rows may pass a predicate; it is remembered until another one is asked for.

        Readers that read fragment by fragment ask for the same each time.

        Args:
            predicate: The predicate.
            key: Tells the predicate from others.
        """
        latest = self._latest
        if latest is None or latest[0] != key:
            latest = self._latest = key, self.look_up(predicate)
        return latest[1]

    def look_up(self, predicate: Predicate, wanted: int | None = None) -> Answer:
        """Return which rows may pass a predicate.

        Args:
            predicate: The predicate.
            wanted: How many of the first rows are read; None for all.
        """
        query = _Query(self)
        query.plan_all(predicate)
        found = None if query.is_scanned(predicate, wanted) else query.rows_of(predicate)
        rows = None if found is None else found.rows
        if rows is not None and len(rows.starts) > self._max_ranges_of(predicate):
            query.notes.append(f"{rows.num_rows:,} scattered rows are scanned quicker")
            rows = None
        if found is None or rows is None:
            return Answer(None, tuple(query.notes))
        covered = set(rows.covered.tolist())
        candidates: dict[int, Sequence[RowRange] | None] = {
            number: None for number in self.fragments.ids.tolist() if number not in covered
        }
        candidates.update((number, rows.ranges_of(number)) for number in rows.fragments.tolist())
        return Answer(candidates, tuple(query.notes), found.claims)

    def is_tested(self, answer: Answer) -> bool:
        """Tell whether all rows that an answer names were tested; see `note_tested`."""
        return answer is self._tested

    def note_tested(self, answer: Answer) -> None:
        """Remember that all rows that an answer names pass what indices say of them."""
        self._tested = answer

    def open(self, index: ColumnIndex, segment: IndexSegment) -> OpenSegment | None:
        """Return a segment, open; None if it cannot be read, or covers nothing."""
        if self.broken(segment) is not None or not len(segment.covered):
            return None
        try:
            return open_segment(index.kind, segment, self._files, self._rows)
        except BROKEN as error:
            self.give_up(segment, error)
            return None

    def check_zones(self, segment: IndexSegment, zones: Zones) -> None:
        """Check that zones have all rows of the fragments that they cover.

        Raises:
            CorruptFile: They lack some.
        """
        if segment.index.uuid in self._checked:
            return
        live = self.coverage.live_rows(segment)
        if live is not None:
            zones.check_fragments(segment.covered, live)
        self._checked.add(segment.index.uuid)

    def give_up(self, segment: IndexSegment, error: Exception) -> None:
        """Use a segment no more, and say so once."""
        if self.broken(segment) is None:
            self._latest = None
        super().give_up(segment, error)

    @property
    def max_read(self) -> int:
        """The rows of an index that are read quicker than those of the table are scanned."""
        return self.most(_READ_SHARE, _SMALL_ROWS)

    def max_read_of(self, opened: OpenSegment, test: ColumnTest) -> int:
        """Return how many rows of a segment are read quicker for a test than a table is scanned.

        Single values are looked for in the pages of a BTREE, whose other rows are not tested. Zones
        are read as they lie in the table, however many rows they have.
        """
        if isinstance(opened, Zones):
            return max(int(_ZONES_SHARE * self._rows), _SMALL_ROWS)
        is_quick = isinstance(opened, BTree) and opened.is_cheap and is_of_values(test)
        return self.most(1, _SMALL_ROWS) if is_quick else self.max_read

    def is_near(self, address: int) -> bool:
        """Return whether a scan of all rows comes to a row soon."""
        counts = self.fragments.row_counts
        position = self.fragments.positions.get(address >> OFFSET_BITS)
        if counts is None or position is None:
            return False
        before = int(counts[0][:position].sum()) + (address & ((1 << OFFSET_BITS) - 1))
        return before < _NEAR_ROWS

    @property
    def max_ranges(self) -> int:
        """The ranges of rows that are read quicker than all rows are scanned."""
        return self.most(_RANGES_SHARE, _SMALL_RANGES)

    def _max_ranges_of(self, predicate: Predicate) -> int:
        """Return how many ranges of rows that may pass a predicate are read quicker than all."""
        if tests_lists(predicate):  # which take long to decode, and to test
            return self.most(_PASSED_SHARE, _SMALL_RANGES)
        return self.max_ranges

    def most(self, share: float, least: int) -> int:
        """Return a share of the rows of the table, within the limits of a look-up.

        Args:
            share: The share.
            least: Number of rows, or ranges, that are always allowed.
        """
        return min(max(int(share * self._rows), least), MAX_ROWS)

    @cached_property
    def _rows(self) -> int:
        """Number of rows of the table, about."""
        rows = self.fragments.physical_rows()
        return MAX_ROWS if rows is None else rows


class _SampledPage(NamedTuple):
    """Rows of one page of a segment that pass a test.

    Attributes:
        plan: How the index answers the test.
        segment: The segment.
        opened: The segment, open.
        numbers: The numbers of the rows, ascending.
    """

    plan: Plan
    segment: IndexSegment
    opened: BTree
    numbers: UInts


class _ReadTest(NamedTuple):
    """What the segments of an index say of a test.

    Attributes:
        found: The rows that each readable segment names; None where a scan is quicker.
        note: Why they are not read, if they are not.
    """

    found: list[tuple[IndexSegment, RowSet]] | None
    note: str | None = None


class _NamedRows(NamedTuple):
    """Rows that indices name, and what they claim of them."""

    rows: RowSet
    claims: tuple[IndexClaim, ...]


class _Query:
    """One look-up.

    Args:
        indices: The indices of the version.
    """

    def __init__(self, indices: TableIndices) -> None:
        self.notes: list[str] = []
        self._indices = indices
        self._plans: dict[int, Plan | None] = {}  # by the id of the test's object
        self._read: dict[int, _ReadTest] = {}  # the same, of what was read ahead

    def plan_all(self, predicate: Predicate) -> None:
        """Plan all tests of a predicate: on a remote store, their segments are opened together."""
        self._indices.do_each(self._plan, list(tests_of(predicate)))

    def rows_of(self, predicate: Predicate) -> _NamedRows | None:
        """Return the rows that may pass a predicate; None where no index tells."""
        if isinstance(predicate, ColumnTest):
            return self._rows_of_test(predicate)
        if isinstance(predicate, AnyOf):
            return self._rows_of_any(predicate)
        return self._rows_of_all(predicate)

    def is_scanned(self, predicate: Predicate, wanted: int | None) -> bool:
        """Tell from one page that a scan is quicker than the many pages of a test.

        Of several tests, the rows that pass all may be few.

        Args:
            predicate: The predicate.
            wanted: How many of the first rows are read; None for all.
        """
        plan = self._plan(predicate) if isinstance(predicate, ColumnTest) else None
        if plan is None or plan.rows > self._indices.max_read:
            return False
        # To read one page of a remote index takes as long as to read all of them, if they are few.
        least = 0 if self._indices.is_local else _REQUEST_ROWS
        is_broad = plan.rows > max(self._indices.max_ranges, least)
        is_short = wanted is not None and plan.rows > _SMALL_ROWS
        if not (is_broad or is_short):
            return False
        assert isinstance(predicate, ColumnTest)
        page = self._sample(plan, predicate)
        if page is None:
            return False
        return (is_broad and self._is_scattered(page)) or (
            is_short and wanted is not None and self._comes_soon(page, wanted)
        )

    def _is_scattered(self, page: _SampledPage) -> bool:
        """Tell whether rows like those of a page are in more ranges than are read."""
        plan, most = page.plan, self._indices.max_ranges
        ranges = 1 + int(np.count_nonzero(np.diff(page.numbers) != 1))
        if len(page.numbers) < _SAMPLED_ROWS or plan.rows * ranges <= most * len(page.numbers):
            return False
        self.notes.append(
            f"index {plan.source.name}: about {plan.rows:,} scattered rows are scanned quicker"
        )
        return True

    def _comes_soon(self, page: _SampledPage, wanted: int) -> bool:
        """Tell whether a scan comes to so many rows of a page soon."""
        if not 0 < wanted <= len(page.numbers):
            return False
        try:
            rows = self._indices.coverage.rows_of(page.segment, page.numbers, page.opened.entries)
        except BROKEN as error:
            self._give_up(page.segment, error)
            return False
        at = int(np.searchsorted(np.cumsum(rows.ends - rows.starts), wanted))
        if at == len(rows.ends) or not self._indices.is_near(int(rows.ends[at]) - 1):
            return False
        self.notes.append(
            f"index {page.plan.source.name}: not read, a scan comes to {plural(wanted, 'row')} "
            f"of about {page.plan.rows:,} soon"
        )
        return True

    def _sample(self, plan: Plan, test: ColumnTest) -> _SampledPage | None:
        """Return the rows of one page of a BTREE that pass a test; None for other indices."""
        segment, opened, pages = max(plan.segments, key=lambda one: len(one[2]))
        if not isinstance(opened, BTree):
            return None
        try:
            return _SampledPage(plan, segment, opened, np.sort(opened.sample(pages, test)))
        except UnfitTest:  # the scan says so, if such a row is left
            return None
        except BROKEN as error:
            self._give_up(segment, error)
            return None

    def _give_up(self, segment: IndexSegment, error: Exception) -> None:
        """Use a segment no more, which other plans have, too."""
        self._indices.give_up(segment, error)
        self._plans.clear()

    def _rows_of_any(self, predicate: AnyOf) -> _NamedRows | None:
        if self._rows_to_read(predicate) is None:
            return None
        self._read_ahead(predicate)
        parts = []
        for part in predicate.parts:
            found = self.rows_of(part)
            if found is None:
                return None
            parts.append(found)
        return _NamedRows(
            union([part.rows for part in parts]), of_any([part.claims for part in parts])
        )

    def _rows_of_all(self, predicate: AllOf) -> _NamedRows | None:
        """Return the rows that pass all conditions that indices know, the rarest one first."""
        found, parts = self._rows_of_bitmaps(predicate)
        self._read_ahead(AllOf(tuple(parts)))
        sizes = [(self._rows_to_read(part), part) for part in parts]
        known = [(size, part) for size, part in sizes if size is not None]
        for _, part in sorted(known, key=lambda one: one[0]):
            if found is not None and self._is_enough(found.rows):
                break
            other = self.rows_of(part)
            if found is None or other is None:
                found = found or other
                continue
            common = intersection(found.rows, other.rows)
            found = _NamedRows(common, (*found.claims, *other.claims))
        return found

    def _rows_of_bitmaps(self, predicate: AllOf) -> tuple[_NamedRows | None, Sequence[Predicate]]:
        """Join the bitmaps of those conditions that have some, where they cover the same rows.

        Returns:
            The rows that pass these conditions, if there are several; and the other conditions.
        """
        planned = [
            (part, plan)
            for part in predicate.parts
            if isinstance(part, ColumnTest) and (plan := self._plan(part)) is not None
            if plan.rows <= self._indices.max_read and self._is_of_bitmaps(plan)
        ]
        if len(planned) < 2 or len({plan.covered for _, plan in planned}) > 1:
            return None, predicate.parts
        found = self._indices.do_each(self._bitmaps_of, [plan for _, plan in planned])
        rows = [one for one in found if one is not None]
        most = self._indices.most(_PASSED_SHARE, _SMALL_ROWS)
        addresses = common_addresses(rows, most) if len(rows) == len(found) else None
        if addresses is None:
            return None, predicate.parts
        claims = []
        for (test, plan), own in zip(planned, rows, strict=True):
            segments = tuple(segment for segment, _, _ in plan.segments)
            self._note_use(plan, sum(map(len, own.values())), len(segments))
            claims.append(IndexClaim(plan.covered, test, segments))
        covered = np.array(sorted(planned[0][1].covered), np.int64)
        left = [part for part in predicate.parts if all(part is not test for test, _ in planned)]
        return _NamedRows(of_addresses(addresses, covered), tuple(claims)), left

    def _is_of_bitmaps(self, plan: Plan) -> bool:
        """Tell whether BITMAP segments that name rows by addresses answer a test."""
        return plan.covers_once and all(
            isinstance(opened, Bitmap) and self._indices.coverage.has_addresses(segment)
            for segment, opened, _ in plan.segments
        )

    def _bitmaps_of(self, plan: Plan) -> FragmentRows | None:
        """Return the rows that pass a test, by fragments; None if a segment cannot be read."""
        rows: FragmentRows = {}
        for segment, opened, pages in plan.segments:
            assert isinstance(opened, Bitmap)
            covered = set(segment.covered.tolist())
            try:
                rows |= rows_of_values(self._indices.coverage, segment, opened, pages, covered)
            except BROKEN as error:
                self._indices.give_up(segment, error)
                return None
        return rows

    def _note_use(self, plan: Plan, rows: int, segments: int) -> None:
        """Note that an index was asked, how many rows it named, and how many segments could be."""
        read = sum(len(pages) for _, _, pages in plan.segments)
        self.notes.append(
            f"index {plan.source.name} ({plan.source.kind}): {plural(rows, 'row')}, "
            f"{plural(read, 'page')} read, "
            f"{segments} of {plural(len(plan.source.segments), 'segment')} used"
        )

    def _read_ahead(self, predicate: Predicate) -> None:
        """Read tests of a predicate on a remote store together: those that are read anyway."""
        if self._indices.is_local:
            return
        ahead = [test for test in self._to_read(predicate) if id(test) not in self._read]
        if len(ahead) > 1:
            read = self._indices.do_each(self._read_test, ahead)
            self._read.update(zip(map(id, ahead), read, strict=True))

    def _to_read(self, predicate: Predicate) -> list[ColumnTest]:
        """Return the tests that are read for a predicate, whatever rows the others leave.

        Those that are read in about the time of a request count among these.
        """
        size = self._rows_to_read(predicate)
        if size is None:
            return []
        if isinstance(predicate, ColumnTest):
            return [predicate]
        most = max(size, _REQUEST_ROWS)
        parts = predicate.parts
        if isinstance(predicate, AllOf):
            parts = tuple(part for part in parts if (self._rows_to_read(part) or 0) <= most)
        return [test for part in parts for test in self._to_read(part)]

    def _is_enough(self, rows: RowSet) -> bool:
        is_complete = len(rows.covered) == len(self._indices.fragments)
        return is_complete and rows.num_rows <= _FEW_ROWS

    def _rows_to_read(self, predicate: Predicate) -> int | None:
        """Return how many rows of indices are read for a predicate; None where none helps."""
        if isinstance(predicate, ColumnTest):
            plan = self._plan(predicate)
            return None if plan is None else plan.rows
        sizes = [self._rows_to_read(part) for part in predicate.parts]
        if isinstance(predicate, AllOf):
            return min((size for size in sizes if size is not None), default=None)
        return sum_known(sizes)

    def _rows_of_test(self, test: ColumnTest) -> _NamedRows | None:
        plan = self._plan(test)
        if plan is None:
            return None
        found, note = self._read.get(id(test)) or self._read_test(test)
        if note is not None:
            self.notes.append(note)
        if not found:
            return None
        rows = join([each for _, each in found])
        self._note_use(plan, rows.num_rows, len(found))
        if not all(opened.is_exact_for(test) for _, opened, _ in plan.segments):
            return _NamedRows(rows, ())
        used = tuple(segment for segment, _ in found)
        return _NamedRows(rows, (IndexClaim(frozenset(rows.covered.tolist()), test, used),))

    def _read_test(self, test: ColumnTest) -> _ReadTest:
        """Return what the index of a test says of it; threads may read several tests."""
        plan = self._plan(test)
        if plan is None:
            return _ReadTest(None)
        name, most = plan.source.name, self._indices.most(_PASSED_SHARE, _SMALL_ROWS)
        if plan.rows > max(
            self._indices.max_read_of(opened, test) for _, opened, _ in plan.segments
        ):
            return _ReadTest(
                None, f"index {name}: not read, about {plan.rows:,} rows are scanned quicker"
            )

        left = most

        def read(
            part: tuple[IndexSegment, OpenSegment, Ints],
        ) -> list[tuple[IndexSegment, RowSet]] | None:
            """Return nothing of a segment that cannot be read; None for too many rows."""
            nonlocal left
            segment, opened, pages = part
            try:
                rows = self._read_segment(segment, opened, pages, test, left)
            except BROKEN as error:
                self._indices.give_up(segment, error)
                return []
            if rows is None:
                left = -1
                return None
            left -= 0 if isinstance(opened, Zones) else rows.num_rows
            return [(segment, rows)]

        try:
            parts = self._indices.do_each(read, plan.segments)
        except UnfitTest:  # the scan says so, if such a row is left
            return _ReadTest(None)
        found = [one for part in parts if part is not None for one in part]
        if None in parts or left < 0:
            return _ReadTest(None, f"index {name}: more than {most:,} rows are scanned quicker")
        return _ReadTest(found)

    def _read_segment(
        self, segment: IndexSegment, opened: OpenSegment, pages: Ints, test: ColumnTest, most: int
    ) -> RowSet | None:
        """Return the rows that a segment names; None for more than `most` that are named singly."""
        coverage = self._indices.coverage
        if isinstance(opened, Zones):
            self._indices.check_zones(segment, opened)
            if coverage.has_addresses(segment):
                return coverage.rows_of_ranges(segment, *opened.ranges_of(pages))
        numbers = opened.find(pages, test, most)
        return None if numbers is None else coverage.rows_of(segment, numbers, opened.entries)

    def _plan(self, test: ColumnTest) -> Plan | None:
        """Return the plan that reads the fewest rows for a test; None where no index helps."""
        if id(test) not in self._plans:
            over = self._indices.over(test.field_id)
            plans = [plan_with(self._indices, index, test) for index in over]
            known = [plan for plan in plans if plan is not None]
            self._plans[id(test)] = min(known, key=lambda plan: plan.rows, default=None)
        return self._plans[id(test)]


@per_version
def scalar_indices_of(version: OpenVersion) -> TableIndices | None:
    """Return the indices of a version in which filters can be looked up; None if there are none.

    Args:
        version: The version.
    """
    found = indices_of_kind(version, Coverage.scalar_indices, _say_unused)
    if found is None or not found[1]:
        return None
    section, indices = found
    return TableIndices(version.files, version.manifest.fragments, section.coverage, indices)


def _say_unused(name: str, error: LanceError) -> None:
    log = logger.info if isinstance(error, UnsupportedFeature) else logger.warning
    log("index %s is not used, rows are scanned: %s", name, error)
