"""Variable: byte strings as offsets and bytes.

A chunk holds the offsets, which count from the start of the chunk's buffer, then the bytes. A block
that stands alone (a dictionary) begins with a header: the bits of an offset and the position of the
bytes, each as wide as an offset. The offsets of a block count from that position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, Ints, VariableWidth, gather, lengths_of, offsets_of
from lancefs.datafile.kernels import find_strings, join_chunks, join_letters
from lancefs.datafile.kernels.strings import chunk_lengths, compact_offsets, read_block
from lancefs.datafile.row_ranges import as_ranges
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import Chunked, expect_buffers, flat_bits
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import Variable
from lancefs.storage import Bytes

# The header of a block with offsets of 32 bits, as all but the first releases write it.
_HEADER = np.dtype([("bits", "<u4"), ("texts", "<u4")])
# Blocks that are worth joining, and offsets of all of them that may be looked at together.
_MANY_BLOCKS, _MAX_AT_ONCE = 4, 128 * 1024


def decode_chunks(encoding: Variable, buffers: Sequence[Chunked], counts: Ints) -> Block:
    if _has_compressed_offsets(encoding):
        return _decode_with_offsets(encoding, buffers, counts)
    return VariableWidth(*join_chunks(*_chunks(encoding, buffers, counts)))


def letters_of(encoding: Variable, buffers: Sequence[Chunked], counts: Ints) -> Bytes | None:
    """Return the bytes of strings of a byte each; None where others are among them."""
    if _has_compressed_offsets(encoding):
        return None
    return join_letters(*_chunks(encoding, buffers, counts))


def decode_at(encoding: Variable, buffers: Sequence[Chunked], counts: Ints, wanted: Ints) -> Block:
    if _has_compressed_offsets(encoding):
        return _decode_with_offsets(encoding, buffers, counts).select(as_ranges(wanted))
    starts, ends = find_strings(*_chunks(encoding, buffers, counts), wanted)
    return VariableWidth(offsets_of(ends - starts), gather(buffers[0].data, starts, ends))


def value_lengths(encoding: Variable, buffers: Sequence[Chunked], counts: Ints) -> Ints:
    if _has_compressed_offsets(encoding):
        return lengths_of(_decode_with_offsets(encoding, buffers, counts))
    lengths, _, _ = chunk_lengths(*_chunks(encoding, buffers, counts))
    return lengths


def _has_compressed_offsets(encoding: Variable) -> bool:
    """Whether the offsets are compressed, in a buffer of their own (format 2.3)."""
    return registry.name_of(encoding.offsets) != "flat"


def _chunks(
    encoding: Variable, buffers: Sequence[Chunked], counts: Ints
) -> tuple[Bytes, Ints, Ints, Ints, int]:
    """Return the arguments of the kernels: the chunks, their counts, and the width of an offset."""
    expect_buffers(buffers, 1, "variable")
    buffer = buffers[0]
    return buffer.data, buffer.starts, buffer.ends, counts, _offset_width(encoding)


def _decode_with_offsets(encoding: Variable, buffers: Sequence[Chunked], counts: Ints) -> Block:
    """Decode chunks whose offsets are compressed."""
    stored = registry.has_payload(encoding.offsets)
    expect_buffers(buffers, 1 + stored, "variable with compressed offsets")
    data, lengths = buffers[-1], []
    for chunk, count in enumerate(counts.tolist()):
        payload = registry.NO_BYTES
        if stored:
            payload = buffers[0].data[buffers[0].starts[chunk] : buffers[0].ends[chunk]]
        offsets = registry.decode_sequence(encoding.offsets, payload, count + 1)
        lengths.append(np.diff(offsets))
        if offsets[0] != 0 or offsets[-1] != data.sizes[chunk] or np.any(lengths[-1] < 0):
            raise CorruptFile(f"the offsets of chunk {chunk} do not cover its bytes")
    text = gather(data.data, data.starts, data.ends)
    return VariableWidth(offsets_of(np.concatenate([np.empty(0, np.int64), *lengths])), text)


def decode_blocks(encoding: Variable, buffer: Chunked, counts: Ints) -> Block:
    _offset_width(encoding)
    if len(counts) >= _MANY_BLOCKS:
        joined = _join_blocks(buffer, counts)
        if joined is not None:
            return joined
    bounds = zip(buffer.starts.tolist(), buffer.ends.tolist(), strict=True)
    blocks = [
        VariableWidth(*read_block(buffer.data[start:end], count))
        for (start, end), count in zip(bounds, counts.tolist(), strict=True)
    ]
    if len(blocks) == 1:
        return blocks[0]
    # The first offset of a block need not be 0.
    texts = [block.data[block.offsets[0] : block.offsets[-1]] for block in blocks]
    lengths = np.concatenate([np.diff(block.offsets) for block in blocks])
    return VariableWidth(compact_offsets(offsets_of(lengths)), np.concatenate(texts))


def _join_blocks(buffer: Chunked, counts: Ints) -> VariableWidth | None:
    """Join the strings of blocks that stand alone.

    Small fragments have a dictionary each. One by one, a block takes 10 µs, here less than one.

    Returns:
        None where there are too many strings, or a block is damaged or of a rare kind.
    """
    # Each number first: files tell them, and a sum of large ones wraps to a small one.
    if counts.min() < 0 or counts.max() > _MAX_AT_ONCE:
        return None
    if int(counts.sum()) + len(counts) > _MAX_AT_ONCE:
        return None
    data, starts, sizes = buffer.data, buffer.starts, buffer.sizes
    first = _HEADER.itemsize
    if (sizes < first + 4 * (counts + 1)).any():
        return None
    headers = data[starts[:, None] + np.arange(first)].view(_HEADER)[:, 0]
    texts = headers["texts"].astype(np.int64)
    if (headers["bits"] != 32).any() or (texts < first + 4 * (counts + 1)).any():
        return None
    ends = np.cumsum(counts + 1)
    places = np.repeat(starts + first - 4 * (ends - counts - 1), counts + 1)
    places += 4 * np.arange(len(places))
    offsets = data[places[:, None] + np.arange(4)].view("<u4")[:, 0].astype(np.int64)
    lengths = np.delete(np.diff(offsets), ends[:-1] - 1)
    low, high = offsets[ends - counts - 1], offsets[ends - 1]
    if (lengths < 0).any() or (texts + high > sizes).any():
        return None
    joined = gather(data, starts + texts + low, starts + texts + high)
    return VariableWidth(compact_offsets(offsets_of(lengths)), joined)


def decode_variable(encoding: Variable, values: Chunked) -> Block:
    _offset_width(encoding)
    texts = gather(values.data, values.starts, values.ends)
    return VariableWidth(offsets_of(values.sizes), texts)


def _offset_width(encoding: Variable) -> int:
    if encoding.HasField("values"):
        raise UnsupportedFeature("buffer compression of variable-width values")
    bits = flat_bits(encoding.offsets, "the offsets of variable-width values")
    if bits not in (32, 64):
        raise CorruptFile(f"offsets of {bits} bits; expected 32 or 64")
    return bits // 8
