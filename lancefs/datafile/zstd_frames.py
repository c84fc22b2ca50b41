"""Several zstd frames, decompressed in one call: every call costs at least ten microseconds.

The raw size (u64) precedes a frame. The header of the frame contains it as well, and zstd checks
the header: concatenated frames have the sizes in their headers, or do not decompress.

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
_SIZE = 4 + 1  # offset of the raw size in a frame, after the magic number and the descriptor
# The least bytes of a frame: these, and the header of a block.
_BEGIN = _SIZE + 3
_SHORTEST = PREFIX + _BEGIN
_MAGIC = 0xFD2FB528
# Raw bytes that one call decompresses: more take more memory, and no less time.
_LONG = 1024 * 1024


def decompress_frames(
    data: Bytes, starts: Ints, ends: Ints, limits: Ints
) -> tuple[Bytes, Ints] | None:
    """Decompress buffers that hold one frame each, many in one call.

    Args:
        data: Bytes that hold the buffers.
        starts: Start of each buffer, ascending and disjoint.
        ends: End of each buffer.
        limits: Upper limit of the raw bytes of each buffer.

    Returns:
        The raw bytes, concatenated, and the raw size of each buffer. None where a frame is not
        plain, lacks its size, or does not decompress: decompressing one by one finds it.
    """
    if np.any(ends - starts < _SHORTEST) or np.any(starts[1:] < ends[:-1]):
        return None
    sizes = gather(data, starts, starts + PREFIX).view("<u8")
    in_headers = _raw_sizes(data, starts + PREFIX)
    if in_headers is None or np.any(sizes != in_headers):
        return None
    if np.any(sizes > limits.astype(np.uint64)):
        return None
    offsets = offsets_of(sizes.astype(np.int64))
    check_size(int(offsets[-1]), len(data))
    raw = empty(int(offsets[-1]), np.uint8)
    is_long = np.diff(offsets) >= _LONG
    cut = (np.diff(offsets[:-1] // _LONG) > 0) | is_long[1:] | is_long[:-1]
    for first, last in pairwise([0, *(np.flatnonzero(cut) + 1).tolist(), len(starts)]):
        frames = gather(data, starts[first:last] + PREFIX, ends[first:last])
        into = raw[offsets[first] : offsets[last]]
        try:
            if not (_stream if is_long[first] else _decompress)(frames, into):
                return None
        except OSError:  # pyarrow's error for bytes that do not decompress
            return None
    return raw, np.diff(offsets)


def _decompress(frames: Bytes, into: Bytes) -> bool:
    """Decompress frames; return whether they have as many raw bytes as `into`."""
    raw = pa.Codec("zstd").decompress(frames, len(into))
    if len(raw) == len(into):
        into[:] = np.frombuffer(raw, np.uint8)
    return len(raw) == len(into)


def _stream(frame: Bytes, into: Bytes) -> bool:
    """Do the same for a long frame, without a second buffer for its raw bytes."""
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(frame)), "zstd") as stream:
        return stream.readinto(into) == len(into) and not stream.read(1)


def _raw_sizes(data: Bytes, starts: Ints) -> Array | None:
    """Return the raw sizes in the headers of frames.

    Returns:
        None where a frame lacks its raw size, needs a dictionary, or is no zstd frame.
    """
    begin = gather(data, starts, starts + _BEGIN).view("<u8")
    descriptor = (begin >> np.uint64(32)) & np.uint64(0xFF)
    flag, is_single = descriptor >> np.uint64(6), (descriptor & np.uint64(0x20)) != 0
    if (
        np.any(begin & np.uint64(0xFFFFFFFF) != _MAGIC)
        or np.any(descriptor & np.uint64(0b1011))
        or np.any((flag == 0) & ~is_single)
    ):
        return None
    # In a frame of several segments, a byte for the window precedes the size.
    field = begin >> np.where(is_single, np.uint64(40), np.uint64(48))
    sizes: Array = np.where(flag == 0, field & np.uint64(0xFF), (field & np.uint64(0xFFFF)) + 256)
    # Sizes of more than two bytes extend beyond the least bytes of a frame.
    long = np.flatnonzero(flag > 1)
    places = (starts[long] + _SIZE + ~is_single[long])[:, None] + np.arange(8)
    field = data[np.minimum(places, len(data) - 1)].view("<u8")[:, 0]
    sizes[long] = np.where(flag[long] == 2, field & np.uint64(0xFFFFFFFF), field)
    return sizes
