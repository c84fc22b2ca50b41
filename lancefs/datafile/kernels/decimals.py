"""Narrowing decimals from 128 bits to 64."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels.calls import Call, Damaged, c_function, twin_of
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_WIDTH = 16  # bytes of a stored number


def to_decimal64(data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, bool]:
    """Return the low 64 bits of signed numbers of 128 bits.

    Args:
        data: Bytes that have the numbers, little-endian.
        starts: Where segments of numbers begin, which ascend and do not overlap; bytes.
        ends: Where they end.

    Returns:
        The low bits as signed numbers; and whether these are the numbers: whether the high bits of
        each repeat the sign of the low ones.

    Raises:
        CorruptFile: A segment leaves `data`, begins before the end of the previous one, or ends
            within a number.
    """
    if np.any((ends - starts) % _WIDTH):
        raise CorruptFile(f"decimals in segments that are no multiples of {_WIDTH} bytes")
    words = np.ascontiguousarray(gather(data, starts, ends)).view("<i8").reshape(-1, 2)
    low = words[:, 0].copy()
    return low, bool(np.array_equal(words[:, 1], low >> 63))


_c_gather_size = c_function("gather_size", "number ints ints number")


@twin_of(to_decimal64, "bytes ints ints number out")
def _compiled_to_decimal64(call: Call, data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, bool]:
    count = len(starts)
    if np.any((ends - starts) % _WIDTH):
        raise Damaged
    out = empty(_c_gather_size(len(data), starts, ends, count) // _WIDTH, np.int64)
    return out, bool(call(data, starts, ends, count, out))
