"""Vector indices of two files, as Lance writes them since 0.22, and those with graphs before.

`index.idx` has the centroids, and the graphs of HNSW kinds; `auxiliary.idx` has the vectors or
their codes, partition after partition.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Ints
from lancefs.datafile.value_widths import min_value_bytes
from lancefs.errors import locating
from lancefs.index.files import IndexReader
from lancefs.index.vectors.distances import METRICS, Metric
from lancefs.index.vectors.partitions import Partition
from lancefs.index.vectors.stored import STORED
from lancefs.index.vectors.tensors import matrix_of, read_json, read_partitions

FILES = ("index.idx", "auxiliary.idx")

_ROW_ID = "_rowid"


class TwoFiles:
    """The contents of a segment of two files: `OneFile` has the same attributes.

    Args:
        index: The file `index.idx`.
        vectors: The file `auxiliary.idx`.

    Raises:
        CorruptFile: A file is damaged.
        UnsupportedFeature: The index is of a kind that this release does not read.
    """

    def __init__(self, index: IndexReader, vectors: IndexReader) -> None:
        self.kind, self.metric = described(index)
        self._vectors = vectors
        named = vectors.metadata.get("distance_type", b"").decode("utf-8", "replace")
        if named != self.metric:
            raise vectors.damage(f"distances are {named[:20]!r}, those of the index {self.metric}")
        with locating(index.url, "centroids"):
            self.centroids = matrix_of(read_partitions(index).centroids_tensor)
        layout = read_partitions(vectors)
        self._starts, self.lengths = _laid_out(vectors, layout.offsets, layout.lengths)
        make = STORED.get(self.kind.rpartition("_")[2])
        if make is None:
            raise index.unsupported(f"a vector index of kind {self.kind}")
        self.stored = make(vectors, self.metric, int(self.centroids.shape[1]))
        types = [vectors.column_type(name) for name in (_ROW_ID, *self.stored.columns)]
        self.row_bytes = sum(min_value_bytes(one) for one in types)

    def read(self, partitions: Sequence[int]) -> Iterator[Partition]:
        """Yield partitions, which are read in the same rounds of requests."""
        ranges = [
            [(int(self._starts[number]), int(self._starts[number] + self.lengths[number]))]
            for number in partitions
        ]
        for row_ids, *columns in self._vectors.read_parts([_ROW_ID, *self.stored.columns], ranges):
            if row_ids.null_count or row_ids.type != "uint64":
                raise self._vectors.damage("row numbers of type uint64 were expected")
            with locating(self._vectors.url, "partition"):
                yield Partition(numbers_of(row_ids), self.stored.codes(columns))


def described(index: IndexReader) -> tuple[str, Metric]:
    """Return the kind of an index, and how it compares vectors.

    Args:
        index: The file `index.idx`.

    Raises:
        CorruptFile: The file does not tell.
        UnsupportedFeature: The kind or the metric is not known.
    """
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
