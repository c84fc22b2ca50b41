"""Where the values of a field are: its pages, one a batch, and pieces of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.row_ranges import bounds_of
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange

_LARGEST = 1 << 60  # bits of a page: no file is as large, and sums of a few still fit an int64


@dataclass(frozen=True, slots=True)
class Pieces:
    """Slots of batches in the order that they are wanted.

    Piece i is of batch `batches[i]`, from slot `starts[i]` to before slot `ends[i]`. What a slot
    is (a row, an item of a list, an offset) depends on the page.
    """

    batches: Ints
    starts: Ints
    ends: Ints

    @property
    def lengths(self) -> Ints:
        """Slots of each piece."""
        return self.ends - self.starts

    @property
    def count(self) -> int:
        """Slots of all pieces."""
        return int(self.lengths.sum())

    def scaled(self, factor: int) -> Pieces:
        """Return the pieces in slots that are smaller by a factor."""
        return Pieces(self.batches, self.starts * factor, self.ends * factor)

    def extended(self) -> Pieces:
        """Return the pieces with one more slot at the end of each."""
        return Pieces(self.batches, self.starts, self.ends + 1)


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a field.

    `positions` (a byte of the file) and `lengths` (values) have an element a batch; `limit` is the
    byte before which all pages end.
    """

    positions: Ints
    lengths: Ints
    limit: int

    def scaled(self, factor: int) -> Pages:
        """Return the pages with each value seen as several."""
        if self._longest() * factor > _LARGEST:
            raise CorruptFile(f"a page of {self._longest()} values, each of {factor} items")
        return replace(self, lengths=self.lengths * factor)

    def extended(self) -> Pages:
        """Return the pages with one more value in each."""
        return replace(self, lengths=self.lengths + 1)

    def check(self, pieces: Pieces) -> None:
        """Check that pieces lie within the pages."""
        lengths = self.lengths[pieces.batches]
        if np.any(pieces.starts < 0) or np.any(pieces.ends > lengths):
            i = int(np.argmax((pieces.starts < 0) | (pieces.ends > lengths)))
            raise CorruptFile(
                f"values {pieces.starts[i]}–{pieces.ends[i]} are wanted, the page of batch "
                f"{pieces.batches[i]} has {lengths[i]}"
            )

    def bytes_of(self, pieces: Pieces, bits: int) -> tuple[list[ByteRange], Ints]:
        """Return the bytes that hold pieces of values of a width, and the bit that each starts at.

        Raises:
            CorruptFile: Values are wanted that lie outside of their page or the file.
        """
        self.check(pieces)
        if self._longest() * bits > _LARGEST:
            raise CorruptFile(f"a page of {self._longest()} values of {bits} bits")
        positions = self.positions[pieces.batches]
        first, last = pieces.starts * bits, pieces.ends * bits
        starts, ends = positions + first // 8, positions + (last + 7) // 8
        if np.any(ends > self.limit):
            raise CorruptFile(f"a page reaches to byte {ends.max()}, pages end before {self.limit}")
        return list(zip(starts.tolist(), ends.tolist(), strict=True)), first % 8

    def _longest(self) -> int:
        return int(self.lengths.max(initial=0))


def cut(ranges: Sequence[RowRange], batch_offsets: Ints) -> Pieces:
    """Cut ranges of rows at the borders of the batches.

    Args:
        ranges: Rows of the file.
        batch_offsets: First row of each batch; then the number of rows.

    Raises:
        CorruptFile: There are no such rows.
    """
    rows = bounds_of(ranges)
    rows = rows[rows[:, 0] < rows[:, 1]]
    if len(rows) and (rows.min() < 0 or rows.max() > batch_offsets[-1]):
        raise CorruptFile(f"row {rows.max() - 1} is wanted, the file has {batch_offsets[-1]} rows")
    first = np.searchsorted(batch_offsets, rows[:, 0], side="right") - 1
    counts = np.searchsorted(batch_offsets, rows[:, 1], side="left") - first
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    batches = np.repeat(first, counts) + nth
    begin = batch_offsets[batches]
    starts = np.maximum(np.repeat(rows[:, 0], counts), begin) - begin
    ends = np.minimum(np.repeat(rows[:, 1], counts), batch_offsets[batches + 1]) - begin
    some = starts < ends
    return Pieces(batches[some], starts[some], ends[some])
