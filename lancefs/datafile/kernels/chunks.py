"""The headers of mini-block chunks: where the buffers of each chunk are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

ALIGN = 8  # what buffers of a chunk are padded to, from its start


def find_buffers(
    data: Bytes, starts: Ints, sizes: Ints, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Read the headers of chunks.

    A header has the chunk's number of levels (2 bytes), then the size of each of its buffers.

    Args:
        data: The buffer that holds the chunks.
        starts: Where each chunk starts in `data`, ascending.
        sizes: The bytes of each chunk.
        widths: Bytes of the size of each buffer: 2 or 4.

    Returns:
        The number of levels of each chunk; then where each buffer starts and ends in `data`, both
        of shape (buffers, chunks).

    Raises:
        CorruptFile: A chunk is shorter than its header, or than its buffers, or not in the data.
    """
    header = 2 + sum(widths)
    if np.any(sizes < header):
        raise CorruptFile(f"a chunk is shorter than its header of {header} bytes")
    if len(starts) and np.any(starts > len(data) - sizes):
        raise CorruptFile(f"a chunk reaches beyond its buffer of {len(data)} bytes")
    heads = gather(data, starts, starts + header).reshape(len(starts), header)
    begins = np.empty((len(widths), len(starts)), np.int64)
    ends = np.empty_like(begins)
    at, position = 2, _aligned(np.full(len(starts), header, np.int64))
    for number, width in enumerate(widths):
        length = _column(heads, at, width)
        at += width
        begins[number], ends[number] = starts + position, starts + position + length
        if np.any(position + length > sizes):
            raise CorruptFile("a buffer of a chunk reaches beyond the chunk")
        position = _aligned(position + length)
    return _column(heads, 0, 2), begins, ends


def _column(heads: Bytes, at: int, width: int) -> Ints:
    return np.ascontiguousarray(heads[:, at : at + width]).view(f"<u{width}")[:, 0].astype(np.int64)


def _aligned(positions: Ints) -> Ints:
    return -(-positions // ALIGN) * ALIGN
