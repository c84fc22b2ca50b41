"""Pages of a column: which of them hold the wanted rows, and how their arrays become one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancefs.datafile.row_ranges import RowRange, between, bounds_of
from lancefs.errors import CorruptFile


def by_page(
    first_rows: Sequence[int], ranges: Sequence[RowRange]
) -> Sequence[tuple[int, Sequence[RowRange]]]:
    """Cut row ranges of a column at its page borders.

    Args:
        first_rows: First row of each page; then the number of rows.
        ranges: Rows of the column, ascending and disjoint.

    Returns:
        The pages that have some of the rows, each with the rows within it.

    Raises:
        CorruptFile: The column has fewer rows.
    """
    if len(ranges) == 1:
        return _range_by_page(first_rows, *ranges[0])
    rows = bounds_of(ranges)
    if len(rows) and not 0 <= rows.min() <= rows.max() <= first_rows[-1]:
        raise CorruptFile(f"row {rows.max() - 1} is wanted, the column has {first_rows[-1]} rows")
    bounds = np.array(first_rows, np.int64)
    first = np.searchsorted(bounds, rows[:, 0], side="right") - 1
    counts = np.maximum(np.searchsorted(bounds, rows[:, 1], side="left") - first, 0)
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    pages = np.repeat(first, counts) + nth
    starts = np.maximum(np.repeat(rows[:, 0], counts) - bounds[pages], 0)
    ends = np.minimum(np.repeat(rows[:, 1], counts), bounds[pages + 1]) - bounds[pages]
    some = starts < ends
    pages, starts, ends = pages[some], starts[some], ends[some]
    edges = [0, *(np.flatnonzero(np.diff(pages)) + 1).tolist(), len(pages)]
    return [(int(pages[a]), between(starts[a:b], ends[a:b])) for a, b in pairwise(edges) if a < b]


def _range_by_page(
    first_rows: Sequence[int], start: int, end: int
) -> list[tuple[int, list[RowRange]]]:
    """Cut a single range, as most reads ask for, without the cost of arrays."""
    if not 0 <= start <= end <= first_rows[-1]:
        raise CorruptFile(f"row {end - 1} is wanted, the column has {first_rows[-1]} rows")
    cut: list[tuple[int, list[RowRange]]] = []
    page = bisect_right(first_rows, start) - 1
    while start < end:
        base, stop = first_rows[page], min(end, first_rows[page + 1])
        if start < stop:
            cut.append((page, [(start - base, stop - base)]))
        page, start = page + 1, stop
    return cut


def join_arrays(arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Join the arrays of pages; a single one is not copied, and none are an empty array."""
    if not arrays:
        return pa.array([], data_type)
    if len(arrays) == 1:
        return arrays[0]
    if pa.types.is_dictionary(data_type):
        return pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
    return pa.concat_arrays(arrays)
