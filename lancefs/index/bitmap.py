"""BITMAP indices: for each distinct value of a column, the rows that have it.

The values are tested by the filter itself, so that any condition on the column is answered.

Format page: bitmap index (`docs/src/format/index/scalar/bitmap.md`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.buffers import Ints, UInts
from lancefs.index.address_maps import AddressMap
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest
from lancefs.index.sort_keys import has_keys
from lancefs.index.stored_bitmaps import FEW, StoredBitmaps
from lancefs.storage.budget_cache import BudgetCache

FILES = ("bitmap_page_lookup.lance",)

# Memory of the cache of row counts, and of the counts of one value, about.
_TALLIES_BYTES = 4 * 1024 * 1024
_TALLY_BYTES = 256
# Memory of the open file, about.
_READER_BYTES = 8 * 1024


class RowTallies(NamedTuple):
    """How many rows some bitmaps have in each fragment, each of them an entry for each of these.

    Attributes:
        fragments: Ids of the fragments.
        counts: The numbers of rows.
        highest: The highest offset of a row; -1 where there is none.
    """

    fragments: Ints
    counts: Ints
    highest: Ints


class Bitmap:
    """One segment of a BITMAP index, open: its distinct values are in memory.

    Args:
        file: The file of the values and their rows.
        rows: Rows of the table, by which the rows of many values are estimated.

    Raises:
        CorruptFile: The file is damaged.
    """

    def __init__(self, file: IndexReader, rows: int) -> None:
        self._file = file
        self._rows = rows
        self.data_type = file.column_type("keys")
        self._keys = file.read_keys("keys", "bitmaps")
        # Of floats, -0.0 and 0.0 are the same number, and NaN is many.
        is_plain = has_keys(self.data_type) and not pa.types.is_floating(self.data_type)
        if is_plain and len(pc.unique(self._keys)) != len(self._keys):
            raise file.damage("a value has two bitmaps")
        self._bitmaps = StoredBitmaps(file, len(self._keys), AddressMap)
        self._tallies: BudgetCache[int, Ints] = BudgetCache(_TALLIES_BYTES)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        tallies = min(_TALLIES_BYTES, len(self._keys) * _TALLY_BYTES)
        return int(self._keys.nbytes) + self._bitmaps.cost + tallies + _READER_BYTES

    @property
    def entries(self) -> int | None:
        """Number of rows that it holds, which only all bitmaps would tell."""
        return None

    def is_exact_for(self, test: ColumnTest) -> bool:
        """Whether all rows that it finds for a test pass; otherwise they may pass."""
        return True

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the positions of the values that pass a test; None for other values."""
        if test.data_type != self.data_type:
            return None
        wanted: Ints = np.flatnonzero(test.passes(self._keys))
        return wanted

    def others(self, pages: Ints) -> Ints:
        """Return the positions of all other values."""
        return np.setdiff1d(np.arange(len(self._keys)), pages, assume_unique=True)

    def rows_in(self, pages: Ints) -> int:
        """Return how many rows have some values; of many values, as if all were equally frequent.

        Raises:
            CorruptFile: The index is damaged.
        """
        counts = self._bitmaps.counts(pages)
        if counts is None:
            return self._rows * len(pages) // max(len(self._keys), 1)
        return int(counts.sum())

    def find(self, pages: Ints, test: ColumnTest, most: int) -> UInts | None:
        """Return the numbers of the rows that pass a test; None for more than `most`.

        Args:
            pages: The positions of the values that pass.
            test: The test.
            most: Number of rows.

        Raises:
            CorruptFile: The index is damaged.
        """
        maps, rows = [], 0
        for one in self.maps_of(pages):
            maps.append(one)
            rows += len(one)
            if rows > most:
                return None
        if len(maps) == 1:
            return maps[0].addresses()
        return np.concatenate([np.empty(0, np.uint64), *(one.addresses() for one in maps)])

    def maps_of(self, pages: Ints) -> Iterable[AddressMap]:
        """Return the rows that have some values, value by value.

        Args:
            pages: The positions of the values.

        Raises:
            CorruptFile: The index is damaged.
        """
        return self._bitmaps.read(pages) if len(pages) <= FEW else self._bitmaps.stream(pages)

    def tallies(self, pages: Ints) -> RowTallies:
        """Return how many rows some values have in each fragment; it is kept for the next time.

        Args:
            pages: The positions of the values.

        Raises:
            CorruptFile: The index is damaged.
        """
        numbers = pages.tolist()
        kept = {number: self._tallies.peek(number) for number in numbers}
        missing = [number for number in numbers if kept[number] is None]
        for number, one in zip(missing, self.maps_of(np.array(missing, np.int64)), strict=True):
            rows = [(n, len(rows), rows.max() if rows else -1) for n, rows in one.bitmaps()]
            kept[number] = own = np.array(rows, np.int64).reshape(-1, 3)
            self._tallies.put(number, own, _TALLY_BYTES + own.nbytes)
        parts = [one for one in kept.values() if one is not None]
        every = np.concatenate([np.empty((0, 3), np.int64), *parts])
        return RowTallies(*every.T)
