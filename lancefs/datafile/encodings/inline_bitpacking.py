"""Inline bitpacking: each chunk begins with its own bit width, one word, then a packed block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints, dtype_of, gather
from lancefs.datafile.encodings.registry import Chunked, expect_buffers
from lancefs.datafile.kernels import unpack
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import InlineBitpacking


def decode_chunks(encoding: InlineBitpacking, buffers: Sequence[Chunked], counts: Ints) -> Block:
    if encoding.HasField("values"):
        raise UnsupportedFeature("buffer compression of bit-packed values")
    expect_buffers(buffers, 1, "inline bitpacking")
    bits = int(encoding.uncompressed_bits_per_value)
    if bits not in (8, 16, 32, 64):
        raise CorruptFile(f"inline bitpacking of {bits}-bit values; expected 8, 16, 32 or 64 bits")
    buffer, word = buffers[0], bits // 8
    sizes = buffer.sizes
    if (sizes < word).any():
        raise CorruptFile("a bit-packed chunk has no bit width")
    widths = gather(buffer.data, buffer.starts, buffer.starts + word).view(dtype_of(word))
    if len(widths) and widths.max() > bits:
        raise CorruptFile(f"bit width {widths.max()} of a chunk; expected at most {bits}")
    wide = widths.astype(np.int64)
    if (wide * (BLOCK // 8) + word > sizes).any():
        raise CorruptFile("a bit-packed chunk is shorter than its bit width says")
    return FixedWidth(bits, unpack(buffer.data, buffer.starts + word, wide, counts, bits))
