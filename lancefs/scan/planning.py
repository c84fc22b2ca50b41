"""Planning a scan: which rows of its fragments it reads, and in which morsels.

Rows that cannot pass the filter are left out as far as that is known without reading columns: row
ids and addresses that the filter names, the indices of the table, what earlier scans have seen of
the values of zones of rows, and missing values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import count_rows
from lancefs.forks import cached_property
from lancefs.scan.morsels import Morsel
from lancefs.scan.pace import Pace
from lancefs.scan.request import ScanRequest
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import (
    FragmentReaders,
    are_several_local,
    by_fragment,
    live_ends,
    positions_of,
)
from lancefs.table.fragment_run import FragmentSource, in_runs, many_in_runs
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from lancefs.index.lookup import Answer
    from lancefs.scan.conditions import Condition
    from lancefs.scan.fragment_ranges import FragmentRanges
    from lancefs.scan.intervals import ValueInterval


class WantedPart(NamedTuple):
    """The rows that a scan decodes: without those before `offset` and after `limit`, if known.

    Attributes:
        fragments: The fragments to decode.
        first: Offset of the first row to decode in the first fragment.
        unwanted: Rows at the end of the last fragment that are not decoded.
        skip: Decoded rows that are dropped before the first batch.
    """

    fragments: Sequence[FragmentReader]
    first: int = 0
    unwanted: int = 0
    skip: int = 0


class ScanPlan:
    """Which rows of its fragments a scan reads, and in which morsels.

    Args:
        request: What the scan is to read.
    """

    def __init__(self, request: ScanRequest) -> None:
        self._request = request

    def candidates(self) -> Mapping[int, Sequence[RowRange] | None] | None:
        """Return ranges of rows that may pass, by fragment id; None where all rows may.

        A filter that names row ids or addresses tells these ranges without reading a column. If it
        does not, the indices of the table are asked.
        """
        if self._named is not None:
            return self._named
        answer = self.answer
        return None if answer is None else answer.candidates

    @property
    def answer(self) -> Answer | None:
        """What the indices of the table say of the filter, if they are asked."""
        if self._request.index_use is None or self._named is not None:
            return None
        return self._request.index_use.answer

    def claimed_ends(self, fragments: Sequence[FragmentReader]) -> dict[int, int]:
        """Return the offset after the last row that indices name in a fragment, by fragment id."""
        answer = self.answer
        if answer is None or not answer.claims or answer.candidates is None:
            return {}
        ends = {}
        for position in positions_of(fragments, answer.candidates.keys()):
            number = fragments[position].fragment.id
            candidates = answer.candidates[number]
            if candidates and answer.claims_in(number):
                ends[number] = min(candidates[-1][1], fragments[position].physical_rows)
        return ends

    @cached_property
    def ranged_fields(self) -> tuple[Field, ...]:
        """The columns of the filter whose value ranges are recorded."""
        fields = tuple(
            field
            for field in self._request.filter_fields
            if field.name in self._intervals and field.id not in self._request.filter_forms.validity
        )
        root = self.local_root if fields else None
        if root is not None:
            from lancefs.scan.range_files import load

            load(root)
        return fields

    @property
    def local_root(self) -> str | None:
        """The directory of the table of the fragments; None if it is remote."""
        fragments = self._request.fragments
        if isinstance(fragments, FragmentReaders) and fragments.are_local:
            return fragments.root
        return None

    @cached_property
    def value_ranges(self) -> FragmentRanges | None:
        """What earlier scans have seen of the filter's columns; None where that is not asked."""
        if not self.ranged_fields:
            return None
        from lancefs.scan.fragment_ranges import FragmentRanges

        request = self._request
        return FragmentRanges(request.fragments, self.ranged_fields, self._intervals, request.stats)

    @cached_property
    def passing_whole(self) -> FragmentReaders | None:
        """The fragments that may hold rows that pass, of many local ones with known ranges.

        None where they are few or remote, or a range is not known.
        """
        ranges = self.value_ranges
        if ranges is None or not are_several_local(self._request.fragments):
            return None
        return None if self.candidates() is not None else ranges.passing_readers()

    def wanted_part(self) -> WantedPart:
        """Leave out what lies before `offset` and after `limit`; a filter must see all rows."""
        request = self._request
        skip, fragments = request.offset, request.fragments
        if request.filter is not None:
            return WantedPart(fragments, skip=skip)
        last, unwanted = self._find_last(fragments)
        if last + 1 < len(fragments):
            fragments = fragments[: last + 1]
        if not skip:
            return WantedPart(fragments, unwanted=unwanted)
        holders = by_fragment(fragments, np.array([skip]))
        for position, rows in holders:
            # From its beginning, batches are cut where they are without `offset`, also where the
            # first rows are deleted.
            first = int(fragments[position].offsets(rows)[0]) if rows[0] else 0
            return WantedPart(fragments[position:], first, unwanted)
        return WantedPart(())

    def _find_last(self, fragments: Sequence[FragmentReader]) -> tuple[int, int]:
        """Find the last row that `limit` lets through, if metadata alone tells where it is.

        Returns:
            The position of its fragment, and how many rows of that fragment lie behind it for
            certain: any of them may be deleted.
        """
        request = self._request
        ends = None if request.limit is None else live_ends(fragments)
        if request.limit is None or ends is None or not len(ends):
            return len(fragments) - 1, 0
        wanted = min(request.offset + request.limit, int(ends[-1]))
        position = int(ends.searchsorted(wanted))
        return position, int(ends[position]) - wanted

    def morsels(self, part: WantedPart, pace: Pace) -> Iterator[Morsel]:
        """Yield the morsels of a part of the rows."""
        first = part.first
        for fragment, candidates in self._sources(part.fragments):
            total = fragment.physical_rows
            if part.unwanted and fragment.fragment_ids[-1] == part.fragments[-1].fragment.id:
                total -= part.unwanted
            if candidates is None:
                yield from pace.split(Morsel(fragment, min(first, total), total))
            else:
                yield from pace.split(self.morsel_of(fragment, candidates))
            first = 0

    def morsel_of(self, fragment: FragmentSource, candidates: Sequence[RowRange]) -> Morsel:
        """Return the rows of a fragment from its first candidate to its last one."""
        total = fragment.physical_rows
        start = min(candidates[0][0], total) if candidates else total
        end = min(candidates[-1][1], total) if candidates else total
        are_few = count_rows(candidates) <= self._request.settings.few_candidates
        are_few &= self.candidates() is not None  # others pass for what was seen of their zone
        answer = self.answer
        claims = () if answer is None else answer.claims_in(fragment.fragment_ids[0])
        return Morsel(fragment, start, end, candidates, has_few_candidates=are_few, claims=claims)

    def _sources(
        self, fragments: Sequence[FragmentReader]
    ) -> Iterator[tuple[FragmentSource, Sequence[RowRange] | None]]:
        """Yield fragments and runs, with the ranges of rows that may pass; None for all rows."""
        candidates = self.candidates()
        if candidates is None:
            yield from self._joined_sources(fragments)
            return
        stats, done = self._request.stats, 0
        for position in positions_of(fragments, candidates.keys()):
            stats.fragments_skipped += position - done
            done = position + 1
            fragment = fragments[position]
            yield fragment, candidates[fragment.fragment.id]
        stats.fragments_skipped += len(fragments) - done

    def _joined_sources(
        self, fragments: Sequence[FragmentReader]
    ) -> Iterator[tuple[FragmentSource, Sequence[RowRange] | None]]:
        """Yield fragments, and runs of small ones, where nothing names the rows that may pass.

        The consumer may stop after the first fragment. Where fragments are many, a short run begins
        with it and the next runs are longer; otherwise it is read alone.
        """
        request = self._request
        most_rows = max(request.batch_rows, request.settings.batch_rows)
        if request.is_collected:
            most_rows = max(most_rows, request.settings.table_run_rows)
        whole = self._many_whole(fragments)
        if whole is not None:
            first = most_rows if request.is_collected else request.settings.first_run_rows
            yield from ((run, None) for run in many_in_runs(whole, most_rows, first))
            return
        alone = 0 if request.is_remote_bulk else 1
        selected = self._select_fragments(fragments)
        for is_whole, group in groupby(selected, lambda each: each[1] is None):
            if is_whole:
                left = (fragment for fragment, _ in group)
                runs = in_runs(left, most_rows)
                yield from ((source, None) for source in chain(islice(left, alone), runs))
            else:
                yield from group
            alone = 0

    def _many_whole(self, fragments: Sequence[FragmentReader]) -> FragmentReaders | None:
        """Return many local fragments that are read whole; None where each is looked at first."""
        passing, ranges = self.passing_whole, self.value_ranges
        if passing is not None or not are_several_local(fragments):
            return passing
        return fragments if ranges is None or ranges.are_unseen else None

    @cached_property
    def _intervals(self) -> Mapping[str, ValueInterval]:
        """The intervals that the filter sets to columns whose value ranges are recorded."""
        request = self._request
        if request.filter is None:
            return {}
        from lancefs.scan.fragment_ranges import are_worthwhile
        from lancefs.scan.value_ranges import has_range

        if not are_worthwhile(request.fragments):
            return {}

        schema = pa.schema([field.to_arrow() for field in request.filter_fields])
        intervals = request.filter.intervals(schema)
        return {
            name: each for name, each in intervals.items() if has_range(schema.field(name).type)
        }

    def _select_fragments(
        self, fragments: Sequence[FragmentReader]
    ) -> Iterator[tuple[FragmentReader, Sequence[RowRange] | None]]:
        """Yield fragments that may hold rows that pass, as far as earlier scans have seen.

        With the ranges of these rows; None for all.
        """
        if self.value_ranges is not None:  # of all fragments: a filter has to see each
            return self.value_ranges.passing()
        return ((fragment, None) for fragment in fragments if self._may_pass(fragment))

    def _may_pass(self, fragment: FragmentReader) -> bool:
        """Return whether a fragment may hold rows that pass, as far as its metadata tells.

        Reading the metadata of small or remote fragments takes as long as reading the rows.
        """
        request = self._request
        missing = set() if request.filter is None else request.filter.missing_columns
        if not missing or not fragment.is_local or fragment.is_small:
            return True
        from lancefs.table.null_free import none_missing

        needed = [column for column in request.filter_fields if column.name in missing]
        if not any(none_missing(fragment, [column]) for column in needed):
            return True
        request.stats.fragments_skipped += 1
        return False

    @cached_property
    def _named(self) -> Mapping[int, Sequence[RowRange]] | None:
        """The ranges of the rows whose ids or addresses the filter names; None for all."""
        return None if self._request.filter is None else self._named_rows(self._request.filter)

    def _named_rows(self, condition: Condition) -> Mapping[int, Sequence[RowRange]] | None:
        """Return the ranges of the rows whose ids or addresses a filter names; None for all."""
        from lancefs.index.predicates import intervals_of
        from lancefs.scan.index_predicates import index_predicate

        request = self._request
        filter_ids = {field.id for field in request.filter_fields}
        for row_field, find in (
            (ROW_ID, request.index.ranges_of_ids),
            (ROW_ADDRESS, request.index.ranges_of_addresses),
        ):
            if row_field.id in filter_ids:
                predicate = index_predicate(condition, {row_field.name: row_field})
                values = None if predicate is None else intervals_of(predicate, row_field.id)
                if values is not None:
                    return find(values)
        return None
