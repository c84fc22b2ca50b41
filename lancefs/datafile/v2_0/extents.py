"""End offsets of strings and lists, which also hold their validity.

Row i spans the items (bytes of strings, items of lists) from the end of row i − 1 to its own end;
the first row starts at item 0. The end of a null row is stored with an adjustment added, which is
greater than any end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Array, Ints, Mask, RowRange, offsets_of
from lancefs.datafile.kernels import decode_ends
from lancefs.datafile.row_ranges import RowRanges, between, bounds_of, connected, filled
from lancefs.errors import CorruptFile

MAX_ADJUSTMENT = (1 << 63) - 1  # no row ends beyond it


class Extents(NamedTuple):
    """Items of some rows.

    Attributes:
        offsets: n + 1 offsets of n rows into the items of `ranges`, joined; the first is 0 (int32
            or int64).
        valid: Which rows are not null; None where none is null.
        ranges: Items to read. No range is empty.
    """

    offsets: Array
    valid: Mask | None
    ranges: Sequence[RowRange]

    @property
    def lengths(self) -> Ints:
        """Number of items of each row."""
        return np.diff(self.offsets).astype(np.int64, copy=False)

    def shifted(self, items: int) -> Extents:
        """Return the extents in a column with `items` items before the items of the page."""
        return Extents(self.offsets, self.valid, RowRanges(bounds_of(self.ranges) + items))


def with_previous_rows(ranges: Sequence[RowRange]) -> RowRanges:
    """Return row ranges extended by the row before each, in whose end the first row starts."""
    return RowRanges(np.maximum(bounds_of(ranges) - (1, 0), 0))


def decode_extents(ends: Ints, ranges: Sequence[RowRange], adjustment: int) -> Extents:
    """Decode the end offsets of rows.

    Args:
        ends: Stored ends of the rows of `with_previous_rows(ranges)`; those beyond 2⁶³ are
            negative.
        ranges: Rows of the page, ascending and disjoint; at least one.
        adjustment: Number that is added to the end of a null row.

    Raises:
        CorruptFile: The ends do not ascend, or are beyond all items.
    """
    added = min(adjustment, MAX_ADJUSTMENT)
    offsets, valid, bytes_ = decode_ends(ends, ranges[0][0] > 0, added)
    _check_last(bytes_[1], adjustment)
    if len(ranges) == 1:
        return Extents(offsets, valid, filled([bytes_]))
    bounds = offsets.astype(np.int64) + bytes_[0]
    items, is_row = _split_bounds(bounds, ranges)
    offsets = offsets_of(np.diff(bounds)[is_row])
    valid = None if valid is None else valid[is_row]
    if valid is not None and valid.all():  # the only null was a previous row
        valid = None
    return Extents(offsets, valid, items)


def _check_last(end: int, adjustment: int) -> None:
    """Check that rows end before what is added for nulls: nobody looks for bytes of these."""
    if end >= adjustment:
        raise CorruptFile(
            f"strings or lists of {end} items in all, expected {adjustment - 1} at most"
        )


def _split_bounds(bounds: Ints, ranges: Sequence[RowRange]) -> tuple[RowRanges, Mask]:
    """Split the bounds of several row ranges.

    Args:
        bounds: Start of the first row of each range, followed by the ends of its rows.
        ranges: The row ranges.

    Returns:
        The items of each range, and which bounds after the first are ends of rows.
    """
    counts = np.diff(bounds_of(ranges)).ravel() + 1
    lasts = np.cumsum(counts) - 1
    firsts = lasts - counts + 1
    is_row = np.ones(len(bounds) - 1, dtype=np.bool_)
    is_row[firsts[1:] - 1] = False
    return connected(between(bounds[firsts], bounds[lasts])), is_row


def join_extents(pieces: Sequence[Extents]) -> Extents:
    """Join the extents of several pages; adjacent ranges of items become one."""
    if len(pieces) == 1:
        return pieces[0]
    valid = None
    if any(piece.valid is not None for piece in pieces):
        valid = np.concatenate(
            [
                np.ones(len(piece.offsets) - 1, np.bool_) if piece.valid is None else piece.valid
                for piece in pieces
            ]
        )
    lengths = [piece.lengths for piece in pieces]
    ranges: list[RowRange] = []
    for start, end in (items for piece in pieces for items in piece.ranges):
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return Extents(offsets_of(np.concatenate([np.empty(0, np.int64), *lengths])), valid, ranges)
