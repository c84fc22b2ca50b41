"""Postings: the documents that have a token, and how often; in blocks of packed differences.

A block has 128 or 256 documents. Its numbers are packed in lanes: value i is in lane i mod n at
place i div n, and each lane is a stream of numbers of one width, whose words take turns with those
of the other lanes. The last block may be shorter, and is not packed.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Array, Ints
from lancefs.errors import CorruptFile

Numbers32 = npt.NDArray[np.uint32]

_LANE = 32  # values of a lane
_WORD = 4  # bytes
# Documents of a block -> bytes before the first document; only small blocks have a score.
_SCORE = {128: 4, 256: 0}
BLOCK_SIZES = tuple(_SCORE)
# Where blocks have so many documents, Lance scores these by rounded lengths.
ROUNDING_BLOCK_SIZE = 256
# How the last block is stored.
FIXED, VARINTS = "fixed32_v1", "varint_delta_v1"
TAIL_CODECS = (FIXED, VARINTS)
_MAX_VARINT = 5  # bytes of a number of 32 bits


class PostingFormat(NamedTuple):
    """How postings are stored.

    Attributes:
        block_size: Documents of a block.
        tail_codec: How the last block is stored.
    """

    block_size: int
    tail_codec: str


class Postings(NamedTuple):
    """The documents with a token.

    Attributes:
        documents: Their numbers, ascending.
        frequencies: How often each of them has it.
    """

    documents: Numbers32
    frequencies: Numbers32

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self.documents.nbytes + self.frequencies.nbytes


def decode_postings(
    data: Array, offsets: Ints, length: int, num_documents: int, format: PostingFormat
) -> Postings:
    """Decode the blocks of a token.

    Args:
        data: The bytes of the blocks.
        offsets: Where each block begins, and the end of the last one.
        length: How many documents there are.
        num_documents: All numbers of documents are below.
        format: How they are stored.

    Raises:
        CorruptFile: The blocks are damaged.
    """
    size = format.block_size
    if not 0 <= length <= num_documents or len(offsets) - 1 != -(-length // size):
        raise CorruptFile(
            f"{len(offsets) - 1} blocks of a token that {length} of {num_documents} documents have"
        )
    full, rest = divmod(length, size)
    decode = _decode_small if size == 128 else _decode_large
    documents = np.empty(length, np.uint32)
    frequencies = np.empty(length, np.uint32)
    if full:
        packed, counts = decode(data, offsets[:full], offsets[1 : full + 1])
        documents[: full * size] = packed.reshape(-1)
        frequencies[: full * size] = counts.reshape(-1)
    if rest:
        tail = data[offsets[full] + _SCORE[size] : offsets[full + 1]]
        documents[full * size :], frequencies[full * size :] = _decode_tail(tail, rest, format)
    _check(documents, frequencies, num_documents)
    return Postings(documents, frequencies)


def _check(documents: Numbers32, frequencies: Numbers32, num_documents: int) -> None:
    if not len(documents):
        return
    if not (documents[1:] > documents[:-1]).all() or int(documents[-1]) >= num_documents:
        raise CorruptFile(f"the documents of a token do not ascend, or not below {num_documents}")
    if not frequencies.all():
        raise CorruptFile("a document is listed for a token that it does not have")


def _decode_small(data: Array, starts: Ints, ends: Ints) -> tuple[Numbers32, Numbers32]:
    """Decode full blocks of 128 documents: a row for each block."""
    at = starts + _SCORE[128]
    first, widths = _heads(data, at, ends)
    numbers = at + _WORD + 1
    _check_ends(numbers + widths * 16, ends)
    frequency_widths = data[numbers + widths * 16].astype(np.int64)
    frequencies = numbers + widths * 16 + 1
    if (frequencies + frequency_widths * 16 != ends).any():
        raise CorruptFile("a block of a token has another length than its widths tell")
    deltas = unpack_lanes(data, numbers, widths, 4)
    return _documents(first, deltas), unpack_lanes(data, frequencies, frequency_widths, 4)


def _decode_large(data: Array, starts: Ints, ends: Ints) -> tuple[Numbers32, Numbers32]:
    """Decode full blocks of 256 documents, whose large frequencies have exceptions."""
    first, widths = _heads(data, starts, ends)
    numbers = starts + _WORD + 1
    heads = numbers + widths * 32
    _check_ends(heads + 1, ends)
    frequency_widths, exceptions = data[heads].astype(np.int64), data[heads + 1]
    frequencies = heads + 2
    _check_ends(frequencies + frequency_widths * 32 - 1, ends)
    deltas = unpack_lanes(data, numbers, widths, 8)
    counts = unpack_lanes(data, frequencies, frequency_widths, 8)
    behind = frequencies + frequency_widths * 32
    if ((exceptions == 0) & (behind != ends)).any():
        raise CorruptFile("a block of a token has another length than its widths tell")
    for block in np.flatnonzero(exceptions).tolist():
        listed = data[behind[block] : ends[block]].tobytes()
        _add_exceptions(counts[block], listed, int(exceptions[block]), frequency_widths[block])
    return _documents(first, deltas), counts


def _add_exceptions(counts: Numbers32, listed: bytes, number: int, width: int) -> None:
    """Add the upper bits of frequencies that are too large for the width of their block."""
    at = 0
    for _ in range(number):
        end = at + 1
        while end < len(listed) and listed[end] & 0x80:
            end += 1
        if end >= len(listed) or end - at > _MAX_VARINT:
            raise CorruptFile("the exceptions of a block of a token are damaged")
        value = sum(
            (byte & 0x7F) << 7 * place for place, byte in enumerate(listed[at + 1 : end + 1])
        )
        value <<= int(width)
        if value >> 32:
            raise CorruptFile("a frequency of a token is too large")
        counts[listed[at]] |= np.uint32(value)
        at = end + 1
    if at != len(listed):
        raise CorruptFile("a block of a token has another length than its exceptions tell")


def _heads(data: Array, at: Ints, ends: Ints) -> tuple[Numbers32, Ints]:
    """Return the first document of each block, and the width of the differences."""
    _check_ends(at + _WORD, ends)
    first = data[at[:, None] + np.arange(_WORD)].view("<u4")[:, 0]
    widths = data[at + _WORD].astype(np.int64)
    return first, widths


def _check_ends(last: Ints, ends: Ints) -> None:
    if (last >= ends).any():
        raise CorruptFile("a block of a token is too short")


def _documents(first: Numbers32, deltas: Numbers32) -> Numbers32:
    deltas[:, 0] += first
    documents: Numbers32 = np.cumsum(deltas, axis=1, dtype=np.uint32)
    return documents


def unpack_lanes(data: Array, starts: Ints, widths: Ints, lanes: int) -> Numbers32:
    """Unpack numbers in lanes: a row for each block.

    Args:
        data: The bytes that hold the blocks; the caller has checked that they are there.
        starts: Where each block begins.
        widths: Bits of a number of each block.
        lanes: How many lanes a block has.

    Raises:
        CorruptFile: A width is above 32.
    """
    unpacked = np.zeros((len(starts), _LANE * lanes), np.uint32)
    if len(widths) and widths.max() > 32:
        raise CorruptFile(f"numbers of {widths.max()} bits in a block of a token")
    for width in np.unique(widths[widths > 0]).tolist():
        chosen = np.flatnonzero(widths == width)
        unpacked[chosen] = _unpack_width(data, starts[chosen], width, lanes)
    return unpacked


def _unpack_width(data: Array, starts: Ints, width: int, lanes: int) -> Numbers32:
    """Unpack blocks of one width."""
    packed = data[starts[:, None] + np.arange(width * lanes * _WORD)].view("<u4")
    by_word = packed.reshape(len(starts), width, lanes).transpose(1, 0, 2)
    words = np.ascontiguousarray(by_word).reshape(width, -1)
    values = np.empty((_LANE, words.shape[1]), np.uint32)
    mask = np.uint32((1 << width) - 1)
    for place in range(_LANE):
        word, shift = divmod(place * width, 32)
        found = words[word] >> np.uint32(shift)
        if shift + width > 32:
            found |= words[word + 1] << np.uint32(32 - shift)
        np.bitwise_and(found, mask, out=values[place])
    rows = values.reshape(_LANE, len(starts), lanes).transpose(1, 0, 2)
    return rows.reshape(len(starts), _LANE * lanes)


def _decode_tail(tail: Array, count: int, format: PostingFormat) -> Sequence[Numbers32]:
    """Return the documents and frequencies of a block that is not full."""
    if format.tail_codec == FIXED:
        if len(tail) != 2 * count * _WORD:
            raise CorruptFile(f"the last {count} documents of a token in {len(tail)} bytes")
        numbers = tail.view("<u4") if tail.flags.c_contiguous else tail.copy().view("<u4")
        return numbers[:count], numbers[count:]
    numbers = read_varints(tail)
    if len(numbers) != 2 * count:
        raise CorruptFile(f"{len(numbers)} numbers; {count} documents and frequencies expected")
    return np.cumsum(numbers[:count], dtype=np.uint32), numbers[count:]


def read_varints(data: Array) -> Numbers32:
    """Return all numbers of a sequence of varints, 7 bits a byte, the low ones first.

    Raises:
        CorruptFile: A number does not end, or does not fit into 32 bits.
    """
    ends = np.flatnonzero(data < 0x80)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise CorruptFile("the last number of a sequence does not end")
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])[:-1]
    places = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    if len(places) and places.max() >= _MAX_VARINT:
        raise CorruptFile("a number of more than 32 bits")
    parts = (data & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    numbers = np.add.reduceat(parts, starts) if len(starts) else parts
    if len(numbers) and numbers.max() >> np.uint64(32):
        raise CorruptFile("a number of more than 32 bits")
    return numbers.astype(np.uint32)
