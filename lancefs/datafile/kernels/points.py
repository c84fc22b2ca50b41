"""Values at a few rows of many pages, in one call.

The chunk table of a mini-block page is walked up to its end, and the chunks that hold the rows are
opened; nothing else of a page is read. The index of a full-zip page tells where a row is. Pages of
data files 2.0 have no chunks; see `whole`. A row is a value: lists are found by their levels first,
see `levels.py`, and the rows here are their items.

The bytes of several files are given as pieces. Positions count through the pieces as if they were
one after the other; a page, and a span of bytes, lies in one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, check_size, empty, join_bytes
from lancefs.datafile.kernels.bitpacking import read_widths, unpack, unpack_at, unpack_buffers
from lancefs.datafile.kernels.calls import SLACK, Call, twin_of
from lancefs.datafile.kernels.pages import POSITIONS as POSITIONS
from lancefs.datafile.kernels.pages import RUN_LENGTHS as RUN_LENGTHS
from lancefs.datafile.kernels.pages import PageColumn as PageColumn
from lancefs.datafile.kernels.pages import Stored as Stored
from lancefs.datafile.kernels.pages import TakenRows as TakenRows
from lancefs.datafile.kernels.pages import numbers_at
from lancefs.datafile.kernels.runs import expand
from lancefs.datafile.kernels.segments import gather, places_of
from lancefs.datafile.kernels.strings import LARGEST, block_header, compact_offsets, find_strings
from lancefs.datafile.kernels.utf8 import is_utf8
from lancefs.datafile.kernels.wanted_chunks import wanted_chunks
from lancefs.datafile.kernels.whole import take_by_ends, take_indexed, take_whole
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


class LeafColumn(IntEnum):
    """The columns of the table of leaves.

    The first page of the leaf and its number of pages, which cover its rows; where its values are
    written, behind those of the leaf before it; where its validity is, behind its values, -1 if
    no page of it has levels; and the first and the number of its wanted rows, among those of all.
    """

    FIRST_PAGE = 0
    PAGES = 1
    OUT = 2
    VALIDITY = 3
    FIRST_WANTED = 4
    WANTED = 5


_LEVEL_BITS = 16
# Up to `_FEW_TEXTS` texts, memory is first allocated for this many bytes of each.
_LIKELY_TEXT, _FEW_TEXTS = 64, 1024


def take_points(
    pieces: Sequence[Bytes], pages: Ints, leaves: Ints, rows: Ints, size: int
) -> tuple[Bytes, Ints]:
    """Read the values of several leaves at some rows.

    Args:
        pieces: Bytes that hold the pages.
        pages: The pages of the leaves; see `PageColumn`.
        leaves: The leaves; see `LeafColumn`.
        rows: The wanted rows, of each leaf ascending and each once.
        size: Bytes of the output.

    Returns:
        The output: for each leaf its values, where a boolean takes one bit, and a string is its
        start and end in the pieces (int64); and a bit for each value that tells whether it is
        valid.
        Then the number of nulls of each leaf, and after them how many bytes were looked at, in how
        many places; without those of pages whose levels are `SKIPPED`.

    Raises:
        CorruptFile: A page is damaged, or does not have a wanted row.
    """
    out, nulls = np.zeros(size, np.uint8), np.zeros(len(leaves) + 2, np.int64)
    for number, (first, count, at, validity_at, begin, wanted) in enumerate(leaves.tolist()):
        own = pages[first : first + count]
        parts = [
            _take_page(pieces, own[index], some)
            for index, some in rows_by_page(own, rows[begin : begin + wanted])
        ]
        if parts:
            nulls[number] = write_leaf(parts, own, out, (at, validity_at))
            nulls[-2:] += np.sum([part.looked_at for part in parts], axis=0)
    return out, nulls


def write_leaf(parts: Sequence[TakenRows], pages: Ints, out: Bytes, at: tuple[int, int]) -> int:
    """Write the rows of a leaf; return how many are null.

    Args:
        parts: The rows of each page, one at least.
        pages: The pages of the leaf; see `PageColumn`.
        out: What they are written to.
        at: Where the values begin, and their validity; -1 where it is not wanted.
    """
    values = np.concatenate([part.values for part in parts])
    invalid = np.concatenate([part.invalid for part in parts])
    is_bit = pages[0, PageColumn.BITS] == 1
    stored = np.packbits(values, bitorder="little") if is_bit else values.view(np.uint8)
    out[at[0] : at[0] + len(stored)] = stored
    if at[1] >= 0:
        valid = np.packbits(~invalid, bitorder="little")
        out[at[1] : at[1] + len(valid)] = valid
    return int(np.count_nonzero(invalid))


def rows_by_page(pages: Ints, rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield the pages of a leaf that hold rows, each with its rows.

    Args:
        pages: The pages of the leaf; see `PageColumn`.
        rows: The rows, ascending and each once.

    Raises:
        CorruptFile: The rows do not ascend, or are in no page.
    """
    if np.any(rows[1:] <= rows[:-1]):
        raise CorruptFile("rows that do not ascend")
    page_of = np.searchsorted(pages[:, PageColumn.FIRST_ROW], rows, side="right") - 1
    if len(rows) and page_of[0] < 0:
        raise CorruptFile(f"row {rows[0]} is wanted, before the first page")
    beyond = rows - pages[page_of, PageColumn.FIRST_ROW] >= pages[page_of, PageColumn.ROWS]
    if beyond.any():
        raise CorruptFile(f"row {rows[beyond][0]} is wanted, which no page has")
    for index in np.unique(page_of):
        yield int(index), rows[page_of == index]


