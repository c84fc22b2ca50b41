"""Strings: offsets and bytes, joined from chunks."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints
from lancefs.datafile.kernels.segments import check_chunks, gather, places_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

LARGEST = int(np.iinfo(np.int32).max)  # what a narrow offset can say


def join_chunks(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Array, Bytes]:
    """Join the strings of chunks.

    A chunk begins with the offsets of its strings, one more than there are strings. They count from
    the start of the chunk, and the bytes of the strings follow.

    Args:
        data: The buffer that holds the chunks.
        starts: Where each chunk starts in `data`.
        ends: Where it ends.
        counts: Strings in each chunk.
        width: Bytes of an offset: 4 or 8.

    Returns:
        The offsets of all strings, from 0 (int32 where they fit), and their bytes.

    Raises:
        CorruptFile: A chunk is too short, or its offsets descend or leave it.
    """
    lengths, first, last = chunk_lengths(data, starts, ends, counts, width)
    text = gather(data, starts + first, starts + last)
    return narrowed(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))), text


def chunk_lengths(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Ints, Ints, Ints]:
    """Tell how long the strings of chunks are, from their offsets alone.

    Args and errors are those of `join_chunks`.

    Returns:
        The length of each string; and where in each chunk its strings start and end.
    """
    _check_heads(data, starts, ends, counts, width)
    heads = (counts + 1) * width
    offsets = gather(data, starts, starts + heads).view(f"<u{width}")
    if len(offsets) and int(offsets.max()) > len(data):
        raise CorruptFile("the offsets of a chunk of strings leave the chunk")
    offsets = offsets.astype(np.int64, copy=False)
    # A chunk has one offset more than values: its first and last bound its bytes.
    last = np.cumsum(counts + 1) - 1
    first = last - counts
    lengths = np.delete(np.diff(offsets), last[:-1])
    beyond = (offsets[first] < heads) | (offsets[last] > ends - starts)
    if np.any(lengths < 0) or np.any(beyond):
        raise CorruptFile("the offsets of a chunk of strings descend or leave the chunk")
    return lengths, offsets[first], offsets[last]


def find_strings(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, wanted: Ints
) -> tuple[Ints, Ints]:
    """Find single strings of chunks, with no look at the others.

    Args:
        data: As for `join_chunks`, like those that follow.
        starts: Where each chunk starts in `data`.
        ends: Where it ends.
        counts: Strings in each chunk.
        width: Bytes of an offset: 4 or 8.
        wanted: Positions among the strings of all chunks, ascending, each once.

    Returns:
        Where the bytes of each wanted string start in `data`, and where they end.

    Raises:
        CorruptFile: A chunk is too short, or a wanted string is not within its chunk.
    """
    _check_heads(data, starts, ends, counts, width)
    chunk, within = places_of(counts, wanted)
    at = (starts[chunk] + within * width)[:, None] + np.arange(2 * width)
    offsets = data[at].view(f"<u{width}").reshape(-1, 2)
    heads, sizes = (counts[chunk] + 1) * width, (ends - starts)[chunk]
    low, high = offsets[:, 0], offsets[:, 1]
    # Compared unsigned: offsets of 8 bytes may be beyond what a signed number holds.
    if np.any((low < heads.astype("u8")) | (low > high) | (high > sizes.astype("u8"))):
        raise CorruptFile("the offsets of a chunk of strings descend or leave the chunk")
    return starts[chunk] + low.astype(np.int64), starts[chunk] + high.astype(np.int64)


def _check_heads(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> None:
    check_chunks(data, starts, ends)
    if np.any(counts < 0) or np.any(counts >= (ends - starts) // width):
        raise CorruptFile("a chunk of strings is too short for its offsets")


def narrowed(offsets: Array) -> Array:
    """Return ascending offsets as int32 where they fit, and as int64 elsewhere."""
    return offsets.astype(np.int32 if offsets[-1] <= LARGEST else np.int64, copy=False)
