"""End offsets: where the parts of strings and of lists end, with their nulls.

Row i is the parts from where row i − 1 ends to where it ends itself; the first starts at 0. A null
row's end has an adjustment added that is greater than any end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lancefs.datafile.blocks import Ints, Mask, RowRange, offsets_of
from lancefs.datafile.row_ranges import RowRanges, between, bounds_of, connected, filled
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, integers
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding
from lancefs.storage import Steps


@dataclass(frozen=True, slots=True)
class Extents:
    """Where the parts of some rows are.

    Attributes:
        offsets: n + 1 offsets of the n rows in the parts of `ranges`, joined; they begin at 0.
        valid: Which rows are not null; None where all are valid.
        ranges: The parts to read; those without any are left out.
    """

    offsets: Ints
    valid: Mask | None
    ranges: Sequence[RowRange]

    def shifted(self, parts: int) -> Extents:
        """Return the same rows where `parts` parts stand before those of the page."""
        return Extents(self.offsets, self.valid, RowRanges(bounds_of(self.ranges) + parts))


def read_extents(
    ends: ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange], adjustment: int
) -> Steps[Extents]:
    """Read where the parts of rows are.

    Args:
        ends: The end offsets.
        page: The page that they are in.
        ranges: Rows of the page, ascending and disjoint.
        adjustment: What is added to the end of a null row.

    Raises:
        CorruptFile: The ends do not ascend.
    """
    if not ranges:
        return Extents(np.zeros(1, np.int64), None, [])
    # A row begins where the one before it ends, so that one is read too, if there is one.
    wanted = RowRanges(np.maximum(bounds_of(ranges) - (1, 0), 0))
    stored = integers((yield from registry.read(ends, page, wanted)), "the offsets of a page")
    if ranges[0][0] == 0:
        stored = np.concatenate((np.zeros(1, np.int64), stored))
    valid, bounds = None, stored
    if int(stored.max()) >= adjustment:
        is_null = stored >= adjustment
        valid, bounds = ~is_null[1:], np.where(is_null, stored - adjustment, stored)
    if np.any(bounds[1:] < bounds[:-1]):
        raise CorruptFile("the offsets of a page do not ascend")
    if len(ranges) == 1:
        parts = filled([(int(bounds[0]), int(bounds[-1]))])
        offsets = bounds - bounds[0] if bounds[0] else bounds
    else:
        parts, rows = _apart(bounds, ranges)
        offsets, valid = offsets_of(np.diff(bounds)[rows]), None if valid is None else valid[rows]
    if valid is not None and valid.all():  # only the row before them is null
        valid = None
    return Extents(offsets, valid, parts)


def _apart(bounds: Ints, ranges: Sequence[RowRange]) -> tuple[RowRanges, Mask]:
    """Tell the parts of ranges, and which bounds, the first one apart, are ends of rows."""
    # Each range has one bound more than it has rows; the first of them is no end of a row.
    counts = np.diff(bounds_of(ranges)).ravel() + 1
    lasts = np.cumsum(counts) - 1
    firsts = lasts - counts + 1
    rows = np.ones(len(bounds) - 1, dtype=np.bool_)
    rows[firsts[1:] - 1] = False
    return connected(between(bounds[firsts], bounds[lasts])), rows


def join_extents(pieces: Sequence[Extents]) -> Extents:
    """Join the rows of several pages; parts that follow each other are read as one range."""
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
    lengths = [np.diff(piece.offsets) for piece in pieces]
    ranges: list[RowRange] = []
    for start, end in (parts for piece in pieces for parts in piece.ranges):
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return Extents(offsets_of(np.concatenate([np.empty(0, np.int64), *lengths])), valid, ranges)
