"""Inline bitpacking: each chunk begins with its own bit width, one word, then a packed block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints, dtype_of, gather
from lancefs.datafile.encodings.registry import Chunked, expect_buffers
from lancefs.datafile.kernels import unpack, unpack_at
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import InlineBitpacking


def decode_chunks(encoding: InlineBitpacking, buffers: Sequence[Chunked], counts: Ints) -> Block:
    bits, starts, widths = _blocks(encoding, buffers)
    return FixedWidth(bits, unpack(buffers[0].data, starts, widths, counts, bits))


def decode_at(
    encoding: InlineBitpacking, buffers: Sequence[Chunked], counts: Ints, wanted: Ints
) -> Block:
    bits, starts, widths = _blocks(encoding, buffers)
    return FixedWidth(bits, unpack_at(buffers[0].data, starts, widths, counts, wanted, bits))


def _blocks(encoding: InlineBitpacking, buffers: Sequence[Chunked]) -> tuple[int, Ints, Ints]:
    """Return the bits of a value; and of each chunk where its block starts, and its bit width."""
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
    return bits, buffer.starts + word, wide
