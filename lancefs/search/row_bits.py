"""A set of rows that takes a bit for each row of a table, about."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Mask
from lancefs.forks import cached_property
from lancefs.index.row_sets import Addresses

# Row ids with the same upper bits are kept together, as bits.
_BITS = np.uint64(16)
_CHUNK = 1 << 16


class RowBits:
    """A set of row ids; it grows until it is asked for the first time."""

    def __init__(self) -> None:
        self.num_rows = 0
        self._chunks: dict[int, Array] = {}  # packed, eight rows a byte

    def add(self, row_ids: Addresses) -> None:
        """Add row ids, none of which was added before."""
        if (row_ids[1:] < row_ids[:-1]).any():
            row_ids = np.sort(row_ids)
        chunks = row_ids >> _BITS
        edges = np.flatnonzero(np.diff(chunks)) + 1
        for part in np.split(row_ids, edges) if len(row_ids) else ():
            bits = np.zeros(_CHUNK, np.bool_)
            bits[part & np.uint64(_CHUNK - 1)] = True
            number, packed = int(part[0] >> _BITS), np.packbits(bits)
            known = self._chunks.get(number)
            self._chunks[number] = packed if known is None else known | packed
        self.num_rows += len(row_ids)

    def has(self, row_ids: Addresses) -> Mask:
        """Tell which row ids are in the set."""
        numbers, chunks = self._table
        if not len(numbers):
            return np.zeros(len(row_ids), np.bool_)
        wanted = row_ids >> _BITS
        at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        low = row_ids & np.uint64(_CHUNK - 1)
        places = (low >> np.uint64(3)).astype(np.int64)
        bits = chunks[at, places] >> (7 - (low & np.uint64(7))).astype(np.uint8)
        found: Mask = (numbers[at] == wanted) & (bits & 1).astype(np.bool_)
        return found

    def row_ids(self) -> Addresses:
        """Return all row ids, ascending."""
        parts = [np.empty(0, np.uint64)]
        for number, packed in sorted(self._chunks.items()):
            rows = np.flatnonzero(np.unpackbits(packed)).astype(np.uint64)
            parts.append(rows + np.uint64(number << 16))
        return np.concatenate(parts)

    @cached_property
    def _table(self) -> tuple[Addresses, Array]:
        """The upper bits of the row ids, ascending, and a row of bits for each."""
        numbers = sorted(self._chunks)
        rows = [self._chunks[number] for number in numbers]
        return np.array(numbers, np.uint64), np.stack(rows) if rows else np.empty((0, 0), np.uint8)
