"""The bitmaps of an index, one for each distinct value: read, counted and cached.

A look-up reads few bitmaps twice, to count their rows and to name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.datafile.row_ranges import as_ranges
from lancefs.index.files import IndexReader
from lancefs.storage.budget_cache import BudgetCache

# Bitmaps whose rows are counted rather than estimated, at most: they are read for it.
FEW = 16
# Bitmaps that are read together.
_BITMAPS_AT_ONCE = 256
# Bytes of bitmaps that a process keeps, as files store them.
_RECENT_BYTES = 64 * 1024 * 1024


Rows = TypeVar("Rows", bound=Sized)

# By the segment and the position of the value.
_RECENT: BudgetCache[tuple[object, int], Any] = BudgetCache(_RECENT_BYTES)


class StoredBitmaps(Generic[Rows]):
    """The column of bitmaps of a segment.

    Args:
        file: The file of the bitmaps.
        length: How many there are.
        parse: Returns the rows of a serialized bitmap of the file with a URL.
    """

    def __init__(self, file: IndexReader, length: int, parse: Callable[[bytes, str], Rows]) -> None:
        self._file = file
        self._parse = parse
        self._counts: Ints = np.full(length, -1, np.int64)  # -1 where not counted yet
        self._key = object()  # of its bitmaps in _RECENT

    @property
    def cost(self) -> int:
        """Memory in bytes, about, without cached bitmaps."""
        return self._counts.nbytes

    def counts(self, positions: Ints) -> Ints | None:
        """Return how many rows each of some bitmaps has; None where that takes too long.

        Args:
            positions: The positions of the bitmaps.

        Raises:
            CorruptFile: The index is damaged.
        """
        if len(positions) > FEW or not self._file.is_cheap:
            return None
        if (self._counts[positions] < 0).any():
            self._counts[positions] = [len(rows) for rows in self.read(positions)]
        counts: Ints = self._counts[positions]
        return counts

    def read(self, positions: Ints) -> list[Rows]:
        """Return the rows of some bitmaps, which are cached then.

        Args:
            positions: The positions of the bitmaps, ascending.

        Raises:
            CorruptFile: The index is damaged.
        """
        numbers = positions.tolist()
        cached: dict[int, Rows] = {}
        for number in numbers:
            if (rows := _RECENT.peek((self._key, number))) is not None:
                cached[number] = rows
        missing = [number for number in numbers if number not in cached]
        read = self._read(np.array(missing, np.int64)) if missing else []
        for number, data in zip(missing, read, strict=True):
            cached[number] = rows = self._parse(data, self._file.url)
            _RECENT.put((self._key, number), rows, len(data))
        return [cached[number] for number in numbers]

    def stream(self, positions: Ints) -> Iterator[Rows]:
        """Yield the rows of many bitmaps, which are not cached; see `read`."""
        for start in range(0, len(positions), _BITMAPS_AT_ONCE):
            for data in self._read(positions[start : start + _BITMAPS_AT_ONCE]):
                yield self._parse(data, self._file.url)

    def _read(self, positions: Ints) -> list[bytes]:
        (array,) = self._file.read(["bitmaps"], as_ranges(positions))
        is_binary = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
        if not is_binary or array.null_count:
            raise self._file.damage("a bitmap for each value was expected")
        bitmaps: list[bytes] = array.to_pylist()
        return bitmaps