@twin_of(take_points, "ints ints number ints ints number ints number out number out")
def _compiled_take_points(
    call: Call, pieces: Sequence[Bytes], pages: Ints, leaves: Ints, rows: Ints, size: int
) -> tuple[Bytes, Ints]:
    out, nulls = empty(size, np.uint8), np.empty(len(leaves) + 2, np.int64)
    where = places_in_memory(pieces)
    call(*where, pages, leaves, len(leaves), rows, len(rows), out, size, nulls)
    return out, nulls


class Pieces(list[Bytes]):
    """Pieces of bytes, whose places are asked for by one kernel after the other; nobody adds any.

    Attributes:
        ends: The position after each piece.
        addresses: The address of each piece.
    """

    def __init__(self, pieces: Iterable[Bytes]) -> None:
        super().__init__(pieces)
        self.ends: Ints = np.cumsum([len(piece) for piece in self], dtype=np.int64)
        self.addresses = np.array([pa.py_buffer(piece).address for piece in self], np.int64)


def places_in_memory(pieces: Sequence[Bytes]) -> tuple[Ints, Ints, int]:
    """Return the address of each piece, the position after each, and their number."""
    known = pieces if isinstance(pieces, Pieces) else Pieces(pieces)
    return known.addresses, known.ends, len(known)


def piece_at(pieces: Sequence[Bytes], position: int) -> tuple[Bytes, int]:
    """Return the piece that a position is in, and the position of its first byte.

    Raises:
        CorruptFile: The position is behind all pieces.
    """
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    number = int(np.searchsorted(ends, position, side="right"))
    if number == len(pieces):
        raise CorruptFile(f"position {position} leaves the {ends[-1] if len(ends) else 0} bytes")
    return pieces[number], int(ends[number]) - len(pieces[number])


def in_piece(pieces: Sequence[Bytes], page: Ints) -> tuple[Bytes, Ints, int]:
    """Return the piece that holds a page, the page with positions in it, and where it begins."""
    data, shift = piece_at(pieces, int(page[PageColumn.TABLE]))
    page = page.copy()
    page[POSITIONS] -= shift
    return data, page, shift


def buffers_within(data: Bytes, page: Ints) -> list[int]:
    """Return where the chunk table, or the index, and the chunks of a page begin and end.

    Raises:
        CorruptFile: They leave the data.
    """
    places: list[int] = page[PageColumn.TABLE : PageColumn.CHUNKS_END + 1].tolist()
    begin, end, start, stop = places
    if not (0 <= begin <= end <= len(data) and 0 <= start <= stop <= len(data)):
        raise CorruptFile(f"the buffers of a page leave its {len(data)} bytes")
    return places


