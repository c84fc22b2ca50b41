"""Vector indices of one file: IVF_PQ of releases up to 0.21.

The vectors of a partition are codes, row after row, and then their row numbers. A message at the
end has the centroids and the codebook.

Format page: vector indices (`docs/src/format/index/vector/index.md`); how partitions lie was seen
in files of Lance 0.20.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from lancefs.datafile.container import MAGIC
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.index.vectors.distances import METRICS, Metric
from lancefs.index.vectors.partitions import Partition
from lancefs.index.vectors.stored import ProductCodes
from lancefs.index.vectors.tensors import matrix_of
from lancefs.proto import vectors_pb2
from lancefs.storage import File
from lancefs.table.messages import parse_message

# The place of a message, with its length before it; two version numbers; the magic.
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_VERSION = (0, 1)
_ROW_ID_BYTES = 8


class OneFile:
    """The contents of a segment of one file; see `VectorContents`.

    Args:
        file: The file `index.idx`.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFeature: The index is of a kind that this release does not read.
    """

    kind = "IVF_PQ"

    def __init__(self, file: File) -> None:
        self._file = file
        place, index = _read_index(file)
        with locating(file.url, "index"):
            self.metric = _metric(index)
            stages = [stage.WhichOneof("stage") for stage in index.stages]
            if stages != ["ivf", "pq"]:
                raise UnsupportedFeature(f"a vector index of the stages {stages}")
            ivf, codes = index.stages[0].ivf, index.stages[1].pq
            self.centroids = matrix_of(ivf.centroids_tensor)
            codebook = matrix_of(codes.codebook_tensor)
            if codebook.shape[1] != self.centroids.shape[1]:
                raise CorruptFile(f"a codebook of {codebook.shape[1]} numbers")
            self.stored = ProductCodes(codebook, codes.num_sub_vectors, self.metric, False)
            self.row_bytes = self.stored.width + _ROW_ID_BYTES
            self.lengths = np.array(ivf.lengths, np.int64)
            self._starts = list(ivf.offsets)
            self._check_places(place)

    def read(self, partitions: Sequence[int]) -> Iterator[Partition]:
        """Yield partitions, which are read in the same rounds of requests."""
        sizes = self.lengths * self.row_bytes
        ranges = [
            (self._starts[number], self._starts[number] + int(sizes[number]))
            for number in partitions
        ]
        for number, data in zip(partitions, self._file.read(ranges), strict=True):
            rows = int(self.lengths[number])
            codes = data[: rows * self.stored.width].reshape(rows, self.stored.width)
            numbers = data[rows * self.stored.width :].copy().view("<u8")
            yield Partition(numbers, self.stored.arranged(codes))

    def _check_places(self, end: int) -> None:
        """Refuse partitions that overlap, or that reach beyond the vectors."""
        if len(self._starts) != len(self.lengths):
            raise CorruptFile(f"{len(self._starts)} places of {len(self.lengths)} partitions")
        done = 0
        for start, rows in sorted(zip(self._starts, self.lengths.tolist(), strict=True)):
            if rows and start < done:
                raise CorruptFile(f"a partition begins at byte {start}, another ends at {done}")
            done = start + rows * self.row_bytes if rows else done
        if done > end:
            raise CorruptFile(f"a partition ends at byte {done}, the vectors at {end}")


def is_one_file(file: File) -> bool:
    """Tell whether a file `index.idx` is the whole index.

    Raises:
        MissingFile: The file is gone.
    """
    _, tail = file.read_tail()
    return tail[-_FOOTER.size + 8 :].tobytes() == _FOOTER.pack(0, *_VERSION, MAGIC)[8:]


def metric_of(file: File) -> Metric:
    """Return how an index of one file compares vectors.

    Args:
        file: The file `index.idx`.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFeature: The metric is not known.
    """
    return _metric(_read_index(file)[1])


def _read_index(file: File) -> tuple[int, vectors_pb2.VectorIndex]:
    """Return where the vectors end, and the message at the end of the file."""
    start, tail = file.read_tail()
    size = start + len(tail)
    with locating(file.url, "footer"):
        if len(tail) < _FOOTER.size:
            raise CorruptFile(f"{size} bytes are no index")
        place, *_ = _FOOTER.unpack(tail[-_FOOTER.size :].tobytes())
        if not 0 <= place <= size - _FOOTER.size - _LENGTH.size:
            raise CorruptFile(f"a message at byte {place} of {size}")
        data = file.read([(place, size - _FOOTER.size)])[0].tobytes()
        (length,) = _LENGTH.unpack_from(data)
        if length > len(data) - _LENGTH.size:
            raise CorruptFile(f"a message of {length} bytes at byte {place} of {size}")
        data = data[_LENGTH.size : _LENGTH.size + length]
        return place, parse_message(vectors_pb2.Index(), data).vector_index


def _metric(index: vectors_pb2.VectorIndex) -> Metric:
    names = {number: name.lower() for name, number in vectors_pb2.VectorIndex.Metric.items()}
    named = names.get(index.metric_type)
    metric = next((metric for metric in METRICS if metric == named), None)
    if metric is None:
        raise UnsupportedFeature(f"distances of type {index.metric_type}")
    return metric
