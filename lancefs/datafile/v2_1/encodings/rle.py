"""Run-length encoding: the value of each run, and its length.

A chunk has a buffer for each. A buffer that stands alone (levels) holds the size of the values
(u64), then the values, then the lengths. Writers split runs that are too long for the width of a
length. The last run may reach beyond the chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints, gather
from lancefs.datafile.buffers import reserve
from lancefs.datafile.kernels import expand
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.flat import bytes_of_bits
from lancefs.datafile.v2_1.encodings.general import decompress_chunks
from lancefs.datafile.v2_1.encodings.registry import Chunked, expect_buffers, split_parts
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, Rle
from lancefs.storage import Bytes

_LARGEST_BITS = 128  # of a value, or of the length, of a run


def most_bytes(encoding: Rle, counts: Ints) -> Ints:
    # A run has at least one value. Alone in a buffer, lengths follow the values and their size.
    bits = _most_bits(encoding.values) + _most_bits(encoding.run_lengths)
    return bytes_of_bits(bits, counts) + 8


def _most_bits(encoding: CompressiveEncoding) -> int:
    """Return the most bits of a value, or of the length, of a run."""
    is_flat = encoding.WhichOneof("compression") == "flat"
    return int(encoding.flat.bits_per_value) if is_flat else _LARGEST_BITS


def decode_chunks(encoding: Rle, buffers: Sequence[Chunked], counts: Ints) -> Block:
    expect_buffers(buffers, 2, "run-length encoding")
    lengths, runs = _count_runs(encoding.run_lengths, buffers[1])
    packed, value_runs = _count_runs(encoding.values, buffers[0])
    if runs is None:
        runs = value_runs
    if runs is None:
        raise UnsupportedFeature("runs whose count neither their values nor their lengths give")
    if value_runs is not None and np.any(value_runs != runs):
        raise CorruptFile("a chunk has more or fewer run values than run lengths")
    run_lengths = _decode_runs(encoding.run_lengths, lengths, runs)
    if run_lengths.bits not in (8, 16, 32, 64):
        raise CorruptFile(f"runs whose lengths have {run_lengths.bits} bits")
    run_values = _decode_runs(encoding.values, packed, runs)
    stored = run_values.values.nbytes + run_lengths.values.nbytes
    reserve(int(counts.sum()) * run_values.values.itemsize, stored)
    values = expand(run_values.values, run_lengths.values, runs, counts)
    return FixedWidth(run_values.bits, values)


def decode_blocks(encoding: Rle, buffer: Chunked, counts: Ints) -> Block:
    begin = buffer.starts + 8
    if np.any(begin > buffer.ends):
        raise CorruptFile("a run-length encoded buffer is shorter than its header")
    sizes = gather(buffer.data, buffer.starts, begin).view("<i8")
    if np.any(sizes < 0) or np.any(sizes > buffer.ends - begin):
        raise CorruptFile("the values of runs reach beyond their buffer")
    middle = begin + sizes
    values = Chunked(buffer.data, begin, middle)
    return decode_chunks(encoding, [values, Chunked(buffer.data, middle, buffer.ends)], counts)


def has_payload(encoding: Rle) -> bool:
    return registry.has_payload(encoding.values) or registry.has_payload(encoding.run_lengths)


def decode_sequence(encoding: Rle, data: Bytes, count: int) -> Ints:
    values, lengths = split_parts(data, 1) if has_payload(encoding) else (data, data)
    runs = _sequence_runs(encoding, values, lengths, count)
    run_lengths = registry.decode_sequence(encoding.run_lengths, lengths, runs)
    run_values = registry.decode_sequence(encoding.values, values, runs)
    if int(run_lengths.max(initial=0)) > count or int(run_lengths.sum()) != count:
        raise CorruptFile(f"the runs of a sequence do not give {count} numbers")
    return np.repeat(run_values, run_lengths)


def _sequence_runs(encoding: Rle, values: Bytes, lengths: Bytes, count: int) -> int:
    """Return the number of runs, from the size or the description of one of both parts."""
    for part, data in ((encoding.run_lengths, lengths), (encoding.values, values)):
        if part.WhichOneof("compression") == "flat":
            return len(data) * 8 // max(1, int(part.flat.bits_per_value))
    kind = encoding.run_lengths.WhichOneof("compression")
    if kind == "constant":
        length = int.from_bytes(encoding.run_lengths.constant.value, "little")
        return count // length if length else 0
    if kind == "range":  # lengths ascend: find how many of them add up to the count
        start, step = int(encoding.run_lengths.range.start), int(encoding.run_lengths.range.step)
        few = isqrt(2 * count // step) + 2 if step else -(-count // max(start, 1))
        most = registry.decode_sequence(encoding.run_lengths, registry.NO_BYTES, min(count, few))
        return int(np.searchsorted(np.cumsum(most), count)) + (count > 0)
    raise UnsupportedFeature("runs of a sequence whose count is not recorded")


def _count_runs(encoding: CompressiveEncoding, buffer: Chunked) -> tuple[Chunked, Ints | None]:
    """Undo general compression, and count the runs of each chunk.

    Returns:
        The decompressed buffer; the number of runs in each chunk, None where its size does not
        give the number.
    """
    if encoding.WhichOneof("compression") == "general":
        buffer = decompress_chunks(encoding.general, buffer)
        encoding = encoding.general.values
    if encoding.WhichOneof("compression") != "flat":
        return buffer, None
    width = int(encoding.flat.bits_per_value) // 8
    if width not in (1, 2, 4, 8, 16) or np.any(buffer.sizes % width):
        raise CorruptFile(f"runs of {encoding.flat.bits_per_value} bits do not fill their buffer")
    return buffer, buffer.sizes // width


def _decode_runs(encoding: CompressiveEncoding, buffer: Chunked, runs: Ints) -> FixedWidth:
    if encoding.WhichOneof("compression") == "general":
        encoding = encoding.general.values
    block = registry.decode_chunks(encoding, [buffer], runs)
    if not isinstance(block, FixedWidth):
        raise CorruptFile("runs of values that are not all of one width")
    return block
