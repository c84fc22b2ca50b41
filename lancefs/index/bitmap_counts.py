"""Row counts of the bitmaps of an index: exact for few bitmaps, unknown for many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.index.files import IndexReader

# Bitmaps whose rows are counted rather than estimated, at most: they are read for it.
COUNTED = 16


class BitmapCounts:
    """The numbers of rows of the bitmaps that were counted once.

    Args:
        file: The file of the bitmaps.
        length: How many there are.
        count: Reads some bitmaps, and returns how many rows each has.
    """

    def __init__(
        self, file: IndexReader, length: int, count: Callable[[Ints], Sequence[int]]
    ) -> None:
        self._file = file
        self._count = count
        self._counts: Ints = np.full(length, -1, np.int64)  # -1 where not counted yet

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self._counts.nbytes

    def of(self, pages: Ints) -> Ints | None:
        """Return how many rows each of some bitmaps has; None where that takes too long.

        Args:
            pages: The positions of the bitmaps.

        Raises:
            CorruptFile: The index is damaged.
        """
        if len(pages) > COUNTED or not self._file.is_cheap:
            return None
        if (self._counts[pages] < 0).any():
            self._counts[pages] = self._count(pages)
        counts: Ints = self._counts[pages]
        return counts
