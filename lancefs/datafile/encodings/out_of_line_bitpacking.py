"""Out-of-line bitpacking: one bit width for the page, given by the description.

A buffer is a row of packed blocks of 1024 values. The values that are left over at its end are
packed as one more block, or stored raw exactly where the length of the buffer says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Array, Block, FixedWidth, Ints, gather, typed
from lancefs.datafile.encodings.registry import Chunked, expect_buffers, flat_bits
from lancefs.datafile.kernels import unpack
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import OutOfLineBitpacking


def decode_chunks(encoding: OutOfLineBitpacking, buffers: Sequence[Chunked], counts: Ints) -> Block:
    expect_buffers(buffers, 1, "out-of-line bitpacking")
    bits = int(encoding.uncompressed_bits_per_value)
    width = flat_bits(encoding.values, "bit-packed values")
    if bits not in (8, 16, 32, 64) or width > bits:
        raise CorruptFile(f"bitpacking of {bits}-bit values in {width} bits")
    return FixedWidth(bits, _unpack(buffers[0], width, bits, counts))


def _unpack(buffer: Chunked, width: int, bits: int, counts: Ints) -> Array:
    size = width * BLOCK // 8
    whole, tail = counts // BLOCK, counts % BLOCK
    raw = (tail > 0) & (buffer.sizes == whole * size + tail * (bits // 8))
    blocks = whole + ((tail > 0) & ~raw)
    if np.any((blocks * size > buffer.sizes) & ~raw):
        chunk = int(np.argmax((blocks * size > buffer.sizes) & ~raw))
        raise CorruptFile(
            f"chunk {chunk} has {buffer.sizes[chunk]} bytes for {counts[chunk]} values "
            f"packed in {width} bits"
        )
    # Number the blocks of all chunks, to unpack them in one go.
    chunk_of = np.repeat(np.arange(len(counts)), blocks)
    within = np.arange(len(chunk_of)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    starts = buffer.starts[chunk_of] + within * size
    wanted = np.minimum(counts[chunk_of] - within * BLOCK, BLOCK)
    values = unpack(buffer.data, starts, np.full(len(starts), width), wanted, bits)
    if not raw.any():
        return values
    return _with_raw_tails(values, buffer, bits, counts, np.where(raw, tail, 0))


def _with_raw_tails(values: Array, buffer: Chunked, bits: int, counts: Ints, tails: Ints) -> Array:
    """Insert the values that chunks store raw after their packed ones."""
    stops = buffer.ends
    raw = typed(gather(buffer.data, stops - tails * (bits // 8), stops), bits)
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    is_raw = within >= np.repeat(counts - tails, counts)
    joined = np.empty(len(is_raw), dtype=values.dtype)
    joined[is_raw] = raw
    joined[~is_raw] = values
    return joined
