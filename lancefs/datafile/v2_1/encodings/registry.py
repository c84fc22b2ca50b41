"""The module that decodes each compressive encoding (docs: format/file/encoding)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints, lengths_of
from lancefs.datafile.buffers import reserve
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding
from lancefs.storage import Bytes

# The fields of `CompressiveEncoding`; each is decoded by the module of the same name.
_FIELDS = CompressiveEncoding.DESCRIPTOR.oneofs_by_name["compression"].fields
ENCODINGS = frozenset(field.name for field in _FIELDS)

# Upper limit of counts, offsets and positions, so that sums of two do not overflow.
LARGEST = 1 << 62
# Values of a page, or items of its lists or dictionary: no file has so many. Their sums, and their
# bytes as long as these are few each, are an int64.
MAX_VALUES = 1 << 48
# Bytes that a buffer may have beyond those of its values, for padding.
_SLACK = 4096
NO_BYTES: Bytes = np.empty(0, np.uint8)


class Chunked(NamedTuple):
    """One buffer of each of several chunks: chunk i has `data[starts[i]:ends[i]]`."""

    data: Bytes
    starts: Ints
    ends: Ints

    @property
    def sizes(self) -> Ints:
        return self.ends - self.starts

    @classmethod
    def single(cls, data: Bytes) -> Chunked:
        """Wrap one buffer as a single chunk."""
        return cls(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))


def decode_chunks(encoding: CompressiveEncoding, buffers: Sequence[Chunked], counts: Ints) -> Block:
    """Decompress the values of several chunks, in order.

    Args:
        encoding: The encoding of the values.
        buffers: The buffers of the chunks, as many as the encoding has.
        counts: Number of values in each chunk.

    Raises:
        CorruptFile: The chunks are damaged, or there are more values than a file can have.
    """
    check_counts(counts)
    return _required(encoding, "decode_chunks")(_message(encoding), buffers, counts)


def decode_at(
    encoding: CompressiveEncoding, buffers: Sequence[Chunked], counts: Ints, wanted: Ints
) -> Block:
    """Decompress some values of several chunks; where the encoding allows, only these.

    Args:
        encoding: The encoding of the values.
        buffers: The buffers of the chunks, as many as the encoding has.
        counts: Number of values in each chunk.
        wanted: Positions among the values of all chunks, ascending, each once.

    Raises:
        CorruptFile: The chunks are damaged, or there are more values than a file can have.
    """
    check_counts(counts)
    function = _optional(encoding, "decode_at")
    if function is not None:
        return cast(Block, function(_message(encoding), buffers, counts, wanted))
    return decode_chunks(encoding, buffers, counts).select(as_ranges(wanted))


def value_lengths(encoding: CompressiveEncoding, buffers: Sequence[Chunked], counts: Ints) -> Ints:
    """Return the lengths of the values of several chunks, decompressing values only if needed.

    Args:
        encoding: The encoding of the values, which are of variable width.
        buffers: The buffers of the chunks, as many as the encoding has.
        counts: Number of values in each chunk.

    Raises:
        CorruptFile: The chunks are damaged, or the values are of no variable width.
    """
    check_counts(counts)
    function = _optional(encoding, "value_lengths")
    if function is None:
        return lengths_of(decode_chunks(encoding, buffers, counts))
    return cast(Ints, function(_message(encoding), buffers, counts))


def decode_blocks(encoding: CompressiveEncoding, buffer: Chunked, counts: Ints) -> Block:
    """Decompress buffers that stand alone, such as the levels of each chunk, and join them.

    Raises:
        CorruptFile: The buffers are damaged, or there are more values than a file can have.
    """
    check_counts(counts)
    function = _optional(encoding, "decode_blocks")
    if function is None:
        return decode_chunks(encoding, [buffer], counts)
    return cast(Block, function(_message(encoding), buffer, counts))


def decode_block(encoding: CompressiveEncoding, data: Bytes, count: int) -> Block:
    """Decompress the `count` values of one buffer that stands alone, such as a dictionary."""
    check_count(count)
    return decode_blocks(encoding, Chunked.single(data), np.array([count], np.int64))


def decode_fixed(encoding: CompressiveEncoding, data: Bytes, count: int) -> Block:
    """Decompress `count` full-zip values that all have the same width.

    Raises:
        CorruptFile: The bytes are not those of so many values.
    """
    check_count(count)
    return _required(encoding, "decode_fixed")(_message(encoding), data, count)


def decode_variable(encoding: CompressiveEncoding, values: Chunked) -> Block:
    """Decompress full-zip values of variable width, each on its own.

    Args:
        encoding: The encoding of the values.
        values: The bytes of each value, ascending and disjoint; a null has no bytes.
    """
    return _required(encoding, "decode_variable")(_message(encoding), values)


def most_bytes(encoding: CompressiveEncoding, counts: Ints) -> Ints | None:
    """Return the most bytes that the first buffer of each of several chunks may have.

    Args:
        encoding: The encoding of the values.
        counts: Number of values in each chunk.

    Returns:
        Generous limits: they keep memory bounded, and the encoding checks what it reads. None where
        the number of values sets no limit.
    """
    function = _optional(encoding, "most_bytes")
    most: Ints | None = None if function is None else function(_message(encoding), counts)
    return None if most is None else 2 * most + _SLACK


def decode_sequence(encoding: CompressiveEncoding, data: Bytes, count: int) -> Ints:
    """Decompress `count` unsigned numbers, such as positions, counts or offsets (format 2.3).

    Args:
        encoding: The encoding of the numbers.
        data: The buffer; empty where the encoding has none (see `has_payload`).
        count: Number of numbers.

    Raises:
        CorruptFile: The buffer does not hold the numbers, or a number is beyond 62 bits.
        MemoryLimitExceeded: There are too many numbers for so small a buffer.
    """
    reserve(8 * count, len(data))
    function = _optional(encoding, "decode_sequence")
    if function is not None:
        return cast(Ints, function(_message(encoding), data, count))
    block = decode_block(encoding, data, count)
    if not isinstance(block, FixedWidth) or block.length != count:
        raise CorruptFile(f"a sequence that is not {count} numbers")
    if block.bits not in (8, 16, 32, 64) or (count and int(block.values.max()) >= LARGEST):
        raise CorruptFile("a number in a sequence is beyond 62 bits")
    return block.values.astype(np.int64)


def take_sequence(encoding: CompressiveEncoding, buffers: Iterator[Bytes], count: int) -> Ints:
    """Decompress `count` numbers, taking the next buffer where the encoding has one."""
    if not has_payload(encoding):
        return decode_sequence(encoding, NO_BYTES, count)
    data = next(buffers, None)
    if data is None:
        raise CorruptFile(f"no buffer is left for a sequence of {count} numbers")
    return decode_sequence(encoding, data, count)


def has_payload(encoding: CompressiveEncoding) -> bool:
    """Whether a sequence has a buffer; else its description gives all numbers."""
    function = _optional(encoding, "has_payload")
    return True if function is None else bool(function(_message(encoding)))


def check_count(count: int) -> None:
    """Check that a file can have so many values.

    Raises:
        CorruptFile: It cannot.
    """
    if not 0 <= count < MAX_VALUES:
        raise CorruptFile(f"{count} values where a file has fewer than {MAX_VALUES}")


def check_counts(counts: Ints, parts: int = 1) -> None:
    """Check that a file can have so many values, before sums of the numbers may wrap.

    Args:
        counts: The numbers, as a file tells them.
        parts: How many values each of them stands for.

    Raises:
        CorruptFile: It cannot.
    """
    if len(counts) == 1:
        check_count(int(counts[0]) * parts)
    elif len(counts) and int(counts.max()) * len(counts) * parts >= MAX_VALUES:
        check_count(sum(counts.tolist()) * parts)


def split_parts(data: Bytes, sizes: int) -> list[Bytes]:
    """Split a buffer that begins with the sizes (u64) of its first parts; the last is the rest.

    Args:
        data: The buffer.
        sizes: Number of sizes, one less than there are parts.

    Raises:
        CorruptFile: The parts are larger than the buffer.
    """
    if len(data) < 8 * sizes:
        raise CorruptFile(f"a buffer of {len(data)} bytes has no room for the sizes of its parts")
    lengths = [int(size) for size in data[: 8 * sizes].view("<u8")]
    if 8 * sizes + sum(lengths) > len(data):
        raise CorruptFile(f"parts of {sum(lengths)} bytes in a buffer of {len(data)}")
    bounds = [8 * sizes, *np.cumsum(lengths, dtype=np.int64) + 8 * sizes, len(data)]
    return [data[start:end] for start, end in pairwise(int(bound) for bound in bounds)]


def flat_bits(encoding: CompressiveEncoding, where: str) -> int:
    """Return the bits of a value in an encoding that must be flat.

    Args:
        encoding: The encoding.
        where: The use of the values, for messages.

    Raises:
        UnsupportedFeature: The encoding is not flat.
    """
    if encoding.WhichOneof("compression") != "flat":
        raise UnsupportedFeature(f"encoding {name_of(encoding)} for {where}; only flat is known")
    if encoding.flat.HasField("data"):
        raise UnsupportedFeature(f"buffer compression of a flat encoding for {where}")
    return int(encoding.flat.bits_per_value)


def name_of(encoding: CompressiveEncoding) -> str:
    """Return the name of an encoding as messages show it."""
    return encoding.WhichOneof("compression") or "(unknown)"


def expect_buffers(buffers: Sequence[Chunked], count: int, name: str) -> None:
    """Check that chunks have the number of buffers that an encoding needs.

    Raises:
        CorruptFile: They have more or fewer.
    """
    if len(buffers) != count:
        raise CorruptFile(f"{len(buffers)} buffers a chunk; {name} needs {count}")


def _message(encoding: CompressiveEncoding) -> Any:
    return getattr(encoding, name_of(encoding))


@cache
def _function(name: str, position: str) -> Callable[..., Any] | None:
    module = import_module(f"lancefs.datafile.v2_1.encodings.{name}")
    return cast("Callable[..., Any] | None", getattr(module, position, None))


def _required(encoding: CompressiveEncoding, position: str) -> Callable[..., Block]:
    function = _optional(encoding, position)
    if function is None:
        raise UnsupportedFeature(f"encoding {name_of(encoding)} in the position of {position}")
    return function


def _optional(encoding: CompressiveEncoding, position: str) -> Callable[..., Any] | None:
    name = name_of(encoding)
    if name not in ENCODINGS:
        raise UnsupportedFeature(
            "a compressive encoding that this release of lancefs does not know; the file may have "
            "been written by a newer Lance"
        )
    return _function(name, position)
