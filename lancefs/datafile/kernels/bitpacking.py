"""Bit unpacking in the FastLanes order (docs: format/file/encoding, "Bitpacking").

A block packs 1024 values of T bits in W bits each. It has 1024 / T lanes. A lane holds T values
("rows") as a stream of W-bit numbers, low bits first; word k of lane l is word `k * lanes + l` of
the block. Row r of lane l is value `ORDER[r // 8] * 16 + (r % 8) * 128 + l`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lancefs.datafile.buffers import Array, Ints, dtype_of, empty, total
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.datafile.kernels.segments import gather, places_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

BLOCK = 1024  # values in a packed block
# More values than any page has: the only limit on values of 0 bits, which take no bytes.
MOST = 1 << 31
_SIZES = (8, 16, 32, 64)  # bits of an unpacked value
_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def unpack(data: Bytes, starts: Ints, widths: Ints, counts: Ints, bits: int) -> Array:
    """Unpack blocks of up to 1024 values each and join them.

    Args:
        data: The buffer that holds the blocks.
        starts: Offset in `data` of each block; a block takes 128 × its width bytes.
        widths: Packed bits per value of each block, 0 to `bits`.
        counts: Number of values to unpack from each block, 0 to 1024.
        bits: Bits of an unpacked value: 8, 16, 32 or 64.

    Returns:
        The values of all blocks in order, unsigned.

    Raises:
        CorruptFile: A width, count or offset is out of bounds.
    """
    _check_blocks(data, starts, widths, counts, bits)
    blocks = np.zeros((len(starts), BLOCK), dtype=dtype_of(bits // 8))
    for width in np.unique(widths):
        if width:
            chosen = np.flatnonzero(widths == width)
            blocks[chosen] = _unpack_width(data, starts[chosen], int(width), bits)
    if len(counts) and np.all(counts[:-1] == BLOCK):
        return blocks.reshape(-1)[: int(counts.sum())]
    return blocks[np.arange(BLOCK) < counts[:, None]]


@twin_of(unpack, "bytes number ints ints ints number number out number")
def _compiled_unpack(
    call: Call, data: Bytes, starts: Ints, widths: Ints, counts: Ints, bits: int
) -> Array:
    room = total(counts)
    if bits not in _SIZES or not 0 <= room <= BLOCK * len(counts):
        raise Damaged
    out = empty(room, dtype_of(bits // 8))
    call(data, len(data), starts, widths, counts, len(counts), bits, out, room)
    return out


def unpack_at(
    data: Bytes, starts: Ints, widths: Ints, counts: Ints, wanted: Ints, bits: int
) -> Array:
    """Unpack single values of blocks, without unpacking whole blocks.

    Args:
        data: The buffer that holds the blocks.
        starts: Offset in `data` of each block.
        widths: Packed bits per value of each block.
        counts: Number of values in each block, 0 to 1024.
        wanted: Positions among the values of all blocks, ascending and unique.
        bits: Bits of an unpacked value.

    Returns:
        The wanted values, unsigned.

    Raises:
        CorruptFile: A width, count, offset or position is out of bounds.
    """
    _check_blocks(data, starts, widths, counts, bits)
    block, within = places_of(counts, wanted)
    dtype, lanes = dtype_of(bits // 8), BLOCK // bits
    values = np.zeros(len(wanted), dtype)
    some = np.flatnonzero(widths[block])  # values of 0 bits are zeros
    width, within = widths[block[some]], within[some]
    group, lane = np.divmod(within % 128, lanes)
    # The order is its own inverse.
    row = np.array(_ORDER)[group * (lanes // 16)] * 8 + within // 128
    word, shift = np.divmod(row * width, bits)
    at = starts[block[some]] + word * (BLOCK // 8) + lane * (bits // 8)
    found = _words(data, at, dtype) >> shift.astype(dtype)
    split = np.flatnonzero(shift + width > bits)
    rest = _words(data, at[split] + BLOCK // 8, dtype)
    found[split] |= rest << (bits - shift[split]).astype(dtype)
    values[some] = found & (np.iinfo(dtype).max >> (bits - width).astype(dtype))
    return values


@twin_of(unpack_at, "bytes number ints ints ints number ints number number out")
def _compiled_unpack_at(
    call: Call, data: Bytes, starts: Ints, widths: Ints, counts: Ints, wanted: Ints, bits: int
) -> Array:
    if bits not in _SIZES:
        raise Damaged
    out = empty(len(wanted), dtype_of(bits // 8))
    blocks, values = len(counts), len(wanted)
    call(data, len(data), starts, widths, counts, blocks, wanted, values, bits, out)
    return out


def _words(data: Bytes, at: Ints, dtype: np.dtype[Any]) -> Array:
    """Read the words at given offsets. The caller has checked the offsets."""
    words: Array = data[at[:, None] + np.arange(dtype.itemsize)].view(dtype)[:, 0]
    return words


def _check_blocks(data: Bytes, starts: Ints, widths: Ints, counts: Ints, bits: int) -> None:
    if bits not in _SIZES:
        raise CorruptFile(f"bit packing of {bits}-bit values; expected 8, 16, 32 or 64 bits")
    if len(starts) and (widths.min() < 0 or widths.max() > bits):
        raise CorruptFile(f"bit width {widths.max()} of a packed block; expected at most {bits}")
    if len(starts) and (counts.min() < 0 or counts.max() > BLOCK):
        raise CorruptFile(f"{counts.max()} values in a packed block; expected at most {BLOCK}")
    sizes = widths * (BLOCK // 8)
    if len(starts) and (starts.min() < 0 or np.any(starts > len(data) - sizes)):
        raise CorruptFile(f"a packed block ends beyond its buffer of {len(data)} bytes")


def read_widths(data: Bytes, starts: Ints, ends: Ints, bits: int) -> Ints:
    """Read the bit widths of chunks; a chunk is a word that holds the width, then a packed block.

    Args:
        data: The buffer that holds the chunks.
        starts: Offset in `data` of the start of each chunk.
        ends: Offset in `data` of the end of each chunk.
        bits: Bits of a word and of an unpacked value: 8, 16, 32 or 64.

    Raises:
        CorruptFile: A chunk is not in the data, has another length than its width says, or a width
            is above `bits`.
    """
    if bits not in _SIZES:
        raise CorruptFile(f"bit packing of {bits}-bit values; expected 8, 16, 32 or 64 bits")
    if np.any((starts < 0) | (starts > ends) | (ends > len(data))):
        raise CorruptFile(f"a bit-packed chunk leaves its buffer of {len(data)} bytes")
    word, sizes = bits // 8, ends - starts
    if np.any(sizes < word):
        raise CorruptFile("a bit-packed chunk has no bit width")
    widths = data[starts[:, None] + np.arange(word)].view(dtype_of(word))[:, 0]
    if np.any(widths > bits):
        raise CorruptFile(f"bit width {widths.max()} of a chunk; expected at most {bits}")
    wide: Ints = widths.astype(np.int64)
    if np.any(wide * (BLOCK // 8) + word != sizes):
        raise CorruptFile("a bit-packed chunk is shorter or longer than its bit width says")
    return wide


@twin_of(read_widths, "bytes number ints ints number number out")
def _compiled_read_widths(call: Call, data: Bytes, starts: Ints, ends: Ints, bits: int) -> Ints:
    if bits not in _SIZES:
        raise Damaged
    widths = np.empty(len(starts), np.int64)
    call(data, len(data), starts, ends, len(starts), bits, widths)
    return widths


def unpack_buffers(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, bits: int
) -> Array:
    """Unpack buffers that are packed in one width, and join their values.

    A buffer is a sequence of whole blocks. The remaining values are packed as one more block, or
    stored raw; they are raw if the buffer has exactly the length that raw values take.

    Args:
        data: The bytes that hold the buffers.
        starts: Offset in `data` of the start of each buffer.
        ends: Offset in `data` of the end of each buffer, at most the start of the next one.
        counts: Number of values in each buffer.
        width: Packed bits per value, 0 to `bits`.
        bits: Bits of an unpacked value: 8, 16, 32 or 64.

    Returns:
        The values of all buffers in order, unsigned.

    Raises:
        CorruptFile: A buffer is too short or too long, overlaps another one, or is not in the data.
    """
    if bits not in _SIZES or not 0 <= width <= bits:
        raise CorruptFile(f"bitpacking of {bits}-bit values in {width} bits")
    bounds = np.concatenate((np.zeros(1, np.int64), np.stack((starts, ends), 1).reshape(-1)))
    if np.any(bounds[1:] < bounds[:-1]) or bounds[-1] > len(data) or np.any(counts < 0):
        raise CorruptFile(f"packed buffers overlap, or leave their {len(data)} bytes")
    if counts.sum(dtype=np.float64) > MOST:
        raise CorruptFile(f"packed buffers of {counts.sum(dtype=np.float64):.0f} values")
    sizes, size = ends - starts, width * BLOCK // 8
    whole, tail = counts // BLOCK, counts % BLOCK
    raw = (tail > 0) & (sizes == whole * size + tail * (bits // 8))
    blocks = whole + ((tail > 0) & ~raw)
    is_wrong = (blocks * size != sizes) & ~raw
    if np.any(is_wrong):
        chunk = int(np.argmax(is_wrong))
        raise CorruptFile(
            f"chunk {chunk} has {sizes[chunk]} bytes for {counts[chunk]} values "
            f"packed in {width} bits"
        )
    # Number the blocks of all buffers, to unpack them together.
    buffer_of = np.repeat(np.arange(len(counts)), blocks)
    within = np.arange(len(buffer_of)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    wanted = np.minimum(counts[buffer_of] - within * BLOCK, BLOCK)
    begins = starts[buffer_of] + within * size
    values = unpack(data, begins, np.full(len(begins), width), wanted, bits)
    if not raw.any():
        return values
    tails = np.where(raw, tail, 0)
    stored = gather(data, ends - tails * (bits // 8), ends).view(dtype_of(bits // 8))
    return _insert_tails(values, stored, counts, tails)


@twin_of(unpack_buffers, "bytes number ints ints ints number number number out number")
def _compiled_unpack_buffers(
    call: Call, data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, bits: int
) -> Array:
    room, size, buffers = total(counts), total(ends - starts), len(counts)
    if bits not in _SIZES or not 0 <= room <= MOST or room * width > 8 * size:
        raise Damaged
    out = empty(room, dtype_of(bits // 8))
    call(data, len(data), starts, ends, counts, buffers, width, bits, out, room)
    return out


def _insert_tails(values: Array, stored: Array, counts: Ints, tails: Ints) -> Array:
    """Insert the raw values of each buffer after its packed values."""
    stops = np.cumsum(counts)
    within = np.arange(int(stops[-1])) - np.repeat(stops - counts, counts)
    is_raw = within >= np.repeat(counts - tails, counts)
    joined = np.empty(len(is_raw), values.dtype)
    joined[is_raw] = stored
    joined[~is_raw] = values
    return joined


def _unpack_width(data: Bytes, starts: Ints, width: int, bits: int) -> Array:
    """Unpack blocks of one width, all lanes of all blocks at once."""
    lanes = BLOCK // bits
    dtype = dtype_of(bits // 8)
    size = width * BLOCK // 8
    rows = np.lib.stride_tricks.sliding_window_view(data, size)[starts]
    words = rows.view(dtype).reshape(len(starts), width, lanes)
    mask = dtype.type((1 << width) - 1)
    out = np.empty((len(starts), BLOCK), dtype=dtype)
    for row in range(bits):
        word, shift = divmod(row * width, bits)
        values = words[:, word] >> dtype.type(shift)
        if shift + width > bits:
            values |= words[:, word + 1] << dtype.type(bits - shift)
        first = _ORDER[row // 8] * 16 + row % 8 * 128
        out[:, first : first + lanes] = values & mask
    return out
