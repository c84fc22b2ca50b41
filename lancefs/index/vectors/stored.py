"""How an index stores the vectors of its partitions: as they are, or as codes of fewer bits.

Each kind reads the columns of a partition into what it compares, and compares a query with that.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.index.files import IndexReader
from lancefs.index.vectors.distances import Floats, Metric, Vectors, distances
from lancefs.index.vectors.tensors import read_tensor, storage_metadata, whole_number

# What is compared of the vectors of a partition: codes, or the vectors.
Codes: TypeAlias = npt.NDArray[Any]
# Returns the distances of the vectors of a partition, given its centroid and its codes.
Compare: TypeAlias = Callable[[Vectors, Codes], Floats]


class StoredVectors(Protocol):
    """How an index stores vectors."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are read of a partition."""
        ...

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        ...

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return what is compared of the vectors of a partition."""
        ...

    def comparing(self, query: Vectors) -> Compare:
        """Return what compares a query with the vectors of partitions."""
        ...


class WholeVectors:
    """Vectors as they are: kind FLAT.

    Args:
        file: The file of the vectors.
        metric: How vectors are compared.
        dimension: Numbers of a vector.
    """

    columns = ("flat",)
    cost = 0

    def __init__(self, file: IndexReader, metric: Metric, dimension: int) -> None:
        self._file = file
        self._metric = metric
        self._dimension = dimension

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the vectors."""
        return matrix_of_lists(self._file, columns[0], self._dimension)

    def comparing(self, query: Vectors) -> Compare:
        """Return what compares a query with vectors."""
        queries = query[None, :]
        return lambda centroid, codes: distances(self._metric, codes, queries)[0]


class ScalarCodes:
    """A byte for each number of a vector: kind SQ.

    Args:
        file: The file of the codes.
        metric: How vectors are compared.
        dimension: Numbers of a vector.

    Raises:
        CorruptFile: The description of the codes is damaged.
        UnsupportedFeature: Codes have another number of bits.
    """

    columns = ("__sq_code",)
    cost = 0

    def __init__(self, file: IndexReader, metric: Metric, dimension: int) -> None:
        metadata = storage_metadata(file)
        if metadata.get("num_bits") != 8:
            raise file.unsupported(f"scalar codes of {str(metadata.get('num_bits'))[:20]} bits")
        bounds = metadata.get("bounds")
        try:
            lowest, highest = float(bounds["start"]), float(bounds["end"])  # type: ignore[index]
        except (TypeError, LookupError, ValueError) as error:
            raise file.damage("the bounds of the scalar codes are no numbers") from error
        if not (np.isfinite([lowest, highest]).all() and lowest <= highest):
            raise file.damage(f"the bounds of the scalar codes are {lowest} and {highest}")
        self._file = file
        self._metric = metric
        self._dimension = dimension
        self._lowest = lowest
        self._step = (highest - lowest) / 255

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the codes of each vector."""
        return matrix_of_lists(self._file, columns[0], self._dimension)

    def comparing(self, query: Vectors) -> Compare:
        """Return what compares a query with codes."""
        if self._metric == "dot":
            fixed = 1 - self._lowest * float(query.sum())
            step = np.float32(self._step)
            return lambda centroid, codes: (
                fixed - step * (1 - distances("dot", codes.astype(np.float32), query[None, :])[0])
            ).astype(np.float32)
        with np.errstate(all="ignore"):
            exact = (query - np.float32(self._lowest)) / np.float32(self._step or 1)
        code = np.clip(np.nan_to_num(exact), 0, 255).astype(np.uint8).astype(np.float32)[None, :]
        scale = np.float32(self._step**2)
        return lambda centroid, codes: distances("l2", codes.astype(np.float32), code)[0] * scale


class ProductCodes:
    """A code of 4 or 8 bits for each part of a vector: kind PQ.

    Args:
        file: The file of the codes.
        metric: How vectors are compared.
        dimension: Numbers of a vector.

    Raises:
        CorruptFile: The description of the codes, or the codebook, is damaged.
        UnsupportedFeature: Codes have another number of bits.
    """

    columns = ("__pq_code",)

    def __init__(self, file: IndexReader, metric: Metric, dimension: int) -> None:
        metadata = storage_metadata(file)
        bits = whole_number(file, metadata, "nbits")
        if bits not in (4, 8):
            raise file.unsupported(f"product codes of {bits} bits")
        parts = whole_number(file, metadata, "num_sub_vectors")
        if dimension % parts or (bits == 4 and parts % 2):
            raise file.damage(f"vectors of {dimension} numbers in {parts} parts")
        codebook = read_tensor(file, whole_number(file, metadata, "codebook_position"))
        if codebook.shape != (1 << bits, dimension):
            raise file.damage(f"the codebook has the shape {codebook.shape}")
        # The shape of the tensor is not how its numbers lie: part by part, code by code.
        self._codebook = codebook.reshape(parts, 1 << bits, dimension // parts).astype(np.float32)
        self._file = file
        self._is_dot = metric == "dot"
        self._bits = bits
        self._is_transposed = metadata.get("transposed") is True

    @property
    def cost(self) -> int:
        """Memory in bytes."""
        return self._codebook.nbytes

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the codes of all vectors for each part."""
        width = len(self._codebook) * self._bits // 8
        stored = matrix_of_lists(self._file, columns[0], width)
        by_byte = stored.reshape(width, -1) if self._is_transposed else stored.T
        if self._bits == 8:
            return np.ascontiguousarray(by_byte)
        both = np.stack([by_byte & 15, by_byte >> 4], axis=1)
        return both.reshape(2 * width, -1)

    def comparing(self, query: Vectors) -> Compare:
        """Return what compares a query with codes."""
        parts, _, length = self._codebook.shape
        if self._is_dot:
            products = np.einsum("scj,sj->sc", self._codebook, query.reshape(parts, length))
            table = (1 - products).astype(np.float32)
            return lambda centroid, codes: _sums(table, codes) - np.float32(parts - 1)

        def compare(centroid: Vectors, codes: Codes) -> Floats:
            rest = (query - centroid).reshape(parts, 1, length)
            difference = self._codebook - rest
            return _sums(np.einsum("scj,scj->sc", difference, difference), codes)

        return compare


def _sums(table: Floats, codes: Codes) -> Floats:
    """Return for each vector the sum of what a table says of the codes of its parts."""
    total = np.zeros(codes.shape[1], np.float32)
    for row, part in zip(table, codes, strict=True):
        total += row[part]
    return total


def matrix_of_lists(file: IndexReader, lists: pa.Array, length: int) -> Codes:
    """Return lists of one length as rows of a matrix.

    Args:
        file: The file that they are from, for errors.
        lists: The lists.
        length: Items of each.

    Raises:
        CorruptFile: Lists or items are missing, or there is another number of items.
    """
    items = lists.type.value_type if pa.types.is_fixed_size_list(lists.type) else pa.null()
    is_number = pa.types.is_floating(items) or pa.types.is_uint8(items)
    if not is_number or lists.type.list_size != length or lists.null_count:
        raise file.damage(f"values of type {lists.type}; lists of {length} numbers were expected")
    values = lists.flatten()
    if values.null_count:
        raise file.damage("a vector or code lacks a number")
    return np.asarray(values).reshape(len(lists), length)


STORED: Mapping[str, Callable[[IndexReader, Metric, int], StoredVectors]] = {
    "FLAT": WholeVectors,
    "PQ": ProductCodes,
    "SQ": ScalarCodes,
}
