"""Pages whose chunks have values that are compressed as a whole: lz4 or zstd (2.1 and later).

The chunks that hold a few wanted rows are decompressed together, and the kernels that read such
rows are given pages that hold these chunks uncompressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import join_bytes
from lancefs.datafile.kernels import find_packed, join_texts, restore_pages
from lancefs.datafile.kernels.packed import PackedChunk
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.general import decompress_chunks
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.proto.encodings_v2_1_pb2 import General
from lancefs.storage import Bytes


class PackedPages(NamedTuple):
    """Pages of which some have chunks whose values are compressed as a whole.

    Attributes:
        encodings: How they are compressed, each once.
        numbers: For each page, the position of its compression among these; -1 where its values are
            not compressed: int64, shape (pages,).
    """

    encodings: Sequence[General]
    numbers: Ints

    @classmethod
    def of(cls, leaves: Sequence[tuple[Sequence[General | None], int]]) -> PackedPages | None:
        """Return those of some leaves; None where no page is compressed.

        Args:
            leaves: How each page of a leaf is compressed, empty where none is; and the number of
                its pages.
        """
        if not any(packed for packed, _ in leaves):
            return None
        known: dict[bytes, tuple[int, General]] = {}
        numbers: list[int] = []
        for packed, count in leaves:
            for one in packed or [None] * count:
                numbers.append(-1 if one is None else _position(one, known))
        return cls([one for _, one in known.values()], np.array(numbers, np.int64))

    @classmethod
    def join(cls, parts: Sequence[PackedPages]) -> PackedPages:
        """Return the pages of several parts, one after the other."""
        if all(part.encodings == parts[0].encodings for part in parts):  # as in most tables
            return cls(parts[0].encodings, np.concatenate([part.numbers for part in parts]))
        known: dict[bytes, tuple[int, General]] = {}
        numbers = []
        for part in parts:
            # The last one stands for pages that are not compressed, whose number is -1.
            places = [*(_position(one, known) for one in part.encodings), -1]
            numbers.append(np.array(places, np.int64)[part.numbers])
        return cls([one for _, one in known.values()], np.concatenate(numbers))


def _position(encoding: General, known: dict[bytes, tuple[int, General]]) -> int:
    """Return the position of an encoding among those that are known, which are added to."""
    key = encoding.SerializeToString(deterministic=True)
    return known.setdefault(key, (len(known), encoding))[0]


def restore(
    packed: PackedPages, pieces: Sequence[Bytes], pages: Ints, leaves: Ints, rows: Ints
) -> tuple[Bytes, Ints]:
    """Decompress the chunks that hold wanted rows.

    Args:
        packed: Which pages are compressed, and how.
        pieces: Bytes that hold the pages.
        pages: The pages; see `PageColumn`.
        leaves: The leaves, as for `find_packed`.
        rows: The wanted rows, of each leaf ascending and each once: int64, shape (rows,).

    Returns:
        A piece to be added behind the others; and the pages, of which those that are compressed and
        have wanted rows lie in this piece, with no other chunks than those of the rows.

    Raises:
        CorruptFile: A page is damaged.
        TooLarge: The chunks have more bytes than `limited` allows.
        MemoryLimitExceeded: They do, and no fewer rows can be read.
    """
    chunks = find_packed(pieces, pages, leaves, rows, packed.numbers >= 0)
    start = sum([len(piece) for piece in pieces])
    if len(packed.encodings) == 1:
        found = _decompress(packed.encodings[0], pieces, chunks)
        bounds = np.stack((found.starts, found.ends), axis=1)
        return restore_pages(pieces, pages, chunks, found.data, bounds, start)
    numbers = packed.numbers[chunks[:, PackedChunk.PAGE]]
    raw, bounds, size = list[Bytes](), np.empty((len(chunks), 2), np.int64), 0
    for number in np.unique(numbers).tolist():
        is_own = numbers == number
        found = _decompress(packed.encodings[number], pieces, chunks[is_own])
        bounds[is_own] = np.stack((found.starts, found.ends), axis=1) + size
        raw.append(found.data)
        size += len(found.data)
    return restore_pages(pieces, pages, chunks, join_bytes(raw), bounds, start)


def _decompress(encoding: General, pieces: Sequence[Bytes], chunks: Ints) -> Chunked:
    """Decompress the values of chunks; see `PackedChunk`."""
    spans = np.ascontiguousarray(chunks[:, PackedChunk.START : PackedChunk.END + 1])
    offsets, data = join_texts(pieces, spans, None)
    ends = offsets.astype(np.int64)
    most = registry.most_bytes(encoding.values, chunks[:, PackedChunk.COUNT])
    return decompress_chunks(encoding, Chunked(data, ends[:-1], ends[1:]), most)
