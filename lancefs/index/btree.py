"""BTREE indices: all values of a column in order, cut into pages.

`page_data.lance` holds the values, missing ones first, NaN last, with the number of each row;
`page_lookup.lance` the bounds of each page. Pages whose bounds exclude the wanted values are not
read; of the others, the values themselves are tested.

Format page: BTree index (`docs/src/format/index/scalar/btree.md`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Ints, Mask, UInts, to_arrow_numbers
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.row_ranges import RowRange, as_ranges, between, rows_of
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest
from lancefs.index.sort_keys import SortKeys, as_keys, has_keys, is_boxed, sort_keys
from lancefs.storage.budget_cache import BudgetCache

FILES = ("page_lookup.lance", "page_data.lance")

_PAGE_ROWS = 4096  # where the file does not say
# Bytes of the file that are read together, and pages: enough to make the calls cheap.
_BYTES_AT_ONCE = 8 * 1024 * 1024
_MAX_PAGES_AT_ONCE = 256
# Without a kernel that finds spans, pages of a local file with at most this many pages between them
# are read as one span: a read of its own costs as much as reading that many pages.
_GAP = 16
# If spans have this many pages on average, or more, it is quicker to read each span by itself.
_LONG_SPAN = 16
# Bytes of single pages that a process keeps: the same rows are often looked up again.
_RECENT_BYTES = 32 * 1024 * 1024
# Memory of the two open files, about.
_READER_BYTES = 16 * 1024


class _Rows(NamedTuple):
    """Rows of pages.

    Attributes:
        values: Their values, in order, missing ones first.
        ids: Their row numbers.
        keys: The sort keys of the values that are not missing; None where they take long to make.
    """

    values: pa.Array
    ids: UInts
    keys: SortKeys | None


def _cost(rows: _Rows) -> int:
    """Return the memory that rows take, about."""
    return int(rows.values.nbytes + rows.ids.nbytes)


# By the segment and the number of the page. What is kept of a segment that was closed goes first.
_RECENT: BudgetCache[tuple[object, int], _Rows] = BudgetCache(_RECENT_BYTES)


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
        self._ids = "row_ids" if "row_ids" in data.names else "ids"  # the former until 0.20
        if not has_keys(self.data_type):
            raise lookup.unsupported(f"a BTREE index over values of type {self.data_type}")
        self._page_rows = lookup.number("batch_size", _PAGE_ROWS)
        minima, maxima, null_counts, numbers = lookup.read(["min", "max", "null_count", "page_idx"])
        self._num_pages = len(numbers)
        self._null_counts = lookup.counts("null_count", null_counts, missing=0)
        self._check_pages(lookup.counts("page_idx", numbers))
        if minima.type != self.data_type or maxima.type != self.data_type:
            raise lookup.damage(f"bounds of type {minima.type}, values of {self.data_type}")
        self._low_keys = self._keys_of(minima)
        self._high_keys = self._keys_of(maxima)
        self._unbounded = self._pages_without_minimum()
        self._check_bounds()
        self._key = object()  # of its pages in _RECENT

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        keys = sum(map(_memory, (self._low_keys, self._high_keys)))
        return int(self._null_counts.nbytes + keys + _READER_BYTES)

    @property
    def entries(self) -> int:
        """Number of rows that it holds."""
        return self._data.num_rows

    @property
    def is_cheap(self) -> bool:
        """Whether all of its pages may be read to find a few rows."""
        return self._data.is_cheap

    def is_exact_for(self, test: ColumnTest) -> bool:
        """Whether all rows that it finds for a test pass; otherwise they may pass."""
        return True

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the pages that may hold values that pass a test; None if it has no answer."""
        if test.intervals is None or test.data_type != self.data_type:
            return None
        # The first pages may have no maximum, or no minimum: they begin with missing values.
        before_high = self._num_pages - len(self._high_keys)
        before_low = self._num_pages - len(self._low_keys)
        if len(test.intervals) == 1 and not test.keeps_null:
            ((low, high),) = test.intervals
            first = 0 if low is None else _place(self._high_keys, low, "left") + before_high
            stop = self._num_pages
            if high is not None:
                stop = _place(self._low_keys, high, "right") + before_low
            within = np.arange(first, max(first, stop))
            return np.union1d(self._unbounded, within) if len(self._unbounded) else within
        lows, highs = [low for low, _ in test.intervals], [high for _, high in test.intervals]
        firsts = _places(self._high_keys, lows, -before_high, "left") + before_high
        stops = _places(self._low_keys, highs, len(self._low_keys), "right") + before_low
        wanted = _covered(firsts, stops, self._num_pages)
        wanted[self._unbounded] = True
        if test.keeps_null:
            wanted |= self._null_counts > 0
        pages: Ints = np.flatnonzero(wanted)
        return pages

    def rows_in(self, pages: Ints) -> int:
        """Return how many rows pages have."""
        return len(pages) * self._page_rows

    def find(self, pages: Ints, test: ColumnTest, most: int) -> UInts | None:
        """Return the numbers of the rows that pass a test; None for more than `most`.

        Args:
            pages: The pages of the test.
            test: The test.
            most: Number of rows.

        Raises:
            CorruptFile: The index is damaged.
        """
        if len(pages) == 1:
            only = self._find_in([pages], test)
            return None if len(only) > most else only
        found, rows = [np.empty(0, np.uint64)], 0
        for spans in self._batches(pages):
            found.append(self._find_in(spans, test))
            rows += len(found[-1])
            if rows > most:
                return None
        return np.concatenate(found)

    def count(self, pages: Ints, test: ColumnTest, most: int) -> int | None:
        """Count the rows that pass a test; pages whose values all pass are not read.

        Args:
            pages: The pages of the test.
            test: The test.
            most: Rows of pages that are read.

        Returns:
            None if more would have to be read.

        Raises:
            CorruptFile: The index is damaged.
        """
        passing = self._all_pass(pages, test)
        if self.rows_in(pages[~passing]) > most:
            return None
        firsts = pages[passing] * self._page_rows
        rows = int(np.minimum(self._data.num_rows - firsts, self._page_rows).sum())
        for spans in self._batches(pages[~passing]):
            rows += len(self._find_in(spans, test))
        return rows

    def sample(self, pages: Ints, test: ColumnTest) -> UInts:
        """Return the numbers of the rows that pass a test in one of its pages.

        Raises:
            CorruptFile: The index is damaged.
        """
        middle = len(pages) // 2
        return self._find_in([pages[middle : middle + 1]], test)

    def _all_pass(self, pages: Ints, test: ColumnTest) -> Mask:
        """Return which pages have values between the ends of an interval only, all of which pass.

        NaN lies before the first bound or behind the last one, and never between two bounds.
        """
        passing = np.zeros(len(pages), np.bool_)
        if not test.intervals_suffice or test.intervals is None or not len(pages):
            return passing
        before_low = self._num_pages - len(self._low_keys)
        before_high = self._num_pages - len(self._high_keys)
        is_known = (pages >= max(before_low, before_high)) & (self._null_counts[pages] == 0)
        known = pages[is_known]
        lows, highs = self._low_keys[known - before_low], self._high_keys[known - before_high]
        inside = np.zeros(len(known), np.bool_)
        for low, high in test.intervals:
            within = lows == lows  # not NaN
            within &= highs == highs
            if low is not None:
                within &= lows > as_keys([low], lows.dtype)
            if high is not None:
                within &= highs < as_keys([high], highs.dtype)
            inside |= within
        passing[is_known] = inside
        return passing

    def _batches(self, pages: Ints) -> Iterator[list[Ints]]:
        """Yield the pages that are read together: pages of several spans, each read as a whole."""
        most = _BYTES_AT_ONCE * self._num_pages // max(self._data.file.size, 1)
        most = min(max(most, 1), _MAX_PAGES_AT_ONCE)
        gap = 1 if self._data.reads_spans or not self._data.file.store.is_local else _GAP
        spans = np.split(pages, np.flatnonzero(np.diff(pages) > gap) + 1) if len(pages) else []
        batch: list[Ints] = []
        size = 0
        for span in spans:
            while len(span):
                part = span[span < span[0] + most]
                span = span[len(part) :]
                length = int(part[-1] - part[0]) + 1
                if batch and size + length > most:
                    yield batch
                    batch, size = [], 0
                batch.append(part)
                size += length
        if batch:
            yield batch

    def _find_in(self, spans: list[Ints], test: ColumnTest) -> UInts:
        """Return the numbers of the rows that pass in some pages."""
        values, ids, keys = self._join_pages(self._pages_in(spans))
        likely = self._within_intervals(values, keys, test)
        if isinstance(likely, slice):
            some = values[likely]
        else:
            some = values.take(to_arrow_numbers(likely))
        found: UInts = ids[likely][test.passes(some)]
        return found

    def _pages_in(self, spans: list[Ints]) -> list[_Rows]:
        """Return the rows of some pages, which are kept where they are not those of long spans.

        Returns:
            The rows of each page, or of all of them as one.

        Raises:
            CorruptFile: The pages are damaged.
        """
        if len(spans) * _LONG_SPAN < sum(map(len, spans)):
            return [self._read(spans)]
        numbers = np.concatenate(spans).tolist()
        kept = {number: _RECENT.peek((self._key, number)) for number in numbers}
        known = [number for number, rows in kept.items() if rows is not None]
        missing = [np.setdiff1d(span, known, assume_unique=True) for span in spans]
        missing = [span for span in missing if len(span)]
        if missing:
            read = self._read(missing)
            kept.update(self._keep(np.concatenate(missing).tolist(), read))
            if not known:
                return [read]
        return [rows for rows in kept.values() if rows is not None]

    def _keep(self, pages: list[int], rows: _Rows) -> dict[int, _Rows]:
        """Keep the rows of pages, and return those of each.

        Args:
            pages: The pages.
            rows: Their rows.
        """
        found: dict[int, _Rows] = {}
        done = 0
        for number in pages:
            first, last = self._rows_of(number, number + 1)
            own = slice(done, done + last - first)
            done = own.stop
            values, ids = rows.values[own], rows.ids[own]
            if len(pages) > 1:  # in memory of its own
                values, ids = pa.concat_arrays([values]), ids.copy()
            found[number] = self._with_keys(values, ids)
            _RECENT.put((self._key, number), found[number], _cost(found[number]))
        return found

    def _join_pages(self, pages: Sequence[_Rows]) -> _Rows:
        """Return the rows of pages, in order."""
        if len(pages) == 1:
            return pages[0]
        values = join_arrays([rows.values for rows in pages], self.data_type)
        return self._with_keys(values, np.concatenate([rows.ids for rows in pages]))

    def _with_keys(self, values: pa.Array, ids: UInts) -> _Rows:
        """Return rows with the sort keys of their values, where these are made quickly.

        Args:
            values: Values, missing ones first.
            ids: Their row numbers.
        """
        known = values.slice(values.null_count)
        is_slow = is_boxed(self.data_type) or known.null_count
        return _Rows(values, ids, None if is_slow else sort_keys(known))

    def _read(self, spans: list[Ints]) -> _Rows:
        """Return the rows of some pages, checked.

        Raises:
            CorruptFile: The pages are damaged.
        """
        rows = [self._rows_of(int(span[0]), int(span[-1]) + 1) for span in spans]
        is_long = len(spans) * _LONG_SPAN < sum(map(len, spans))
        parts = [[part] for part in rows] if is_long or not self._data.reads_spans else [rows]
        values, ids = zip(*self._data.read_parts(["values", self._ids], parts), strict=True)
        all_values, all_ids = join_arrays(values, self.data_type), pa.concat_arrays(ids)
        if sum(int(span[-1] - span[0]) + 1 - len(span) for span in spans):  # pages in between
            wanted = to_arrow_numbers(self._positions(spans))
            all_values, all_ids = all_values.take(wanted), all_ids.take(wanted)
        if all_ids.null_count or not pa.types.is_uint64(all_ids.type):
            raise self._data.damage("row numbers without nulls, of type uint64, were expected")
        found = self._with_keys(all_values, numbers_of(all_ids))
        self._check_order(np.concatenate(spans), all_values, found.keys)
        return found

    def _positions(self, spans: list[Ints]) -> Ints:
        """Return where the rows of pages are among those of whole spans."""
        parts, done = [], 0
        for span in spans:
            start, end = self._rows_of(int(span[0]), int(span[-1]) + 1)
            own = [self._rows_of(first, last) for first, last in as_ranges(span)]
            parts.append(rows_of(own) - start + done)
            done += end - start
        return np.concatenate(parts)

    def _within_intervals(
        self, values: pa.Array, keys: SortKeys | None, test: ColumnTest
    ) -> Ints | slice:
        """Return the positions of those ordered values that are in the intervals of a test.

        All positions where Arrow tests all values quicker than their keys are made.
        """
        if test.intervals is None or keys is None or _begins_with_nan(keys):
            return slice(None)
        missing = values.null_count
        if len(test.intervals) == 1 and not test.keeps_null:
            ((low, high),) = test.intervals
            start = 0 if low is None else _place(keys, low, "left")
            stop = len(keys) if high is None else _place(keys, high, "right")
            return slice(start + missing, max(start, stop) + missing)
        starts = _places(keys, [low for low, _ in test.intervals], 0, "left")
        stops = _places(keys, [high for _, high in test.intervals], len(keys), "right")
        if (starts[1:] >= stops[:-1]).all() and (starts <= stops).all():
            within = rows_of(between(starts, stops)) + missing
        else:
            within = np.flatnonzero(_covered(starts, stops, len(keys))) + missing
        return np.concatenate([np.arange(missing), within]) if test.keeps_null else within

    def _rows_of(self, first: int, last: int) -> RowRange:
        """Return the rows of pages."""
        return first * self._page_rows, min(last * self._page_rows, self._data.num_rows)

    # What damage would leave rows out

    def _check_pages(self, numbers: Ints) -> None:
        """Check that the pages are all of the data, each once and in order."""
        if not self._page_rows:
            raise self._lookup.damage("pages of 0 rows")
        pages = -(-self._data.num_rows // self._page_rows)
        if not np.array_equal(numbers, np.arange(pages)):
            raise self._lookup.damage(
                f"the pages do not cover the {self._data.num_rows} rows of {self._data.url}"
            )

    def _keys_of(self, bounds: pa.Array) -> SortKeys:
        """Return the sort keys of bounds, whose missing ones come first."""
        known = bounds.slice(bounds.null_count)
        if known.null_count or not _is_ascending(known):
            raise self._lookup.damage("the bounds of the pages are not in order")
        keys = sort_keys(known)
        return keys[_leading_nans_with_sign(keys) :]

    def _pages_without_minimum(self) -> Ints:
        """Return the pages whose values may lie before all bounds.

        Of floats, Lance puts NaN with a sign before all numbers, and NaN without one behind them.
        """
        if not pa.types.is_floating(self.data_type):
            return np.empty(0, np.int64)
        return self._with_values(self._num_pages - len(self._low_keys))

    def _with_values(self, count: int) -> Ints:
        """Return which of so many pages, from the first on, do not hold missing values only."""
        pages = np.arange(count)
        rows = np.minimum(self._page_rows, self._data.num_rows - pages * self._page_rows)
        found: Ints = pages[self._null_counts[:count] < rows]
        return found

    def _check_bounds(self) -> None:
        """Check that no page ends before it begins, or after the next one begins."""
        # The first pages may have no bounds: they hold missing values.
        without_maximum = self._with_values(self._num_pages - len(self._high_keys))
        if not np.isin(without_maximum, self._unbounded).all():
            raise self._lookup.damage("a page with values has no greatest one")
        count = min(len(self._low_keys), len(self._high_keys))
        lows, highs = (keys[len(keys) - count :] for keys in (self._low_keys, self._high_keys))
        if (lows > highs).any() or (highs[:-1] > lows[1:]).any():
            raise self._lookup.damage("the bounds of the pages overlap")

    def _check_order(self, pages: Ints, values: pa.Array, keys: SortKeys | None) -> None:
        """Check that the values of pages are in order, and within the bounds of the pages.

        Args:
            pages: The pages.
            values: Their values.
            keys: The sort keys of those that are not missing, where they are made quickly.
        """
        nulls = int(self._null_counts[pages].sum())
        known = values.slice(values.null_count)
        if nulls != values.null_count or known.null_count:
            raise self._data.damage(f"{values.null_count} missing values, expected {nulls} first")
        if not (_is_ascending(known) if keys is None else _are_ascending(keys)):
            raise self._data.damage("the values are not in order")
        starts = np.arange(len(pages)) * self._page_rows
        ends = np.minimum(starts + self._page_rows, len(values)) - 1
        for bounds, at in ((self._low_keys, starts), (self._high_keys, ends)):
            without = self._num_pages - len(bounds)  # the first pages have no such bound
            is_known = pages >= without
            expected = bounds[pages[is_known] - without]
            if not _have_keys(values, keys, at[is_known], expected):
                raise self._data.damage("a page begins or ends with other values than its bounds")


def _place(keys: SortKeys, bound: object, side: Literal["left", "right"]) -> int:
    """Return where a bound would be put among ordered keys, before or after those equal to it."""
    return int(keys.searchsorted(as_keys([bound], keys.dtype), side)[0])


def _places(
    keys: SortKeys, bounds: Sequence[object], open_place: int, side: Literal["left", "right"]
) -> Ints:
    """Return where bounds would be put among ordered keys; open bounds have a place of their own.

    Args:
        keys: The keys.
        bounds: Keys; None for an open bound.
        open_place: The place of open bounds.
        side: Whether a bound is put before or after keys that are equal to it.
    """
    is_open = np.array([bound is None for bound in bounds], np.bool_)
    places = np.full(len(bounds), open_place, np.int64)
    known = as_keys([bound for bound in bounds if bound is not None], keys.dtype)
    places[~is_open] = np.searchsorted(keys, known, side)
    return places


def _covered(starts: Ints, stops: Ints, length: int) -> Mask:
    """Return which of so many positions lie in some of the ranges."""
    steps = np.zeros(length + 1, np.int64)
    filled = starts < stops
    np.add.at(steps, starts[filled], 1)
    np.add.at(steps, stops[filled], -1)
    covered: Mask = np.cumsum(steps[:-1]) > 0
    return covered


def _memory(keys: SortKeys) -> int:
    """Return the bytes that sort keys take, about."""
    boxed = sum(map(sys.getsizeof, keys.tolist())) if keys.dtype == object else 0
    return keys.nbytes + boxed


def _is_ascending(values: pa.Array) -> bool:
    """Tell whether values are in order, NaN last."""
    if is_boxed(values.type):
        return not pc.any(pc.greater(values[:-1], values[1:])).as_py()
    return _are_ascending(sort_keys(values))


def _are_ascending(keys: SortKeys) -> bool:
    """Tell whether sort keys are in order, NaN last."""
    return not (keys[:-1] > keys[1:]).any()


def _have_keys(
    values: pa.Array, keys: SortKeys | None, positions: Ints, expected: SortKeys
) -> bool:
    """Tell whether values at some positions have the expected sort keys.

    Args:
        values: The values, missing ones first.
        keys: The sort keys of those that are not missing; None to make those that are needed.
        positions: The positions.
        expected: The sort keys.
    """
    missing = values.null_count
    if missing and (positions < missing).any():
        return False
    if keys is None:
        stored = sort_keys(values.take(to_arrow_numbers(positions)))
    else:
        stored = keys[positions - missing]
    return bool(np.array_equal(stored, expected, equal_nan=expected.dtype.kind == "f"))


def _leading_nans_with_sign(keys: SortKeys) -> int:
    """Return how many of some ordered keys are NaN with a sign, which come before all numbers."""
    if keys.dtype.kind != "f":
        return 0
    others = np.flatnonzero(~(np.isnan(keys) & np.signbit(keys)))
    return int(others[0]) if len(others) else len(keys)


def _begins_with_nan(keys: SortKeys) -> bool:
    """Whether the first of some ordered keys is NaN: with a sign, it comes before all numbers."""
    return keys.dtype.kind == "f" and len(keys) > 0 and bool(np.isnan(keys[0]))
