"""IVF indices: vectors in partitions, each around a centroid; a search reads the nearest ones.

Graphs (HNSW) are not walked: all vectors of the partitions that are read are compared, which finds
at least the rows that a walk finds.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints, UInts
from lancefs.errors import CorruptFile
from lancefs.index.vectors.codes import Codes
from lancefs.index.vectors.distances import (
    Floats,
    Metric,
    Vectors,
    distances,
    rounded,
    squared_lengths,
)
from lancefs.storage.budget_cache import BudgetCache

if TYPE_CHECKING:
    from lancefs.index.vectors.one_file import OneFile
    from lancefs.index.vectors.two_files import TwoFiles

# Bytes of partitions that a process keeps.
_BUDGET = 128 * 1024 * 1024
# Bytes of partitions that are read in one round of requests, at most, where there are several.
_BYTES_AT_ONCE = 32 * 1024 * 1024
# Distances that are computed at a time, where several queries are compared with a partition.
_MAX_DISTANCES = 1024 * 1024
# Memory of the open files, about.
_READERS_BYTES = 32 * 1024


class Partition(NamedTuple):
    """The vectors of a partition.

    Attributes:
        numbers: Row numbers.
        codes: What is compared of them.
    """

    numbers: UInts
    codes: Codes

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self.numbers.nbytes + int(self.codes.nbytes)


# By the segment and the number of the partition.
_PARTITIONS: BudgetCache[tuple[object, int], Partition] = BudgetCache(_BUDGET)


class VectorPartitions:
    """One segment of an index over vectors, open.

    Args:
        contents: What its files hold.
        key: Tells the segment from any other one.

    Raises:
        CorruptFile: The files do not fit to each other.
    """

    def __init__(self, contents: OneFile | TwoFiles, key: object) -> None:
        self._contents = contents
        self._key = key
        self.kind, self.metric = contents.kind, contents.metric
        self._centroids, self._lengths = contents.centroids, contents.lengths
        if len(self._lengths) != len(self._centroids):
            raise CorruptFile(
                f"{len(self._lengths)} partitions; the index has {len(self._centroids)} centroids"
            )
        if not np.isfinite(self._centroids[self._lengths > 0]).all():
            raise CorruptFile("a centroid is not finite")

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self._centroids.shape[1])

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self._centroids.nbytes + self._contents.stored.cost + _READERS_BYTES

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return len(self._lengths)

    def rows_in(self, partitions: Sequence[int]) -> int:
        """Return how many vectors partitions have."""
        return int(self._lengths[partitions].sum())

    def normalized(self, queries: Vectors) -> Vectors:
        """Return queries, one a row, as they are compared with the vectors of the index.

        They are rounded as the vectors were, in an index over vectors of 16 bits a number.
        """
        if self.metric != "cosine":
            return queries
        with np.errstate(all="ignore"):
            normalized: Vectors = queries / np.sqrt(squared_lengths(queries))[:, None]
            return rounded(normalized, self._centroids.dtype)

    def nearest(self, queries: Vectors) -> list[tuple[Ints, Floats]]:
        """Return the partitions in the order of the distances of their centroids, and these.

        Args:
            queries: The queries, normalized.

        Returns:
            Both for each query.
        """
        metric: Metric = "l2" if self.metric == "cosine" else self.metric
        nearest = []
        for found in distances(metric, self._centroids, queries):
            order = np.argsort(found, kind="stable")
            nearest.append((order, found[order]))
        return nearest

    def compare(
        self, queries: Vectors, asked: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[Sequence[int], UInts, Floats]]:
        """Yield positions of queries, row numbers of a partition and the distances of its vectors.

        All queries that ask for a partition are compared with it at once: it is read once, and
        its vectors stay in a processor cache.

        Args:
            queries: The queries, normalized, one a row.
            asked: For each partition, by its number, the positions of the queries that ask for it.

        Returns:
            Distances in a row for each of the queries.

        Raises:
            CorruptFile: The file is damaged.
        """
        with np.errstate(all="ignore"):
            compare = self._contents.stored.comparing(queries)
        for number, partition in self._read(list(asked)):
            step = max(1, _MAX_DISTANCES // max(1, len(partition.numbers)))
            for start in range(0, len(asked[number]), step):
                some = asked[number][start : start + step]
                with np.errstate(all="ignore"):
                    found = compare(self._centroids[number], partition.codes, some)
                yield some, partition.numbers, found

    def _read(self, partitions: Sequence[int]) -> Iterator[tuple[int, Partition]]:
        """Yield partitions; those that are not kept are read some at a time."""
        waiting: list[int] = []
        for number in partitions:
            kept = _PARTITIONS.peek((self._key, number))
            if kept is not None:
                yield number, kept
            elif self._lengths[number]:
                waiting.append(number)
        while waiting:
            sizes = np.cumsum(self._lengths[waiting]) * self._contents.row_bytes
            count = max(1, int(np.searchsorted(sizes, _BYTES_AT_ONCE, side="right")))
            for number, partition in zip(
                waiting[:count], self._contents.read(waiting[:count]), strict=True
            ):
                _PARTITIONS.put((self._key, number), partition, partition.cost)
                yield number, partition
            waiting = waiting[count:]
