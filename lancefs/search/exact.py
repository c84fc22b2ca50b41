"""Exact vector search: the vectors of all rows that may count are read and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.index.vectors.distances import Metric, Vectors, distances
from lancefs.search.best_rows import BestRows
from lancefs.search.vector_query import vector_type

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
        batches: The vectors, and the ids of their rows.
        metric: How vectors are compared.
        queries: The query vectors.
        best: Takes the rows, for each query.

    Returns:
        How many vectors were compared.
    """
    compared = 0
    step = max(1, _MAX_DISTANCES // len(queries))
    for batch in batches:
        row_ids = numbers_of(batch.column(1))
        for start in range(0, len(batch), step):
            part = batch.column(0).slice(start, step)
            ids = row_ids[start : start + step]
            found = distances(metric, matrix(part), queries)
            if part.null_count:
                found[:, ~mask_of(part.is_valid())] = np.nan
            for one, row in zip(best, found, strict=True):
                one.add(ids, row)
        compared += len(batch)
    return compared


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
