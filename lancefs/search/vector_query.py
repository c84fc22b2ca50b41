"""`VectorQuery`: a column, query vectors, and which of the nearest rows are wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.arguments import check_whole
from lancefs.datafile.buffers import number_dtype
from lancefs.datafile.fields import Field
from lancefs.index.vectors.distances import METRICS, Metric, Vectors, metrics_of, working_type

# One vector, or several: a sequence of numbers, or of vectors; an array of NumPy or Arrow.
QueryVectors: TypeAlias = Any
# The least distance, and the one that all are below; None for no bound.
DistanceRange: TypeAlias = tuple[float | None, float | None]

_NAMES: dict[str, Metric] = {**{name: name for name in METRICS}, "euclidean": "l2"}


@dataclass(frozen=True)
class VectorQuery:
    """What is searched for.

    Attributes:
        field: The column.
        vectors: The query vectors, one a row.
        is_batch: Whether several were asked for, so that rows tell which one they belong to.
        is_multivector: Whether a row has several vectors, and all query vectors are one query: the
            distance of a row is the sum, over these, of the distance of its nearest vector.
        k: How many rows, for each query vector.
        metric: How vectors are compared; None for the metric of the index, or the usual one.
        lowest: The least distance that counts.
        limit: All distances that count are below it; None for no limit.
        nprobes: Partitions of an index that are looked at; None to leave it to the search.
        refine_factor: How many times `k` rows of an index are compared exactly; None to return the
            distances of the index.
    """

    field: Field
    vectors: Vectors
    is_batch: bool
    is_multivector: bool
    k: int
    metric: Metric | None
    lowest: float | None
    limit: float | None
    nprobes: int | None
    refine_factor: int | None

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self.vectors.shape[1])

    @property
    def num_queries(self) -> int:
        """How many queries are answered, each with rows of its own."""
        return 1 if self.is_multivector else len(self.vectors)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics by which the vectors can be compared, the usual one first."""
        return metrics_of(self.vectors.dtype)


def vector_query(
    field: Field,
    q: QueryVectors,
    k: int,
    metric: str | None,
    distance_range: DistanceRange | None,
    nprobes: int | None,
    refine_factor: int | None,
) -> VectorQuery:
    """Return the query of a vector search, after its arguments were checked.

    Args:
        field: The column.
        q: One vector, or several.
        k: How many rows.
        metric: How vectors are compared; None for the metric of the index, or the usual one.
        distance_range: The least distance, and the one that all are below.
        nprobes: Partitions of an index that are looked at.
        refine_factor: How many times `k` rows of an index are compared exactly.

    Raises:
        TypeError: The column holds no vectors, or the query is none.
        ValueError: An argument does not fit the column, or makes no sense.
    """
    check_whole(1, k=k)
    given = {"nprobes": nprobes, "refine_factor": refine_factor}
    check_whole(1, **{name: value for name, value in given.items() if value is not None})
    dtype, dimension = _vector_type(field)
    vectors, is_matrix = _vectors(q, field, dtype, dimension)
    is_multivector = is_list_of_vectors(field.storage_type)
    is_batch = is_matrix and not is_multivector
    lowest, limit = _bounds(distance_range)
    known = _metric(metric, field, metrics_of(dtype))
    return VectorQuery(
        field,
        vectors,
        is_batch,
        is_multivector,
        int(k),
        known,
        lowest,
        limit,
        nprobes,
        refine_factor,
    )


def vector_type(data_type: pa.DataType) -> tuple[np.dtype[Any], int] | None:
    """Return the type of the numbers of vectors, and their dimension; None if there are none.

    Args:
        data_type: Type of the column.
    """
    if not pa.types.is_fixed_size_list(data_type) or not data_type.list_size:
        return None
    items = data_type.value_type
    if not (pa.types.is_floating(items) or pa.types.is_uint8(items)):
        return None
    return number_dtype(items), data_type.list_size


