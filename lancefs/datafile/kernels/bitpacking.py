"""Bit unpacking in the FastLanes order (docs: format/file/encoding, "Bitpacking").

1024 values of T bits are packed in W bits each. There are 1024 / T lanes; a lane holds T values
("rows") as a stream of W-bit numbers, low bits first, and word k of lane l is word
`k * lanes + l` of the block. Row r of lane l is value `ORDER[r // 8] * 16 + (r % 8) * 128 + l`.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, dtype_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

BLOCK = 1024  # values in a packed block
_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def unpack(data: Bytes, starts: Ints, widths: Ints, counts: Ints, bits: int) -> Array:
    """Unpack blocks of up to 1024 values each and join them.

    Args:
        data: The buffer that holds the blocks.
        starts: Offset in `data` of each block; a block takes 128 × its width bytes.
        widths: Packed bits a value in each block, 0 to `bits`.
        counts: Values wanted of each block, 1 to 1024.
        bits: Bits of an unpacked value: 8, 16, 32 or 64.

    Returns:
        The values of all blocks in order, unsigned.

    Raises:
        CorruptFile: A width, count or offset is out of bounds.
    """
    if bits not in (8, 16, 32, 64):
        raise CorruptFile(f"bit packing of {bits}-bit values; expected 8, 16, 32 or 64 bits")
    if len(starts) and (widths.min() < 0 or widths.max() > bits):
        raise CorruptFile(f"bit width {widths.max()} of a packed block; expected at most {bits}")
    if len(starts) and (counts.min() < 0 or counts.max() > BLOCK):
        raise CorruptFile(f"{counts.max()} values in a packed block; expected at most {BLOCK}")
    sizes = widths * (BLOCK // 8)
    if len(starts) and (starts.min() < 0 or np.any(starts > len(data) - sizes)):
        raise CorruptFile(f"a packed block ends beyond its buffer of {len(data)} bytes")
    blocks = np.zeros((len(starts), BLOCK), dtype=dtype_of(bits // 8))
    for width in np.unique(widths):
        if width:
            chosen = np.flatnonzero(widths == width)
            blocks[chosen] = _unpack_width(data, starts[chosen], int(width), bits)
    if len(counts) and np.all(counts[:-1] == BLOCK):
        return blocks.reshape(-1)[: int(counts.sum())]
    return blocks[np.arange(BLOCK) < counts[:, None]]


def _unpack_width(data: Bytes, starts: Ints, width: int, bits: int) -> Array:
    """Unpack blocks that share a width, all lanes of all blocks at once."""
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
