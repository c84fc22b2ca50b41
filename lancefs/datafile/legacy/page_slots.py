"""Pages of a field in a data file 0.1, one per batch, and the slots to read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.row_ranges import bounds_of
from lancefs.errors import CorruptFile
from lancefs.forks import cached_property

# Larger than any file, and small enough that the sum of a few such numbers fits an int64.
_MAX_PAGE_BITS = 1 << 60


@dataclass(frozen=True)
class SlotRanges:
    """Ranges of slots, in the order in which they are read.

    A slot is a row, an item of a list or an offset, depending on the page. Columns share the ranges
    of their rows, and what is computed of these.

    Attributes:
        batches: Batch of each range.
        starts: First slot of each range, within the page of the batch.
        ends: Slot after the last one of each range.
    """

    batches: Ints
    starts: Ints
    ends: Ints

    @cached_property
    def lengths(self) -> Ints:
        """Number of slots in each range."""
        return self.ends - self.starts

    @cached_property
    def count(self) -> int:
        """Number of slots in all ranges."""
        return int(self.lengths.sum())

    @cached_property
    def num_pages(self) -> int:
        """Number of pages of a field that the ranges lie in; those of a batch follow each other."""
        if len(self.batches) <= 1:
            return len(self.batches)
        return 1 + int(np.count_nonzero(self.batches[1:] != self.batches[:-1]))

    def scaled(self, factor: int) -> SlotRanges:
        """Return the ranges with each slot split into `factor` slots."""
        return SlotRanges(self.batches, self.starts * factor, self.ends * factor)

    @cached_property
    def extended(self) -> SlotRanges:
        """The ranges with one more slot at the end of each."""
        return SlotRanges(self.batches, self.starts, self.ends + 1)


@dataclass(frozen=True)
class FieldPages:
    """Pages of a field, one per batch.

    Attributes:
        positions: First byte of each page, within the file.
        lengths: Number of slots in each page.
        limit: Position in the file before which all pages end.
    """

    positions: Ints
    lengths: Ints
    limit: int

    @cached_property
    def longest(self) -> int:
        """Number of slots in the longest page."""
        return int(self.lengths.max(initial=0))

    def scaled(self, factor: int) -> FieldPages:
        """Return the pages with each slot split into `factor` slots.

        Raises:
            CorruptFile: No file can hold such a page.
        """
        if self.longest * factor > _MAX_PAGE_BITS:
            raise CorruptFile(f"a page of {self.longest} values, each of {factor} items")
        return replace(self, lengths=self.lengths * factor)

    @cached_property
    def extended(self) -> FieldPages:
        """The pages with one more slot in each."""
        return replace(self, lengths=self.lengths + 1)

    def check(self, slots: SlotRanges) -> None:
        """Check that the pages contain some slots.

        Raises:
            CorruptFile: They do not.
        """
        lengths = self.lengths[slots.batches]
        is_wrong = (slots.starts < 0) | (slots.ends > lengths)
        if is_wrong.any():
            i = int(np.argmax(is_wrong))
            raise CorruptFile(
                f"values {slots.starts[i]}–{slots.ends[i]} are wanted, the page of batch "
                f"{slots.batches[i]} has {lengths[i]}"
            )

    def locate(self, slots: SlotRanges, bits: int) -> tuple[Ints, Ints, Ints]:
        """Return the bytes of the file that hold some slots.

        Args:
            slots: The slots.
            bits: Width of a slot.

        Returns:
            Where the bytes of each range of slots begin and end, and the bit of its first byte at
            which the first slot begins.

        Raises:
            CorruptFile: Slots lie outside of their page or of the file.
        """
        self.check(slots)
        if self.longest * bits > _MAX_PAGE_BITS:
            raise CorruptFile(f"a page of {self.longest} values of {bits} bits")
        positions = self.positions[slots.batches]
        first_bits, end_bits = slots.starts * bits, slots.ends * bits
        starts, ends = positions + first_bits // 8, positions + (end_bits + 7) // 8
        if (ends > self.limit).any():
            raise CorruptFile(f"a page reaches to byte {ends.max()}, pages end before {self.limit}")
        return starts, ends, first_bits % 8


def split_by_batch(ranges: Sequence[RowRange], batch_offsets: Ints) -> SlotRanges:
    """Split row ranges at the borders of batches.

    Args:
        ranges: Rows of the file.
        batch_offsets: First row of each batch, followed by the number of rows.

    Raises:
        CorruptFile: The file has no such rows.
    """
    rows = bounds_of(ranges)
    rows = rows[rows[:, 0] < rows[:, 1]]
    if len(rows) and (rows.min() < 0 or rows.max() > batch_offsets[-1]):
        raise CorruptFile(f"row {rows.max() - 1} is wanted, the file has {batch_offsets[-1]} rows")
    first = batch_offsets.searchsorted(rows[:, 0], side="right") - 1
    counts = batch_offsets.searchsorted(rows[:, 1], side="left") - first
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    batches = np.repeat(first, counts) + nth
    begin = batch_offsets[batches]
    starts = np.maximum(np.repeat(rows[:, 0], counts), begin) - begin
    ends = np.minimum(np.repeat(rows[:, 1], counts), batch_offsets[batches + 1]) - begin
    has_rows = starts < ends
    return SlotRanges(batches[has_rows], starts[has_rows], ends[has_rows])
