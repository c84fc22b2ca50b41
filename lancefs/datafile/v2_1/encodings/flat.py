"""Flat: uncompressed consecutive values; a boolean takes one bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints, gather, no_width, typed
from lancefs.datafile.kernels.segments import places_of
from lancefs.datafile.row_ranges import as_ranges
from lancefs.datafile.v2_1.encodings.registry import LARGEST, Chunked, expect_buffers
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import Flat
from lancefs.storage import Bytes

# Up to so many bits a value, the bits of all values that `registry` lets a file have are an int64.
_MAX_PLAIN_BITS = 1 << 14


def decode_chunks(encoding: Flat, buffers: Sequence[Chunked], counts: Ints) -> Block:
    _check(encoding, buffers)
    return flat_values(buffers[0], int(encoding.bits_per_value), counts)


def decode_fixed(encoding: Flat, data: Bytes, count: int) -> Block:
    bits = int(encoding.bits_per_value)
    # Values narrower than the rows they come from would be read across the bounds of rows.
    if count * bits != 8 * len(data):
        raise CorruptFile(f"{len(data)} bytes are not {count} values of {bits} bits")
    _check(encoding, [buffer := Chunked.single(data)])
    return flat_values(buffer, bits, np.array([count], np.int64))


def most_bytes(encoding: Flat, counts: Ints) -> Ints:
    return bytes_of_bits(int(encoding.bits_per_value), counts)


def decode_at(encoding: Flat, buffers: Sequence[Chunked], counts: Ints, wanted: Ints) -> Block:
    bits = int(encoding.bits_per_value)
    if bits == 0 or bits % 8:
        return decode_chunks(encoding, buffers, counts).select(as_ranges(wanted))
    _check(encoding, buffers)
    buffer, width = buffers[0], bits // 8
    _sizes(buffer, bits, counts)  # refuses chunks that are too short
    chunk, within = places_of(counts, wanted)
    starts = buffer.starts[chunk] + within * width
    return FixedWidth(bits, typed(gather(buffer.data, starts, starts + width), bits))


def checked_ends(encoding: Flat, buffers: Sequence[Chunked], counts: Ints) -> tuple[Chunked, Ints]:
    """Return the buffer of the values of chunks, and where the values of each chunk end in it.

    Raises:
        CorruptFile: A chunk is too short for its values.
    """
    _check(encoding, buffers)
    buffer = buffers[0]
    return buffer, buffer.starts + _sizes(buffer, int(encoding.bits_per_value), counts)


def bytes_of_bits(bits: int, counts: Ints) -> Ints:
    """Return the bytes that numbers of values of a width take.

    Raises:
        CorruptFile: No values are so wide, or so many values are too many.
    """
    _check_width(bits)
    if bits > _MAX_PLAIN_BITS and int(counts.max(initial=0)) > LARGEST // bits:
        raise CorruptFile(f"{counts.max()} flat values of {bits} bits")
    return -(-counts * bits // 8)


def _check_width(bits: int) -> None:
    if not 0 <= bits <= 1 << 31:
        raise CorruptFile(f"flat values of {bits} bits")


def flat_values(buffer: Chunked, bits: int, counts: Ints) -> FixedWidth:
    """Read `counts[i]` values of `bits` bits each from chunk i.

    Raises:
        CorruptFile: A chunk is too short for its values.
    """
    if bits == 0:
        return FixedWidth(0, no_width(int(counts.sum())))
    if len(counts) == 1:  # a small page, or a dictionary
        return _one_chunk(buffer, bits, counts)
    sizes = _sizes(buffer, bits, counts)
    data = gather(buffer.data, buffer.starts, buffer.starts + sizes)
    if bits == 1:
        return FixedWidth(1, _bits(data, sizes, counts))
    return FixedWidth(bits, typed(data, bits))


def _check(encoding: Flat, buffers: Sequence[Chunked]) -> None:
    if encoding.HasField("data"):
        raise UnsupportedFeature("buffer compression of a flat encoding")
    expect_buffers(buffers, 1, "flat")


def _sizes(buffer: Chunked, bits: int, counts: Ints) -> Ints:
    """Return the size of each chunk's values, checked to be within the chunk."""
    sizes = bytes_of_bits(bits, counts)
    wrong = (counts < 0) | (sizes > buffer.sizes)
    if wrong.any():
        raise _too_short(buffer, int(np.argmax(wrong)), bits, counts)
    return sizes


def _one_chunk(buffer: Chunked, bits: int, counts: Ints) -> FixedWidth:
    """Read the values of a single chunk, in a tenth of the time that the general case takes."""
    _check_width(bits)
    start, end, count = int(buffer.starts[0]), int(buffer.ends[0]), int(counts[0])
    size = -(-count * bits // 8)
    if count < 0 or not 0 <= start <= start + size <= end <= len(buffer.data):
        raise _too_short(buffer, 0, bits, counts)
    data = buffer.data[start : start + size]
    if bits == 1:
        return FixedWidth(1, np.unpackbits(data, count=count, bitorder="little"))
    return FixedWidth(bits, typed(data, bits))


def _too_short(buffer: Chunked, chunk: int, bits: int, counts: Ints) -> CorruptFile:
    return CorruptFile(
        f"chunk {chunk} has {buffer.sizes[chunk]} bytes for {counts[chunk]} values of {bits} bits"
    )


def _bits(data: Bytes, sizes: Ints, counts: Ints) -> Bytes:
    values: Bytes = np.unpackbits(data, bitorder="little")
    total = int(counts.sum())
    if np.all(counts[:-1] % 8 == 0):
        return values[:total]
    # Each chunk begins at a whole byte: drop the padding bits between chunks.
    within = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes).repeat(8) * 8
    bits: Bytes = values[within < np.repeat(counts, sizes * 8)]
    return bits
