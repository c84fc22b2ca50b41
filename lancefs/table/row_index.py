"""Finding rows by their ids or addresses, without reading a column.

An address says where a row is. A stable id is looked up in the row id sequences of the fragments
whose ids come near it; a sequence still lists rows that were deleted or have moved on, so that what
is found counts only where it is not deleted.

Format page: row ids and lineage, section "Row ID Index"
(`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import CorruptFile
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import Fragment
from lancefs.table.row_metadata import OFFSET_BITS, RowMetadata

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.table.row_ids import Ids, Segment

_MOST = 2**64 - 1
_MOST_OFFSET = (1 << OFFSET_BITS) - 1
# Values from one to another, both included.
Interval = tuple[int, int]


class Found(NamedTuple):
    """Rows of one fragment that were looked for.

    Attributes:
        reader: Of the fragment.
        which: Positions among what was looked for.
        offsets: Of the rows in the fragment, for each of them.
    """

    reader: FragmentReader
    which: Ints
    offsets: Ints


class RowIndex:
    """Where the rows of one version are.

    Args:
        metadata: Of the rows of the version.
        readers: Of its fragments, in scan order.
        fragments: Those fragments.
    """

    def __init__(
        self,
        metadata: RowMetadata,
        readers: Sequence[FragmentReader],
        fragments: Sequence[Fragment],
    ) -> None:
        self.metadata = metadata
        self._readers = readers
        self._fragments = fragments

    def find_ids(self, wanted: Ids) -> list[Found]:
        """Find rows by their ids; those that are deleted, or were never there, are not found.

        Args:
            wanted: Row ids, ascending, each once.

        Raises:
            MissingFile: A deletion file, or one with row ids, is gone.
            CorruptFile: One of them is damaged, or two rows have the same id.
        """
        if not self.metadata.is_stable:
            return self.find_addresses(wanted)
        found: dict[int, list[tuple[Ints, Ints]]] = {}
        for position, first, segment in self._overlapping(wanted):
            which, offsets = segment.find(wanted)
            if len(which):
                found.setdefault(position, []).append((which, offsets + first))
        rows = [
            _live(self._readers[position], *map(np.concatenate, zip(*parts, strict=True)))
            for position, parts in found.items()
        ]
        _check_unique(rows, wanted)
        return [one for one in rows if len(one.which)]

    def find_addresses(self, wanted: Ids) -> list[Found]:
        """Find rows by their addresses; arguments and errors as for `find_ids`."""
        fragment_ids = wanted >> np.uint64(OFFSET_BITS)
        edges = np.flatnonzero(np.diff(fragment_ids)) + 1
        rows = []
        for start, end in pairwise([0, *edges.tolist(), len(wanted)] if len(wanted) else []):
            position = self._positions.get(int(fragment_ids[start]))
            if position is not None:
                reader = self._readers[position]
                offsets = (wanted[start:end] & np.uint64(_MOST_OFFSET)).astype(np.int64)
                there = np.flatnonzero(offsets < reader.physical_rows)
                rows.append(_live(reader, there + start, offsets[there]))
        return [one for one in rows if len(one.which)]

    def ranges_of_ids(self, intervals: Sequence[Interval]) -> dict[int, list[RowRange]]:
        """Return where the rows lie whose ids are in intervals.

        Args:
            intervals: In any order.

        Returns:
            For the ids of fragments, ranges of offsets, deleted rows included; fragments that hold
            none of the rows are left out.
        """
        if not self.metadata.is_stable:
            return self.ranges_of_addresses(intervals)
        intervals = _within_bounds(intervals)
        points = np.unique(np.array([low for low, high in intervals if low == high], np.uint64))
        offsets: dict[int, list[Ints]] = {}
        for found in self.find_ids(points):
            offsets[found.reader.fragment.id] = [found.offsets]
        for low, high in intervals:
            if low < high:
                bounds = np.array([low, high], np.uint64)
                for position, first, segment in self._overlapping(bounds, is_interval=True):
                    ids = segment.at(np.arange(segment.count))
                    rows = np.flatnonzero((ids >= bounds[0]) & (ids <= bounds[1])) + first
                    offsets.setdefault(self._fragments[position].id, []).append(rows)
        joined = {key: np.unique(np.concatenate(parts)) for key, parts in offsets.items()}
        return {key: list(as_ranges(rows)) for key, rows in joined.items() if len(rows)}

    def ranges_of_addresses(self, intervals: Sequence[Interval]) -> dict[int, list[RowRange]]:
        """Return where the rows lie whose addresses are in intervals; as for `ranges_of_ids`."""
        ranges: dict[int, list[RowRange]] = {}
        known = np.array(sorted(self._positions), np.int64)
        for low, high in sorted(_within_bounds(intervals)):
            first, last = np.searchsorted(known, (low >> OFFSET_BITS, (high >> OFFSET_BITS) + 1))
            for fragment_id in known[first:last].tolist():
                base = fragment_id << OFFSET_BITS
                start = max(low, base) - base
                end = min(high, base + _MOST_OFFSET) - base + 1
                _add(ranges.setdefault(fragment_id, []), start, end)
        return ranges

    @cached_property
    def _positions(self) -> dict[int, int]:
        """The position of each fragment, by its id."""
        return {fragment.id: position for position, fragment in enumerate(self._fragments)}

    @cached_property
    def _segments(self) -> tuple[list[tuple[int, int, Segment]], Ids, Ids]:
        """(fragment's position, first row, segment) of all, and their lowest and highest ids."""
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
        self, wanted: Ids, is_interval: bool = False
    ) -> Iterator[tuple[int, int, Segment]]:
        """Yield the segments that may hold some of what is wanted."""
        segments, lowest, highest = self._segments
        if is_interval:
            hits = (lowest <= wanted[1]) & (highest >= wanted[0])
        else:
            first = np.searchsorted(wanted, lowest)
            hits = first < np.searchsorted(wanted, highest, side="right")
        for position in np.flatnonzero(hits):
            yield segments[position]


