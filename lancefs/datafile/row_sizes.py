"""How many bytes rows have: those of the pages that they lie in, spread evenly over their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

# Of a column: the first row of each page, then the number of rows; and the bytes of each page.
PageSizes: TypeAlias = tuple[Sequence[int], Sequence[int]]
_Floats: TypeAlias = npt.NDArray[np.float64]


class RowSizes:
    """The bytes of ranges of rows.

    Args:
        columns: The pages of columns. Those of a column that counts the items of lists, or several
            rows for each row of the file, are stretched over the rows.
        rows: Of the file.
        most: Bytes that all pages have at most, whatever damaged files say of each of them.
        least: Bytes that a row has at least once it is decoded.
    """

    def __init__(
        self, columns: Iterable[PageSizes], rows: int, most: int, least: float = 0
    ) -> None:
        alike: dict[tuple[int, ...], _Floats] = {}  # mostly all columns have their pages alike
        for first_rows, sizes in columns:
            if first_rows[-1]:
                pages = tuple(first_rows)
                alike[pages] = alike.get(pages, 0.0) + np.asarray(sizes, np.float64)
        borders = [np.array(pages) * (rows / pages[-1]) for pages in alike]
        self._rows = np.unique(np.concatenate([[0.0, float(rows)], *borders]))
        before = np.zeros(len(self._rows))
        for border, bytes_ in zip(borders, alike.values(), strict=True):
            before += np.interp(self._rows, border, np.append(0, bytes_.cumsum()))
        if before[-1] > most:
            before *= most / before[-1]
        within = np.maximum(np.diff(before), np.diff(self._rows) * least)
        self._before = np.append(0, within.cumsum())

    def rows_within(self, start: int, size: float) -> int:
        """Return how many rows from `start` on have no more bytes than `size`."""
        before = np.interp(start, self._rows, self._before) + size
        return int(np.interp(before, self._before, self._rows)) - start
