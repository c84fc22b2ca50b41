"""How an index answers a test: which of its segments are read, and which pages of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lancefs.datafile.buffers import Ints
from lancefs.index.column_indices import BROKEN
from lancefs.index.open_segments import OpenSegment
from lancefs.index.predicates import ColumnTest, UnfitTest
from lancefs.index.segments import ColumnIndex, IndexSegment

if TYPE_CHECKING:
    from lancefs.index.lookup import TableIndices


class Plan(NamedTuple):
    """How an index answers a test.

    Attributes:
        source: The index.
        segments: The segments that are read, open, with the pages that are read of each.
        rows: Rows of these pages, about.
    """

    source: ColumnIndex
    segments: Sequence[tuple[IndexSegment, OpenSegment, Ints]]
    rows: int

    @property
    def covered(self) -> frozenset[int]:
        """Ids of the fragments that the segments cover."""
        return frozenset().union(*(segment.covered.tolist() for segment, _, _ in self.segments))

    @property
    def covers_once(self) -> bool:
        """Whether no fragment is covered by two segments, which may both name its rows."""
        return len(self.covered) == sum(len(segment.covered) for segment, _, _ in self.segments)


def plan_with(indices: TableIndices, index: ColumnIndex, test: ColumnTest) -> Plan | None:
    """Return how an index answers a test; None if it does not.

    Args:
        indices: The indices of the version.
        index: One of them.
        test: The test.
    """

    def plan(segment: IndexSegment) -> list[tuple[IndexSegment, OpenSegment, Ints, int]] | None:
        """Return nothing of a segment that cannot be read; None where it does not answer."""
        opened = indices.open(index, segment)
        if opened is None:
            return []
        try:
            pages = opened.pages_for(test)
            return None if pages is None else [(segment, opened, pages, opened.rows_in(pages))]
        except BROKEN as error:
            indices.give_up(segment, error)
            return []

    try:
        planned = indices.do_each(plan, index.segments)
    except UnfitTest:  # the scan says so, if such a row is left
        return None
    known = [one for one in planned if one is not None]
    if len(known) < len(planned):
        return None
    parts = [part for one in known for part in one]
    segments = [(segment, opened, pages) for segment, opened, pages, _ in parts]
    rows = sum(rows for *_, rows in parts)
    return Plan(index, segments, rows) if segments else None
