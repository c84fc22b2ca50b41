"""BTREE indices: all values of a column in order, cut into pages.

`page_data.lance` holds the values, missing ones first, NaN last, with the number of each row;
`page_lookup.lance` the bounds of each page. Pages whose bounds exclude the wanted values are not
read; of the others, the values themselves are tested.

Format page: BTree index (`docs/src/format/index/scalar/btree.md`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.buffers import Ints
from lancefs.datafile.row_ranges import RowRanges, as_ranges
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest
from lancefs.index.row_sets import Addresses
from lancefs.index.sort_keys import SortKeys, as_keys, has_keys, sort_keys

FILES = ("page_lookup.lance", "page_data.lance")

_PAGE_ROWS = 4096  # where the file does not say
# Pages that are read together: enough to make the calls cheap, few enough for long texts.
_PAGES_AT_ONCE = 64


class BTree:
    """One segment of a BTREE index, open: the bounds of its pages are in memory.

    Args:
        lookup: The file of the bounds.
        data: The file of the values.

    Raises:
        CorruptFile: The files are damaged, or do not fit to each other.
        UnsupportedFeature: The index is laid out in a way that this release does not read.
    """

    def __init__(self, lookup: IndexReader, data: IndexReader) -> None:
        if lookup.metadata.get("range_partitioned", b"false") != b"false":
            raise lookup.unsupported("a BTREE index whose values are in several files")
        self._lookup, self._data = lookup, data
        self.data_type = data.column_type("values")
        if not has_keys(self.data_type):
            raise lookup.unsupported(f"a BTREE index over values of type {self.data_type}")
        self._page_rows = lookup.number("batch_size", _PAGE_ROWS)
        minima, maxima, null_counts, numbers = lookup.read(["min", "max", "null_count", "page_idx"])
        self._minima, self._maxima = minima, maxima
        self._null_counts = np.asarray(null_counts.fill_null(0))
        self._check_pages(numbers)
        self._low_keys = self._keys_of(minima)
        self._high_keys = self._keys_of(maxima)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        arrays = self._minima.nbytes + self._maxima.nbytes + self._null_counts.nbytes
        boxed = 64 * len(self._low_keys) if self._low_keys.dtype == object else 8
        return int(arrays + 2 * boxed + 4096)

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the pages that may hold values that pass a test; None where it cannot be told."""
        if test.intervals is None:
            return None
        steps = np.zeros(len(self._minima) + 1, np.int64)
        firsts = self._first_pages([low for low, _ in test.intervals])
        stops = self._stop_pages([high for _, high in test.intervals])
        filled = firsts < stops
        np.add.at(steps, firsts[filled], 1)
        np.add.at(steps, stops[filled], -1)
        wanted = np.cumsum(steps[:-1]) > 0
        if test.keeps_null:
            wanted |= self._null_counts > 0
        pages: Ints = np.flatnonzero(wanted)
        return pages

    def rows_in(self, pages: Ints) -> int:
        """Return how many rows pages have."""
        return len(pages) * self._page_rows

    def find(self, pages: Ints, test: ColumnTest, most: int) -> Addresses | None:
        """Return the numbers of the rows that pass a test; None for more than `most`.

        Args:
            pages: The pages of the test.
            test: The test.
            most: Number of rows.

        Raises:
            CorruptFile: The index is damaged.
        """
        found, rows = [np.empty(0, np.uint64)], 0
        for start in range(0, len(pages), _PAGES_AT_ONCE):
            found.append(self._find_in_pages(pages[start : start + _PAGES_AT_ONCE], test))
            rows += len(found[-1])
            if rows > most:
                return None
        return np.concatenate(found)

    def _first_pages(self, lows: Sequence[object]) -> Ints:
        """Return the first page that may hold a key, for each key; for None the first page."""
        without = len(self._maxima) - len(self._high_keys)  # pages of missing values only
        is_open = np.array([low is None for low in lows], np.bool_)
        keys = as_keys([low for low in lows if low is not None], self._high_keys.dtype)
        pages = np.zeros(len(lows), np.int64)
        pages[~is_open] = np.searchsorted(self._high_keys, keys) + without
        return pages

    def _stop_pages(self, highs: Sequence[object]) -> Ints:
        """Return the page after the last one that may hold a key, for each key."""
        without = len(self._minima) - len(self._low_keys)  # pages that begin with missing values
        is_open = np.array([high is None for high in highs], np.bool_)
        keys = as_keys([high for high in highs if high is not None], self._low_keys.dtype)
        pages = np.full(len(highs), len(self._minima), np.int64)
        pages[~is_open] = np.searchsorted(self._low_keys, keys, side="right") + without
        return pages

    def _find_in_pages(self, pages: Ints, test: ColumnTest) -> Addresses:
        values, ids = self._data.read(["values", "ids"], self._rows_of(pages))
        if ids.null_count or not pa.types.is_uint64(ids.type):
            raise self._data.damage("row numbers without nulls, of type uint64, were expected")
        self._check_order(pages, values)
        numbers: Addresses = np.asarray(ids)[test.passes(values)]
        return numbers

    def _rows_of(self, pages: Ints) -> RowRanges:
        bounds = as_ranges(pages).bounds * self._page_rows
        return RowRanges(np.minimum(bounds, self._data.num_rows))

    # What damage would leave rows out

    def _check_pages(self, numbers: pa.Array) -> None:
        """Check that the pages are all of the data, each once and in order."""
        pages = -(-self._data.num_rows // self._page_rows) if self._page_rows else -1
        if not np.array_equal(np.asarray(numbers.fill_null(0)), np.arange(pages)):
            raise self._lookup.damage(
                f"the pages do not cover the {self._data.num_rows} rows of {self._data.url}"
            )
        if self._minima.type != self.data_type or self._maxima.type != self.data_type:
            raise self._lookup.damage(f"bounds of type {self._minima.type}, not {self.data_type}")

    def _keys_of(self, bounds: pa.Array) -> SortKeys:
        """Return the sort keys of bounds, whose missing ones come first."""
        known = bounds.slice(bounds.null_count)
        if known.null_count or pc.any(pc.greater(known[:-1], known[1:])).as_py():
            raise self._lookup.damage("the bounds of the pages are not in order")
        return sort_keys(known)

    def _check_order(self, pages: Ints, values: pa.Array) -> None:
        """Check that the values of pages are in order, and within the bounds of the pages."""
        nulls = int(self._null_counts[pages].sum())
        known = values.slice(values.null_count)
        if nulls != values.null_count or known.null_count:
            raise self._data.damage(f"{values.null_count} missing values, expected {nulls} first")
        if pc.any(pc.greater(known[:-1], known[1:])).as_py():
            raise self._data.damage("the values are not in order")
        ends = np.minimum((np.arange(len(pages)) + 1) * self._page_rows, len(values)) - 1
        firsts = np.arange(len(pages)) * self._page_rows
        indices = pa.array(pages)
        for bounds, at in ((self._minima, firsts), (self._maxima, ends)):
            expected, stored = bounds.take(indices), values.take(pa.array(at))
            if pc.any(pc.not_equal(expected, stored)).as_py() and not _are_nan(expected, stored):
                raise self._data.damage("a page begins or ends with other values than its bounds")


def _are_nan(expected: pa.Array, stored: pa.Array) -> bool:
    """Tell whether arrays differ only where both are NaN."""
    if not pa.types.is_floating(expected.type):
        return False
    return np.array_equal(np.asarray(expected), np.asarray(stored), equal_nan=True)
