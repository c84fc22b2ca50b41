"""An in-memory cache of string columns with few distinct values, as dictionary indices.

Writers store such a column without dictionaries where another encoding takes fewer bytes. An engine
that groups by one repeatedly can have it cached: the next scans that return it dictionary-encoded
fill the cache, and scans after them decode nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, numbers_of
from lancefs.datafile.blocks import RowRange, select
from lancefs.datafile.buffers import Array
from lancefs.datafile.constants import array_of
from lancefs.datafile.row_ranges import count_rows, rows_of
from lancefs.forks import Lock
from lancefs.storage import SharedBudget
from lancefs.table.per_version import PerVersion

if TYPE_CHECKING:
    from lancefs.table.fragment_reader import FragmentReader
    from lancefs.table.open_version import OpenVersion

# Most values, and the bytes that they take.
MAX_VALUES, _MAX_BYTES = 16 * 1024, 1024 * 1024
# Bytes that the columns of a process take, two for each row.
BUDGET = 64 * 1024 * 1024
_SHARED = SharedBudget(lambda: 1 << 30, BUDGET)
# Positions of a row that is null, and of one that was not read yet.
_NULL, _UNKNOWN = 0xFFFE, 0xFFFF

_FragmentRows: TypeAlias = "tuple[FragmentReader, Sequence[RowRange]]"


class CachedStrings:
    """The strings of a column of an open version; threads share it.

    Attributes:
        is_kept: Whether the column is kept: not when it turned out to have many values, nor when
            the memory was needed for others.
        last_use: See `SharedBudget`.
    """

    def __init__(self) -> None:
        self.is_kept = True
        self.last_use = 0
        self._lock = Lock()
        self._items = array_of([], pa.string())
        self._positions: dict[int, Array] = {}  # of the rows of fragments, by their ids

    @property
    def cost(self) -> int:
        """Bytes that the column takes."""
        return sum(each.nbytes for each in list(self._positions.values()))

    def let_go(self) -> None:
        """Keep the column no longer."""
        self.is_kept = False
        self._positions = {}

    def find(self, parts: Sequence[_FragmentRows]) -> pa.DictionaryArray | None:
        """Return rows of some fragments; None where some of them were not noted.

        Args:
            parts: Readers of fragments, each with ranges of offsets of rows.
        """
        found = list[Array]()
        for reader, ranges in parts:
            positions = self._positions.get(reader.fragment.id)
            if positions is None:
                return None
            found.append(select(positions, ranges))
        if not found:  # no rows of a run of fragments
            return None
        of_rows = found[0] if len(found) == 1 else np.concatenate(found)
        greatest = int(of_rows.max(initial=0))
        if greatest == _UNKNOWN:
            return None
        _SHARED.use(self)
        valid = of_rows != _NULL if greatest == _NULL else None
        buffers = [bitmap(valid), pa.py_buffer(of_rows.astype(np.int32))]
        indices = pa.Array.from_buffers(pa.int32(), len(of_rows), buffers)
        # Values are added before rows that have them.
        return pa.DictionaryArray.from_arrays(indices, self._items, safe=False)

    def note(self, parts: Sequence[_FragmentRows], array: pa.DictionaryArray) -> None:
        """Note rows that were read.

        Args:
            parts: As for `find`.
            array: The rows.
        """
        if any(reader.physical_rows > BUDGET // 2 for reader, _ in parts):
            self.let_go()
        known = self._learn(array.dictionary) if self.is_kept else None
        if known is None:
            return
        of_rows = known.take(numbers_of(array.indices, len(known) - 1), mode="clip")
        start = 0
        for reader, ranges in parts:
            stop = start + count_rows(ranges)
            rows = slice(*ranges[0]) if len(ranges) == 1 else rows_of(ranges)
            self._of_fragment(reader)[rows] = of_rows[start:stop]
            start = stop
        if not self.is_kept:  # as another thread decided meanwhile
            self.let_go()

    def _learn(self, items: pa.StringArray) -> Array | None:
        """Return the positions of values, and that of null last; None where there are many."""
        import pyarrow.compute as pc  # not needed to open tables

        with self._lock:
            if len(items) <= MAX_VALUES and items.nbytes <= _MAX_BYTES:
                places = pc.index_in(items, self._items)
                if places.null_count:
                    new = pc.unique(items.filter(places.is_null()).drop_null())
                    self._items = pa.concat_arrays([self._items, new])
                    places = pc.index_in(items, self._items)
                if len(self._items) <= MAX_VALUES and self._items.nbytes <= _MAX_BYTES:
                    return np.append(numbers_of(places, _NULL), _NULL).astype(np.uint16)
            self.let_go()
            return None

    def _of_fragment(self, reader: FragmentReader) -> Array:
        """Return the positions of the rows of a fragment."""
        id = reader.fragment.id
        with self._lock:
            held = self._positions  # which `let_go` may replace at any time
            positions = held.get(id)
            if positions is None:
                positions = held[id] = np.full(reader.physical_rows, _UNKNOWN, np.uint16)
                _SHARED.hold(self)
            return positions


# The columns of a version that are kept, or were, by field id.
STRING_CACHE = PerVersion[dict[int, CachedStrings]](lambda _: {})


def cached_string_ids(version: OpenVersion) -> frozenset[int]:
    """Return the field ids of the columns of a version that are kept."""
    return frozenset(id for id, texts in list(STRING_CACHE.of(version).items()) if texts.is_kept)