def _within_bounds(intervals: Sequence[Interval]) -> list[Interval]:
    """Cut intervals to what ids can be."""
    return [
        (max(low, 0), min(high, _MOST)) for low, high in intervals if low <= _MOST and high >= 0
    ]


def among(offsets: Ints, ascending: Ints) -> Mask:
    """Tell which offsets are among others, which are in order."""
    if not len(ascending):
        return np.zeros(len(offsets), np.bool_)
    at = np.minimum(np.searchsorted(ascending, offsets), len(ascending) - 1)
    found: Mask = ascending[at] == offsets
    return found


def _live(reader: FragmentReader, which: Ints, offsets: Ints) -> Found:
    """Leave out the deleted ones of the rows found in a fragment, and sort the others."""
    deleted = reader.deleted
    if len(deleted):
        kept = ~among(offsets, deleted)
        which, offsets = which[kept], offsets[kept]
    order = np.argsort(offsets, kind="stable")
    return Found(reader, which[order], offsets[order])


def _check_unique(rows: Sequence[Found], wanted: Ids) -> None:
    which = np.concatenate([one.which for one in rows]) if rows else np.empty(0, np.int64)
    values, counts = np.unique(which, return_counts=True)
    if (counts > 1).any():
        row_id = int(wanted[values[counts > 1][0]])
        where = [one.reader.fragment.id for one in rows if row_id in wanted[one.which]]
        raise CorruptFile(
            f"two rows have the stable id {row_id}, in fragments {', '.join(map(str, where))}"
        )


def _add(ranges: list[RowRange], start: int, end: int) -> None:
    """Add a range to ranges in order, none of which starts after it."""
    if ranges and start <= ranges[-1][1]:
        ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
    else:
        ranges.append((start, end))
