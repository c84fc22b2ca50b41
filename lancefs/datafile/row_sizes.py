"""Estimated sizes of rows: the bytes of a page, spread evenly over its rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.forks import cached_property

_Floats: TypeAlias = npt.NDArray[np.float64]
# Upper limit of the bytes of a dictionary item: damaged metadata must not make morsels of one row.
_LONGEST_ITEM = 256 * 1024
# Compressed items from this length on are taken to be longer by this factor once decompressed.
_LONG_ITEM = 64
_EXPANSION = 4
# Most columns times borders of pages that are computed with together: 8 bytes each, several times.
_CELLS = 64 * 1024


class PageSizes(NamedTuple):
    """The sizes of the pages of a column.

    Attributes:
        first_rows: The first row of each page; then the number of rows.
        stored: The stored bytes of each page.
        overhead: The bytes that each decoded page needs beyond its stored size: for values that a
            dictionary stores once (see `lookup_bytes`), and for the levels of lists. None where no
            page needs more.
    """

    first_rows: Sequence[int]
    stored: Sequence[int]
    overhead: Sequence[float] | None = None


def lookup_bytes(values: int, items: int, size: int, is_compressed: bool = False) -> float:
    """Estimate the bytes of values that are looked up in a dictionary.

    Pages do not record how often an item occurs: the estimate assumes a uniform distribution.

    Args:
        values: Number of values.
        items: Number of items in the dictionary.
        size: Stored bytes of all items.
        is_compressed: Whether the items are compressed.
    """
    width = size / max(items, 1)
    if is_compressed and width >= _LONG_ITEM:
        width *= _EXPANSION
    return values * min(width, _LONGEST_ITEM)


def sizes_of(
    column: ColumnPages, field: Field, decoded_overhead: Callable[[Page], float]
) -> PageSizes:
    """Return the sizes of the pages of a column.

    Args:
        column: The column.
        field: The field of the column. A field of a dictionary type keeps its dictionary when it is
            decoded.
        decoded_overhead: Returns the bytes a decoded page needs beyond its stored size.
    """
    if pa.types.is_dictionary(field.storage_type):
        return PageSizes(column.first_rows, column.stored_bytes)
    overhead = []
    for page in column.pages:
        size = 0.0
        with suppress(CorruptFile, UnsupportedFeature):  # reading the page will report the error
            size = decoded_overhead(page)
        overhead.append(size)
    return PageSizes(column.first_rows, column.stored_bytes, overhead)


class FieldSizes(NamedTuple):
    """The sizes of a field.

    Attributes:
        columns: The sizes of its columns. A column that counts the items of lists, or has several
            rows for each row of the file, is scaled to the rows of the file.
        least: Least bytes of a decoded value.
        varies: Whether the stored bytes are added to these, as the bytes of strings are added to
            their offsets.
    """

    columns: Sequence[PageSizes]
    least: float = 0
    varies: bool = True


class RowSizes:
    """The estimated bytes of ranges of rows; see `estimate_row_sizes`.

    Args:
        rows: Ascending rows at which the bytes of a row change, from 0 to the number of rows.
        before: Bytes of all rows before each of these, without those of dictionary values.
        looked_up: Bytes of all dictionary values before each of these, an estimate that may be far
            off; see `lookup_bytes`.
    """

    def __init__(self, rows: _Floats, before: _Floats, looked_up: _Floats) -> None:
        self._rows = rows
        self._before = before
        self._looked_up = looked_up
        self._corrected: tuple[float, list[float]] | None = None  # last correction, and its totals

    def rows_within(self, start: int, size: float, correction: float = 1) -> int:
        """Return how many rows from `start` on have at most `size` bytes.

        Args:
            start: The first row.
            size: Bytes.
            correction: Divides the estimate of dictionary values.
        """
        rows, before = self._borders, self._totals(correction)
        most = _interpolate(start, rows, before) + size
        return int(_interpolate(most, before, rows)) - start

    def bytes_of(self, start: int, end: int) -> float:
        """Return the bytes of the rows from `start` to `end`, dictionary values included."""
        rows, before = self._borders, self._estimated
        return _interpolate(end, rows, before) - _interpolate(start, rows, before)

    @cached_property
    def _borders(self) -> list[float]:
        borders: list[float] = self._rows.tolist()
        return borders

    @cached_property
    def _estimated(self) -> list[float]:
        """The bytes of all rows before each border, not corrected."""
        totals: list[float] = (self._before + self._looked_up).tolist()
        return totals

    def _totals(self, correction: float) -> list[float]:
        """Return the bytes of all rows before each border."""
        if correction == 1:
            return self._estimated
        known = self._corrected
        if known is None or known[0] != correction:
            totals = self._before + self._looked_up / correction
            known = self._corrected = correction, totals.tolist()
        return known[1]

    def stretched(self, rows: int) -> RowSizes:
        """Return the sizes of `rows` rows, of which these are a sample."""
        factor = rows / self._rows[-1]
        return RowSizes(self._rows * factor, self._before * factor, self._looked_up * factor)

    @classmethod
    def joined(cls, parts: Sequence[RowSizes]) -> RowSizes:
        """Return the sizes of consecutive rows, from the sizes of their parts."""
        return cls(
            _join_totals([part._rows for part in parts]),
            _join_totals([part._before for part in parts]),
            _join_totals([part._looked_up for part in parts]),
        )


def _interpolate(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return `np.interp` of one number, which takes some 10 µs, and gives up the GIL for it."""
    place = bisect_right(xs, x)
    if place in (0, len(xs)):
        return ys[0 if place == 0 else -1]
    share = (x - xs[place - 1]) / (xs[place] - xs[place - 1])
    return ys[place - 1] + share * (ys[place] - ys[place - 1])


