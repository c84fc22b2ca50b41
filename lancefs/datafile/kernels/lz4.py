"""lz4 blocks, whose raw sizes stand elsewhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# A byte of a block stands for fewer bytes than this.
LARGEST_RATIO = 256


def decompress_lz4(data: Bytes, starts: Ints, ends: Ints, sizes: Ints) -> Bytes:
    """Decompress blocks, one after the other.

    Args:
        data: Where they are.
        starts: Of each block.
        ends: Of each block.
        sizes: The bytes that each holds.

    Raises:
        CorruptFile: A block leaves `data`, is damaged, or does not hold so many bytes.
    """
    if np.any(starts < 0) or np.any(ends < starts) or np.any(ends > len(data)):
        raise CorruptFile(f"lz4 blocks leave a buffer of {len(data)} bytes")
    if np.any(sizes < 0) or np.any(sizes > LARGEST_RATIO * (ends - starts)):
        raise CorruptFile("an lz4 block is said to hold more than it can")
    codec, pieces = pa.Codec("lz4_raw"), []
    for start, end, size in zip(starts.tolist(), ends.tolist(), sizes.tolist(), strict=True):
        found = _decompressed(codec, data[start:end], size)
        # Of a block that holds less, Arrow fills up the rest with whatever memory had.
        if found is None or (size and _decompressed(codec, data[start:end], size - 1) is not None):
            raise CorruptFile(
                f"an lz4 block does not decompress to the {size} bytes that it is said to hold"
            )
        pieces.append(found)
    return np.concatenate([np.empty(0, np.uint8), *pieces])


def _decompressed(codec: pa.Codec, block: Bytes, size: int) -> Bytes | None:
    try:
        return np.frombuffer(codec.decompress(block, size), dtype=np.uint8)
    except (OSError, ValueError):  # Arrow's names for what it cannot decompress
        return None
