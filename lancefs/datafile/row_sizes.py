"""How many bytes rows have: those of the pages that they lie in, spread evenly over their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.container import Column, Page
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, UnsupportedFeature

_Floats: TypeAlias = npt.NDArray[np.float64]
# A value in a dictionary counts for so many bytes at most: damage must not make steps of one row.
_LONGEST = 256 * 1024
# How many times longer compressed text is taken to be once it is read, where it is long at all.
_EXPANDED = 4
_LONG = 64


class PageSizes(NamedTuple):
    """The pages of a column, with their bytes.

    Attributes:
        first_rows: The first row of each page; then the number of rows.
        stored: The bytes of each page.
        besides: The bytes that its rows take besides once they are read: of values that a
            dictionary holds once (see `looked_up`), and of the levels of lists. None where there
            are neither.
    """

    first_rows: Sequence[int]
    stored: Sequence[int]
    besides: Sequence[float] | None = None


def looked_up(values: int, items: int, size: int, is_compressed: bool = False) -> float:
    """Return how many bytes values take that are looked up in a dictionary.

    Args:
        values: How many.
        items: Of the dictionary, each of which is taken to occur as often.
        size: Bytes of all items, as they are stored.
        is_compressed: Whether they take more once they are read.
    """
    width = size / max(items, 1)
    if is_compressed and width >= _LONG:
        width *= _EXPANDED
    return values * min(width, _LONGEST)


def sizes_of(column: Column, field: Field, besides_of: Callable[[Page], float]) -> PageSizes:
    """Return the pages of a column, with their bytes.

    Args:
        column: The column.
        field: Whose it is. One of a dictionary type keeps its values in the dictionary.
        besides_of: Tells how many bytes the rows of a page take besides those that it stores.
    """
    if pa.types.is_dictionary(field.storage_type):
        return PageSizes(column.first_rows, column.stored_bytes)
    besides = []
    for page in column.pages:
        size = 0.0
        with suppress(CorruptFile, UnsupportedFeature):  # whoever reads the page is told
            size = besides_of(page)
        besides.append(size)
    return PageSizes(column.first_rows, column.stored_bytes, besides)


class FieldSizes(NamedTuple):
    """What is known of the bytes of a field.

    Attributes:
        columns: The pages of its columns. Those of a column that counts the items of lists, or
            several rows for each row of the file, are stretched over the rows.
        least: Bytes that a value has at least once it is decoded.
        varies: Whether the bytes that are stored come on top of these, as those of strings do.
    """

    columns: Sequence[PageSizes]
    least: float = 0
    varies: bool = True


class RowSizes:
    """The bytes of ranges of rows; see `estimated`.

    Args:
        rows: Borders between rows that have different bytes; from 0 to the number of rows.
        before: The bytes of all rows before each border, but for those that are guessed.
        guessed: The bytes, of all rows before each border, of values that are looked up: as if each
            of a dictionary occurred as often.
    """

    def __init__(self, rows: _Floats, before: _Floats, guessed: _Floats) -> None:
        self._rows = rows
        self._before = before
        self._guessed = guessed

    def rows_within(self, start: int, size: float, doubt: float = 1) -> int:
        """Return how many rows from `start` on have no more bytes than `size`.

        Args:
            start: A row.
            size: Bytes.
            doubt: How many times fewer bytes are taken for guessed ones.
        """
        before = self._before + self._guessed / doubt
        most = np.interp(start, self._rows, before) + size
        return int(np.interp(most, before, self._rows)) - start

    def bytes_of(self, start: int, end: int) -> float:
        """Return how many bytes rows have, guessed ones included."""
        first, last = np.interp((start, end), self._rows, self._before + self._guessed)
        return float(last - first)

    def stretched(self, rows: int) -> RowSizes:
        """Return those of so many rows, where these are a sample of them."""
        factor = rows / self._rows[-1]
        return RowSizes(self._rows * factor, self._before * factor, self._guessed * factor)

    @classmethod
    def joined(cls, parts: Sequence[RowSizes]) -> RowSizes:
        """Return those of rows that follow each other."""
        return cls(
            _joined([part._rows for part in parts]),
            _joined([part._before for part in parts]),
            _joined([part._guessed for part in parts]),
        )


def _joined(parts: Sequence[_Floats]) -> _Floats:
    """Join running totals, each of which begins with 0."""
    found = [np.zeros(1)]
    for part in parts:
        found.append(part[1:] + found[-1][-1])
    return np.concatenate(found)


def estimated(fields: Sequence[FieldSizes], rows: int, most: int) -> RowSizes:
    """Return the bytes of the rows of a file.

    Args:
        fields: What is read of them.
        rows: Of the file.
        most: Bytes that all pages store at most, whatever damaged files say of each of them.
    """
    pages = [one for field in fields for one in field.columns if one.first_rows[-1]]
    total = sum([sum(one.stored) for one in pages])
    scale = most / total if total > most else 1.0
    alike = {tuple(one.first_rows) for one in pages}  # mostly all columns have them alike
    borders = [np.array(first_rows) * (rows / first_rows[-1]) for first_rows in alike]
    unique = np.unique(np.concatenate([[0.0, float(rows)], *borders]))
    before, guessed = np.zeros(len(unique)), np.zeros(len(unique))
    for field in fields:
        stored, looked = _within(field, unique, scale)
        before[1:] += stored.cumsum()
        guessed[1:] += looked.cumsum()
    return RowSizes(unique, before, guessed)


def _within(field: FieldSizes, rows: _Floats, scale: float) -> tuple[_Floats, _Floats]:
    """Return the bytes of a field between each two borders of pages, and the guessed ones."""
    stored, besides = np.zeros(len(rows) - 1), np.zeros(len(rows) - 1)
    for column in field.columns:
        if column.first_rows[-1]:
            stored += scale * _spread(column, column.stored, rows)
            if column.besides is not None:
                besides += _spread(column, column.besides, rows)
    least = np.diff(rows) * field.least
    if field.varies:
        return stored + least, besides
    known = np.maximum(stored, least)
    return known, np.maximum(stored + besides, least) - known


def _spread(column: PageSizes, sizes: Sequence[float], rows: _Floats) -> _Floats:
    """Spread numbers of a column's pages over the rows between each two borders."""
    border = np.array(column.first_rows) * (rows[-1] / column.first_rows[-1])
    return np.diff(np.interp(rows, border, np.append(0.0, np.cumsum(sizes))))
