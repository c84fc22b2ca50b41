"""The raw sizes in the headers of zstd frames.

Source: RFC 8878, section 3.1.1 "Zstandard Frames".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.storage import Bytes

PREFIX = 8  # bytes of the raw size before a frame
_HEAD = 4 + 1  # the magic number and the descriptor
# The least bytes of a buffer: these, and the header of a block.
_SHORTEST = PREFIX + _HEAD + 3
_MAGIC = 0xFD2FB528
_MASKS = np.array([0xFF, 0xFFFF, 0xFFFFFFFF, 2**64 - 1], np.uint64)


def frame_sizes(data: Bytes, starts: Ints, ends: Ints) -> Ints:
    """Return the raw sizes of buffers that hold a zstd frame each, behind its raw size (u64).

    Args:
        data: Bytes that hold the buffers.
        starts: Start of each buffer.
        ends: End of each buffer.

    Returns:
        The raw size of each in bytes; −1 for a buffer that is none of these: it leaves the data or
        begins before the end of the one before, its frame lacks the raw size or tells another one,
        needs a dictionary, or is no frame.
    """
    floors = np.maximum(np.concatenate(([0], ends))[:-1], 0)
    is_sound = (starts >= floors) & (ends <= len(data)) & (ends >= starts)
    is_sound &= ends - starts >= _SHORTEST
    if not is_sound.any():
        return np.full(len(starts), -1, np.int64)
    first = np.where(is_sound, starts, 0)
    told, begin = _numbers(data, first), _numbers(data, first + PREFIX)
    descriptor = (begin >> np.uint64(32)) & np.uint64(0xFF)
    flag = (descriptor >> np.uint64(6)).astype(np.int64)
    is_single = (descriptor & np.uint64(0x20)) != 0
    is_sound &= (begin & np.uint64(0xFFFFFFFF) == _MAGIC) & (descriptor & np.uint64(0b1011) == 0)
    is_sound &= (flag > 0) | is_single
    # In a frame of several segments, a byte for the window precedes the size.
    head = PREFIX + _HEAD + ~is_single
    is_sound &= head + (1 << flag) <= ends - starts
    sizes = (_numbers(data, first + head) & _MASKS[flag]) + np.uint64(256) * (flag == 1)
    is_sound &= (sizes == told) & (sizes < 2**63)
    return np.where(is_sound, sizes, 0).astype(np.int64) - ~is_sound


@twin_of(frame_sizes, "bytes number ints ints number out")
def _compiled_frame_sizes(call: Call, data: Bytes, starts: Ints, ends: Ints) -> Ints:
    sizes = np.empty(len(starts), np.int64)
    call(data, len(data), starts, ends, len(starts), sizes)
    return sizes


def _numbers(data: Bytes, starts: Ints) -> npt.NDArray[np.uint64]:
    """Return the numbers of 8 bytes at some places, as if the last byte followed the data."""
    places = np.minimum(starts[:, np.newaxis] + np.arange(8), len(data) - 1)
    numbers: npt.NDArray[np.uint64] = data[places].view(np.uint64)[:, 0]
    return numbers
