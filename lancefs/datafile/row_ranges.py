"""Ranges of rows: pairs of (first row, row after the last), ascending and disjoint.

Most reads have a single range, for which a list with one pair is fastest. A filter or a `take` may
produce thousands of ranges, which stay in one array from the scan down to the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints, Mask
from lancefs.errors import CorruptFile

RowRange: TypeAlias = tuple[int, int]  # first row, row after the last
# Far more parts of rows than any file has, and still an int64.
_MAX_PARTS = 1 << 62


class RowRanges(Sequence[RowRange]):
    """Many ranges in one array, which also is a sequence of pairs.

    Args:
        bounds: First row, and row after the last, of each range; of shape (ranges, 2).
    """

    __slots__ = ("bounds",)

    def __init__(self, bounds: Ints) -> None:
        self.bounds = bounds

    def __len__(self) -> int:
        return len(self.bounds)

    def __iter__(self) -> Iterator[RowRange]:
        return zip(self.bounds[:, 0].tolist(), self.bounds[:, 1].tolist(), strict=True)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return RowRanges(self.bounds[index])
        start, end = self.bounds[index].tolist()
        return start, end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as lists have none

    def __repr__(self) -> str:
        return f"RowRanges({list(self)})"


def is_among(
    numbers: npt.NDArray[np.integer[Any]], ascending: npt.NDArray[np.integer[Any]]
) -> Mask:
    """Tell which numbers are among others, such as offsets or ids of rows.

    Args:
        numbers: The numbers, in any order.
        ascending: The others, ascending.

    Returns:
        One boolean a number.
    """
    if not len(ascending):
        return np.zeros(len(numbers), np.bool_)
    at = np.minimum(ascending.searchsorted(numbers), len(ascending) - 1)
    found: Mask = ascending[at] == numbers
    return found


def bounds_of(ranges: Sequence[RowRange]) -> Ints:
    """Return ranges as an array of shape (ranges, 2)."""
    if isinstance(ranges, RowRanges):
        return ranges.bounds
    return np.array(ranges, np.int64).reshape(-1, 2)


def between(starts: Ints, ends: Ints) -> RowRanges:
    """Return ranges of rows by their ends.

    Args:
        starts: The first row of each range.
        ends: The row after the last one of each.
    """
    bounds = np.empty((len(starts), 2), np.int64)  # in a third of the time of `np.stack`
    bounds[:, 0], bounds[:, 1] = starts, ends
    return RowRanges(bounds)


def as_ranges(rows: Ints) -> RowRanges:
    """Return ascending distinct rows as ranges; consecutive rows form one range."""
    if not len(rows):
        return RowRanges(np.empty((0, 2), np.int64))
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1:  # as of the first rows of a table
        return RowRanges(np.array([[first, last + 1]]))
    breaks = np.flatnonzero(rows[1:] - rows[:-1] != 1)
    if len(breaks) == len(rows) - 1:  # as where rows are drawn
        return between(rows, rows + np.int64(1))
    return between(
        rows[np.append(0, breaks + 1)], rows[np.append(breaks, len(rows) - 1)] + np.int64(1)
    )


def count_rows(ranges: Sequence[RowRange]) -> int:
    """Return the total number of rows of ranges."""
    if isinstance(ranges, RowRanges):
        if len(ranges) == 1:
            return int(ranges.bounds[0, 1]) - int(ranges.bounds[0, 0])
        return int((ranges.bounds[:, 1] - ranges.bounds[:, 0]).sum())
    return sum([end - start for start, end in ranges])


def connected(ranges: RowRanges) -> RowRanges:
    """Return ranges without empty ones, and with adjacent ones merged."""
    bounds = ranges.bounds[ranges.bounds[:, 0] < ranges.bounds[:, 1]]
    return _merged(bounds, bounds[1:, 0] != bounds[:-1, 1])


def filled(ranges: Sequence[RowRange]) -> Sequence[RowRange]:
    """Return the ranges that are not empty."""
    if isinstance(ranges, RowRanges):
        return RowRanges(ranges.bounds[ranges.bounds[:, 0] < ranges.bounds[:, 1]])
    return [(start, end) for start, end in ranges if start < end]


def scaled(ranges: Sequence[RowRange], factor: int) -> Sequence[RowRange]:
    """Return the ranges of the parts of rows, where each row has `factor` parts.

    Raises:
        CorruptFile: A file cannot have so many parts: descriptions of columns tell the factor, and
            the product might wrap.
    """
    last = ranges[-1][1] if len(ranges) else 0
    if max(last, 1) * factor >= _MAX_PARTS:
        raise CorruptFile(f"{last} rows of {factor} parts each")
    if isinstance(ranges, RowRanges):
        return RowRanges(ranges.bounds * factor)
    return [(start * factor, end * factor) for start, end in ranges]


def joined(ranges: Sequence[RowRange], gap: int) -> RowRanges:
    """Return ranges with those joined between which there are few rows.

    Args:
        ranges: The ranges, ascending and disjoint, none of them empty.
        gap: Rows between two of them, at most.
    """
    bounds = bounds_of(ranges)
    return _merged(bounds, bounds[1:, 0] - bounds[:-1, 1] > gap)


def _merged(bounds: Ints, are_apart: Mask) -> RowRanges:
    """Return ranges with each merged into the one before, but where the two are apart."""
    is_first, is_last = np.append(True, are_apart), np.append(are_apart, True)
    return between(bounds[is_first[: len(bounds)], 0], bounds[is_last[: len(bounds)], 1])


def places_within(rows: Ints, ranges: Sequence[RowRange]) -> Ints:
    """Return where rows are among those of ranges, all of which have them.

    Args:
        rows: The rows, ascending.
        ranges: The ranges, ascending and disjoint.
    """
    starts, ends = bounds_of(ranges).T
    before = np.cumsum(ends - starts) - (ends - starts)
    places: Ints = rows + (before - starts)[np.searchsorted(starts, rows, "right") - 1]
    return places


def rows_of(ranges: Sequence[RowRange]) -> Ints:
    """Return all rows of ranges."""
    bounds = bounds_of(ranges)
    if len(bounds) == 1:
        return np.arange(bounds[0, 0], bounds[0, 1])
    lengths = bounds[:, 1] - bounds[:, 0]
    if (lengths == 1).all():  # as where rows are drawn
        return bounds[:, 0].copy()
    shifts = bounds[:, 0] - (np.cumsum(lengths) - lengths)
    rows: Ints = np.arange(int(lengths.sum())) + np.repeat(shifts, lengths)
    return rows
