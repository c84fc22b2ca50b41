"""How many bytes rows have: those of the pages that they lie in, spread evenly over their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

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
        looked_up: The bytes that its values take besides, where a dictionary holds them once; see
            `looked_up`. None where no page has one.
    """

    first_rows: Sequence[int]
    stored: Sequence[int]
    looked_up: Sequence[float] | None = None


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


class RowSizes:
    """The bytes of ranges of rows.

    Args:
        columns: The pages of columns. Those of a column that counts the items of lists, or several
            rows for each row of the file, are stretched over the rows.
        rows: Of the file.
        most: Bytes that all pages store at most, whatever damaged files say of each of them.
        least: Bytes that a row has at least once it is decoded.
    """

    def __init__(
        self, columns: Iterable[PageSizes], rows: int, most: int, least: float = 0
    ) -> None:
        alike: dict[tuple[int, ...], _Floats] = {}  # mostly all columns have their pages alike
        for first_rows, stored, besides in columns:
            if first_rows[-1]:
                pages = tuple(first_rows)
                sizes = np.array([stored, besides or [0] * len(stored)], np.float64)
                alike[pages] = alike.get(pages, 0.0) + sizes
        borders = [np.array(pages) * (rows / pages[-1]) for pages in alike]
        self._rows = np.unique(np.concatenate([[0.0, float(rows)], *borders]))
        before = np.zeros((2, len(self._rows)))
        for border, of_pages in zip(borders, alike.values(), strict=True):
            for kind, sizes in enumerate(of_pages):
                before[kind] += np.interp(self._rows, border, np.append(0, sizes.cumsum()))
        if before[0, -1] > most:
            before[0] *= most / before[0, -1]
        within = np.maximum(np.diff(before.sum(axis=0)), np.diff(self._rows) * least)
        self._before = np.append(0, within.cumsum())

    def rows_within(self, start: int, size: float) -> int:
        """Return how many rows from `start` on have no more bytes than `size`."""
        before = np.interp(start, self._rows, self._before) + size
        return int(np.interp(before, self._before, self._rows)) - start
