"""Finding rows by their ids or addresses, without reading a column.

An address names the fragment and the offset of a row. A stable id is looked up in the segments of
the row id sequences whose bounds include it. Sequences keep the ids of rows that were deleted or
moved to another fragment, so deleted rows are left out of the result.

Format page: row ids and lineage, section "Row ID Index"
(`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.row_ranges import as_ranges, is_among
from lancefs.errors import CorruptFile, locating
from lancefs.forks import cached_property
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_table import Fragments
from lancefs.table.row_metadata import OFFSET_BITS, ROW_ID, RowMetadata

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from lancefs.datafile.buffers import Ints, UInts
    from lancefs.table.row_ids import Segment

_MAX_ID = 2**64 - 1
_MAX_OFFSET = (1 << OFFSET_BITS) - 1
# (lowest value, highest value), both included.
Interval = tuple[int, int]


class Found(NamedTuple):
    """Rows of one fragment that a search found.

    Attributes:
        reader: Reader of the fragment.
        which: Position of each row's id or address among those searched for.
        offsets: Offset of each row in the fragment, ascending.
    """

    reader: FragmentReader
    which: Ints
    offsets: Ints


class RowIndex:
    """Finds the rows of one version by id or address.

    Args:
        metadata: Row metadata of the version.
        readers: Readers of the version's fragments, in scan order.
        fragments: The fragments, in the same order.
    """

    def __init__(
        self,
        metadata: RowMetadata,
        readers: Sequence[FragmentReader],
        fragments: Fragments,
    ) -> None:
        self.metadata = metadata
        self._readers = readers
        self._fragments = fragments

    def find_ids(self, ids: UInts) -> list[Found]:
        """Find rows by their ids; the result lacks deleted rows and unknown ids.

        Args:
            ids: Row ids, ascending, each once.

        Raises:
            MissingFile: A deletion file or a file of row ids is gone.
            CorruptFile: A deletion file or a row id sequence is damaged, or two rows have the same
                id.
        """
        if not self.metadata.is_stable:
            return self.find_addresses(ids)
        matches: dict[int, list[tuple[Ints, Ints]]] = {}
        for position, first, segment in self._overlapping(ids):
            reader = self._readers[position]
            with locating(
                reader.files.store.url(), f"fragment {reader.fragment.id}, {ROW_ID.name}"
            ):
                which, offsets = segment.find(ids)
            if len(which):
                matches.setdefault(position, []).append((which, offsets + first))
        rows = [
            _live_rows(self._readers[position], *_by_offset(parts))
            for position, parts in matches.items()
        ]
        if rows:
            with locating(rows[0].reader.files.store.url(), ROW_ID.name):
                _check_unique(rows, ids)
        return [found for found in rows if len(found.which)]

    def find_addresses(self, addresses: UInts) -> list[Found]:
        """Find rows by their addresses, ascending, each once; raises as `find_ids` does."""
        rows = []
        for number, start, end in slices_by_fragment(addresses):
            position = self._fragments.positions.get(number)
            if position is not None:
                reader = self._readers[position]
                offsets = (addresses[start:end] & np.uint64(_MAX_OFFSET)).astype(np.int64)
                known = int(offsets.searchsorted(reader.physical_rows))
                which: Ints = np.arange(start, start + known)
                rows.append(_live_rows(reader, which, offsets[:known]))
        return [found for found in rows if len(found.which)]

    def live_ids(self, fragment_ids: Iterable[int]) -> BitMap64:
        """Return the stable ids of the live rows of some fragments.

        Args:
            fragment_ids: The ids of the fragments, each once.

        Raises:
            LanceError: As `find_ids` does.
        """
        from pyroaring import BitMap64

        from lancefs.table.bitmaps import set_of_ids

        found, size = BitMap64(), 0
        for number in fragment_ids:
            reader = self._readers[self._fragments.positions[number]]
            ids = self.metadata.at(ROW_ID, reader, reader.live_offsets())
            size += len(ids)
            found |= set_of_ids(ids)
            if len(found) < size:
                error = CorruptFile(f"two rows have the same stable id, one in fragment {number}")
                error.path = reader.files.store.url()
                raise error
        return found

    def ranges_of_ids(self, intervals: Sequence[Interval]) -> dict[int, list[RowRange]]:
        """Return the ranges of the rows whose ids are in intervals.

        Args:
            intervals: Intervals of ids, in any order.

        Returns:
            Ranges of offsets, deleted rows included, by fragment id; fragments without such rows
            are left out.
        """
        if not self.metadata.is_stable:
            return self.ranges_of_addresses(intervals)
        intervals = _within_bounds(intervals)
        points = np.unique(np.array([low for low, high in intervals if low == high], np.uint64))
        ranges: dict[int, list[RowRange]] = {}
        for found in self.find_ids(points):
            ranges[found.reader.fragment.id] = list(as_ranges(found.offsets))
        for low, high in intervals:
            if low < high:
                bounds = np.array([low, high], np.uint64)
                for position, first, segment in self._overlapping(bounds, is_interval=True):
                    ranges.setdefault(int(self._fragments.ids[position]), []).extend(
                        (start + first, end + first)
                        for start, end in segment.rows_between(low, high)
                    )
        return {key: _merge_ranges(parts) for key, parts in ranges.items() if parts}

    def ranges_of_addresses(self, intervals: Sequence[Interval]) -> dict[int, list[RowRange]]:
        """Return the ranges of the rows whose addresses are in intervals; see `ranges_of_ids`."""
        ranges: dict[int, list[RowRange]] = {}
        known = np.sort(self._fragments.ids)
        for low, high in sorted(_within_bounds(intervals)):
            first, last = np.searchsorted(known, (low >> OFFSET_BITS, (high >> OFFSET_BITS) + 1))
            for fragment_id in known[first:last].tolist():
                base = fragment_id << OFFSET_BITS
                start = max(low, base) - base
                end = min(high, base + _MAX_OFFSET) - base + 1
                _append_range(ranges.setdefault(fragment_id, []), start, end)
        return ranges

    @cached_property
    def _segments(self) -> tuple[list[tuple[int, int, Segment]], UInts, UInts]:
        """All segments as (fragment's position, first row, segment), their lowest, highest ids."""
        segments = []
        for position in range(len(self._fragments)):
            first = 0
            for segment in self.metadata.row_ids(self._readers[position]).segments:
                segments.append((position, first, segment))
                first += segment.count
        lowest = np.array([segment.lowest for _, _, segment in segments], np.uint64)
        highest = np.array([segment.highest for _, _, segment in segments], np.uint64)
        return segments, lowest, highest

    def _overlapping(
        self, ids: UInts, is_interval: bool = False
    ) -> Iterator[tuple[int, int, Segment]]:
        """Yield the segments that may hold ids.

        Args:
            ids: The ids, ascending; for an interval its lowest and highest id.
            is_interval: Whether `ids` is an interval.
        """
        segments, lowest, highest = self._segments
        if is_interval:
            hits = (lowest <= ids[1]) & (highest >= ids[0])
        else:
            first = np.searchsorted(ids, lowest)
            hits = first < np.searchsorted(ids, highest, side="right")
        for position in np.flatnonzero(hits):
            yield segments[position]


def _within_bounds(intervals: Sequence[Interval]) -> list[Interval]:
    """Clip intervals to 64-bit ids."""
    return [
        (max(low, 0), min(high, _MAX_ID)) for low, high in intervals if low <= _MAX_ID and high >= 0
    ]


def slices_by_fragment(addresses: UInts) -> Iterator[tuple[int, int, int]]:
    """Yield the id of each fragment of ascending addresses, the first of its own, and their end."""
    if not len(addresses):
        return
    fragment_ids = addresses >> np.uint64(OFFSET_BITS)
    first = int(fragment_ids[0])
    if first == int(fragment_ids[-1]):
        yield first, 0, len(addresses)
        return
    edges = np.flatnonzero(np.diff(fragment_ids)) + 1
    for start, end in pairwise([0, *edges.tolist(), len(addresses)]):
        yield int(fragment_ids[start]), start, end


def _by_offset(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Return rows of several parts of a fragment, and their offsets, by these."""
    which, offsets = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(offsets, kind="stable")
    return which[order], offsets[order]


def _live_rows(reader: FragmentReader, which: Ints, offsets: Ints) -> Found:
    """Drop deleted rows from those found in a fragment, whose offsets ascend."""
    deleted = reader.deleted
    if len(deleted):
        is_live = ~is_among(offsets, deleted)
        which, offsets = which[is_live], offsets[is_live]
    return Found(reader, which, offsets)


def _check_unique(rows: Sequence[Found], ids: UInts) -> None:
    which = np.concatenate([found.which for found in rows])
    values, counts = np.unique(which, return_counts=True)
    if (counts > 1).any():
        row_id = int(ids[values[counts > 1][0]])
        holders = [found.reader.fragment.id for found in rows if row_id in ids[found.which]]
        raise CorruptFile(
            f"two rows have the stable id {row_id}, in fragments {', '.join(map(str, holders))}"
        )


def _merge_ranges(ranges: Sequence[RowRange]) -> list[RowRange]:
    """Return ranges in ascending order, those that touch or overlap as one."""
    joined: list[RowRange] = []
    for start, end in sorted(ranges):
        _append_range(joined, start, end)
    return joined


def _append_range(ranges: list[RowRange], start: int, end: int) -> None:
    """Append a range to ascending ranges, merged with the last one where they touch."""
    if ranges and start <= ranges[-1][1]:
        ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
    else:
        ranges.append((start, end))
