"""The candidate rows of an index segment, nearest to a query by the stored vectors or codes.

A segment may name rows that are deleted, or that it does not cover any more. Only the nearest rows
are looked for in the table, and more of them where too few are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lancefs.index.segments import Coverage, IndexSegment
from lancefs.index.vectors.distances import Vectors
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.index.vectors.probing import partitions_to_probe
from lancefs.search.nearest_rows import BestOfQueries, Ranked, nearest_of
from lancefs.search.row_bits import RowBits
from lancefs.search.vector_query import DistanceRange

# At first, this many rows more than wanted are looked up in the table. If too few of them are live,
# `_MORE` times as many are looked up next.
_SPARE = 16
_MORE = 8
# Queries whose partitions are read together.
_QUERIES_AT_ONCE = 128

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
        self, queries: Vectors, k: int, factor: int, nprobes: int | None, bounds: DistanceRange
    ) -> list[Ranked]:
        """Return the rows that are nearest by what the index stores, and their distances by that.

        Args:
            queries: A query a row.
            k: How many rows are wanted in the end, for each query.
            factor: How many times as many are returned.
            nprobes: Partitions that are looked at; None for those that are likely to have the
                rows, and as many more as are needed for so many rows.
            bounds: The least distance that counts, and the limit that all are below.

        Raises:
            CorruptFile: The segment is damaged.
        """
        found: list[Ranked] = []
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            some = queries[start : start + _QUERIES_AT_ONCE]
            found += self._nearest_of_some(some, k, factor, nprobes, bounds)
        return found

    def _nearest_of_some(
        self, queries: Vectors, k: int, factor: int, nprobes: int | None, bounds: DistanceRange
    ) -> list[Ranked]:
        normalized = self.partitions.normalized(queries)
        nearest = self.partitions.nearest(normalized)
        counts = [
            nprobes or partitions_to_probe(self.partitions.metric, k, distances)
            for _, distances in nearest
        ]
        k *= factor
        best, done = [_NOTHING] * len(normalized), [0] * len(normalized)
        left = list(range(len(normalized)))
        while left:
            wanted = {
                one: nearest[one][0][done[one] : done[one] + max(counts[one], done[one])].tolist()
                for one in left
            }
            for one, part in self._nearest_in(normalized, wanted, k, bounds).items():
                best[one] = nearest_of([best[one], part], k)
                done[one] += len(wanted[one])
            left = [one for one in left if self._needs_more(best[one], done[one], k, nprobes)]
        self.probed += sum(done)
        for (order, _), count in zip(nearest, done, strict=True):
            self.compared += self.partitions.rows_in(order[:count].tolist())
        return best

    def _needs_more(self, best: Ranked, done: int, k: int, nprobes: int | None) -> bool:
        """Tell whether further partitions are looked at."""
        return nprobes is None and done < self.partitions.num_partitions and len(best.row_ids) < k

    def _nearest_in(
        self,
        queries: Vectors,
        wanted: Mapping[int, Sequence[int]],
        k: int,
        bounds: DistanceRange,
    ) -> dict[int, Ranked]:
        """Return the nearest rows of some partitions.

        Args:
            queries: The queries, normalized, one a row.
            wanted: The partitions for each query that is asked, by its position.
            k: How many rows.
            bounds: See `nearest`.
        """
        found: dict[int, Ranked] = {}
        size = k + _SPARE
        while len(found) < len(wanted):
            left = {one: numbers for one, numbers in wanted.items() if one not in found}
            near = self._nearest_numbers(queries, left, size, bounds)
            for one, live in zip(near, self._live(list(near.values())), strict=True):
                if len(live.row_ids) >= k or len(near[one].row_ids) < size:
                    found[one] = nearest_of([live], k)
            size *= _MORE
        return found

    def _live(self, near: Sequence[Ranked]) -> list[Ranked]:
        """Return those rows that are in the table, with their row ids in place of row numbers.

        Raises:
            CorruptFile: The segment names a row twice, or a row that cannot be.
        """
        if len(near) == 1:
            which, row_ids = self.coverage.locate(self.segment, near[0].row_ids)
            return [Ranked(row_ids, near[0].distances[which])]
        numbers, places = np.unique(
            np.concatenate([one.row_ids for one in near]), return_inverse=True
        )
        which, located = self.coverage.locate(self.segment, numbers)
        is_there, row_ids = np.zeros(len(numbers), np.bool_), np.empty(len(numbers), np.uint64)
        is_there[which], row_ids[which] = True, located
        found, start = [], 0
        for one in near:
            own = places[start : start + len(one.row_ids)]
            start += len(own)
            if len(np.unique(own)) < len(own):  # raises
                self.coverage.locate(self.segment, one.row_ids)
            live = is_there[own]
            found.append(Ranked(row_ids[own[live]], one.distances[live]))
        return found

    def _nearest_numbers(
        self,
        queries: Vectors,
        wanted: Mapping[int, Sequence[int]],
        k: int,
        bounds: DistanceRange,
    ) -> dict[int, Ranked]:
        """Return the nearest vectors of some partitions, with their row numbers."""
        best = BestOfQueries(len(queries), k, *bounds)
        asked: dict[int, list[int]] = {}  # by the partition, so that each is read once
        for one, partitions in wanted.items():
            for number in partitions:
                asked.setdefault(number, []).append(one)
        for some, numbers, distances in self.partitions.compare(queries, asked):
            if self.allowed is not None:  # only near rows are looked up in it
                near = np.flatnonzero((distances <= best.worst(some)[:, None]).any(axis=0))
                near = near[self.allowed.has_rows(self.coverage, self.segment, numbers[near])]
                numbers, distances = numbers[near], distances[:, near]
            best.add(some, numbers, distances)
        return {one: best.ranked(one) for one in wanted}