def _join_totals(parts: Sequence[_Floats]) -> _Floats:
    """Join running totals, each of which begins with 0."""
    joined = [np.zeros(1)]
    for part in parts:
        joined.append(part[1:] + joined[-1][-1])
    return np.concatenate(joined)


def estimate_row_sizes(fields: Sequence[FieldSizes], rows: int, most: int) -> RowSizes:
    """Estimate the bytes of the rows of a file.

    Args:
        fields: The sizes of the fields that are read.
        rows: Number of rows of the file.
        most: Upper limit of the stored bytes of all pages, whatever damaged metadata says of each.
    """
    columns = [column for field in fields for column in field.columns if column.first_rows[-1]]
    total = sum([sum(column.stored) for column in columns])
    scale = most / total if total > most else 1.0
    distinct = {tuple(column.first_rows) for column in columns}  # mostly equal in all columns
    borders = [np.array(first_rows) * (rows / first_rows[-1]) for first_rows in distinct]
    ordered = np.sort(np.concatenate([[0.0, float(rows)], *borders]))
    unique = ordered[np.diff(ordered, prepend=-1.0) > 0]  # `np.unique` imports 10 ms of NumPy
    before, looked_up = np.zeros(len(unique)), np.zeros(len(unique))
    at_once = max(1, _CELLS // len(unique))
    for start in range(0, len(fields), at_once):
        known, values = _bytes_between(fields[start : start + at_once], unique, scale)
        before[1:] += known.sum(axis=0)
        looked_up[1:] += values.sum(axis=0)
    return RowSizes(unique, before.cumsum(), looked_up.cumsum())


def _bytes_between(
    fields: Sequence[FieldSizes], rows: _Floats, scale: float
) -> tuple[_Floats, _Floats]:
    """Return the bytes of each field between consecutive `rows`: dictionary values come second."""
    # Columns whose pages begin at the same rows, mostly all of them, are spread together.
    alike: dict[tuple[int, ...], list[tuple[int, PageSizes]]] = {}
    for number, field in enumerate(fields):
        for column in field.columns:
            if column.first_rows[-1]:
                alike.setdefault(tuple(column.first_rows), []).append((number, column))
    stored, overhead = np.zeros((2, len(fields), len(rows) - 1))
    for first_rows, columns in alike.items():
        numbers = [number for number, _ in columns]
        sizes = [column.stored for _, column in columns]
        np.add.at(stored, numbers, scale * _spread(first_rows, sizes, rows))
        more = [(number, one.overhead) for number, one in columns if one.overhead is not None]
        if more:
            spread = _spread(first_rows, [each for _, each in more], rows)
            np.add.at(overhead, [number for number, _ in more], spread)
    least = np.outer([field.least for field in fields], np.diff(rows))
    varies = np.array([field.varies for field in fields])[:, None]
    known = np.where(varies, stored + least, np.maximum(stored, least))
    return known, np.where(varies, overhead, np.maximum(stored + overhead, least) - known)


def _spread(first_rows: Sequence[int], sizes: Sequence[Sequence[float]], rows: _Floats) -> _Floats:
    """Spread the sizes of pages of columns over the rows between consecutive `rows`.

    Args:
        first_rows: The first row of each page of each column; then the number of rows.
        sizes: The sizes of the pages of each column.
        rows: Rows, the last of which is the end of the last page.
    """
    pages = np.array(sizes, np.float64)
    if len(rows) == len(first_rows) and np.array_equal(rows, first_rows):
        return pages
    borders = np.array(first_rows) * (rows[-1] / first_rows[-1])
    before = np.zeros((len(pages), len(borders)))
    np.cumsum(pages, axis=1, out=before[:, 1:])
    ends = np.clip(np.searchsorted(borders, rows, side="right"), 1, len(borders) - 1)
    width = borders[ends] - borders[ends - 1]
    share = np.divide(rows - borders[ends - 1], width, out=np.ones(len(rows)), where=width > 0)
    upto = before[:, ends - 1] + share * (before[:, ends] - before[:, ends - 1])
    return np.diff(upto, axis=1)
