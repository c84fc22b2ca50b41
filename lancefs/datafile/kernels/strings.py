"""The strings of chunks.

A chunk begins with the offsets of its strings, one more than it has strings. Offsets count from the
start of the chunk. The bytes of the strings follow.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, empty, total
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.datafile.kernels.segments import check_chunks, gather, places_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

LARGEST = int(np.iinfo(np.int32).max)  # the largest offset of 32 bits


def join_chunks(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Array, Bytes]:
    """Join the strings of chunks.

    Args:
        data: The buffer that holds the chunks.
        starts: Offset in `data` of the start of each chunk.
        ends: Offset in `data` of the end of each chunk.
        counts: Number of strings in each chunk.
        width: Bytes of an offset: 4 or 8.

    Returns:
        The offsets of all strings, from 0 (int32 if they fit), and their bytes.

    Raises:
        CorruptFile: A chunk is too short, or its offsets descend or leave it.
    """
    lengths, first, last = chunk_lengths(data, starts, ends, counts, width)
    text = gather(data, starts + first, starts + last)
    return compact_offsets(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))), text


@twin_of(join_chunks, "bytes number ints ints ints number number out number out number")
def _compiled_join_chunks(
    call: Call, data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Array, Bytes]:
    values, chunks = total(counts), len(counts)
    room = total(ends - starts) - (values + chunks) * width
    if values < 0 or room < 0 or room + values * width > len(data):
        raise Damaged
    if room > LARGEST:
        return join_chunks(data, starts, ends, counts, width)
    offsets, text = empty(values + 1, np.int32), empty(room, np.uint8)
    size = call(data, len(data), starts, ends, counts, chunks, width, offsets, values, text, room)
    return offsets, text[:size]


def are_letters(offsets: Array) -> bool:
    """Return whether strings are a byte each.

    Args:
        offsets: One more than there are strings: string i has the bytes from offset i to offset
            i + 1.
    """
    return np.array_equal(offsets[1:] - offsets[:-1], np.ones(len(offsets) - 1, offsets.dtype))


def join_letters(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> Bytes | None:
    """Join the strings of chunks where each is a byte; see `join_chunks` for the arguments.

    Returns:
        The byte of each string; None where there are others, or a chunk is damaged.
    """
    try:
        offsets, text = join_chunks(data, starts, ends, counts, width)
    except CorruptFile:
        return None
    return text if are_letters(offsets) else None


@twin_of(join_letters, "bytes number ints ints ints number number out number")
def _compiled_join_letters(
    call: Call, data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> Bytes | None:
    values = total(counts)
    if not 0 <= values * (width + 1) <= len(data):
        return None
    letters = empty(values, np.uint8)
    chunks = len(counts)
    found = call(data, len(data), starts, ends, counts, chunks, width, letters, values)
    return letters if found else None


def chunk_lengths(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Ints, Ints, Ints]:
    """Return the lengths of the strings of chunks, from their offsets alone.

    Args and errors are those of `join_chunks`.

    Returns:
        The length in bytes of each string; and where the bytes of all strings of a chunk begin and
        end, counted from the start of the chunk.
    """
    _check_heads(data, starts, ends, counts, width)
    heads = (counts + 1) * width
    offsets = gather(data, starts, starts + heads).view(f"<u{width}")
    if len(offsets) and int(offsets.max()) > len(data):
        raise CorruptFile("the offsets of a chunk of strings leave the chunk")
    offsets = offsets.astype(np.int64, copy=False)
    # A chunk has one offset more than strings; its first and last offsets bound the bytes.
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
    """Find single strings of chunks, without reading the offsets of other strings.

    Args:
        data: The buffer that holds the chunks.
        starts: Offset in `data` of the start of each chunk.
        ends: Offset in `data` of the end of each chunk.
        counts: Number of strings in each chunk.
        width: Bytes of an offset: 4 or 8.
        wanted: Positions among the strings of all chunks, ascending and unique.

    Returns:
        The start and the end in `data` of each wanted string.

    Raises:
        CorruptFile: A chunk is too short, or a wanted string is not within its chunk.
    """
    _check_heads(data, starts, ends, counts, width)
    chunk, within = places_of(counts, wanted)
    at = (starts[chunk] + within * width)[:, None] + np.arange(2 * width)
    offsets = data[at].view(f"<u{width}").reshape(-1, 2)
    heads, sizes = (counts[chunk] + 1) * width, (ends - starts)[chunk]
    low, high = offsets[:, 0], offsets[:, 1]
    # The comparison is unsigned: an offset of 8 bytes may be too large for int64.
    if np.any((low < heads.astype("u8")) | (low > high) | (high > sizes.astype("u8"))):
        raise CorruptFile("the offsets of a chunk of strings descend or leave the chunk")
    return starts[chunk] + low.astype(np.int64), starts[chunk] + high.astype(np.int64)


@twin_of(find_strings, "bytes number ints ints ints number number ints number out")
def _compiled_find_strings(
    call: Call, data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, wanted: Ints
) -> tuple[Ints, Ints]:
    found, chunks, strings = np.empty((2, len(wanted)), np.int64), len(counts), len(wanted)
    call(data, len(data), starts, ends, counts, chunks, width, wanted, strings, found)
    return found[0], found[1]


def _check_heads(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> None:
    check_chunks(data, starts, ends)
    if np.any(counts < 0) or np.any(counts >= (ends - starts) // width):
        raise CorruptFile("a chunk of strings is too short for its offsets")


def compact_offsets(offsets: Array) -> Array:
    """Return ascending offsets as int32 if they fit, else as int64."""
    return offsets.astype(np.int32 if offsets[-1] <= LARGEST else np.int64, copy=False)


def block_header(data: Bytes) -> tuple[int, int, int]:
    """Read the header of a block of strings that stands alone.

    Returns:
        The width of an offset in bytes, and the start and the end of the offsets.

    Files written before 2.1 was stable have another header: one byte for the bits, then the number
    of values. In these, bytes 1 to 3 are not all zero.
    """
    if len(data) < 9:
        raise CorruptFile(f"a block of strings has only {len(data)} bytes")
    head = data[:24].tobytes()
    old = any(head[1:4])
    bits = head[0] if old else int.from_bytes(head[:4], "little")
    if bits not in (32, 64):
        raise CorruptFile(f"a block of strings has offsets of {bits} bits; expected 32 or 64")
    width = bits // 8
    position = 1 + width if old else width
    end = int.from_bytes(head[position : position + width], "little")
    return width, position + width, end


def read_block(data: Bytes, count: int) -> tuple[Array, Bytes]:
    """Read the strings of a block that stands alone.

    Args:
        data: The block.
        count: Number of strings.

    Returns:
        The offsets of the strings, one more than there are strings (int32 if they fit), and the
        bytes that they point into.

    Raises:
        CorruptFile: The block is damaged.
    """
    width, start, end = block_header(data)
    if (count + 1) * width > end - start or end > len(data):
        has_room = (end - start) // width
        raise CorruptFile(f"a block of {count} strings has room for {has_room} offsets")
    offsets = data[start : start + (count + 1) * width].view(f"<u{width}").astype(np.int64)
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] > len(data) - end:
        raise CorruptFile("the offsets of a block of strings descend or leave the block")
    return compact_offsets(offsets), data[end:]
