"""End offsets of strings and lists as data files 2.0 store them (`encodings_v2_0.proto`).

A row begins where the row before it ends, the first row of a page at 0. A number is added to the
ends of nulls, which is greater than any end.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.datafile.kernels.strings import LARGEST, compact_offsets
from lancefs.errors import CorruptFile


def decode_ends(
    ends: Ints, has_previous: bool, adjustment: int
) -> tuple[Array, Mask | None, tuple[int, int]]:
    """Decode the ends of rows that follow each other.

    Args:
        ends: The end of each row (int64), one or more.
        has_previous: Whether the first of these is the end of the row before the rows; else they
            begin at 0.
        adjustment: Number that is added to the ends of nulls, 0 or more.

    Returns:
        The offsets of the rows, one more than there are rows, from 0 (int32 if they fit); which
        rows are valid, None where all are; where the rows begin, and where they end.

    Raises:
        CorruptFile: The ends descend, or are beyond 2⁶³.
    """
    if int(ends.min()) < 0:
        raise CorruptFile("some of the offsets of a page are beyond 2⁶³")
    is_null = ends >= adjustment
    bounds = np.where(is_null, ends - adjustment, ends)
    if not has_previous:
        bounds = np.concatenate((np.zeros(1, np.int64), bounds))
    if np.any(bounds[1:] < bounds[:-1]):
        raise CorruptFile("the offsets of a page do not ascend")
    valid = ~is_null[int(has_previous) :]
    offsets = compact_offsets(bounds - bounds[0])
    return offsets, None if valid.all() else valid, (int(bounds[0]), int(bounds[-1]))


@twin_of(decode_ends, "bytes number number number out out out")
def _compiled_decode_ends(
    call: Call, ends: Ints, has_previous: bool, adjustment: int
) -> tuple[Array, Mask | None, tuple[int, int]]:
    count, found = len(ends) - has_previous, np.empty(2, np.int64)
    offsets, valid = empty(count + 1, np.int32), empty(count, np.bool_)
    size = call(ends, count, int(has_previous), adjustment, offsets, valid, found)
    if size > LARGEST:
        return decode_ends(ends, has_previous, adjustment)
    start, nulls = found.tolist()
    return offsets, valid if nulls else None, (start, start + size)
