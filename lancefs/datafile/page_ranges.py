"""Row ranges of a column cut at page borders, and the arrays of pages joined again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import array_bytes, has_offsets
from lancefs.datafile.buffers import Ints
from lancefs.datafile.dictionary_chunks import unify_chunks
from lancefs.datafile.kernels.strings import LARGEST
from lancefs.datafile.row_ranges import RowRange, RowRanges, bounds_of
from lancefs.errors import ArrayTooLarge, CorruptFile

# Pages of a column, or fragments of a run, that are looked up by one call of NumPy.
_FEW_PAGES = 256
# The index of a page, and ranges of rows within it.
PageRanges: TypeAlias = tuple[int, Sequence[RowRange]]


def check_column_rows(found: int, rows: int | None, scale: int = 1) -> None:
    """Check that the pages of a column have no more rows than the fragment.

    Some pages are decoded as a whole: their memory depends on all of their rows.

    Args:
        found: Number of rows of the column.
        rows: Number of rows of the fragment; None if it is not known.
        scale: Number of rows of the column for each row of the fragment.

    Raises:
        CorruptFile: It has more.
    """
    if rows is not None and found > rows * scale:
        raise CorruptFile(f"the column has {found} rows, the fragment {rows}")


def by_page(first_rows: Sequence[int], ranges: Sequence[RowRange]) -> Sequence[PageRanges]:
    """Cut row ranges of a column at its page borders.

    Args:
        first_rows: First row of each page; then the number of rows.
        ranges: Rows of the column, ascending and disjoint.

    Returns:
        The pages that hold some of the rows, each with the ranges within it.

    Raises:
        CorruptFile: The column has fewer rows.
    """
    if len(ranges) == 1:
        return _range_by_page(first_rows, *ranges[0])
    rows = bounds_of(ranges)
    if len(rows) and not 0 <= rows[0, 0] <= rows[-1, 1] <= first_rows[-1]:
        raise CorruptFile(f"row {rows[-1, 1] - 1} is wanted, the column has {first_rows[-1]} rows")
    is_filled = rows[:, 0] < rows[:, 1]
    if not is_filled.all():
        rows = rows[is_filled]
    if len(first_rows) <= _FEW_PAGES and (within := _within_pages(first_rows, rows)) is not None:
        return within
    cut: list[tuple[int, RowRanges]] = []
    first = stop = 0  # the first range that is not yet cut, and the row that it is cut up to
    while first < len(rows):
        page = bisect_right(first_rows, max(int(rows[first, 0]), stop)) - 1
        base, stop = first_rows[page], first_rows[page + 1]
        last = int(np.searchsorted(rows[:, 0], stop))
        local = rows[first:last] - base
        local[0, 0], local[-1, 1] = max(local[0, 0], 0), min(local[-1, 1], stop - base)
        cut.append((page, RowRanges(local)))
        first = last - (rows[last - 1, 1] > stop)  # a range may continue in the next page
    return cut


def _within_pages(first_rows: Sequence[int], rows: Ints) -> list[tuple[int, RowRanges]] | None:
    """Cut ranges that all lie within a page, such as single rows; None where one does not.

    Pages are looked up among the ranges: a take of many rows has far more ranges than pages.
    """
    borders = np.array(first_rows, np.int64)
    cuts = rows[:, 0].searchsorted(borders)
    pages = np.flatnonzero(cuts[:-1] < cuts[1:])
    if not len(rows) or (rows[cuts[pages + 1] - 1, 1] > borders[pages + 1]).any():
        return None
    bounds = zip(pages.tolist(), cuts[pages].tolist(), cuts[pages + 1].tolist(), strict=True)
    return [(page, RowRanges(rows[start:end] - first_rows[page])) for page, start, end in bounds]


def _range_by_page(
    first_rows: Sequence[int], start: int, end: int
) -> list[tuple[int, list[RowRange]]]:
    """Cut a single range, the common case, without the cost of arrays."""
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
    """Join the arrays of pages; a single array is not copied, no arrays make an empty one.

    Args:
        arrays: The arrays, all of the type.
        data_type: The type of the result.

    Raises:
        ArrayTooLarge: The values have more bytes than an array of this type can have.
    """
    if not arrays:
        return pa.nulls(0, data_type)
    if len(arrays) == 1:
        return arrays[0]
    if pa.types.is_dictionary(data_type):
        column = unify_chunks(pa.chunked_array(arrays))
        indices = pa.concat_arrays([chunk.indices for chunk in column.chunks])
        items = column.chunk(0).dictionary
        return pa.DictionaryArray.from_arrays(indices, items, ordered=data_type.ordered, safe=False)
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid:
        if has_offsets(data_type) and sum(map(array_bytes, arrays)) > LARGEST:
            raise ArrayTooLarge.of(data_type) from None
        raise


def join_columns(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """Join parts of columns, at least one part; each part has one array for each column."""
    return [join_arrays(arrays, arrays[0].type) for arrays in zip(*parts, strict=True)]
