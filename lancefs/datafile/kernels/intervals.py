"""Numbers of 128 bits, and whether they are between two others."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Mask
from lancefs.storage import Bytes


def within(numbers: Array, low: int, high: int) -> Mask:
    """Tell which numbers are between two others, or equal to one of them.

    Args:
        numbers: Signed, of 16 bytes each, little-endian; of any dtype of that width.
        low: From -2**127.
        high: To 2**127 - 1.
    """
    words = np.ascontiguousarray(numbers).view("<u8").reshape(-1, 2)
    word, top = words[:, 0], words[:, 1].view("<i8")
    least, most = stored(low).view("<u8"), stored(high).view("<u8")
    low_top, high_top = least[1:].view("<i8"), most[1:].view("<i8")
    above = (top > low_top) | ((top == low_top) & (word >= least[0]))
    below = (top < high_top) | ((top == high_top) & (word <= most[0]))
    found: Mask = above & below
    return found


def stored(number: int) -> Bytes:
    """Return the 16 bytes of a number."""
    return np.frombuffer(number.to_bytes(16, "little", signed=True), np.uint8)
