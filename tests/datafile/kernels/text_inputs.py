"""Drawn pages of strings, and rows of them, for the kernel that reads columns of strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from point_inputs import LEVELS, WrittenBytes, damage, pages_of_leaf, range_of

from lancefs.datafile.kernels.calls import SLACK
from lancefs.datafile.kernels.fsst import SymbolTable
from lancefs.datafile.kernels.points import RUN_LENGTHS, Stored
from lancefs.datafile.kernels.texts import PageItems, TextParts

_VALUES = [Stored.STRINGS, Stored.PACKED, *RUN_LENGTHS, Stored.LOOKED_UP, Stored.ZIPPED]
_STRINGS = (Stored.STRINGS, Stored.ZIPPED)
_ROOMS = [0, 100, 5000, 500_000]


@st.composite
def rows_of_text_pages(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `read_texts`: pages of some leaves, and a range of rows."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    file, rows = WrittenBytes(draw(st.integers(0, 7))), draw(st.integers(1, 3000))
    start, stop = range_of(draw, rows)
    pages: list[tuple[int, ...]] = []
    parts: list[PageItems | SymbolTable | None] = []
    leaves, fixed = [], [0]
    for _ in range(draw(st.integers(1, 4))):
        values, levels = draw(st.sampled_from(_VALUES)), Stored(draw(st.sampled_from(LEVELS[:-1])))
        first, width = len(pages), draw(st.sampled_from([4, 8]))
        bits = draw(st.sampled_from([32, 64] if values in _STRINGS else [8, 16, 32]))
        pages += pages_of_leaf(draw, source, file, rows, (values, bits), levels)
        parts += [_part(draw, source, values) for _ in pages[first:]]
        if fixed[-1] and draw(st.booleans()):
            fixed.append(0)
        out = fixed[-1]
        validity = out + _aligned((stop - start + 1) * width)
        fixed[-1] = validity + _aligned((stop - start + 7) // 8)
        shown = validity if levels is not Stored.NONE else -1
        is_text = int(draw(st.booleans()))
        leaves.append((first, len(pages) - first, len(fixed) - 1, out, shown, width, is_text))
    data, table = np.frombuffer(bytes(file.data), np.uint8).copy(), np.array(pages, np.int64)
    damage(draw, data, table)
    memories = [(size, size + draw(st.sampled_from(_ROOMS))) for size in fixed]
    known = TextParts(len(pages))
    for page, part in enumerate(parts):
        known.put(page, part)
    wanted = start, stop
    return data, data, (-1, 0), table, known, np.array(leaves, np.int64), wanted, memories


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def _part(
    draw: st.DrawFn, source: np.random.Generator, values: Stored
) -> PageItems | SymbolTable | None:
    if not draw(st.integers(0, 15)):  # of another kind than the values need, or too small
        return draw(st.sampled_from([None, _symbols(source, 3), _items(source, 1, 5)]))
    if values in _STRINGS:
        return draw(st.sampled_from([None, _symbols(source, 255), _symbols(source, 250)]))
    longest = draw(st.sampled_from([0, 1, 16, 32, 90]))
    return _items(source, draw(st.sampled_from([1, 300, 1 << 16])), longest)


def _symbols(source: np.random.Generator, count: int) -> SymbolTable:
    symbols, lengths = np.zeros((256, 8), np.uint8), np.zeros(256, np.uint8)
    symbols[:count] = source.integers(0, 128, (count, 8))
    lengths[:count] = source.integers(1, 9, count)
    return SymbolTable(symbols, lengths, raw=False)


def _items(source: np.random.Generator, count: int, longest: int) -> PageItems:
    lengths = source.integers(0, longest + 1, count)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    is_ascii = bool(source.integers(0, 2))
    text = source.integers(0, 128 if is_ascii else 256, offsets[-1] + SLACK).astype(np.uint8)
    return PageItems(offsets, text[: offsets[-1]], is_ascii)
