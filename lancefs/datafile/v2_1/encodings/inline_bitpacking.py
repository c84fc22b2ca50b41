"""Inline bitpacking: a chunk is its bit width, in one word, and a packed block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints
from lancefs.datafile.kernels import read_widths, unpack, unpack_at
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.datafile.v2_1.encodings.flat import bytes_of_bits
from lancefs.datafile.v2_1.encodings.registry import Chunked, expect_buffers
from lancefs.errors import UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import InlineBitpacking


def most_bytes(encoding: InlineBitpacking, counts: Ints) -> Ints:
    bits = int(encoding.uncompressed_bits_per_value)
    return bytes_of_bits(bits, np.maximum(counts, BLOCK)) + 8


def decode_chunks(encoding: InlineBitpacking, buffers: Sequence[Chunked], counts: Ints) -> Block:
    bits, starts, widths = _blocks(encoding, buffers)
    return FixedWidth(bits, unpack(buffers[0].data, starts, widths, counts, bits))


def decode_at(
    encoding: InlineBitpacking, buffers: Sequence[Chunked], counts: Ints, wanted: Ints
) -> Block:
    bits, starts, widths = _blocks(encoding, buffers)
    return FixedWidth(bits, unpack_at(buffers[0].data, starts, widths, counts, wanted, bits))


def _blocks(encoding: InlineBitpacking, buffers: Sequence[Chunked]) -> tuple[int, Ints, Ints]:
    """Return the bits of a value, and the start and the bit width of the block of each chunk."""
    if encoding.HasField("values"):
        raise UnsupportedFeature("buffer compression of bit-packed values")
    expect_buffers(buffers, 1, "inline bitpacking")
    buffer, bits = buffers[0], int(encoding.uncompressed_bits_per_value)
    widths = read_widths(buffer.data, buffer.starts, buffer.ends, bits)
    return bits, buffer.starts + bits // 8, widths
