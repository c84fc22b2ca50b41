"""Byte-stream split: stream j of a chunk holds byte j of every value of the chunk."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.datafile.kernels.segments import check_chunks, gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def join_streams(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> Bytes:
    """Join the bytes of values.

    Args:
        data: The buffer that holds the chunks.
        starts: Offset in `data` of the start of each chunk.
        ends: Offset in `data` of the end of each chunk.
        counts: Number of values in each chunk.
        width: Bytes of a value.

    Raises:
        CorruptFile: A chunk is shorter or longer than its values, which would begin elsewhere.
    """
    check_chunks(data, starts, ends)
    if np.any(counts < 0) or np.any(counts > (ends - starts) // width):
        raise CorruptFile("a byte-stream split chunk is shorter than its values")
    sizes = counts * width
    if np.any(sizes != ends - starts):
        raise CorruptFile("a byte-stream split chunk is longer than its values")
    streams = gather(data, starts, starts + sizes)
    values = np.empty((int(counts.sum()), width), dtype=np.uint8)
    firsts = np.cumsum(counts) - counts
    # Chunks of one size, usually all but the last one, are transposed together.
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        rows = firsts[chosen, None] + np.arange(count)
        split = streams[(firsts[chosen, None] * width) + np.arange(count * width)]
        values[rows] = split.reshape(len(chosen), width, count).transpose(0, 2, 1)
    return values.reshape(-1)


@twin_of(join_streams, "bytes number ints ints ints number number out number")
def _compiled_join_streams(
    call: Call, data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> Bytes:
    room, chunks = int(counts.sum()), len(counts)
    if not 0 <= room * width <= len(data):
        raise Damaged
    out = empty(room * width, np.uint8)
    call(data, len(data), starts, ends, counts, chunks, width, out, room)
    return out
