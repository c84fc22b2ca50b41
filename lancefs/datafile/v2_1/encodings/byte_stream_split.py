"""Byte-stream split: stream j of a chunk holds byte j of every value of the chunk."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import Block, FixedWidth, Ints, typed
from lancefs.datafile.kernels import join_streams
from lancefs.datafile.v2_1.encodings.flat import bytes_of_bits
from lancefs.datafile.v2_1.encodings.registry import Chunked, expect_buffers, flat_bits
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import ByteStreamSplit


def most_bytes(encoding: ByteStreamSplit, counts: Ints) -> Ints:
    return bytes_of_bits(flat_bits(encoding.values, "byte-stream split"), counts)


def decode_chunks(encoding: ByteStreamSplit, buffers: Sequence[Chunked], counts: Ints) -> Block:
    expect_buffers(buffers, 1, "byte-stream split")
    bits = flat_bits(encoding.values, "byte-stream split")
    width, buffer = bits // 8, buffers[0]
    if bits % 8 or not 0 < width <= 16:
        raise CorruptFile(f"byte-stream split of {bits}-bit values")
    values = join_streams(buffer.data, buffer.starts, buffer.ends, counts, width)
    return FixedWidth(bits, typed(values, bits))
