"""Drawn pages of lists and structs, and levels of leaves, for the kernels that read them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from point_inputs import WrittenBytes, cut_somewhere, padded, some_rows

from lancefs.datafile.kernels.layers import LeafLevels
from lancefs.datafile.kernels.levels import LevelColumn
from lancefs.datafile.kernels.points import PageColumn, Stored

_KINDS = [Stored.FLAT, Stored.PACKED, Stored.PACKED_APART, Stored.RUNS]
_SHOWN, _HIGHEST = 1, 3
_MEANINGS = 0x4310  # of the levels from 0 to 3
_POSITIONS = [LevelColumn.INDEX, LevelColumn.INDEX_END]


@st.composite
def levels_of_rows(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `take_levels`: pages of some leaves, and rows; some are damaged."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    file, rows = WrittenBytes(draw(st.integers(0, 7))), draw(st.integers(1, 900))
    wanted = some_rows(draw, source, rows)
    pages: list[tuple[int, ...]] = []
    levels: list[tuple[int, ...]] = []
    leaves = []
    for _ in range(draw(st.integers(1, 3))):
        top, first = draw(st.integers(0, 2)), len(pages)
        cuts = np.unique(source.integers(1, rows + 1, draw(st.integers(0, 2)))).tolist()
        values = 0
        for start, end in pairwise(sorted({0, *cuts, rows})):
            page, own = _page(source, file, (start, end - start), top, values)
            pages.append(page)
            levels.append(own)
            values += own[LevelColumn.VALUES]
        leaves.append((first, len(pages) - first))
    data = np.frombuffer(bytes(file.data), np.uint8).copy()
    tables = np.array(pages, np.int64), np.array(levels, np.int64)
    _damage(draw, data, *tables)
    if len(wanted) and not draw(st.integers(0, 9)):
        wanted[-1] += draw(st.integers(-3, 3))
    return cut_somewhere(draw, file, data), *tables, np.array(leaves, np.int64), wanted


@st.composite
def levels_of_leaves(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw leaves whose levels mostly make sense: what begins no row may begin with one."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    leaves, reps, definitions = [], [], []
    has_rep, has_def = draw(st.booleans()), draw(st.booleans())
    for _ in range(draw(st.integers(0, 3))):
        kinds = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 7]), max_size=4)))
        items, lists = draw(st.integers(0, 40)), sum(kind & 1 for kind in kinds)
        rep = source.integers(0, lists + 1, items)
        rep[:1] = lists
        levels = [bool(kind & 2) + bool(kind & 4) for kind in kinds]
        first_list = next((i for i, kind in enumerate(kinds) if kind & 1), len(kinds))
        definition = source.integers(0, sum(levels) + 1, items)
        # An item that continues a list has a value.
        definition[rep == 0] = np.minimum(definition, sum(levels[:first_list]))[rep == 0]
        if draw(st.integers(0, 9)) == 0:
            definition = source.integers(0, 20, items)
        visible = int(np.count_nonzero(definition <= sum(levels[:first_list])))
        values = (visible if has_def else items) + draw(st.sampled_from([0] * 9 + [1]))
        own = has_rep and lists > 0 and draw(st.integers(0, 9)) > 0, has_def
        leaves.append(LeafLevels(items, values, kinds, *own))
        reps.append(rep)
        definitions.append(definition)
    none = [np.empty(0, np.int64)]
    rep, definition = (
        np.concatenate(none + some).astype(np.uint16) for some in (reps, definitions)
    )
    return rep if has_rep else None, definition if has_def else None, leaves


def _damage(
    draw: st.DrawFn,
    data: np.ndarray[Any, Any],
    pages: np.ndarray[Any, Any],
    levels: np.ndarray[Any, Any],
) -> None:
    """In some cases change a few bytes, where a buffer is, or what is said of levels."""
    kind, page = draw(st.integers(0, 7)), draw(st.integers(0, len(pages) - 1))
    step = st.integers(-9, 9) | st.sampled_from([-(1 << 40), 1 << 40])
    if kind == 0:
        for _ in range(draw(st.integers(1, 4))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    elif kind == 1:
        column = draw(st.integers(PageColumn.TABLE, PageColumn.CHUNKS_END))
        pages[page, column] += draw(step)
    elif kind == 2:
        levels[page, draw(st.sampled_from(_POSITIONS))] += draw(step)
    elif kind == 3:
        levels[page, draw(st.integers(LevelColumn.TOP, LevelColumn.HIGHEST))] += draw(
            st.integers(-3, 3)
        )


def _page(
    source: np.random.Generator, file: WrittenBytes, rows: tuple[int, int], top: int, values: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Write a page; return its plan, and that of its levels."""
    rep, definition = _drawn_levels(source, rows[1], top)
    rep_kind = (Stored(source.choice(_KINDS)), 2) if top else (Stored.NONE, 0)
    def_kind = (Stored(source.choice(_KINDS)), 3)
    if source.random() < 0.2:
        definition[:] = 0
        def_kind = Stored.NONE, 0
    entry, table, chunks, index = int(source.choice([2, 4])), b"", b"", b""
    shown, at, done, before = definition <= _SHOWN, 0, 0, False
    while at < len(rep):
        end = _end_of_chunk(source, shown, at)
        count = int(np.count_nonzero(shown[at:end]))
        chunk = _chunk(rep[at:end], definition[at:end], (rep_kind, def_kind), entry)
        power = 0 if end == len(rep) else count.bit_length() - 1
        table += ((len(chunk) // 8 - 1) << 4 | power).to_bytes(entry, "little")
        chunks += chunk
        begun = int(np.count_nonzero(rep[at:end] == top)) if top else 0
        goes_on = bool(top and end < len(rep) and rep[end] != top)
        ended = begun + before - goes_on
        index += b"".join(k.to_bytes(8, "little") for k in (ended, 5 * goes_on))
        at, done, before = end, done + count, goes_on
    file.borders.append(len(file.data))
    places = *file.add(table), *file.add(chunks)
    where = file.add(index)
    page = *rows, *places, entry, Stored.FLAT, 8, Stored.SKIPPED, 2, 0, 0, 0
    said = top, _SHOWN, _HIGHEST, _MEANINGS, values, done
    return page, (*where, 2, *rep_kind, *def_kind, *said)


def _drawn_levels(
    source: np.random.Generator, rows: int, top: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Draw the levels of rows, of which a few have many items."""
    if not top:
        return np.zeros(rows, "<u2"), source.integers(0, _SHOWN + 1, rows).astype("<u2")
    lengths = source.integers(1, 5, rows)
    lengths[source.random(rows) < 0.02] = 1500
    rep = source.integers(0, top, int(lengths.sum())).astype("<u2")
    rep[np.cumsum(lengths) - lengths] = top
    return rep, source.integers(0, _HIGHEST + 1, len(rep)).astype("<u2")


def _end_of_chunk(source: np.random.Generator, shown: np.ndarray[Any, Any], at: int) -> int:
    """Return where a chunk may end, of which all but the last have a power of two of values."""
    ends = np.flatnonzero(shown[at : at + 1024]) + 1
    left = len(shown) - at
    if left <= 1024 and (not len(ends) or source.random() < 0.3):
        return len(shown)
    powers = [1 << power for power in range(10) if 1 << power <= len(ends)]
    return at + int(ends[int(source.choice(powers)) - 1])


def _chunk(
    rep: np.ndarray[Any, Any],
    definition: np.ndarray[Any, Any],
    kinds: tuple[tuple[Stored, int], tuple[Stored, int]],
    entry: int,
) -> bytes:
    buffers = [
        _stored(levels, *kind)
        for levels, kind in zip((rep, definition), kinds, strict=True)
        if kind[0] != Stored.NONE
    ]
    sizes = b"".join(len(buffer).to_bytes(2, "little") for buffer in buffers)
    head = (len(rep) if buffers else 0).to_bytes(2, "little") + sizes + bytes(entry)
    return b"".join(map(padded, [head, *buffers]))


def _stored(levels: np.ndarray[Any, Any], kind: Stored, width: int) -> bytes:
    match kind:
        case Stored.FLAT:
            return levels.tobytes()
        case Stored.RUNS:
            runs = levels.tobytes()
            return len(runs).to_bytes(8, "little") + runs + bytes([1]) * len(levels)
        case Stored.PACKED:
            return (16).to_bytes(2, "little") + _packed(levels)
        case _:  # in a tail, which is plain whatever the width is
            return levels.tobytes() if len(levels) < 1024 else bytes(width * 128)


def _packed(levels: np.ndarray[Any, Any]) -> bytes:
    """Pack levels into a block, of 16 bits each; see `kernels.bitpacking`."""
    padding = np.zeros(1024 - len(levels), "<u2")
    row, lane = np.arange(16)[:, None], np.arange(64)
    order = np.array([0, 4, 2, 6, 1, 5, 3, 7])[row // 8]
    return np.concatenate((levels, padding))[order * 16 + row % 8 * 128 + lane].tobytes()
