"""Distances between vectors: squared Euclidean, cosine, dot product, and bits that differ.

Vectors of less than 64 bits a value are compared in 32 bits, others in 64; distances have 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

Metric: TypeAlias = Literal["l2", "cosine", "dot", "hamming"]
Floats: TypeAlias = npt.NDArray[np.float32]
# A vector a row.
Vectors: TypeAlias = npt.NDArray[Any]

METRICS: tuple[Metric, ...] = get_args(Metric)

# Bytes of vectors that are compared at a time, so that what is computed stays in a processor cache.
_BLOCK_BYTES = 512 * 1024
_BITS_SET = np.array([number.bit_count() for number in range(256)], np.uint8)


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
    found = np.empty((len(queries), len(vectors)), np.float32)
    work = working_type(vectors.dtype)
    rows = max(1, _BLOCK_BYTES // max(1, vectors.shape[1] * work.itemsize))
    with np.errstate(all="ignore"):
        for start in range(0, len(vectors), rows):
            block = vectors[start : start + rows].astype(work, copy=False)
            _OF_BLOCK[metric](block, queries, found[:, start : start + rows])
    return found


def squared_lengths(vectors: Vectors) -> Vectors:
    """Return the square of the length of each vector."""
    lengths: Vectors = np.einsum("ij,ij->i", vectors, vectors)
    return lengths


def _l2(block: Vectors, queries: Vectors, found: Floats) -> None:
    difference = np.empty_like(block)
    for query, row in zip(queries, found, strict=True):
        np.subtract(block, query, out=difference)
        row[:] = squared_lengths(difference)


def _cosine(block: Vectors, queries: Vectors, found: Floats) -> None:
    lengths = np.sqrt(squared_lengths(block))
    for query, row in zip(queries, found, strict=True):
        products = np.einsum("ij,j->i", block, query)
        row[:] = 1 - products / (lengths * np.sqrt(query @ query))


def _dot(block: Vectors, queries: Vectors, found: Floats) -> None:
    for query, row in zip(queries, found, strict=True):
        row[:] = 1 - np.einsum("ij,j->i", block, query)


def _hamming(block: Vectors, queries: Vectors, found: Floats) -> None:
    for query, row in zip(queries, found, strict=True):
        row[:] = _BITS_SET[block ^ query].sum(axis=1, dtype=np.int64)


_OF_BLOCK: Mapping[Metric, Callable[[Vectors, Vectors, Floats], None]] = {
    "l2": _l2,
    "cosine": _cosine,
    "dot": _dot,
    "hamming": _hamming,
}
