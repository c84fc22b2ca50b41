"""Decompression of lz4 blocks. A block does not hold its raw size; the caller knows it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_LARGEST_RATIO = 256  # a byte of a block decompresses to fewer bytes than this


def decompress_lz4(data: Bytes, starts: Ints, ends: Ints, sizes: Ints) -> Bytes:
    """Decompress blocks, and join their bytes.

    Args:
        data: The buffer that holds the blocks.
        starts: Offset in `data` of the start of each block.
        ends: Offset in `data` of the end of each block.
        sizes: Raw size in bytes of each block.

    Raises:
        CorruptFile: A block leaves `data`, is damaged, or has another raw size.
    """
    if np.any(starts < 0) or np.any(ends < starts) or np.any(ends > len(data)):
        raise CorruptFile(f"lz4 blocks leave a buffer of {len(data)} bytes")
    if np.any(sizes < 0) or np.any(sizes > _LARGEST_RATIO * (ends - starts)):
        raise CorruptFile("an lz4 block is said to hold more than it can")
    codec, pieces = pa.Codec("lz4_raw"), []
    for start, end, size in zip(starts.tolist(), ends.tolist(), sizes.tolist(), strict=True):
        found = _decompress(codec, data[start:end], size)
        # If the raw size is smaller, Arrow returns `size` bytes, the last ones uninitialized.
        if found is None or (size and _decompress(codec, data[start:end], size - 1) is not None):
            raise CorruptFile(
                f"an lz4 block does not decompress to the {size} bytes that it is said to hold"
            )
        pieces.append(found)
    return np.concatenate([np.empty(0, np.uint8), *pieces])


@twin_of(decompress_lz4, "bytes number ints ints ints number out number")
def _compiled_decompress_lz4(
    call: Call, data: Bytes, starts: Ints, ends: Ints, sizes: Ints
) -> Bytes:
    if not np.all((sizes >= 0) & (sizes <= _LARGEST_RATIO * len(data))):
        raise Damaged
    out = empty(int(sizes.sum()), np.uint8)
    try:
        call(data, len(data), starts, ends, sizes, len(sizes), out, len(out))
    except Damaged:  # Arrow's lz4 takes some blocks that the format rules out
        return decompress_lz4(data, starts, ends, sizes)
    return out


def _decompress(codec: pa.Codec, block: Bytes, size: int) -> Bytes | None:
    try:
        return np.frombuffer(codec.decompress(block, size), dtype=np.uint8)
    except (OSError, ValueError):  # Arrow's names for what it cannot decompress
        return None
