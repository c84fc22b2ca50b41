"""The rows of a segment of an index that are nearest to a query, by what the index stores.

A segment may name rows that are deleted, or that it does not cover any more. Only the nearest rows
are looked for in the table, and more of them where too few are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lancefs.datafile.buffers import Mask
from lancefs.index.row_sets import Addresses
from lancefs.index.segments import Coverage, IndexSegment
from lancefs.index.vectors.distances import Vectors
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.index.vectors.probing import partitions_to_probe
from lancefs.search.best_rows import BestRows, Ranked, nearest_of
from lancefs.search.row_bits import RowBits
from lancefs.search.vector_query import DistanceRange

# At first, this many rows more than wanted are looked up in the table. If too few of them are live,
# `_MORE` times as many are looked up next.
_SPARE = 16
_MORE = 8

_NOTHING = Ranked(np.empty(0, np.uint64), np.empty(0, np.float32))


@dataclass
class OpenVectors:
    """A segment that is searched, and what was read of it.

    Attributes:
        segment: The segment.
        partitions: Its partitions.
        coverage: Says where the rows are that it names.
        allowed: The rows that may be found; None for all rows.
        probed: Partitions that were read, for all queries.
        compared: Vectors that were compared.
    """

    segment: IndexSegment
    partitions: VectorPartitions
    coverage: Coverage
    allowed: RowBits | None = None
    probed: int = 0
    compared: int = 0

    def nearest(
        self, query: Vectors, k: int, factor: int, nprobes: int | None, bounds: DistanceRange
    ) -> Ranked:
        """Return the rows that are nearest by what the index stores, and their distances by that.

        Args:
            query: The query.
            k: How many rows are wanted in the end.
            factor: How many times as many are returned.
            nprobes: Partitions that are looked at; None for those that are likely to have the
                rows, and as many more as are needed for so many rows.
            bounds: The least distance that counts, and the limit that all are below.

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
            part = self._nearest_in(normalized, numbers, k, bounds)
            best, done = nearest_of([best, part], k), done + len(numbers)
        self.probed += done
        self.compared += self.partitions.rows_in(order[:done].tolist())
        return best

    def _nearest_in(
        self, query: Vectors, partitions: Sequence[int], k: int, bounds: DistanceRange
    ) -> Ranked:
        """Return the nearest rows of some partitions."""
        wanted = k + _SPARE
        while True:
            near = self._nearest_numbers(query, partitions, wanted, bounds)
            which, row_ids = self.coverage.locate(self.segment, near.row_ids)
            if len(which) >= k or len(near.row_ids) < wanted:
                return nearest_of([Ranked(row_ids, near.distances[which])], k)
            wanted *= _MORE

    def _nearest_numbers(
        self, query: Vectors, partitions: Sequence[int], k: int, bounds: DistanceRange
    ) -> Ranked:
        """Return the nearest vectors of some partitions, with their row numbers."""
        best = BestRows(k, *bounds)
        for numbers, distances in self.partitions.compare(query, partitions):
            if self.allowed is not None:
                near = np.flatnonzero(distances <= best.worst)
                near = near[self._are_allowed(numbers[near], self.allowed)]
                numbers, distances = numbers[near], distances[near]
            best.add(numbers, distances)
        return best.ranked()

    def _are_allowed(self, numbers: Addresses, allowed: RowBits) -> Mask:
        """Tell which row numbers are of rows that may be found."""
        if self.coverage.has_row_ids(self.segment):
            return allowed.has(numbers)
        which, row_ids = self.coverage.locate(self.segment, numbers)
        found = np.zeros(len(numbers), np.bool_)
        found[which] = allowed.has(row_ids)
        return found
