"""Levels of a few rows of many pages, in one call: where the items of lists are, and what is null.

The repetition index of a page tells in which chunk a row begins. The levels of the chunks that hold
rows are decoded, and those of the rows are written, with the positions of their values, which
`take_points` reads next. Rows of pages without lists have one level each.

Docs: format/file/encoding, "Mini-block page layout" and "Repetition index".
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Array, Ints, Mask, check_size, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.datafile.kernels.chunks import find_buffers, read_table
from lancefs.datafile.kernels.points import (
    PageColumn,
    Stored,
    buffers_within,
    decode_levels,
    in_piece,
    places_in_memory,
    rows_by_page,
)
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_LIKELY_ITEMS = 1024  # for which there is room at first, and for so many of each row of a leaf:
_LIKELY_OF_ROW = 8
_CHUNKS_AT_ONCE = 16  # whose levels are decoded together: some may be of many more bytes than rows
_ITEM_BYTES = 12  # of an item: two levels, and the position of its value


class LevelColumn(IntEnum):
    """The columns of the table of levels, which has a row for each page.

    Start and end, in the data, of the repetition index, and the numbers that it has for each chunk;
    how repetition levels and definition levels are stored, each with the bits of a level that is
    packed apart from its width; the repetition level of an item that begins a row, 0 where there
    are no lists; the highest definition level of an item that has a value, and the highest of all;
    the level to write for each of these, in 4 bits from the lowest on; the position of the first
    value of the page among those of the leaf, and the number of its values.
    """

    INDEX = 0
    INDEX_END = 1
    STRIDE = 2
    REP = 3
    REP_WIDTH = 4
    DEF = 5
    DEF_WIDTH = 6
    TOP = 7
    SHOWN = 8
    HIGHEST = 9
    MEANINGS = 10
    FIRST_VALUE = 11
    VALUES = 12


# The columns that are positions; and the number of levels that can have a meaning.
LEVEL_POSITIONS = [LevelColumn.INDEX, LevelColumn.INDEX_END]
MAX_MEANINGS = 16


class TakenLevels(NamedTuple):
    """The levels of leaves at some rows, leaf by leaf.

    Attributes:
        rep: The repetition level of each item.
        definition: Its definition level.
        positions: The position of each value among those of its leaf.
        counts: Number of items and of values of each leaf, of shape (leaves, 2).
        seen: Bytes that were looked at, and the number of their places.
    """

    rep: npt.NDArray[np.uint16]
    definition: npt.NDArray[np.uint16]
    positions: Ints
    counts: Ints
    seen: Ints


def take_levels(
    pieces: Sequence[Bytes], pages: Ints, levels: Ints, leaves: Ints, rows: Ints
) -> TakenLevels:
    """Read the levels of several leaves at the same rows.

    Args:
        pieces: Bytes that hold the pages.
        pages: The pages of the leaves; see `PageColumn`.
        levels: How their levels are stored; see `LevelColumn`.
        leaves: The first page and the number of pages of each leaf, of shape (leaves, 2).
        rows: The wanted rows, ascending and each once.

    Raises:
        CorruptFile: A page is damaged, or does not have a wanted row.
        TooLarge: The rows have too many items; see `check_size`.
        MemoryLimitExceeded: They do.
    """
    found = [
        [
            _take_page(pieces, pages[first + page], levels[first + page], some)
            for page, some in rows_by_page(pages[first : first + count], rows)
        ]
        for first, count in leaves.tolist()
    ]
    parts = [part for of_leaf in found for part in of_leaf]
    none = np.zeros(2, np.int64)
    counts = [np.sum([none, *(part.counts for part in of_leaf)], axis=0) for of_leaf in found]
    return TakenLevels(
        np.concatenate([np.empty(0, np.uint16), *(part.rep for part in parts)]),
        np.concatenate([np.empty(0, np.uint16), *(part.definition for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.positions for part in parts)]),
        np.array(counts, np.int64).reshape(-1, 2),
        np.sum([none, *(part.seen for part in parts)], axis=0),
    )


@twin_of(take_levels, "ints ints number ints ints ints number ints number out out out number out")
def _compiled_take_levels(
    call: Call, pieces: Sequence[Bytes], pages: Ints, levels: Ints, leaves: Ints, rows: Ints
) -> TakenLevels:
    where = *places_in_memory(pieces), pages, levels
    what = leaves, len(leaves), rows, len(rows)
    numbers = np.empty(2 * len(leaves) + 2, np.int64)
    room, items = _LIKELY_ITEMS + _LIKELY_OF_ROW * len(leaves) * len(rows), -1
    while items < 0 or items > room:
        if items > room:
            room = items
            check_size(room * _ITEM_BYTES)
        rep, definition, positions = (
            empty(room, kind) for kind in (np.uint16, np.uint16, np.int64)
        )
        items = call(*where, *what, rep, definition, positions, room, numbers)
    counts = numbers[:-2].reshape(-1, 2)
    values = int(counts[:, 1].sum())
    return TakenLevels(rep[:items], definition[:items], positions[:values], counts, numbers[-2:])


class _Chunks(NamedTuple):
    """The chunks of a page that hold wanted rows.

    Attributes:
        numbers: Their positions among the chunks of the page.
        starts: Where they begin in the data.
        sizes: Their bytes.
        values: Number of values of each.
        first_values: Position of the first value of each.
        rows: Number of rows that begin in each.
        first_rows: The first one of these.
        continues: Whether each begins in the middle of a row.
    """

    numbers: Ints
    starts: Ints
    sizes: Ints
    values: Ints
    first_values: Ints
    rows: Ints
    first_rows: Ints
    continues: Mask


def _take_page(pieces: Sequence[Bytes], page: Ints, levels: Ints, rows: Ints) -> TakenLevels:
    """Return the levels of rows of a page."""
    data, page, shift = in_piece(pieces, page)
    levels = levels.copy()
    levels[LEVEL_POSITIONS] -= shift
    has_rep = levels[LevelColumn.REP] != Stored.NONE
    top, shown, highest = levels[LevelColumn.TOP : LevelColumn.HIGHEST + 1].tolist()
    if has_rep != (top > 0) or not 0 <= top < MAX_MEANINGS > highest >= shown >= 0:
        raise CorruptFile(f"levels up to {highest}, of lists up to {top}, that are not understood")
    chunks = _chunks_with(data, page, levels, rows)
    rep, definition, values, shown = _wanted_items(data, chunks, page, levels, rows)
    meanings = int(levels[LevelColumn.MEANINGS]) & ((1 << 64) - 1)
    known = np.array([meanings >> (4 * level) & 15 for level in range(MAX_MEANINGS)], np.uint16)
    looked_at = int(page[PageColumn.TABLE_END] - page[PageColumn.TABLE]) + int(chunks.sizes.sum())
    if has_rep:
        looked_at += int(levels[LevelColumn.INDEX_END] - levels[LevelColumn.INDEX])
    places = 1 + has_rep + np.count_nonzero(np.diff(chunks.numbers, prepend=-2) > 1)
    return TakenLevels(
        rep,
        known[definition],
        values[shown],
        np.array([len(rep), np.count_nonzero(shown)], np.int64),
        np.array([looked_at, places], np.int64),
    )


def _chunks_with(data: Bytes, page: Ints, levels: Ints, rows: Ints) -> _Chunks:
    """Find the chunks of a page that hold rows."""
    begin, end, start, stop = buffers_within(data, page)
    width, items = int(page[PageColumn.ENTRY]), int(levels[LevelColumn.VALUES])
    counts, bounds = read_table(data[begin:end], stop - start, items, width)
    starting, continues = counts, np.zeros(len(counts), np.bool_)
    if levels[LevelColumn.REP] != Stored.NONE:
        starting, continues = _starting_rows(data, levels, len(counts), int(page[PageColumn.ROWS]))
    if starting.sum() != page[PageColumn.ROWS]:
        raise CorruptFile(f"{starting.sum()} rows in a page of {page[PageColumn.ROWS]}")
    first_rows = page[PageColumn.FIRST_ROW] + np.cumsum(starting) - starting
    is_with = np.searchsorted(rows, first_rows + starting) > np.searchsorted(rows, first_rows)
    # A chunk that begins within a wanted row, which is the one before its first row.
    is_with |= continues & np.isin(first_rows - 1, rows)
    if len(rows) and rows[-1] >= page[PageColumn.FIRST_ROW] + page[PageColumn.ROWS]:
        raise CorruptFile(f"row {rows[-1]} is wanted, behind the last page")
    numbers = np.flatnonzero(is_with)
    first_values = levels[LevelColumn.FIRST_VALUE] + np.cumsum(counts) - counts
    return _Chunks(
        numbers,
        (bounds[:-1] + start)[numbers],
        np.diff(bounds)[numbers],
        counts[numbers],
        first_values[numbers],
        starting[numbers],
        first_rows[numbers],
        continues[numbers],
    )


def _starting_rows(data: Bytes, levels: Ints, chunks: int, rows: int) -> tuple[Ints, Mask]:
    """Return how many rows begin in each chunk of a page, and which begin in the middle of one."""
    start, end, stride = levels[LevelColumn.INDEX : LevelColumn.STRIDE + 1].tolist()
    is_within = 0 <= start <= end <= len(data) and 2 <= stride < MAX_MEANINGS
    if not is_within or end - start != chunks * stride * 8:
        raise CorruptFile(f"a repetition index of {end - start} bytes for {chunks} chunks")
    entries = gather(data, np.array([start]), np.array([end])).view("<u8").reshape(chunks, stride)
    if entries[:, :2].max() > rows + (1 << 32):
        raise CorruptFile("a count in the repetition index is out of bounds")
    ended, unfinished = entries[:, 0].astype(np.int64), entries[:, 1] > 0
    continues = np.concatenate((np.zeros(1, np.bool_), unfinished[:-1]))
    starting = ended + unfinished - continues
    if starting.min() < 0:
        raise CorruptFile("a row of the repetition index ends before it begins")
    return starting, continues


def _wanted_items(
    data: Bytes, chunks: _Chunks, page: Ints, levels: Ints, rows: Ints
) -> tuple[Array, Array, Ints, Mask]:
    """Return the levels and the next value of each item of rows, and whether the item has it.

    Args:
        data: Bytes that have the page.
        chunks: The chunks that hold the rows.
        page: The page; see `PageColumn`.
        levels: How its levels are stored; see `LevelColumn`.
        rows: The rows, ascending and each once.
    """
    width = int(page[PageColumn.ENTRY])
    if levels[LevelColumn.REP] == levels[LevelColumn.DEF] == Stored.NONE:
        # Each row is a value. No byte tells that there are as many as the page says, so that those
        # which are not wanted take no memory.
        find_buffers(data, chunks.starts, chunks.sizes, (width,))
        none = np.zeros(len(rows), np.uint16)
        values = rows - page[PageColumn.FIRST_ROW] + levels[LevelColumn.FIRST_VALUE]
        return none, none, values, np.ones(len(rows), np.bool_)
    found = []
    for at in range(0, len(chunks.numbers), _CHUNKS_AT_ONCE):
        some = _Chunks._make(column[at : at + _CHUNKS_AT_ONCE] for column in chunks)
        rep, definition, row_of, values = _items_of(data, some, levels, width)
        is_wanted = np.isin(row_of, rows)
        check_size(_ITEM_BYTES * int(np.count_nonzero(is_wanted)))
        found.append((rep[is_wanted], definition[is_wanted], values[is_wanted]))
    rep, definition, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rep, definition, values, definition <= levels[LevelColumn.SHOWN]


def _items_of(
    data: Bytes, chunks: _Chunks, levels: Ints, width: int
) -> tuple[Array, Array, Ints, Ints]:
    """Return the repetition and definition level, the row, and the next value of each item.

    The page has levels of one kind at least.
    """
    rep, rep_width, definition, def_width = levels[LevelColumn.REP : LevelColumn.TOP].tolist()
    has_rep, has_def = rep != Stored.NONE, definition != Stored.NONE
    sizes = *[2] * (has_rep + has_def), width
    counts, begins, ends = find_buffers(data, chunks.starts, chunks.sizes, sizes)
    reps = defs = np.zeros(int(counts.sum()), np.uint16)
    if has_rep:
        reps = decode_levels(data, begins[0], ends[0], counts, (rep, rep_width))
    if has_def:
        own = int(has_rep)
        defs = decode_levels(data, begins[own], ends[own], counts, (definition, def_width))
    highest = levels[LevelColumn.HIGHEST]
    if reps.max(initial=0) > levels[LevelColumn.TOP] or defs.max(initial=0) > highest:
        raise CorruptFile("a level above the highest of the page")
    begun, shown = reps == levels[LevelColumn.TOP], defs <= levels[LevelColumn.SHOWN]
    rows, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first = 0
    for number, count in enumerate(counts.tolist()):
        own_rows, own_values = (np.cumsum(some[first : first + count]) for some in (begun, shown))
        first += count
        totals = (int(own_rows[-1]), int(own_values[-1])) if count else (0, 0)
        if totals != (chunks.rows[number], chunks.values[number]):
            raise CorruptFile("a chunk has other rows or values than the indices of the page tell")
        if count and not chunks.continues[number] and not begun[first - count]:
            raise CorruptFile("a page of lists does not begin with a new row")
        rows.append(chunks.first_rows[number] - 1 + own_rows)
        values.append(chunks.first_values[number] - shown[first - count : first] + own_values)
    return reps, defs, np.concatenate(rows), np.concatenate(values)
