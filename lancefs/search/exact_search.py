"""Exact vector search: the vectors of all rows that pass the filter are read and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.datafile.buffers import Ints
from lancefs.index.vectors.distances import Floats, Metric, Vectors, distances
from lancefs.search.nearest_rows import BestRows
from lancefs.search.vector_query import is_list_of_vectors, vector_type

# Distances that are computed before the nearest rows are chosen among them, at most.
_MAX_DISTANCES = 1024 * 1024


def compare_all(
    batches: Iterable[pa.RecordBatch],
    metric: Metric,
    queries: Vectors,
    best: Sequence[BestRows],
) -> int:
    """Compare the vectors of batches with queries.

    Args:
        batches: The vectors, one in each row or a list of them, and the ids of their rows.
        metric: How vectors are compared.
        queries: The query vectors.
        best: Takes the rows, for each query; one for all queries if rows have lists of vectors.

    Returns:
        How many vectors were compared.
    """
    compared = 0
    for batch in batches:
        row_ids, column = numbers_of(batch.column(1)), batch.column(0)
        vectors = _num_vectors(column)
        each = -(-vectors // max(1, len(batch)))  # vectors of a row, on average
        step = max(1, _MAX_DISTANCES // (len(queries) * max(1, each)))
        for start in range(0, len(batch), step):
            part = column.slice(start, step)
            ids = row_ids[start : start + step]
            is_multivector = is_list_of_vectors(part.type)
            found = (_sums_of_nearest if is_multivector else _distances)(metric, part, queries)
            for one, row in zip(best, found, strict=True):
                one.add(ids, row)
        compared += vectors
    return compared


def _num_vectors(column: pa.Array) -> int:
    """Return how many vectors the rows of a column have."""
    if not is_list_of_vectors(column.type):
        return len(column)
    offsets = numbers_of(column.offsets)
    return int(offsets[-1] - offsets[0])


def _distances(metric: Metric, vectors: pa.Array, queries: Vectors) -> Floats:
    """Return the distance of each vector to each query; NaN for a missing vector."""
    found = distances(metric, matrix(vectors), queries)
    if vectors.null_count:
        found[:, ~mask_of(vectors.is_valid())] = np.nan
    return found


def _sums_of_nearest(metric: Metric, rows: pa.Array, queries: Vectors) -> Floats:
    """Return the distance of each list of vectors to all queries, as the only row of a matrix.

    It is the sum, over the queries, of the distance of the nearest vector in the list: NaN where a
    query has none.
    """
    offsets: Ints = numbers_of(rows.offsets).astype(np.int64)
    vectors = rows.values.slice(offsets[0], offsets[-1] - offsets[0])
    is_filled = offsets[1:] > offsets[:-1]
    found = np.full((1, len(rows)), np.nan, np.float32)
    if is_filled.any():
        starts = offsets[:-1][is_filled] - offsets[0]
        nearest = np.fmin.reduceat(_distances(metric, vectors, queries), starts, axis=1)
        found[0, is_filled] = nearest.sum(axis=0)
    if rows.null_count:
        found[0, ~mask_of(rows.is_valid())] = np.nan
    return found


def matrix(vectors: pa.Array) -> Vectors:
    """Return vectors as rows of a matrix, without a copy if no value is missing.

    Missing values count as 0, and missing vectors have any values.

    Args:
        vectors: The vectors.
    """
    if isinstance(vectors, pa.ExtensionArray):
        vectors = vectors.storage
    known = vector_type(vectors.type)
    assert known is not None
    dtype, dimension = known
    items = vectors.values.slice(vectors.offset * dimension, len(vectors) * dimension)
    values: np.ndarray[Any, Any] = np.frombuffer(
        items.buffers()[1] or b"", dtype, len(items), items.offset * dtype.itemsize
    )
    if items.null_count:
        values = np.where(mask_of(items.is_valid()), values, dtype.type(0))
    return values.reshape(len(vectors), dimension)
