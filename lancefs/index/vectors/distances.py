"""Distances between vectors: squared Euclidean, cosine, dot product, and bits that differ.

Vectors of less than 64 bits a value are compared in 32 bits, others in 64; distances have 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lancefs.datafile.kernels import (
    compare_floats,
    differing_bits,
    multiply_codes,
    widen_halves,
)

Metric: TypeAlias = Literal["l2", "cosine", "dot", "hamming"]
Floats: TypeAlias = npt.NDArray[np.float32]
# A vector a row.
Vectors: TypeAlias = npt.NDArray[Any]

METRICS: tuple[Metric, ...] = get_args(Metric)

# Bytes of vectors that are compared at a time, so that what is computed stays in a processor cache.
_BLOCK_BYTES = 512 * 1024


def metrics_of(dtype: npt.DTypeLike) -> tuple[Metric, ...]:
    """Return the metrics by which vectors of a type can be compared, the usual one first."""
    return ("hamming",) if np.dtype(dtype) == np.uint8 else ("l2", "cosine", "dot")


def working_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return the type of numbers that vectors of a type are compared in."""
    if np.dtype(dtype) == np.uint8:
        return np.dtype(np.uint8)
    return np.result_type(np.dtype(dtype), np.float32)


def distances(metric: Metric, vectors: Vectors, queries: Vectors) -> Floats:
    """Return the distance of each vector to each query.

    Args:
        metric: How they are compared.
        vectors: The vectors.
        queries: The queries, of the working type of the vectors.

    Returns:
        A row for each query. A distance that is not defined is NaN: that of a vector with NaN, and
        by cosine that of a vector without length.
    """
    if metric == "hamming":
        return differing_bits(vectors, queries)
    work = working_type(vectors.dtype)
    queries = queries.astype(work, copy=False)
    compare = _OF_FLOATS[metric] if work == np.float32 else _OF_DOUBLES[metric]
    with np.errstate(all="ignore"):
        if vectors.dtype == np.float32:
            return compare(vectors, queries)
        found = np.empty((len(queries), len(vectors)), np.float32)
        rows = max(1, _BLOCK_BYTES // max(1, vectors.shape[1] * work.itemsize))
        for start in range(0, len(vectors), rows):
            block = vectors[start : start + rows]
            whole = block if block.dtype == work else widen_halves(block)
            found[:, start : start + rows] = compare(whole, queries)
    return found


def products(vectors: Vectors, queries: Vectors) -> Vectors:
    """Return the product of each vector, of bytes or of numbers of 16 bits, with each query.

    Args:
        vectors: The vectors.
        queries: The queries, of floats.

    Returns:
        A row for each query.
    """
    if vectors.dtype == np.uint8 and queries.dtype == np.float32:
        return multiply_codes(vectors, queries)
    found = np.empty((len(queries), len(vectors)), queries.dtype)
    rows = max(1, _BLOCK_BYTES // max(1, vectors.shape[1] * queries.itemsize))
    for start in range(0, len(vectors), rows):
        block = vectors[start : start + rows].astype(queries.dtype, copy=False)
        for query, row in zip(queries, found, strict=True):
            np.einsum("ij,j->i", block, query, out=row[start : start + rows])
    return found


def rounded(numbers: Vectors, dtype: npt.DTypeLike) -> Vectors:
    """Return numbers as a type of 16 bits holds them, in their own type; all others as they are.

    Args:
        numbers: The numbers.
        dtype: The type.
    """
    if np.dtype(dtype) != np.float16:
        return numbers
    with np.errstate(all="ignore"):
        return numbers.astype(np.float16).astype(numbers.dtype)


def squared_lengths(vectors: Vectors) -> Vectors:
    """Return the square of the length of each vector."""
    lengths: Vectors = np.einsum("ij,ij->i", vectors, vectors)
    return lengths


def _l2(vectors: Vectors, queries: Vectors) -> Floats:
    return compare_floats(vectors, queries, is_product=False)


def _cosine(vectors: Vectors, queries: Vectors) -> Floats:
    return _of_products(vectors, queries, compare_floats(vectors, queries, is_product=True))


def _dot(vectors: Vectors, queries: Vectors) -> Floats:
    found: Floats = 1 - compare_floats(vectors, queries, is_product=True)
    return found


def _l2_of_doubles(vectors: Vectors, queries: Vectors) -> Vectors:
    difference = np.empty_like(vectors)
    found = np.empty((len(queries), len(vectors)))
    for query, row in zip(queries, found, strict=True):
        np.subtract(vectors, query, out=difference)
        row[:] = squared_lengths(difference)
    return found


def _cosine_of_doubles(vectors: Vectors, queries: Vectors) -> Vectors:
    return _of_products(vectors, queries, np.einsum("ij,kj->ki", vectors, queries))


def _dot_of_doubles(vectors: Vectors, queries: Vectors) -> Vectors:
    found: Vectors = 1 - np.einsum("ij,kj->ki", vectors, queries)
    return found


def _of_products(vectors: Vectors, queries: Vectors, products: Vectors) -> Vectors:
    """Return distances by cosine, given the product of each vector with each query."""
    lengths = np.sqrt(squared_lengths(vectors))
    own = [np.sqrt(query @ query) for query in queries]
    for length, row in zip(own, products, strict=True):
        np.divide(row, lengths * length, out=row)
    return np.subtract(1, products, out=products)


_OF_FLOATS: Mapping[Metric, Callable[[Vectors, Vectors], Floats]] = {
    "l2": _l2,
    "cosine": _cosine,
    "dot": _dot,
}
_OF_DOUBLES: Mapping[Metric, Callable[[Vectors, Vectors], Vectors]] = {
    "l2": _l2_of_doubles,
    "cosine": _cosine_of_doubles,
    "dot": _dot_of_doubles,
}
