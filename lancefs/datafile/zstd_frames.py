"""Several zstd frames, decompressed in one go: to decompress one takes ten microseconds at least.

A frame follows its raw size (u64). Its own header tells that size as well, and zstd holds each
frame to it: so frames that are joined are as long as they say, or do not decompress.

Source: RFC 8878, section 3.1.1 "Zstandard Frames".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import Array, check_size
from lancefs.datafile.kernels import gather
from lancefs.storage import Bytes

PREFIX = 8
# A frame with no more bytes than its magic number, its descriptor and the header of a block.
_SHORTEST = PREFIX + 4 + 1 + 3
# The first bytes that tell all about a frame: magic number, descriptor, window, raw size.
_HEADER = 4 + 1 + 1 + 8
_MAGIC = 0xFD2FB528


def decompress_frames(
    data: Bytes, starts: Ints, ends: Ints, largest_ratio: int
) -> tuple[Bytes, Ints] | None:
    """Decompress buffers of a frame each.

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
    frames = gather(data, starts + PREFIX, ends)
    size = int(sizes.sum())
    check_size(size)
    try:
        found = pa.Codec("zstd").decompress(frames, size)
    except OSError:  # Arrow's name for bytes that do not decompress
        return None
    if len(found) != size:
        return None
    return np.frombuffer(found, dtype=np.uint8), sizes.astype(np.int64)


def _raw_sizes(data: Bytes, starts: Ints) -> Array | None:
    """Return the raw sizes that frames tell; None where some do not, or need a dictionary."""
    places = np.minimum(starts[:, None] + np.arange(_HEADER), len(data) - 1)
    header = data[places]
    magic, descriptor = header[:, :4].copy().view("<u4")[:, 0], header[:, 4]
    is_single = (descriptor & 0x20) != 0
    flag = descriptor >> 6
    if np.any(magic != _MAGIC) or np.any(descriptor & 0b1011) or np.any((flag == 0) & ~is_single):
        return None
    # A frame of several segments has a byte more, which tells its window.
    field = np.where(is_single[:, None], header[:, 5:13], header[:, 6:14]).copy().view("<u8")[:, 0]
    sizes: Array = np.choose(
        flag, (field & 0xFF, (field & 0xFFFF) + np.uint64(256), field & 0xFFFFFFFF, field)
    )
    return sizes
