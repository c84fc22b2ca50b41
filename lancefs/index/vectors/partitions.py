"""IVF indices: vectors in partitions, each around a centroid; a search reads the nearest ones.

`index.idx` has the centroids, and the graphs of HNSW kinds; `auxiliary.idx` has the vectors or
their codes, partition after partition. Graphs are not walked: all vectors of the partitions that
are read are compared, which finds at least the rows that a walk finds.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.index.files import IndexReader
from lancefs.index.row_sets import Addresses
from lancefs.index.vectors.distances import METRICS, Floats, Metric, Vectors, distances
from lancefs.index.vectors.stored import STORED, Codes
from lancefs.index.vectors.tensors import matrix_of, read_json, read_partitions
from lancefs.storage.budget_cache import BudgetCache

FILES = ("index.idx", "auxiliary.idx")

# Bytes of partitions that a process keeps.
_BUDGET = 128 * 1024 * 1024
# Rows of partitions that are read in one round of requests, at most.
_ROWS_AT_ONCE = 256 * 1024
# Memory of the open files, about.
_READERS_BYTES = 32 * 1024

_ROW_ID = "_rowid"


class Partition(NamedTuple):
    """The vectors of a partition.

    Attributes:
        numbers: Row numbers.
        codes: What is compared of them.
    """

    numbers: Addresses
    codes: Codes

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self.numbers.nbytes + self.codes.nbytes


# By the segment and the number of the partition.
_PARTITIONS: BudgetCache[tuple[object, int], Partition] = BudgetCache(_BUDGET)


class VectorPartitions:
    """One segment of an index over vectors, open.

    Args:
        index: The file `index.idx`.
        vectors: The file `auxiliary.idx`.
        key: Tells the segment from any other one.

    Raises:
        CorruptFile: A file is damaged.
        UnsupportedFeature: The index is of a kind that this release does not read.
    """

    def __init__(self, index: IndexReader, vectors: IndexReader, key: object) -> None:
        self._key = key
        self.kind, self.metric = _described(index)
        self._vectors = vectors
        named = vectors.metadata.get("distance_type", b"").decode("utf-8", "replace")
        if named != self.metric:
            raise vectors.damage(f"distances are {named[:20]!r}, those of the index {self.metric}")
        self._centroids = matrix_of(index, read_partitions(index).centroids_tensor)
        layout = read_partitions(vectors)
        self._starts, self._lengths = _laid_out(vectors, layout.offsets, layout.lengths)
        if len(self._starts) != len(self._centroids):
            raise vectors.damage(
                f"{len(self._starts)} partitions; the index has {len(self._centroids)} centroids"
            )
        make = STORED.get(self.kind.rpartition("_")[2])
        if make is None:
            raise index.unsupported(f"a vector index of kind {self.kind}")
        self._stored = make(vectors, self.metric, self.dimension)

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self._centroids.shape[1])

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self._centroids.nbytes + self._stored.cost + _READERS_BYTES

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return len(self._starts)

    def normalized(self, query: Vectors) -> Vectors:
        """Return a query as it is compared with the vectors of the index."""
        if self.metric != "cosine":
            return query
        with np.errstate(all="ignore"):
            normalized: Vectors = query / np.sqrt(query @ query)
            return normalized

    def nearest(self, query: Vectors) -> tuple[Ints, Floats]:
        """Return the partitions in the order of the distances of their centroids, and these.

        Args:
            query: The query, normalized.
        """
        metric: Metric = "l2" if self.metric == "cosine" else self.metric
        found = distances(metric, self._centroids, query[None, :])[0]
        order = np.argsort(found, kind="stable")
        return order, found[order]

    def compare(
        self, query: Vectors, partitions: Sequence[int]
    ) -> Iterator[tuple[Addresses, Floats]]:
        """Yield the row numbers of some partitions, and the distances of their vectors.

        Args:
            query: The query, normalized.
            partitions: Numbers of partitions.

        Raises:
            CorruptFile: The file is damaged.
        """
        compare = self._stored.comparing(query)
        for number, partition in self._read(partitions):
            yield partition.numbers, compare(self._centroids[number], partition.codes)

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
            rows = np.cumsum(self._lengths[waiting])
            count = max(1, int(np.searchsorted(rows, _ROWS_AT_ONCE, side="right")))
            yield from self._read_together(waiting[:count])
            waiting = waiting[count:]

    def _read_together(self, partitions: Sequence[int]) -> Iterator[tuple[int, Partition]]:
        ranges = [
            [(int(self._starts[number]), int(self._starts[number] + self._lengths[number]))]
            for number in partitions
        ]
        parts = self._vectors.read_parts([_ROW_ID, *self._stored.columns], ranges)
        for number, (row_ids, *columns) in zip(partitions, parts, strict=True):
            if row_ids.null_count or row_ids.type != "uint64":
                raise self._vectors.damage("row numbers of type uint64 were expected")
            partition = Partition(np.asarray(row_ids), self._stored.codes(columns))
            _PARTITIONS.put((self._key, number), partition, partition.cost)
            yield number, partition


def _described(index: IndexReader) -> tuple[str, Metric]:
    """Return the kind of an index, and how it compares vectors."""
    description = read_json(index, "lance:index")
    if not isinstance(description, dict):
        raise index.damage("lance:index does not describe the index")
    kind, named = str(description.get("type")), description.get("distance_type")
    if kind.partition("_")[0] != "IVF":
        raise index.unsupported(f"a vector index of kind {kind[:40]}")
    metric = next((one for one in METRICS if one == named), None)
    if metric is None:
        raise index.unsupported(f"a vector index with distances by {str(named)[:20]}")
    return kind, metric


def _laid_out(
    file: IndexReader, offsets: Sequence[int], lengths: Sequence[int]
) -> tuple[Ints, Ints]:
    """Return the first row and the number of rows of each partition.

    Raises:
        CorruptFile: The partitions are not all rows of the file, each once.
    """
    if len(offsets) != len(lengths) or max(offsets, default=0) > file.num_rows:
        raise file.damage("partitions begin behind the last row")
    starts, counts = np.array(offsets, np.int64), np.array(lengths, np.int64)
    filled = np.flatnonzero(counts)
    order = filled[np.argsort(starts[filled])]
    expected = np.cumsum(counts[order]) - counts[order]
    if int(counts.sum()) != file.num_rows or not np.array_equal(starts[order], expected):
        raise file.damage(f"the partitions do not hold the {file.num_rows} rows of the file")
    return starts, counts
