"""The rows of a segment of an index that are nearest to a query, by what the index stores.

A segment may name rows that are deleted, or that it does not cover any more. Only the nearest rows
are looked for in the table, and more of them where too few are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lancefs.index.row_sets import Addresses, is_among
from lancefs.index.segments import Coverage, IndexSegment
from lancefs.index.vectors.distances import Floats, Vectors
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.index.vectors.probing import partitions_to_probe
from lancefs.search.best_rows import Ranked, in_bounds, nearest_of

# Candidates that are kept before those that are not among the nearest are dropped.
_MOST_WAITING = 2 * 1024 * 1024
# Rows more than are wanted that are looked for in the table at first.
_SPARE = 16

_NOTHING = Ranked(np.empty(0, np.uint64), np.empty(0, np.float32))


@dataclass
class OpenVectors:
    """A segment that is searched, and what was read of it.

    Attributes:
        segment: The segment.
        partitions: Its partitions.
        coverage: Says where the rows are that it names.
        allowed: Row ids of the rows that may be found, ascending; None for all rows.
        probed: Partitions that were read, for all queries.
        compared: Vectors that were compared.
    """

    segment: IndexSegment
    partitions: VectorPartitions
    coverage: Coverage
    allowed: Addresses | None = None
    probed: int = 0
    compared: int = 0

    def nearest(
        self,
        query: Vectors,
        k: int,
        factor: int,
        nprobes: int | None,
        lowest: float | None = None,
        limit: float | None = None,
    ) -> Ranked:
        """Return the rows that are nearest by what the index stores, and their distances by that.

        Args:
            query: The query.
            k: How many rows are wanted in the end.
            factor: How many times as many are returned.
            nprobes: Partitions that are looked at; None for those that are likely to have the
                rows, and as many more as are needed for so
                many rows.
            lowest: The least distance that counts.
            limit: All distances that count are below it.

        Raises:
            CorruptFile: The segment is damaged.
        """
        normalized = self.partitions.normalized(query)
        order, distances = self.partitions.nearest(normalized)
        count = nprobes or partitions_to_probe(self.partitions.metric, k, distances)
        k *= factor
        best, done = _NOTHING, 0
        while done < len(order) and len(best.row_ids) < k and (not done or nprobes is None):
            numbers = order[done : done + max(count, done)].tolist()
            part = self._nearest_in(self._compared(normalized, numbers, lowest, limit), k)
            best, done = nearest_of([best, part], k), done + len(numbers)
        return best

    def _compared(
        self, query: Vectors, numbers: Sequence[int], lowest: float | None, limit: float | None
    ) -> Iterator[Ranked]:
        """Yield the vectors of partitions that may be found, with their row numbers."""
        self.probed += len(numbers)
        for row_numbers, distances in self.partitions.compare(query, numbers):
            self.compared += len(row_numbers)
            counts = in_bounds(distances, lowest, limit)
            yield Ranked(row_numbers[counts], distances[counts])

    def _nearest_in(self, parts: Iterator[Ranked], k: int) -> Ranked:
        """Return the nearest rows of parts, which have row numbers in place of ids."""
        best, waiting, rows = _NOTHING, list[Ranked](), 0
        for part in parts:
            waiting.append(part)
            rows += len(part.row_ids)
            if rows > _MOST_WAITING:
                best = nearest_of([best, self._nearest_rows(waiting, k)], k)
                waiting, rows = [], 0
        return nearest_of([best, self._nearest_rows(waiting, k)], k)

    def _nearest_rows(self, parts: Sequence[Ranked], k: int) -> Ranked:
        """Return the nearest rows of some vectors."""
        numbers = np.concatenate([np.empty(0, np.uint64), *(part.row_ids for part in parts)])
        distances = np.concatenate([np.empty(0, np.float32), *(part.distances for part in parts)])
        if self.allowed is not None:
            numbers, distances = self._allowed(numbers, distances)
        wanted = k + _SPARE
        while True:
            near = _least(distances, wanted)
            which, row_ids = self.coverage.locate(self.segment, numbers[near])
            if len(which) >= k or len(near) == len(numbers):
                return nearest_of([Ranked(row_ids, distances[near][which])], k)
            wanted *= 4

    def _allowed(self, numbers: Addresses, distances: Floats) -> tuple[Addresses, Floats]:
        """Return the row numbers of rows that may be found."""
        assert self.allowed is not None
        if self.coverage.has_row_ids(self.segment):
            kept = np.flatnonzero(is_among(numbers, self.allowed))
        else:
            which, row_ids = self.coverage.locate(self.segment, numbers)
            kept = which[is_among(row_ids, self.allowed)]
        return numbers[kept], distances[kept]


def _least(distances: Floats, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the positions of the least distances, with all that are equal to the last one."""
    if len(distances) <= count:
        return np.arange(len(distances))
    return np.flatnonzero(distances <= np.partition(distances, count - 1)[count - 1])