def is_list_of_vectors(data_type: pa.DataType) -> bool:
    """Tell whether a row of a column has any number of vectors.

    Args:
        data_type: Type of the column.
    """
    is_list = pa.types.is_list(data_type) or pa.types.is_large_list(data_type)
    return is_list and vector_type(data_type.value_type) is not None


def _vector_type(field: Field) -> tuple[np.dtype[Any], int]:
    data_type = field.storage_type
    found = vector_type(data_type.value_type if is_list_of_vectors(data_type) else data_type)
    if found is None:
        raise TypeError(
            f"column {field.name!r} is {data_type}; vectors are fixed_size_list of halffloat, "
            "float, double or uint8, one in a row or a list of them"
        )
    return found


def _vectors(
    q: QueryVectors, field: Field, dtype: np.dtype[Any], dimension: int
) -> tuple[Vectors, bool]:
    """Return query vectors, one a row, and whether several were asked for.

    A missing value counts as 0, as in the vectors of the table.
    """
    if isinstance(q, pa.Scalar | pa.Array | pa.ChunkedArray):
        q = _flat(q) if _is_flat(q) else _to_python(q)
    try:
        given = _to_array(q)
        with np.errstate(all="ignore"):
            vectors = given.astype(dtype)  # as the vectors that it is compared with
    except (ValueError, TypeError, OverflowError) as error:
        raise TypeError(
            f"the query vector is {_shorten(q)}; a vector of numbers, or several of one length, "
            "was expected"
        ) from error
    if given.ndim not in (1, 2) or not len(given):
        raise ValueError(
            f"the query vector has the shape {given.shape}; a vector was expected, or a list of "
            "them"
        )
    if vectors.shape[-1] != dimension:
        raise ValueError(
            f"the query vector has {vectors.shape[-1]} values; vectors of column {field.name!r} "
            f"have {dimension}"
        )
    if dtype == np.uint8 and not np.array_equal(vectors, given):
        raise ValueError(
            f"the query vector is {_shorten(q)}; whole numbers from 0 to 255 were expected"
        )
    rows = vectors.reshape(-1, dimension).astype(working_type(dtype))
    return np.ascontiguousarray(rows), given.ndim == 2


def _to_array(q: QueryVectors) -> Vectors:
    """Return a query as an array of NumPy.

    Raises:
        TypeError: Its values are of a type that NumPy makes numbers of, but are none.
        ValueError: It has vectors of several lengths.
    """
    given = np.asarray(q)
    if given.dtype.kind in "cMm":
        raise TypeError(f"values of the type {given.dtype}")
    if given.dtype == object:
        is_missing = np.reshape([value is None for value in given.flat], given.shape)
        given = np.where(is_missing, 0, given)
    return given


def _flat(q: Any) -> Vectors:
    whole = q.fill_null(0) if q.null_count else q
    values: Vectors = whole.to_numpy(zero_copy_only=False)
    return values


def _is_flat(q: Any) -> bool:
    return not isinstance(q, pa.Scalar) and pa.types.is_primitive(q.type)


def _to_python(q: Any) -> object:
    return q.as_py() if isinstance(q, pa.Scalar) else q.to_pylist()


def _shorten(q: object) -> str:
    text = " ".join(repr(q).split())
    return text if len(text) <= 80 else text[:80] + "…"


def _bounds(distance_range: DistanceRange | None) -> DistanceRange:
    if distance_range is None:
        return None, None
    try:
        lowest, limit = (None if bound is None else float(bound) for bound in distance_range)
        if any(bound is not None and math.isnan(bound) for bound in (lowest, limit)):
            raise ValueError("not a number")
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"distance_range is {distance_range!r}; the least distance and a limit were expected, "
            "each a number or None"
        ) from error
    return lowest, limit


def _metric(metric: str | None, field: Field, known: Sequence[Metric]) -> Metric | None:
    if metric is None:
        return None
    found = _NAMES.get(str(metric).lower())
    if found is None:
        raise ValueError(f"metric is {metric!r}; one of {', '.join(METRICS)} was expected")
    if found not in known:
        raise ValueError(
            f"vectors of column {field.name!r} are not compared by {metric}; {', '.join(known)} "
            "was expected"
        )
    return found
