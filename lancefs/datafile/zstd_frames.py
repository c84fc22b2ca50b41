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
from lancefs.datafile.buffers import check_size, empty
from lancefs.datafile.kernels import frame_sizes, gather
from lancefs.datafile.kernels.frames import PREFIX
from lancefs.storage import Bytes

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
    sizes = frame_sizes(data, starts, ends)
    if ((sizes < 0) | (sizes > limits)).any():
        return None
    offsets = offsets_of(sizes)
    check_size(int(offsets[-1]), len(data))
    raw = empty(int(offsets[-1]), np.uint8)
    for first, last in pairwise(_parts(offsets)):
        frames = gather(data, starts[first:last] + PREFIX, ends[first:last])
        into = raw[offsets[first] : offsets[last]]
        is_long = last - first == 1 and len(into) >= _LONG
        try:
            if not (_stream if is_long else _decompress)(frames, into):
                return None
        except OSError:  # pyarrow's error for bytes that do not decompress
            return None
    return raw, sizes


def _parts(offsets: Ints) -> list[int]:
    """Return the frames that one call decompresses each: where they begin, and the end of all."""
    count = len(offsets) - 1
    if offsets[-1] < _LONG:
        return [0, count]
    is_long = np.diff(offsets) >= _LONG
    cut = (np.diff(offsets[:-1] // _LONG) > 0) | is_long[1:] | is_long[:-1]
    return [0, *(np.flatnonzero(cut) + 1).tolist(), count]


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
