"""Rows that pass several tests, each of which a BITMAP index answers: joined as bitmaps.

Bitmaps of frequent values are joined in less time than it takes to name their rows one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import numpy as np

from lancefs.datafile.buffers import Ints, UInts
from lancefs.errors import CorruptFile
from lancefs.index.bitmap import Bitmap
from lancefs.index.plans import Plan
from lancefs.index.segments import Coverage, IndexSegment
from lancefs.table.row_metadata import OFFSET_BITS

if TYPE_CHECKING:
    from pyroaring import BitMap


def is_of_bitmaps(plan: Plan, coverage: Coverage) -> bool:
    """Tell whether BITMAP segments that name rows by addresses answer a test."""
    return plan.covers_once and all(
        isinstance(opened, Bitmap) and coverage.has_addresses(segment)
        for segment, opened, _ in plan.segments
    )


def bitmaps_of(
    coverage: Coverage, segment: IndexSegment, opened: Bitmap, pages: Ints
) -> dict[int, BitMap]:
    """Return the rows that a segment names, by the ids of fragments that it covers.

    Args:
        coverage: Says which rows there may be.
        segment: The segment.
        opened: The segment, open.
        pages: The positions of the values that the rows have.

    Raises:
        CorruptFile: It names a row twice, or a row that cannot be.
    """
    parts: dict[int, list[BitMap]] = {}
    for one in opened.maps_of(pages):
        filled = [(number, bitmap) for number, bitmap in one.bitmaps() if bitmap]
        highest = [(number << OFFSET_BITS) + bitmap.max() for number, bitmap in filled]
        coverage.check_highest(segment, np.sort(np.array(highest, np.uint64)))
        for number, bitmap in filled:
            parts.setdefault(number, []).append(bitmap)
    covered = segment.covered.tolist()
    rows = {number: reduce(or_, parts[number]) for number in covered if number in parts}
    if any(len(own) != sum(map(len, parts[number])) for number, own in rows.items()):
        raise CorruptFile(f"the index {segment.index.name} names a row twice")
    return rows


def common_rows(tests: Sequence[Mapping[int, BitMap]], most: int) -> UInts | None:
    """Return the addresses of the rows that pass all of some tests; None for more than `most`.

    Args:
        tests: The rows that pass each test, by the ids of their fragments.
        most: Number of rows.
    """
    first, *others = tests
    numbers = sorted(set(first).intersection(*others))
    common = {number: reduce(and_, (rows[number] for rows in tests)) for number in numbers}
    if sum(map(len, common.values())) > most:
        return None
    parts = [
        np.frombuffer(rows.to_array(), np.uint32) + np.uint64(number << OFFSET_BITS)
        for number, rows in common.items()
        if rows
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])
