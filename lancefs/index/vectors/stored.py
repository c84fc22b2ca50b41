"""The kinds of vector storage in an index: raw vectors, or quantized codes.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.kernels import compare_codes, compare_parts, sum_codes
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.index.files import IndexReader
from lancefs.index.vectors.codes import (
    Codes,
    Compare,
    matrix_of_lists,
    of_queries,
)
from lancefs.index.vectors.distances import (
    Floats,
    Metric,
    Vectors,
    distances,
    products,
    rounded,
)
from lancefs.index.vectors.rabitq import RotatedCodes
from lancefs.index.vectors.tensors import (
    read_tensor,
    storage_metadata,
    tensor_in,
    whole_number,
)

# Bounds of vectors of floats of 32 bits.
_LARGEST = float(np.finfo(np.float32).max)
# Bytes of tables of codes that are computed at a time.
_TABLES_BYTES = 512 * 1024


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
        self._metric = metric
        self._dimension = dimension

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the vectors."""
        return matrix_of_lists(columns[0], self._dimension, self._metric == "hamming")

    def comparing(self, queries: Vectors) -> Compare:
        """Return what compares queries with vectors."""
        return lambda centroid, codes, some: distances(
            self._metric, codes, of_queries(queries, some)
        )


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
        except (TypeError, LookupError, ValueError, OverflowError) as error:
            raise file.damage("the bounds of the scalar codes are no numbers") from error
        if not -_LARGEST <= lowest <= highest <= _LARGEST:
            raise file.damage(f"the bounds of the scalar codes are {lowest} and {highest}")
        self._metric = metric
        self._dimension = dimension
        self._lowest = lowest
        self._range = np.float64(highest - lowest)
        self._step = (highest - lowest) / 255

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the codes of each vector."""
        return matrix_of_lists(columns[0], self._dimension)

    def comparing(self, queries: Vectors) -> Compare:
        """Return what compares queries with codes."""
        if self._metric == "dot":
            return self._multiplying(queries)
        with np.errstate(all="ignore"):
            # As Lance computes codes of vectors: another order of these, or 32 bits, would give a
            # vector whose numbers lie at the edges of codes other ones than it has in the index.
            exact = (queries.astype(np.float64) - self._lowest) * 255 / self._range
        own = np.clip(np.nan_to_num(exact), 0, 255).astype(np.uint8)
        scale = np.float32(self._step**2)
        return lambda centroid, codes, some: compare_codes(codes, of_queries(own, some)) * scale

    def _multiplying(self, queries: Vectors) -> Compare:
        fixed = (1 - self._lowest * queries.sum(axis=1).astype(np.float64)).astype(queries.dtype)
        step = np.float32(self._step)

        def compare(centroid: Vectors, codes: Codes, some: Sequence[int]) -> Floats:
            found: Floats = of_queries(fixed, some)[:, None] - step * products(
                codes, of_queries(queries, some)
            )
            return found.astype(np.float32, copy=False)

        return compare


class ProductCodes:
    """A code of 4 or 8 bits for each part of a vector: kind PQ.

    Args:
        codebook: A row for each code. The shape is not how its numbers lie: they are those of part
            after part, code after code.
        parts: Number of parts.
        metric: How vectors are compared.
        is_transposed: Whether the codes of a partition lie part after part, or row after row.

    Raises:
        CorruptFile: The codebook does not fit.
        UnsupportedFeature: Codes have another number of bits.
    """

    columns = ("__pq_code",)

    def __init__(self, codebook: Vectors, parts: int, metric: Metric, is_transposed: bool) -> None:
        codes, dimension = codebook.shape
        if codes not in (16, 256):
            raise UnsupportedFeature(f"product codes of {codes} values")
        if not parts or dimension % parts or (codes == 16 and parts % 2):
            raise CorruptFile(f"vectors of {dimension} numbers in {parts} parts")
        if not np.isfinite(codebook).all():
            raise CorruptFile("a number of the codebook is not finite")
        by_part = codebook.reshape(parts, codes, dimension // parts).astype(np.float32)
        # The numbers of all codes follow each other: what is computed of them has long loops.
        self._codebook = np.ascontiguousarray(by_part.transpose(2, 0, 1))
        self._dtype = codebook.dtype
        self._is_dot = metric == "dot"
        self._bits = 4 if codes == 16 else 8
        self._is_transposed = is_transposed

    @property
    def width(self) -> int:
        """Bytes of the codes of a vector."""
        return int(self._codebook.shape[1]) * self._bits // 8

    @property
    def cost(self) -> int:
        """Memory in bytes."""
        return self._codebook.nbytes

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the bytes of all vectors for each part, or for each two parts."""
        return self.arranged(matrix_of_lists(columns[0], self.width))

    def arranged(self, stored: Codes) -> Codes:
        """Return the bytes of all vectors for each part, or for each two parts of 4 bits.

        Args:
            stored: The bytes of the codes of a partition, in as many rows as it has vectors.
        """
        by_byte = stored.reshape(self.width, -1) if self._is_transposed else stored.T
        return np.ascontiguousarray(by_byte)

    def comparing(self, queries: Vectors) -> Compare:
        """Return what compares queries with codes."""
        queries = queries.astype(np.float32, copy=False)
        if self._is_dot:
            parts = self._codebook.shape[1]
            fixed = self._by_byte(1 - compare_parts(self._codebook, queries, is_product=True))
            return lambda centroid, codes, some: (
                sum_codes(of_queries(fixed, some), codes) - np.float32(parts - 1)
            )

        def compare(centroid: Vectors, codes: Codes, some: Sequence[int]) -> Floats:
            found = np.empty((len(some), codes.shape[1]), np.float32)
            for start in range(0, len(some), self._at_once):
                # Codes are of what vectors are apart from the centroid, rounded to their type.
                rest = rounded(queries[some[start : start + self._at_once]] - centroid, self._dtype)
                tables = compare_parts(
                    self._codebook, rest.astype(np.float32, copy=False), is_product=False
                )
                found[start : start + self._at_once] = sum_codes(self._by_byte(tables), codes)
            return found

        return compare

    @property
    def _at_once(self) -> int:
        """Queries whose tables stay in a processor cache."""
        return max(1, _TABLES_BYTES // (self.width * 256 * 4))

    def _by_byte(self, tables: Floats) -> Floats:
        """Return the tables of bytes, of which each has the codes of two parts if they are short.

        The first part is in the lower bits.
        """
        if self._bits == 8:
            return tables
        both = tables[:, 0::2, None, :] + tables[:, 1::2, :, None]
        return both.reshape(len(tables), -1, 256)


def product_codes(file: IndexReader, metric: Metric, dimension: int) -> ProductCodes:
    """Return product codes as a file describes them.

    Args:
        file: The file of the codes.
        metric: How vectors are compared.
        dimension: Numbers of a vector.

    Raises:
        CorruptFile: The description of the codes, or the codebook, is damaged.
        UnsupportedFeature: Codes have another number of bits.
    """
    metadata = storage_metadata(file)
    # Lance 0.20 called it `num_bits`, and had the codebook in the description.
    bits = whole_number(file, metadata, "nbits" if "nbits" in metadata else "num_bits")
    if metadata.get("codebook_tensor"):
        codebook = tensor_in(file, metadata, "codebook_tensor")
    else:
        codebook = read_tensor(file, whole_number(file, metadata, "codebook_position"))
    if bits > 16 or codebook.shape != (1 << bits, dimension):
        raise file.damage(f"codes of {bits} bits, and a codebook of the shape {codebook.shape}")
    parts = whole_number(file, metadata, "num_sub_vectors")
    with locating(file.url, "codebook"):
        return ProductCodes(codebook, parts, metric, metadata.get("transposed") is True)


# Each reads the `columns` of a partition into its `codes`, and compares queries with these.
StoredVectors: TypeAlias = WholeVectors | ScalarCodes | ProductCodes | RotatedCodes
STORED: Mapping[str, Callable[[IndexReader, Metric, int], StoredVectors]] = {
    "FLAT": WholeVectors,
    "PQ": product_codes,
    "RQ": RotatedCodes,
    "SQ": ScalarCodes,
}
