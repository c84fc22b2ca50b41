"""Chunks of mini-block pages whose values are compressed as a whole.

Only the values of a chunk are compressed: first, not its levels and the lengths of its runs. The
chunks that hold wanted rows are found here, their values are decompressed elsewhere, and pages are
made of them that hold these chunks uncompressed, and nothing of the others. The kernels that read
a few rows read these pages as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import groupby

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, empty
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.datafile.kernels.chunks import ALIGN
from lancefs.datafile.kernels.pages import PageColumn, Stored
from lancefs.datafile.kernels.points import (
    buffers_within,
    in_piece,
    places_in_memory,
    rows_by_page,
)
from lancefs.datafile.kernels.wanted_chunks import buffers_of, wanted_chunks
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_ENTRY = 4  # bytes of an entry of the chunk table of a restored page
_LARGEST = (1 << 31) - 1  # bytes of the values of a chunk
_HEADER = 16  # bytes of the header of a restored chunk, at most


class PackedChunk(IntEnum):
    """The columns of the table of chunks.

    The number of the page, and of the chunk in it; its number of values; where its compressed
    values begin and end in the pieces; where it begins itself, and its bytes.
    """

    PAGE = 0
    NUMBER = 1
    COUNT = 2
    START = 3
    END = 4
    AT = 5
    LENGTH = 6


def find_packed(
    pieces: Sequence[Bytes], pages: Ints, leaves: Ints, rows: Ints, is_packed: Mask
) -> Ints:
    """Find the chunks with compressed values that hold wanted rows.

    Args:
        pieces: Bytes that hold the pages, as for `take_points`.
        pages: The pages of the leaves; see `PageColumn`.
        leaves: The first page and the number of pages of each leaf, the first and the number of its
            wanted rows: int64, shape (leaves, 4).
        rows: The wanted rows, of each leaf ascending and each once: int64, shape (rows,).
        is_packed: Whether the values of each page are compressed: bool, shape (pages,).

    Returns:
        The chunks, page by page; see `PackedChunk`: int64, shape (chunks, columns).

    Raises:
        CorruptFile: A page is damaged, or does not have a wanted row.
    """
    found: list[Ints] = [np.empty((0, len(PackedChunk)), np.int64)]
    for first, count, begin, wanted in leaves.tolist():
        own = pages[first : first + count]
        for index, some in rows_by_page(own, rows[begin : begin + wanted]):
            if is_packed[first + index]:
                found.append(_chunks_of(pieces, own[index], first + index, some))
    return np.concatenate(found)


def _chunks_of(pieces: Sequence[Bytes], page: Ints, number: int, rows: Ints) -> Ints:
    """Return the chunks of a page that hold rows; see `find_packed`."""
    data, page, shift = in_piece(pieces, page)
    begin, end, *_ = buffers_within(data, page)
    found = wanted_chunks(data[begin:end], data, page, rows)
    values = found.level_buffers
    columns = found.chunks, found.counts, found.begins[values] + shift, found.ends[values] + shift
    numbers = np.full(len(found.chunks), number)
    return np.stack((numbers, *columns, found.starts + shift, found.sizes), axis=1)


@twin_of(find_packed, "ints ints number ints ints number ints number bytes out number")
def _compiled_find_packed(
    call: Call, pieces: Sequence[Bytes], pages: Ints, leaves: Ints, rows: Ints, is_packed: Mask
) -> Ints:
    room = max(int(leaves[:, 3].sum()), 0)
    found, where = np.empty((room, len(PackedChunk)), np.int64), places_in_memory(pieces)
    tables = pages, leaves, len(leaves), rows, len(rows)
    count = call(*where, *tables, is_packed, found, room)
    chunks: Ints = found[:count]
    return chunks


def restore_pages(
    pieces: Sequence[Bytes], pages: Ints, chunks: Ints, raw: Bytes, bounds: Ints, start: int
) -> tuple[Bytes, Ints]:
    """Make pages of which some chunks have other values, and all others none.

    Args:
        pieces: Bytes that hold the pages, as for `find_packed`.
        pages: The pages; see `PageColumn`.
        chunks: The chunks, as `find_packed` gives them.
        raw: Bytes that hold the values of these.
        bounds: Where the values of each begin and end: int64, shape (chunks, 2).
        start: The position of the new bytes, behind those of all pieces.

    Returns:
        The bytes of the new pages; and all pages, of which those with chunks among these have their
        places in the new bytes, and no levels there if these are `SKIPPED`.

    Raises:
        CorruptFile: A page is damaged, or the values of a chunk are too many.
    """
    restored, parts, at = pages.copy(), [np.empty(0, np.uint8)], start
    for page, own in groupby(range(len(chunks)), chunks[:, PackedChunk.PAGE].tolist().__getitem__):
        indices = list(own)
        table, rest = _restore_page(
            pieces, pages[page], chunks[indices], [raw[slice(*bounds[i])] for i in indices]
        )
        places = at, at + len(table), at + len(_padded(table))
        restored[page, PageColumn.TABLE : PageColumn.CHUNKS] = places[:2]
        at = places[2] + len(rest)
        restored[page, PageColumn.CHUNKS : PageColumn.CHUNKS_END + 1] = places[2], at
        restored[page, PageColumn.ENTRY] = _ENTRY
        if restored[page, PageColumn.LEVELS] == Stored.SKIPPED:
            restored[page, PageColumn.WIDTH] = 0
        parts += [np.frombuffer(_padded(table) + rest, np.uint8)]
    return np.concatenate(parts), restored


def _restore_page(
    pieces: Sequence[Bytes], page: Ints, chunks: Ints, values: Sequence[Bytes]
) -> tuple[bytes, bytes]:
    """Return the chunk table of a new page, and its chunks."""
    data, page, shift = in_piece(pieces, page)
    begin, end, *_ = buffers_within(data, page)
    words: list[int] = data[begin:end].view(f"<u{page[PageColumn.ENTRY]}").tolist()
    new, table, parts = dict[int, bytes](), b"", b""
    for chunk, own in zip(chunks.tolist(), values, strict=True):
        chunk[PackedChunk.AT] -= shift
        new[chunk[PackedChunk.NUMBER]] = _restore_chunk(data, page, chunk, own)
    for number, word in enumerate(words):
        part = new.get(number, bytes(ALIGN))
        parts += part
        table += ((len(part) // ALIGN - 1) << 4 | (word & 15)).to_bytes(_ENTRY, "little")
    return table, parts


def _restore_chunk(data: Bytes, page: Ints, chunk: Sequence[int], values: Bytes) -> bytes:
    """Return a chunk with other values.

    Args:
        data: Bytes that hold the chunk.
        page: Its page; see `PageColumn`.
        chunk: The chunk, with its place in the bytes; see `PackedChunk`.
        values: The values.

    Raises:
        CorruptFile: The chunk is damaged, or the values are too many.
    """
    if len(values) > _LARGEST:
        raise CorruptFile(f"{len(values)} bytes of values in a chunk")
    start = chunk[PackedChunk.AT]
    place = ([chunk[each]] for each in (PackedChunk.AT, PackedChunk.LENGTH, PackedChunk.COUNT))
    level_buffers, _, begins, ends = buffers_of(data, page, *map(np.array, place))
    buffers = [
        data[begin:end].tobytes()
        for begin, end in zip(begins[:, 0].tolist(), ends[:, 0].tolist(), strict=True)
    ]
    levels = [] if page[PageColumn.LEVELS] == Stored.SKIPPED else buffers[:level_buffers]
    others = [values.tobytes(), *buffers[level_buffers + 1 :]]
    head = data[start : start + 2].tobytes()
    head += b"".join(len(each).to_bytes(2, "little") for each in levels)
    head += b"".join(len(each).to_bytes(_ENTRY, "little") for each in others)
    return b"".join(map(_padded, [head, *levels, *others]))


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % ALIGN)


@twin_of(restore_pages, "ints ints number ints ints number bytes number ints number out out number")
def _compiled_restore_pages(
    call: Call,
    pieces: Sequence[Bytes],
    pages: Ints,
    chunks: Ints,
    raw: Bytes,
    bounds: Ints,
    start: int,
) -> tuple[Bytes, Ints]:
    restored, where = pages.copy(), places_in_memory(pieces)
    room = _room(pages, chunks, bounds)
    out = empty(room, np.uint8)
    values = raw, len(raw), bounds, start
    size = call(*where, pages, chunks, len(chunks), *values, restored, out, room)
    return out[:size], restored


def _room(pages: Ints, chunks: Ints, bounds: Ints) -> int:
    """Return the bytes of restored pages, at most.

    Raises:
        Damaged: A page has a chunk table of fewer than no bytes.
    """
    some = pages[np.unique(chunks[:, PackedChunk.PAGE])]
    tables = some[:, PageColumn.TABLE_END] - some[:, PageColumn.TABLE]
    if (tables < 0).any():
        raise Damaged
    entries = int((tables // some[:, PageColumn.ENTRY]).sum())
    own: Array = chunks[:, PackedChunk.LENGTH] + (bounds[:, 1] - bounds[:, 0]) + _HEADER + ALIGN
    return entries * (_ENTRY + ALIGN) + int(own.sum()) + (len(some) + 1) * 3 * ALIGN
