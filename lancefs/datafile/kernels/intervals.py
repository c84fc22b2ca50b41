"""Comparisons of numbers of 128 bits with two bounds."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Mask, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.storage import Bytes


def within(numbers: Array, low: int, high: int) -> Mask:
    """Tell which numbers are between two bounds, inclusive.

    Args:
        numbers: Signed little-endian numbers of 16 bytes, as any dtype of that width.
        low: The lower bound, from -2**127.
        high: The upper bound, to 2**127 - 1.
    """
    words = np.ascontiguousarray(numbers).view("<u8").reshape(-1, 2)
    word, top = words[:, 0], words[:, 1].view("<i8")
    least, most = _to_bytes(low).view("<u8"), _to_bytes(high).view("<u8")
    low_top, high_top = least[1:].view("<i8"), most[1:].view("<i8")
    above = (top > low_top) | ((top == low_top) & (word >= least[0]))
    below = (top < high_top) | ((top == high_top) & (word <= most[0]))
    found: Mask = above & below
    return found


@twin_of(within, "bytes number ints out")
def _compiled_within(call: Call, numbers: Array, low: int, high: int) -> Mask:
    bounds = np.concatenate((_to_bytes(low), _to_bytes(high))).view(np.int64)
    out = empty(len(numbers), np.bool_)
    call(numbers, len(numbers), bounds, out)
    return out


def _to_bytes(number: int) -> Bytes:
    """Return the 16 bytes of a number, little-endian."""
    return np.frombuffer(number.to_bytes(16, "little", signed=True), np.uint8)