def _take_page(pieces: Sequence[Bytes], page: Ints, rows: Ints) -> TakenRows:
    """Return rows of a page; see `take_points`."""
    column = PageColumn
    takers = {
        Stored.ZIPPED: take_zipped,
        Stored.ENDS: take_by_ends,
        Stored.INDEXED: take_indexed,
    }
    data, page, shift = in_piece(pieces, page)
    if page[column.VALUES] == Stored.WHOLE:
        return take_whole(data, page, rows)
    if (take := takers.get(Stored(page[column.VALUES]))) is not None:
        spans, is_null, looked_at = take(data, page, rows)
        return TakenRows((spans + shift).reshape(-1).view(np.uint8), is_null, looked_at)
    begin, end, *_ = buffers_within(data, page)
    taken = take_chunks(data[begin:end], data, page, rows)
    if page[column.VALUES] in (Stored.STRINGS, Stored.LOOKED_UP):
        return taken._replace(values=(taken.values.view(np.int64) + shift).view(np.uint8))
    return taken


def take_chunks(table: Bytes, data: Bytes, page: Ints, rows: Ints) -> TakenRows:
    """Return rows of a mini-block page.

    Args:
        table: The chunk table of the page.
        data: Bytes that have its chunks, which lie within.
        page: The page; see `PageColumn`.
        rows: The rows, ascending and each once.

    Raises:
        CorruptFile: The page is damaged.
    """
    column, found = PageColumn, wanted_chunks(table, data, page, rows)
    counts, begins, ends, buffers = found.counts, found.begins, found.ends, found.level_buffers
    wanted = (np.cumsum(counts) - counts)[found.positions] + found.within
    length_width = RUN_LENGTHS.get(Stored(page[column.VALUES]))
    if length_width is not None:
        runs = begins[buffers:], ends[buffers:], (int(page[column.BITS]) // 8, length_width)
        values = _repeated(data, *runs, counts)[wanted].view(np.uint8)
    else:
        values = _values(data, begins[-1], ends[-1], counts, wanted, page)
    invalid = np.zeros(len(rows), np.bool_)
    if page[column.LEVELS] == Stored.SKIPPED:
        # The read of the levels has counted what is looked at here.
        return TakenRows(values, invalid, (0, 0))
    if page[column.LEVELS] != Stored.NONE:
        stored = int(page[column.LEVELS]), int(page[column.WIDTH])
        levels = decode_levels(data, begins[0], ends[0], counts, stored)[wanted]
        if np.any(levels > 1):
            raise CorruptFile(f"a definition level of {levels.max()}; the highest is 1")
        invalid = levels != 0
    places = 1 + int(np.count_nonzero(np.diff(found.chunks, prepend=-2) > 1))  # neighbours are one
    return TakenRows(values, invalid, (len(table) + int(found.sizes.sum()), places))


def take_zipped(data: Bytes, page: Ints, rows: Ints) -> tuple[Ints, Mask, tuple[int, int]]:
    """Return rows of a full-zip page of strings.

    Args:
        data: Bytes that have the page.
        page: The page; see `PageColumn`.
        rows: The rows, ascending and each once.

    Returns:
        The start and end of each string in the data; which are null; and how many bytes were looked
        at, in how many places.

    Raises:
        CorruptFile: The page is damaged.
    """
    column = PageColumn
    begin, end, start, stop = buffers_within(data, page)
    width, entries = int(page[column.ENTRY]), int(page[column.ROWS]) + 1
    if width * entries != end - begin:
        raise CorruptFile(f"a row index of {end - begin} bytes for {entries - 1} rows")
    wanted = rows - page[column.FIRST_ROW]
    if wanted[-1] >= entries - 1:
        raise CorruptFile(f"row {wanted[-1]} of a page of {entries - 1} rows")
    at = begin + width * wanted
    low, high = (numbers_at(data, at + shift, width) for shift in (0, width))
    has_levels, bits = page[column.LEVELS] != Stored.NONE, int(page[column.WIDTH])
    word = 0 if not has_levels else 1 if bits <= 8 else 2
    if np.any((low < 0) | (high > stop - start) | (high - low < word)):
        raise CorruptFile("the row index of a full-zip page descends or leaves the page")
    invalid = np.zeros(len(rows), np.bool_)
    if has_levels:
        levels = numbers_at(data, start + low, word) & ((1 << bits) - 1)
        if np.any(levels > 1):
            raise CorruptFile(f"a definition level of {levels.max()}; the highest is 1")
        invalid = levels == 1
    prefix = np.where(invalid, 0, int(page[column.BITS]) // 8)
    begins, lengths = low + word + prefix, np.zeros(len(rows), np.int64)
    if np.any(begins > high):
        raise CorruptFile("a value of a full-zip page is longer than its row")
    prefixes = (start + low + word)[~invalid]
    lengths[~invalid] = numbers_at(data, prefixes, int(page[column.BITS]) // 8)
    if np.any(lengths != high - begins):
        raise CorruptFile("a value of a full-zip page is longer or shorter than its row")
    spans = np.stack((begins, begins + lengths), axis=1) + start
    places = 1 + len(rows) - int(np.count_nonzero(low[1:] == high[:-1]))
    return spans, invalid, (2 * width * len(rows) + int((high - low).sum()), places)


def _values(data: Bytes, starts: Ints, ends: Ints, counts: Ints, wanted: Ints, page: Ints) -> Array:
    """Return the wanted values of chunks, in bytes; a boolean takes a byte."""
    bits = int(page[PageColumn.BITS])
    match page[PageColumn.VALUES]:
        case Stored.PACKED | Stored.LOOKED_UP:
            widths = read_widths(data, starts, ends, bits)
            values = unpack_at(data, starts + bits // 8, widths, counts, wanted, bits)
            if page[PageColumn.VALUES] == Stored.LOOKED_UP:
                values = _items(data, values, page)
            return values.view(np.uint8)
        case Stored.STRINGS:
            found = find_strings(data, starts, ends, counts, bits // 8, wanted)
            return np.stack(found, axis=1).reshape(-1).view(np.uint8)
    if np.any(-(-counts * bits // 8) > ends - starts):
        raise CorruptFile(f"a chunk is too short for its values of {bits} bits")
    chunk, within = places_of(counts, wanted)
    if bits == 1:
        bit: Array = data[starts[chunk] + within // 8] >> (within % 8).astype(np.uint8) & np.uint8(
            1
        )
        return bit
    width = bits // 8
    if page[PageColumn.VALUES] == Stored.SPLIT:
        if np.any(counts * width != ends - starts):
            raise CorruptFile("a byte-stream split chunk is shorter or longer than its values")
        streams = np.arange(width) * counts[chunk][:, None]
        split: Array = data[(starts[chunk] + within)[:, None] + streams].reshape(-1)
        return split
    begins = starts[chunk] + within * width
    return gather(data, begins, begins + width)


def _repeated(
    data: Bytes, starts: Ints, ends: Ints, widths: tuple[int, int], counts: Ints
) -> Array:
    """Return all values of chunks of runs.

    Args:
        data: Bytes that hold the chunks.
        starts: Where the values of the runs begin in each chunk, and where their lengths do.
        ends: Where they end.
        widths: Bytes of a value, and of a length.
        counts: Number of values of each chunk.

    Raises:
        CorruptFile: The runs are damaged.
    """
    sizes = ends - starts
    runs = sizes // np.array(widths)[:, None]
    if np.any(runs[0] != runs[1]) or np.any(sizes % np.array(widths)[:, None]):
        raise CorruptFile("a chunk has more or fewer run values than run lengths")
    values, lengths = (
        gather(data, *bounds).view(f"<u{width}")
        for *bounds, width in zip(starts, ends, widths, strict=True)
    )
    return expand(values, lengths, runs[0], counts)


def _items(data: Bytes, indices: Array, page: Ints) -> Ints:
    """Return the start and end in the data of each item of a dictionary of strings."""
    start, end, count = page[PageColumn.ITEMS : PageColumn.ITEM_COUNT + 1].tolist()
    if not 0 <= start <= end <= len(data):
        raise CorruptFile(f"the dictionary of a page leaves its {len(data)} bytes")
    buffer = data[start:end]
    width, begin, text = block_header(buffer)
    if (
        begin > len(buffer)
        or not begin <= text <= len(buffer)
        or not 0 <= count < (text - begin) // width
    ):
        raise CorruptFile(f"a block of {count} strings is too short for its offsets")
    if len(indices) and int(indices.max()) >= count:
        raise CorruptFile(f"index {int(indices.max())} into a dictionary of {count} items")
    at = (begin + indices.astype(np.int64) * width)[:, None] + np.arange(2 * width)
    offsets = buffer[at].view(f"<u{width}").reshape(-1, 2)
    if np.any(offsets[:, 0] > offsets[:, 1]) or int(offsets.max()) > len(buffer) - text:
        raise CorruptFile("the offsets of a block of strings descend or leave the block")
    places: Ints = (offsets.astype(np.int64) + (start + text)).reshape(-1)
    return places


def decode_levels(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, stored: tuple[int, int]
) -> Array:
    """Return the levels of chunks.

    Args:
        data: Bytes that hold the chunks.
        starts: Where the levels of each chunk begin.
        ends: Where they end.
        counts: Number of levels of each chunk.
        stored: How levels are stored, and the bits of one that is packed apart from its width; see
            `Stored`.

    Raises:
        CorruptFile: The levels are damaged.
    """
    kind, width = stored
    match kind:
        case Stored.PACKED:
            widths = read_widths(data, starts, ends, _LEVEL_BITS)
            return unpack(data, starts + 2, widths, counts, _LEVEL_BITS)
        case Stored.PACKED_APART:
            return unpack_buffers(data, starts, ends, counts, width, _LEVEL_BITS)
        case Stored.RUNS:
            return np.concatenate(
                [
                    _expanded(data[start:end], count)
                    for start, end, count in zip(starts, ends, counts, strict=True)
                ]
            )
    if np.any(2 * counts > ends - starts):
        raise CorruptFile("a chunk is too short for its levels")
    return gather(data, starts, starts + 2 * counts).view("<u2")


def _expanded(buffer: Bytes, count: int) -> Array:
    """Return levels that are stored as runs."""
    size = int.from_bytes(buffer[:8].tobytes(), "little")
    if len(buffer) < 8 or size > len(buffer) - 8 or size % 2:
        raise CorruptFile("the values of runs reach beyond their buffer")
    levels, lengths = buffer[8 : 8 + size].view("<u2"), buffer[8 + size :]
    runs = np.array([len(levels)], np.int64)
    return expand(levels, lengths, runs, np.array([count], np.int64))


def join_texts(pieces: Sequence[Bytes], spans: Ints, valid: Bytes | None) -> tuple[Array, Bytes]:
    """Join the texts of spans, in any order.

    Args:
        pieces: The bytes.
        spans: Start and end of each span; of shape (spans, 2).
        valid: A bit for each span, which has no text where it is 0; None where all have.

    Returns:
        The offsets of the texts, one more than there are spans, from 0 (int32 if they fit), and
        their bytes.

    Raises:
        CorruptFile: A span leaves the pieces, or the piece that it begins in.
        TooLarge: The texts have too many bytes; see `check_size`.
        MemoryLimitExceeded: They have.
    """
    if valid is not None:
        spans = spans.copy()
        is_null = np.unpackbits(valid, count=len(spans), bitorder="little") == 0
        spans[is_null] = 0
    starts, ends, size = spans[:, 0], spans[:, 1], sum(map(len, pieces))
    if np.any((starts < 0) | (starts > ends) | (ends > size)):
        raise CorruptFile(f"a span of bytes leaves its {size} bytes")
    lengths = ends - starts
    check_size(int(lengths.sum()))
    text = join_bytes(
        [
            np.empty(0, np.uint8),
            *(_span(pieces, start, end) for start, end in spans.tolist() if start < end),
        ]
    )
    return compact_offsets(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))), text


def _span(pieces: Sequence[Bytes], start: int, end: int) -> Bytes:
    piece, shift = piece_at(pieces, start)
    if end - shift > len(piece):
        raise CorruptFile(f"a span of bytes leaves its piece of {len(piece)} bytes")
    return piece[start - shift : end - shift]


@twin_of(join_texts, "ints ints number ints number bytes out out number")
def _compiled_join_texts(
    call: Call, pieces: Sequence[Bytes], spans: Ints, valid: Bytes | None
) -> tuple[Array, Bytes]:
    count = len(spans)
    where = *places_in_memory(pieces), spans, count, valid
    offsets, room = empty(count + 1, np.int32), _LIKELY_TEXT * count if count <= _FEW_TEXTS else 0
    text = empty(room, np.uint8, SLACK)
    size = call(*where, offsets, text, room)
    check_size(size)
    if size > LARGEST:
        return join_texts(pieces, spans, valid)
    if size > room:
        text = empty(size, np.uint8, SLACK)
        if call(*where, offsets, text, size) != size:
            return join_texts(pieces, spans, valid)  # the file has changed since
    return offsets, text[:size]


class SpansColumn(IntEnum):
    """The columns of the table of leaves of strings.

    Where the spans of the leaf begin in the values, and their validity, -1 if all are valid; the
    number of spans; where the offsets begin among those of all; and whether the text has to be
    UTF-8.
    """

    SPANS = 0
    VALID = 1
    COUNT = 2
    OFFSETS = 3
    IS_TEXT = 4


def join_leaves(
    pieces: Sequence[Bytes], values: Bytes, leaves: Ints
) -> list[tuple[Array, Bytes, bool]]:
    """Join the texts of the spans of several leaves; see `join_texts`.

    Args:
        pieces: The bytes.
        values: Bytes that hold the spans (int64, aligned), as `take_points` writes them.
        leaves: The leaves; see `SpansColumn`.

    Returns:
        The offsets and the bytes of the texts of each leaf, and whether these are UTF-8, or need
        not be.

    Raises:
        CorruptFile: As for `join_texts`.
        TooLarge: As for `join_texts`.
        MemoryLimitExceeded: As for `join_texts`.
    """
    found = []
    for start, valid_at, count, _, is_text in leaves.tolist():
        spans = values[start : start + 16 * count].view(np.int64).reshape(-1, 2)
        valid = None if valid_at < 0 else values[valid_at : valid_at + -(-count // 8)]
        offsets, text = join_texts(pieces, spans, valid)
        found.append((offsets, text, not is_text or is_utf8(offsets, text)))
    return found


@twin_of(join_leaves, "ints ints number bytes ints number out out number out")
def _compiled_join_leaves(
    call: Call, pieces: Sequence[Bytes], values: Bytes, leaves: Ints
) -> list[tuple[Array, Bytes, bool]]:
    where = *places_in_memory(pieces), values, leaves, len(leaves)
    rows = leaves.tolist()
    ends = [at + count + 1 for _, _, count, at, _ in rows]
    offsets, numbers = empty(max(ends), np.int32), np.empty((len(leaves), 3), np.int64)
    spans = sum([count for _, _, count, _, _ in rows])
    room = _LIKELY_TEXT * (spans + len(rows)) if spans <= _FEW_TEXTS else 0
    text = empty(room, np.uint8, SLACK)
    size = call(*where, offsets, text, room, numbers)
    check_size(size)
    if size > room:
        if int(numbers[:, 1].max()) > LARGEST:
            return join_leaves(pieces, values, leaves)
        text = empty(size, np.uint8, SLACK)
        call(*where, offsets, text, size, numbers)
    return [
        (offsets[at:end], text[start : start + own], bool(is_sound))
        for (_, _, _, at, _), end, (start, own, is_sound) in zip(
            rows, ends, numbers.tolist(), strict=True
        )
    ]
