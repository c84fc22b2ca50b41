"""Out-of-line bitpacking: one bit width for the page, given by the description.

`kernels.bitpacking.unpack_buffers` documents the layout of a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import Block, FixedWidth, Ints
from lancefs.datafile.buffers import reserve
from lancefs.datafile.kernels import unpack_buffers
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.datafile.v2_1.encodings.flat import bytes_of_bits
from lancefs.datafile.v2_1.encodings.registry import Chunked, expect_buffers, flat_bits
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import OutOfLineBitpacking


def most_bytes(encoding: OutOfLineBitpacking, counts: Ints) -> Ints:
    return bytes_of_bits(int(encoding.uncompressed_bits_per_value), counts + BLOCK)


def decode_chunks(encoding: OutOfLineBitpacking, buffers: Sequence[Chunked], counts: Ints) -> Block:
    expect_buffers(buffers, 1, "out-of-line bitpacking")
    bits = int(encoding.uncompressed_bits_per_value)
    width = flat_bits(encoding.values, "bit-packed values")
    if bits not in (8, 16, 32, 64) or width > bits:
        raise CorruptFile(f"bitpacking of {bits}-bit values in {width} bits")
    buffer = buffers[0]
    if not width:  # values of no bits, of which there may be any number
        reserve(int(counts.sum()) * bits // 8)
    values = unpack_buffers(buffer.data, buffer.starts, buffer.ends, counts, width, bits)
    return FixedWidth(bits, values)
