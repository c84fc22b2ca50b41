"""General: whole buffers compressed with lz4 or zstd.

An lz4 buffer begins with the raw size (u32), a zstd buffer with the raw size (u64) or directly with
a frame. Only the first buffer of a chunk is compressed. Full-zip values are compressed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Block, Ints, VariableWidth, offsets_of
from lancefs.datafile.buffers import check_size
from lancefs.datafile.kernels import decompress_lz4
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.zstd_frames import decompress_frames
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import (
    COMPRESSION_ALGORITHM_LZ4,
    COMPRESSION_ALGORITHM_ZSTD,
    General,
)
from lancefs.storage import Bytes

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Upper limit of the compression ratio of each algorithm: a raw size beyond it is damage.
_LARGEST_RATIO: dict[int, int] = {
    COMPRESSION_ALGORITHM_LZ4: 256,
    COMPRESSION_ALGORITHM_ZSTD: 1 << 16,
}


def decode_chunks(encoding: General, buffers: Sequence[Chunked], counts: Ints) -> Block:
    return registry.decode_chunks(encoding.values, _first_decompressed(encoding, buffers), counts)


def value_lengths(encoding: General, buffers: Sequence[Chunked], counts: Ints) -> Ints:
    return registry.value_lengths(encoding.values, _first_decompressed(encoding, buffers), counts)


def decode_blocks(encoding: General, buffer: Chunked, counts: Ints) -> Block:
    return registry.decode_blocks(encoding.values, decompress_chunks(encoding, buffer), counts)


def decode_variable(encoding: General, values: Chunked) -> Block:
    raw = decompress_chunks(encoding, values)
    return VariableWidth(offsets_of(raw.sizes), raw.data)


def decompress_chunks(encoding: General, packed: Chunked) -> Chunked:
    """Decompress one buffer of each chunk; see `decompress`."""
    scheme = encoding.compression.scheme
    data, sizes = _decompress_together(scheme, packed) or _decompress_each(scheme, packed)
    offsets = offsets_of(sizes)
    return Chunked(data, offsets[:-1], offsets[1:])


def _decompress_together(scheme: int, packed: Chunked) -> tuple[Bytes, Ints] | None:
    """Decompress several buffers in one call.

    Returns:
        The raw bytes, concatenated, and the raw size of each buffer; None where the buffers must be
        decompressed one by one, also because one is damaged.
    """
    has_bytes = packed.sizes > 0  # an empty buffer stays empty
    if scheme not in _LARGEST_RATIO or np.count_nonzero(has_bytes) < 2:
        return None
    several = _lz4_blocks if scheme == COMPRESSION_ALGORITHM_LZ4 else decompress_frames
    starts, ends = packed.starts[has_bytes], packed.ends[has_bytes]
    raw = several(packed.data, starts, ends, _LARGEST_RATIO[scheme])
    if raw is None:
        return None
    sizes = np.zeros(len(has_bytes), np.int64)
    sizes[has_bytes] = raw[1]
    return raw[0], sizes


def _lz4_blocks(
    data: Bytes, starts: Ints, ends: Ints, largest_ratio: int
) -> tuple[Bytes, Ints] | None:
    if np.any(ends - starts < 4):
        return None
    sizes = data[starts[:, None] + np.arange(4)].view("<u4")[:, 0].astype(np.int64)
    if np.any(sizes > largest_ratio * (ends - starts)):
        return None
    check_size(int(sizes.sum()))
    return decompress_lz4(data, starts + 4, ends, sizes), sizes


def _decompress_each(scheme: int, packed: Chunked) -> tuple[Bytes, Ints]:
    pieces = [
        decompress(scheme, packed.data[start:end])
        for start, end in zip(packed.starts.tolist(), packed.ends.tolist(), strict=True)
    ]
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return np.concatenate(pieces) if pieces else packed.data[:0], sizes


def decompress(scheme: int, data: Bytes) -> Bytes:
    """Decompress one buffer; an empty one stays empty.

    Args:
        scheme: A `COMPRESSION_ALGORITHM_…`.
        data: The buffer.

    Raises:
        CorruptFile: The buffer is cut short, or does not decompress to the size that it names.
        UnsupportedFeature: The scheme is not lz4 or zstd.
    """
    if not len(data):
        return data
    if scheme == COMPRESSION_ALGORITHM_LZ4:
        prefix = 4
    elif scheme == COMPRESSION_ALGORITHM_ZSTD:
        prefix = 8
        if data[:4].tobytes() == _ZSTD_MAGIC and not (len(data) > 4 and data[4] & 0b10000):
            return _zstd_frame(data)
    else:
        raise UnsupportedFeature(f"general compression scheme {scheme}")
    size = int.from_bytes(data[:prefix].tobytes(), "little")
    if len(data) < prefix or size > _LARGEST_RATIO[scheme] * len(data):
        raise CorruptFile(f"a buffer of {len(data)} bytes says that {size} bytes are in it")
    if scheme == COMPRESSION_ALGORITHM_LZ4:
        return decompress_lz4(data, np.array([prefix]), np.array([len(data)]), np.array([size]))
    try:
        raw = np.frombuffer(pa.Codec("zstd").decompress(data[prefix:], size), dtype=np.uint8)
    except OSError as error:  # pyarrow's error for bytes that do not decompress
        raise CorruptFile(f"a buffer does not decompress: {error}") from error
    if len(raw) != size:
        raise CorruptFile(f"a buffer decompresses to {len(raw)} bytes, not the {size} it says")
    return raw


def _first_decompressed(encoding: General, buffers: Sequence[Chunked]) -> list[Chunked]:
    if not buffers:
        raise CorruptFile("a compressed chunk has no buffer")
    return [decompress_chunks(encoding, buffers[0]), *buffers[1:]]


def _zstd_frame(data: Bytes) -> Bytes:
    """Decompress a bare zstd frame, whose header need not hold the raw size."""
    stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd")
    try:
        return np.frombuffer(stream.read(), dtype=np.uint8)
    except OSError as error:  # pyarrow's error for bytes that do not decompress
        raise CorruptFile(f"a buffer does not decompress: {error}") from error
