"""General: whole buffers compressed with lz4 or zstd.

An lz4 buffer begins with the raw size (u32), a zstd buffer with the raw size (u64) or directly with
a frame. Only the first buffer of a chunk is compressed. Full-zip values are compressed one by one.

A buffer is decompressed to the size that it states, and no further. This size is held against what
the encoding inside allows for the number of values, and against the memory that a read may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Block, Ints, VariableWidth, offsets_of
from lancefs.datafile.buffers import check_size, empty, reserve, room
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
# Raw bytes of a frame of unknown size that are held before the rest is counted, without holding it.
_HELD = 64 * 1024 * 1024
_PIECE = 8 * 1024 * 1024
_FIRST_RATIO = 256


def decode_chunks(encoding: General, buffers: Sequence[Chunked], counts: Ints) -> Block:
    raw = _first_decompressed(encoding, buffers, counts)
    return registry.decode_chunks(encoding.values, raw, counts)


def value_lengths(encoding: General, buffers: Sequence[Chunked], counts: Ints) -> Ints:
    raw = _first_decompressed(encoding, buffers, counts)
    return registry.value_lengths(encoding.values, raw, counts)


def decode_blocks(encoding: General, buffer: Chunked, counts: Ints) -> Block:
    raw = decompress_chunks(encoding, buffer, registry.most_bytes(encoding.values, counts))
    return registry.decode_blocks(encoding.values, raw, counts)


def decode_variable(encoding: General, values: Chunked) -> Block:
    raw = decompress_chunks(encoding, values)
    return VariableWidth(offsets_of(raw.sizes), raw.data)


def decompress_chunks(encoding: General, packed: Chunked, most: Ints | None = None) -> Chunked:
    """Decompress one buffer of each chunk; see `decompress`.

    Args:
        encoding: The compression.
        packed: The buffers.
        most: Upper limit of the raw bytes of each buffer; None where the values give none.
    """
    scheme = encoding.compression.scheme
    together = _decompress_together(scheme, packed, most)
    data, sizes = together or _decompress_each(scheme, packed, most)
    offsets = offsets_of(sizes)
    return Chunked(data, offsets[:-1], offsets[1:])


def _decompress_together(
    scheme: int, packed: Chunked, most: Ints | None
) -> tuple[Bytes, Ints] | None:
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
    limits = _LARGEST_RATIO[scheme] * (ends - starts)
    if most is not None:
        limits = np.minimum(limits, most[has_bytes])
    raw = several(packed.data, starts, ends, limits)
    if raw is None:
        return None
    sizes = np.zeros(len(has_bytes), np.int64)
    sizes[has_bytes] = raw[1]
    return raw[0], sizes


def _lz4_blocks(data: Bytes, starts: Ints, ends: Ints, limits: Ints) -> tuple[Bytes, Ints] | None:
    if np.any(ends - starts < 4):
        return None
    sizes = data[starts[:, None] + np.arange(4)].view("<u4")[:, 0].astype(np.int64)
    if np.any(sizes > limits):
        return None
    check_size(int(sizes.sum()), len(data))
    return decompress_lz4(data, starts + 4, ends, sizes), sizes


def _decompress_each(scheme: int, packed: Chunked, most: Ints | None) -> tuple[Bytes, Ints]:
    count = len(packed.starts)
    limits = [None] * count if most is None else most.tolist()
    pieces = [
        # A single buffer is decompressed whole for any of its rows.
        decompress(scheme, packed.data[start:end], limit, is_whole=count == 1)
        for start, end, limit in zip(
            packed.starts.tolist(), packed.ends.tolist(), limits, strict=True
        )
    ]
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return np.concatenate(pieces) if pieces else packed.data[:0], sizes


def decompress(scheme: int, data: Bytes, most: int | None = None, is_whole: bool = True) -> Bytes:
    """Decompress one buffer; an empty one stays empty.

    Args:
        scheme: A `COMPRESSION_ALGORITHM_…`.
        data: The buffer.
        most: Upper limit of the raw bytes; None where the values give none.
        is_whole: Whether any row needs the whole buffer; else fewer rows need fewer buffers.

    Raises:
        CorruptFile: The buffer is cut short, or does not decompress to the size that it names, or
            holds more than its values can have.
        MemoryLimitExceeded: There is too much in it.
        TooLarge: There may be less in buffers of fewer rows.
        UnsupportedFeature: The scheme is not lz4 or zstd.
    """
    if not len(data):
        return data
    if scheme == COMPRESSION_ALGORITHM_LZ4:
        prefix = 4
    elif scheme == COMPRESSION_ALGORITHM_ZSTD:
        prefix = 8
        if data[:4].tobytes() == _ZSTD_MAGIC and not (len(data) > 4 and data[4] & 0b10000):
            return _zstd_frame(data, most, is_whole)
    else:
        raise UnsupportedFeature(f"general compression scheme {scheme}")
    size = int.from_bytes(data[:prefix].tobytes(), "little")
    if len(data) < prefix or size > _LARGEST_RATIO[scheme] * len(data):
        raise CorruptFile(f"a buffer of {len(data)} bytes says that {size} bytes are in it")
    _check_most(size, most)
    _allow(size, len(data), is_whole)
    if scheme == COMPRESSION_ALGORITHM_LZ4:
        return decompress_lz4(data, np.array([prefix]), np.array([len(data)]), np.array([size]))
    try:
        raw = np.frombuffer(pa.Codec("zstd").decompress(data[prefix:], size), dtype=np.uint8)
    except OSError as error:  # pyarrow's error for bytes that do not decompress
        raise CorruptFile(f"a buffer does not decompress: {error}") from error
    if len(raw) != size:
        raise CorruptFile(f"a buffer decompresses to {len(raw)} bytes, not the {size} it says")
    return raw


def _allow(size: int, stored: int, is_whole: bool) -> None:
    """Allow memory for the raw bytes of a buffer, before it is allocated."""
    if is_whole:
        reserve(size, stored)
    else:
        check_size(size, stored)


def _check_most(size: int, most: int | None) -> None:
    if most is not None and size > most:
        raise CorruptFile(f"{size} bytes are in a buffer whose values have at most {most}")


def _first_decompressed(
    encoding: General, buffers: Sequence[Chunked], counts: Ints
) -> list[Chunked]:
    if not buffers:
        raise CorruptFile("a compressed chunk has no buffer")
    most = registry.most_bytes(encoding.values, counts)
    return [decompress_chunks(encoding, buffers[0], most), *buffers[1:]]


def _zstd_frame(data: Bytes, most: int | None, is_whole: bool) -> Bytes:
    """Decompress a bare zstd frame, whose header need not hold the raw size.

    Where there are many raw bytes, they are counted before memory is allocated for them.
    """
    allowed = room(len(data), is_whole)
    if most is not None:
        allowed = min(allowed, most)
    pieces: list[Bytes] = []
    size = 0
    try:
        for piece in _pieces(data, min(_PIECE, _FIRST_RATIO * len(data))):
            size += len(piece)
            if size <= _HELD:
                pieces.append(piece)
            if size > allowed:
                break
        _check_most(size, most)
        _allow(size, len(data), is_whole)
        if size <= _HELD:
            return pieces[0] if len(pieces) == 1 else np.concatenate([data[:0], *pieces])
        pieces.clear()
        raw = empty(size, np.uint8)
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
            stream.readinto(raw)
    except OSError as error:  # pyarrow's error for bytes that do not decompress
        raise CorruptFile(f"a buffer does not decompress: {error}") from error
    return raw


def _pieces(data: Bytes, size: int) -> Iterator[Bytes]:
    """Yield the raw bytes of a zstd frame in pieces of at most a size."""
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
        while piece := stream.read(size):
            yield np.frombuffer(piece, np.uint8)
