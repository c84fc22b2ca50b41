"""Token positions in documents.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints
from lancefs.datafile.kernels import gather
from lancefs.errors import CorruptFile
from lancefs.index.files import IndexReader
from lancefs.index.text.postings import Numbers32, read_varints, unpack_lanes

_STREAM, _OFFSETS = "_compressed_position", "_position_block_offset"
_LISTS = "_position"
# How a stream is stored.
_PACKED, _VARINTS = "packed_delta_v1", "varint_doc_delta_v2"
_GROUP = 128  # numbers of a packed group
_LANES = 4
# Bytes of a position, while the differences of positions are added up. A byte of a stream may
# stand for a whole group.
_POSITION_BYTES = 16
# Blocks whose groups are found together take about as long as this many groups one by one.
_FEW_BLOCKS = 64


class WordPlaces(NamedTuple):
    """Where a token is in its documents.

    Attributes:
        starts: For each document, where its places begin among all of them; and the end.
        places: The places, ascending in each document.
    """

    starts: Ints
    places: Ints

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self.starts.nbytes + self.places.nbytes


class PositionsReader:
    """Reads the positions in a file of postings.

    Args:
        reader: The file.
        block_size: Documents of a block.
    """

    def __init__(self, reader: IndexReader, block_size: int) -> None:
        self._reader = reader
        self._block_size = block_size

    @staticmethod
    def is_in(reader: IndexReader) -> bool:
        """Tell whether a file has positions."""
        return _STREAM in reader.names or _LISTS in reader.names

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the file that have positions."""
        return (_STREAM, _OFFSETS) if _STREAM in self._reader.names else (_LISTS,)

    def decode(self, columns: Sequence[pa.Array], frequencies: Numbers32) -> WordPlaces:
        """Return the positions of a token.

        Args:
            columns: Its row of each of `columns`.
            frequencies: How often each of its documents has it.

        Raises:
            CorruptFile: The positions are damaged.
            MemoryLimitExceeded: So many positions take too much memory.
        """
        starts = np.concatenate([[0], np.cumsum(frequencies, dtype=np.int64)])
        if len(columns) > 1:
            stream, offsets = columns
            deltas = self._stream(stream, offsets, starts)
        else:
            deltas = self._lists(columns[0], frequencies)
        places = np.cumsum(deltas, dtype=np.int64)
        before = np.concatenate([[0], places])[starts[:-1]]
        places -= np.repeat(before, frequencies)
        return WordPlaces(starts, places)

    def _stream(self, stream: pa.Array, offsets: pa.Array, starts: Ints) -> Array:
        """Return the differences of places that a stream holds, block after block."""
        codec = self._reader.metadata.get("positions_codec", _PACKED.encode()).decode(
            "utf-8", "replace"
        )
        if codec not in (_PACKED, _VARINTS):
            raise self._reader.unsupported(f"positions stored as {codec[:40]!r}")
        is_list = pa.types.is_list(offsets.type) and not offsets.null_count
        if stream.null_count or not pa.types.is_large_binary(stream.type) or not is_list:
            raise CorruptFile(f"positions are {stream.type} with {offsets.type}, or missing")
        data = np.frombuffer(stream[0].as_buffer(), np.uint8)
        ends = np.append(self._reader.counts(_OFFSETS, offsets.flatten()), len(data))
        documents = len(starts) - 1
        if len(ends) - 1 != -(-documents // self._block_size) or (ends[1:] < ends[:-1]).any():
            raise CorruptFile(f"{len(ends) - 1} blocks of positions of {documents} documents")
        self._reader.allow(_POSITION_BYTES * int(starts[-1]), len(data))
        counts = np.diff(starts[np.minimum(np.arange(len(ends)) * self._block_size, documents)])
        decode = _packed if codec == _PACKED else _only_varints
        return decode(data, ends[:-1], ends[1:], counts)

    def _lists(self, lists: pa.Array, frequencies: Numbers32) -> Array:
        """Return the differences of places that are stored document by document."""
        # A page may repeat blocks of few bytes, each of which stands for a group; the places of a
        # document are arrays of their own before they are joined.
        size = 2 * _POSITION_BYTES * int(frequencies.sum(dtype=np.int64))
        self._reader.allow(size, lists.nbytes)
        documents = _blocks_of(lists).to_pylist()
        if len(documents) != len(frequencies):
            raise CorruptFile(
                f"positions of {len(documents)} documents; {len(frequencies)} expected"
            )
        parts = [
            _document(blocks, count)
            for blocks, count in zip(documents, frequencies.tolist(), strict=True)
        ]
        return np.concatenate([np.empty(0, np.uint32), *parts])


def _only_varints(data: Array, starts: Ints, ends: Ints, counts: Ints) -> Array:
    """Return the numbers of blocks that are stored one by one.

    Args:
        data: The bytes that hold the blocks.
        starts: Where each block begins, ascending.
        ends: Where each block ends.
        counts: How many numbers each block has.
    """
    stored = gather(data, starts, ends)
    edges = np.concatenate([[0], np.cumsum(ends - starts)])
    listed = np.diff(np.concatenate([[0], np.cumsum(stored < 0x80)])[edges])
    if (listed != counts).any():
        wrong = int((listed != counts).argmax())
        raise CorruptFile(f"{listed[wrong]} positions in a block; {counts[wrong]} were expected")
    if (data[ends[ends > starts] - 1] >= 0x80).any():
        raise CorruptFile("the last number of a sequence does not end")
    return read_varints(stored)


def _packed(data: Array, starts: Ints, ends: Ints, counts: Ints) -> Array:
    """Return the numbers of blocks in packed groups, and the rest of each; see `_only_varints`.

    The width of a group tells where the next one begins.
    """
    groups, rests = np.divmod(counts, _GROUP)
    if (groups + rests > ends - starts).any():  # each takes a byte or more
        raise CorruptFile("a block of positions is too short")
    find = _group_by_group if groups.sum() < _FEW_BLOCKS * groups.max(initial=0) else _at_once
    places, widths, at = find(data, starts, ends, groups)
    if (at > ends).any():
        raise CorruptFile("a block of positions is too short")
    found = np.empty(int(counts.sum()), np.uint32)
    kinds = np.tile(np.array([False, True]), len(counts))
    is_rest = np.repeat(kinds, np.column_stack((groups * _GROUP, rests)).reshape(-1))
    found[is_rest] = _only_varints(data, at, ends, rests)
    found[~is_rest] = unpack_lanes(data, places, widths, _LANES).reshape(-1)
    return found


def _at_once(data: Array, starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Find the groups of all blocks together, first those that are first in their blocks.

    Args:
        data: The bytes that hold the blocks.
        starts: Where each block begins.
        ends: Where each block ends.
        groups: How many groups each block has.

    Returns:
        Where each group begins, and its width; where the groups of each block end.
    """
    firsts = np.cumsum(groups) - groups
    places, widths = np.empty(int(groups.sum()), np.int64), np.empty(int(groups.sum()), np.int64)
    at = starts.copy()
    for number in range(int(groups.max(initial=0))):
        own = np.flatnonzero(groups > number)
        if (at[own] >= ends[own]).any():
            raise CorruptFile("a block of positions is too short")
        width = data[at[own]].astype(np.int64)
        places[firsts[own] + number], widths[firsts[own] + number] = at[own] + 1, width
        at[own] += 1 + width * _LANES * 4
    return places, widths, at


def _group_by_group(data: Array, starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Do what `_at_once` does, quicker where few blocks have many groups."""
    places, widths, behind = [], [], []
    for start, end, count in zip(starts.tolist(), ends.tolist(), groups.tolist(), strict=True):
        block, at = data[start:end].tobytes(), 0
        for _ in range(count):
            if at >= len(block):
                raise CorruptFile("a block of positions is too short")
            places.append(start + at + 1)
            widths.append(block[at])
            at += 1 + block[at] * _LANES * 4
        behind.append(start + at)
    return np.array(places, np.int64), np.array(widths, np.int64), np.array(behind, np.int64)


def _blocks_of(lists: pa.Array) -> pa.ListArray:
    """Return the blocks of each document, of a token's documents in a list."""
    kind = lists.type
    for _ in range(2):
        if not pa.types.is_list(kind):
            raise CorruptFile(f"positions are {lists.type}; lists of lists were expected")
        kind = kind.value_type
    documents = lists.flatten()
    if not pa.types.is_large_binary(kind) or (
        lists.null_count or documents.null_count or documents.flatten().null_count
    ):
        raise CorruptFile(f"positions are {lists.type}, or blocks of them are missing")
    return documents


def _document(blocks: list[bytes], count: int) -> Array:
    """Return the differences of the places of one document: packed groups, and the rest."""
    if not blocks or len(blocks[0]) < 4:
        raise CorruptFile("the positions of a document are missing")
    listed = int.from_bytes(blocks[0][:4], "little")
    if listed != count or len(blocks) - 1 != -(-count // _GROUP):
        raise CorruptFile(f"{listed} positions of a document; {count} were expected")
    parts = []
    for number, block in enumerate(blocks[1:]):
        wanted = min(_GROUP, count - number * _GROUP)
        parts.append(_group(np.frombuffer(block, np.uint8), wanted))
    places = np.concatenate(parts).astype(np.int64)
    deltas = np.diff(places, prepend=0)
    if (deltas < 0).any():
        raise CorruptFile("the positions of a document do not ascend")
    return deltas.astype(np.uint32)


def _group(data: Array, count: int) -> Array:
    """Return the places of a group: packed differences if it is full."""
    if count < _GROUP:
        if len(data) != count * 4:
            raise CorruptFile(f"{count} positions in {len(data)} bytes")
        return data.view("<u4")
    if len(data) < 5 or len(data) != 5 + int(data[4]) * _LANES * 4:
        raise CorruptFile("a group of positions has another length than its width tells")
    first = data[:4].view("<u4")
    deltas = unpack_lanes(data, np.array([5]), data[4:5].astype(np.int64), _LANES)[0]
    deltas[0] += first[0]
    return np.cumsum(deltas, dtype=np.uint32)
