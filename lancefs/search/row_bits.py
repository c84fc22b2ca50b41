"""A set of row ids: a bitmap where the ids are dense, a sorted array otherwise."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Mask, UInts
from lancefs.datafile.row_ranges import is_among
from lancefs.forks import cached_property
from lancefs.index.segments import Coverage, IndexSegment

# Row ids with the same upper bits are kept together, as bits.
_BITS = np.uint64(16)
_CHUNK = 1 << 16
# Fewer row ids with the same upper bits are kept as they are, which takes no more memory.
_MANY = _CHUNK // 8 // 8


class RowBits:
    """A set of row ids; it grows until it is asked for the first time."""

    def __init__(self) -> None:
        self.num_rows = 0
        self._chunks: dict[int, Array] = {}  # packed, eight rows a byte
        self._single: list[UInts] = []

    def add(self, row_ids: UInts) -> None:
        """Add row ids, none of which was added before."""
        if (row_ids[1:] < row_ids[:-1]).any():
            row_ids = np.sort(row_ids)
        chunks = row_ids >> _BITS
        edges = np.flatnonzero(np.diff(chunks)) + 1
        bounds = np.concatenate([[0], edges, [len(row_ids)]])
        sizes = np.diff(bounds)
        self._single.append(row_ids[np.repeat(sizes < _MANY, sizes)])
        for start, end in zip(bounds[:-1][sizes >= _MANY], bounds[1:][sizes >= _MANY], strict=True):
            part = row_ids[start:end]
            bits = np.zeros(_CHUNK, np.bool_)
            bits[part & np.uint64(_CHUNK - 1)] = True
            number, packed = int(part[0] >> _BITS), np.packbits(bits)
            known = self._chunks.get(number)
            self._chunks[number] = packed if known is None else known | packed
        self.num_rows += len(row_ids)

    @property
    def cost(self) -> int:
        """Memory in bytes, about, also that of what is made when it is asked."""
        return 2 * sum(part.nbytes for part in (*self._chunks.values(), *self._single))

    def has(self, row_ids: UInts) -> Mask:
        """Tell which row ids are in the set."""
        single, numbers, chunks = self._table
        found = is_among(row_ids, single)
        if not len(numbers):
            return found
        wanted = row_ids >> _BITS
        at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        low = row_ids & np.uint64(_CHUNK - 1)
        places = (low >> np.uint64(3)).astype(np.int64)
        bits = chunks[at, places] >> (7 - (low & np.uint64(7))).astype(np.uint8)
        found |= (numbers[at] == wanted) & (bits & 1).astype(np.bool_)
        return found

    def has_rows(self, coverage: Coverage, segment: IndexSegment, numbers: UInts) -> Mask:
        """Tell which row numbers of a segment of an index are of rows in the set."""
        if coverage.has_row_ids(segment):
            return self.has(numbers)
        which, row_ids = coverage.locate(segment, numbers)
        found = np.zeros(len(numbers), np.bool_)
        found[which] = self.has(row_ids)
        return found

    def row_ids(self) -> UInts:
        """Return all row ids, ascending."""
        single, numbers, chunks = self._table
        parts = [single]
        for number, packed in zip(numbers, chunks, strict=True):
            low = np.flatnonzero(np.unpackbits(packed)).astype(np.uint64)
            parts.append(low + (number << _BITS))
        return np.sort(np.concatenate(parts))

    @cached_property
    def _table(self) -> tuple[UInts, UInts, Array]:
        """The row ids that are kept as they are; upper bits of others, and a row of bits for each.

        Both are ascending.
        """
        single = np.sort(np.concatenate([np.empty(0, np.uint64), *self._single]))
        numbers = sorted(self._chunks)
        rows = [self._chunks[number] for number in numbers]
        chunks = np.stack(rows) if rows else np.empty((0, _CHUNK // 8), np.uint8)
        return single, np.array(numbers, np.uint64), chunks
