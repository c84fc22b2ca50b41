"""Zones: ranges of offsets in fragments, of which an index says what values they may hold.

Zones hold all rows that lived when the index was built. Zones of the same rows may say different
values: pylance keeps those of before a column was rewritten, beside the new ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Ints, Mask, UInts
from lancefs.datafile.row_ranges import is_among
from lancefs.errors import CorruptFile
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest
from lancefs.table.row_metadata import OFFSET_BITS

COLUMNS = ("fragment_id", "zone_start", "zone_length")


class Zones(ABC):
    """One segment of an index over zones, open.

    Args:
        file: The file of the zones.
        fragments: The id of the fragment of each zone.
        starts: The offset of its first row.
        lengths: Its number of rows, deleted ones included.

    Raises:
        CorruptFile: The zones cannot be.
    """

    entries = None

    def __init__(
        self, file: IndexReader, fragments: pa.Array, starts: pa.Array, lengths: pa.Array
    ) -> None:
        self._file = file
        columns = (fragments, starts, lengths)
        if any(one.null_count or not pa.types.is_integer(one.type) for one in columns):
            raise file.damage("numbers in each zone were expected")
        numbers = [numbers_of(one).astype(np.uint64) for one in columns]
        if any((one >= 1 << OFFSET_BITS).any() for one in numbers):
            raise file.damage("a zone beyond the rows that a fragment may have")
        self._starts = (numbers[0] << np.uint64(OFFSET_BITS)) + numbers[1]
        self._lengths: Ints = numbers[2].astype(np.int64)
        if (numbers[1] + numbers[2] > 1 << OFFSET_BITS).any():
            raise file.damage("a zone beyond the rows that a fragment may have")

    @property
    @abstractmethod
    def cost(self) -> int:
        """Memory in bytes, about."""

    def is_exact_for(self, test: ColumnTest) -> bool:
        """Whether all rows that it finds for a test pass; otherwise they may pass."""
        return False

    @abstractmethod
    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the zones that may hold values that pass a test; None if it has no answer."""

    def rows_in(self, pages: Ints) -> int:
        """Return how many rows zones have."""
        return int(self._lengths[pages].sum())

    def find(self, pages: Ints, test: ColumnTest, most: int) -> UInts | None:
        """Return the addresses of the rows of zones; None for more than `most`."""
        if self.rows_in(pages) > most:
            return None
        ranges = zip(*(ends.tolist() for ends in self.ranges_of(pages)), strict=True)
        parts = [np.arange(start, end, dtype=np.uint64) for start, end in ranges]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def ranges_of(self, pages: Ints) -> tuple[UInts, UInts]:
        """Return the addresses of the rows of zones, as ascending ranges: their starts and ends."""
        pages = pages[self._lengths[pages] > 0]
        starts = self._starts[pages]
        ends = starts + self._lengths[pages].astype(np.uint64)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        begins = np.ones(len(starts), np.bool_)
        begins[1:] = starts[1:] > ends[:-1]
        return starts[begins], ends[np.append(begins[1:], True)[: len(ends)]]

    def check_fragments(self, covered: Ints, live_rows: Ints) -> None:
        """Check that zones have all live rows of some fragments.

        Args:
            covered: Ids of the fragments, ascending.
            live_rows: How many live rows each of them has.

        Raises:
            CorruptFile: A fragment has more rows than its zones.
        """
        if (self._rows_of(covered) < live_rows).any():
            raise CorruptFile(f"{self._file.url}: zones lack rows of the fragments they cover")

    def _rows_of(self, fragments: Ints) -> Ints:
        """Return how many rows of some fragments, whose ids ascend, lie in zones."""
        _, is_own = self._among(fragments)
        starts, ends = self.ranges_of(np.flatnonzero(is_own))
        at = np.searchsorted(fragments, (starts >> np.uint64(OFFSET_BITS)).astype(np.int64))
        rows: Ints = np.bincount(at, ends - starts, len(fragments)).astype(np.int64)
        return rows

    def _among(self, fragments: Ints) -> tuple[Ints, Mask]:
        """Find the zones of some fragments, whose ids ascend.

        Returns:
            For each of these zones, the position of its fragment; and which zones they are.
        """
        numbers = (self._starts >> np.uint64(OFFSET_BITS)).astype(np.int64)
        is_own = is_among(numbers, fragments)
        return np.searchsorted(fragments, numbers[is_own]), is_own
