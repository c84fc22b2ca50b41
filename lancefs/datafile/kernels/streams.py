"""Byte-stream split: byte j of every value of a chunk stands in stream j of the chunk."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.segments import check_chunks, gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def join_streams(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> Bytes:
    """Put the bytes of values together.

    Args:
        data: The buffer that holds the chunks.
        starts: Where each chunk starts in `data`.
        ends: Where it ends.
        counts: Values in each chunk.
        width: Bytes of a value.

    Raises:
        CorruptFile: A chunk is shorter than its values.
    """
    check_chunks(data, starts, ends)
    if np.any(counts < 0) or np.any(counts > (ends - starts) // width):
        raise CorruptFile("a byte-stream split chunk is shorter than its values")
    sizes = counts * width
    streams = gather(data, starts, starts + sizes)
    values = np.empty((int(counts.sum()), width), dtype=np.uint8)
    firsts = np.cumsum(counts) - counts
    # Chunks of one size (all but the last, as a rule) are transposed together.
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        rows = firsts[chosen, None] + np.arange(count)
        split = streams[(firsts[chosen, None] * width) + np.arange(count * width)]
        values[rows] = split.reshape(len(chosen), width, count).transpose(0, 2, 1)
    return values.reshape(-1)
