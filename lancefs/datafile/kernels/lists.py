"""Repetition and definition levels of lists: counted, and the items that begin rows."""

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.errors import CorruptFile


def tally_parts(levels: npt.NDArray[np.uint16], sizes: Ints, limit: int) -> Ints:
    """Count the levels of parts.

    Args:
        levels: One level per item.
        sizes: Number of items of each part; the parts follow each other.
        limit: The highest level to count, from 0.

    Returns:
        The number of levels of each part up to the limit.

    Raises:
        CorruptFile: The parts have more items than there are, or fewer than none.
    """
    if len(sizes) and (sizes.min() < 0 or sizes.sum(dtype=np.float64) > len(levels)):
        raise CorruptFile(f"parts of more than the {len(levels)} levels that there are")
    seen = np.zeros(len(levels) + 1, np.int64)
    np.cumsum(levels <= limit, out=seen[1:])
    ends = np.cumsum(sizes)
    counts: Ints = seen[ends] - seen[ends - sizes]
    return counts


@twin_of(tally_parts, "levels number ints number number out")
def _compiled_tally_parts(
    call: Call, levels: npt.NDArray[np.uint16], sizes: Ints, limit: int
) -> Ints:
    counts = np.empty(len(sizes), np.int64)
    call(levels, len(levels), sizes, len(sizes), limit, counts)
    return counts


def find_rows(rep: npt.NDArray[np.uint16], top: int, rows: Ints) -> Ints:
    """Find the first item of each of some rows.

    Args:
        rep: The repetition level of each item.
        top: The repetition level of an item that begins a row.
        rows: Row numbers, ascending. The number of all rows stands for the end of the items.

    Raises:
        CorruptFile: The levels have fewer rows.
    """
    starts = np.append(np.flatnonzero(rep == top), len(rep))
    if len(rows) and rows[-1] >= len(starts):
        raise CorruptFile(f"the levels tell of {len(starts) - 1} rows, expected {rows[-1]}")
    return starts[rows].astype(np.int64)


@twin_of(find_rows, "levels number number ints number out")
def _compiled_find_rows(call: Call, rep: npt.NDArray[np.uint16], top: int, rows: Ints) -> Ints:
    found = np.empty(len(rows), np.int64)
    call(rep, len(rep), top, rows, len(rows), found)
    return found
