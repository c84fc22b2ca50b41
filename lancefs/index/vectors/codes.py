"""The interface of vector storage in index partitions.

Each kind reads the columns of a partition into what it compares, and compares a query with that.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.errors import CorruptFile
from lancefs.index.vectors.distances import Floats, Vectors

# What is compared of the vectors of a partition: an array of codes, or of the vectors, or several
# arrays in an object that has their `nbytes`, too.
Codes: TypeAlias = Any
# Returns the distances of the vectors of a partition, a row for each of some queries, given its
# centroid, its codes, and the positions of the queries.
Compare: TypeAlias = Callable[[Vectors, Codes, Sequence[int]], Floats]


def of_queries(rows: Vectors, some: Sequence[int]) -> Vectors:
    """Return those of the rows of all queries that are of some of them.

    Args:
        rows: A row for each query.
        some: Positions of queries, one at least.
    """
    return rows if len(rows) == 1 else rows[some]  # to copy the only one takes 2 µs


def matrix_of_lists(lists: pa.Array, length: int, is_code: bool = True) -> Codes:
    """Return lists of one length as rows of a matrix.

    Args:
        lists: The lists.
        length: Items of each.
        is_code: Whether items are bytes; else they are floats.

    Raises:
        CorruptFile: Lists or items are missing or others, or there is another number of items.
    """
    items = lists.type.value_type if pa.types.is_fixed_size_list(lists.type) else pa.null()
    is_number = pa.types.is_uint8(items) if is_code else pa.types.is_floating(items)
    if not is_number or lists.type.list_size != length or lists.null_count:
        raise CorruptFile(f"values of type {lists.type}; lists of {length} numbers were expected")
    values = lists.flatten()
    if values.null_count:
        raise CorruptFile("a vector or code lacks a number")
    return numbers_of(values).reshape(len(lists), length)
