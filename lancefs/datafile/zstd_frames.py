"""Several zstd frames, decompressed together: to decompress one takes ten microseconds at least.

A frame follows its raw size (u64). Its own header tells that size as well, and zstd holds each
frame to it: so frames that are joined are as long as they say, or do not decompress.

Source: RFC 8878, section 3.1.1 "Zstandard Frames".
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints, offsets_of
from lancefs.datafile.buffers import Array, check_size, empty
from lancefs.datafile.kernels import gather
from lancefs.storage import Bytes

PREFIX = 8
_SIZE = 4 + 1  # where the raw size begins in a frame: after its magic number and its descriptor
# The bytes that every frame has at least: these, and the header of a block.
_BEGIN = _SIZE + 3
_SHORTEST = PREFIX + _BEGIN
_MAGIC = 0xFD2FB528
# Bytes that are decompressed together: more take more room, and no less time.
_LONG = 1024 * 1024


def decompress_frames(
    data: Bytes, starts: Ints, ends: Ints, largest_ratio: int
) -> tuple[Bytes, Ints] | None:
    """Decompress buffers of a frame each, many in one go.

    Args:
        data: Where they are.
        starts: Of each, ascending and disjoint.
        ends: Of each.
        largest_ratio: How many times longer than a buffer what is in it may be.

    Returns:
        What is in them, one after the other, and the bytes of each; None where some are not plain
        frames that tell their size, or do not decompress: one by one, it is found out which.
    """
    if np.any(ends - starts < _SHORTEST) or np.any(starts[1:] < ends[:-1]):
        return None
    sizes = gather(data, starts, starts + PREFIX).view("<u8")
    told = _raw_sizes(data, starts + PREFIX)
    if told is None or np.any(sizes != told) or np.any(sizes > largest_ratio * (ends - starts)):
        return None
    offsets = offsets_of(sizes.astype(np.int64))
    check_size(int(offsets[-1]))
    found = empty(int(offsets[-1]), np.uint8)
    is_long = np.diff(offsets) >= _LONG
    cut = (np.diff(offsets[:-1] // _LONG) > 0) | is_long[1:] | is_long[:-1]
    for first, last in pairwise([0, *(np.flatnonzero(cut) + 1).tolist(), len(starts)]):
        frames = gather(data, starts[first:last] + PREFIX, ends[first:last])
        into = found[offsets[first] : offsets[last]]
        try:
            if not (_stream if is_long[first] else _decompress)(frames, into):
                return None
        except OSError:  # Arrow's name for bytes that do not decompress
            return None
    return found, np.diff(offsets)


def _decompress(frames: Bytes, into: Bytes) -> bool:
    """Decompress frames; return whether they hold as many bytes as there is room for."""
    held = pa.Codec("zstd").decompress(frames, len(into))
    if len(held) == len(into):
        into[:] = np.frombuffer(held, np.uint8)
    return len(held) == len(into)


def _stream(frame: Bytes, into: Bytes) -> bool:
    """Do the same for a long frame, without as much room again for what is in it."""
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(frame)), "zstd") as stream:
        return stream.readinto(into) == len(into) and not stream.read(1)


def _raw_sizes(data: Bytes, starts: Ints) -> Array | None:
    """Return the raw sizes that frames tell; None where some do not, or need a dictionary."""
    begin = gather(data, starts, starts + _BEGIN).view("<u8")
    descriptor = (begin >> np.uint64(32)) & np.uint64(0xFF)
    flag, is_single = descriptor >> np.uint64(6), (descriptor & np.uint64(0x20)) != 0
    if (
        np.any(begin & np.uint64(0xFFFFFFFF) != _MAGIC)
        or np.any(descriptor & np.uint64(0b1011))
        or np.any((flag == 0) & ~is_single)
    ):
        return None
    # A frame of several segments has a byte before its size, which tells its window.
    field = begin >> np.where(is_single, np.uint64(40), np.uint64(48))
    sizes: Array = np.where(flag == 0, field & np.uint64(0xFF), (field & np.uint64(0xFFFF)) + 256)
    # Sizes of more than two bytes go on after those that every frame has.
    long = np.flatnonzero(flag > 1)
    places = (starts[long] + _SIZE + ~is_single[long])[:, None] + np.arange(8)
    field = data[np.minimum(places, len(data) - 1)].view("<u8")[:, 0]
    sizes[long] = np.where(flag[long] == 2, field & np.uint64(0xFFFFFFFF), field)
    return sizes
