"""Contiguous rows of many columns of strings of a local file (data files 2.1 and later).

The part of `PlainColumns` that reads strings: plain ones, those that are compressed with FSST, and
indices into dictionaries of pages. Dictionaries are decoded once rows of their pages are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import check_utf8, has_offsets, has_wide_offsets, is_text
from lancefs.datafile.blocks import Array, Block, Ints, VariableWidth
from lancefs.datafile.buffers import check_size, reserve, room
from lancefs.datafile.kernels import is_utf8, read_texts
from lancefs.datafile.kernels.calls import SLACK
from lancefs.datafile.kernels.fsst import SymbolTable
from lancefs.datafile.kernels.pages import PageColumn, PageParts, Stored
from lancefs.datafile.kernels.strings import LARGEST, compact_offsets, read_block
from lancefs.datafile.kernels.texts import ALIGN, PageItems, StringColumn, TextParts, TextRows
from lancefs.datafile.v2_1.cached_pages import CachedPages, PlainSource
from lancefs.datafile.v2_1.page_plans import PointForm
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.datafile.v2_1.points import KernelResult
from lancefs.errors import ArrayTooLarge, CorruptFile, MemoryLimitExceeded
from lancefs.storage import Bytes

_MAX_BYTES = 1024 * 1024  # of columns that share memory
# Bytes of a page whose codes of FSST a kernel counts with 32 bits, also where they are decoded.
_MAX_PAGE_BYTES = LARGEST // 8
_SPARE = 1 / 8  # of the bytes that texts are likely to have, for those that have more
# Bytes of texts for which there is room before they are counted: a batch may be longer than the one
# before it, whose rows were long.
_MAX_LIKELY = 64 * 1024 * 1024
_LIKELY_ITEM = 8  # bytes of an item of a dictionary before any was read


def are_read_as_texts(plan: LeafPlan) -> bool:
    """Whether `TextColumns` can read a leaf."""
    if plan.form in (PointForm.VALUES, PointForm.ENCODED) or not has_offsets(plan.data_type):
        return False
    pages = plan.pages
    sizes = pages[:, PageColumn.CHUNKS_END] - pages[:, PageColumn.CHUNKS]
    return not (sizes > _MAX_PAGE_BYTES).any()


class _TextLayout(NamedTuple):
    """Where the rows of columns are written.

    Attributes:
        leaves: The columns as the kernel takes them; see `StringColumn`: int64, shape (columns,
            numbers).
        memories: For each memory that columns share: where the first text begins, behind all
            offsets and validity, and the bytes of the memory.
    """

    leaves: Ints
    memories: Sequence[tuple[int, int]]


class TextColumns:
    """Columns of strings of a file, read at the same rows again and again.

    Args:
        plans: The plan of each, which `are_read_as_texts` passes.
        pages: Their pages, with positions within the bytes that are read.
        stored: Bytes of these pages, and of those that are read with them.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints, stored: int) -> None:
        self._plans, self._stored = tuple(plans), stored
        counts = np.array([len(plan.pages) for plan in plans], np.int64)
        self._counts, self._firsts = counts, np.cumsum(counts) - counts
        self._widths = np.array([8 if has_wide_offsets(plan.data_type) else 4 for plan in plans])
        self._are_text = np.array([is_text(plan.data_type) for plan in plans])
        self._have_levels = np.array([plan.has_levels for plan in plans])
        self._pages = pages
        self._dictionaries = _TextPages(self._plans, pages)
        self._likely = self._likely_bytes()

    @property
    def cost(self) -> int:
        """Bytes of the dictionaries that are kept."""
        return self._dictionaries.cost

    def read(self, source: PlainSource, rows: tuple[int, int]) -> KernelResult:
        """Read rows of the columns.

        Args:
            source: What they are read from.
            rows: The first row, and the row after the last one.

        Raises:
            CorruptFile: A page is damaged.
            UnsupportedFeature: A dictionary is of a kind that is not known.
            TooLarge: The rows have too many bytes, and fewer may be read; see `check_size`.
            ArrayTooLarge: They have more bytes than an array can have.
        """
        count = rows[1] - rows[0]
        parts = self._dictionaries.parts_of(source.data, rows)
        likely = (self._likely * (count * (1 + _SPARE))).astype(np.int64)
        if likely.sum() > min(_MAX_LIKELY, room(self._stored, is_whole=False)):
            likely[:] = 0  # the bytes are counted first
        found, looked_at = self._read(source, parts, rows, likely)
        sizes: Ints = np.array([one.size for one in found], np.int64)
        check_size(int(sizes.sum()), self._stored)
        too_large = np.flatnonzero([one.text is None for one in found])
        if len(too_large):
            if (sizes[self._widths == 4] > LARGEST).any():
                raise ArrayTooLarge.of("string")
            others, _ = self._read(source, parts, rows, sizes, too_large)
            for number, one in zip(too_large.tolist(), others, strict=True):
                found[number] = one
        self._likely = sizes / max(count, 1)
        arrays = [
            _make_array(one, plan.data_type, count)
            for one, plan in zip(found, self._plans, strict=True)
        ]
        return KernelResult(arrays, *looked_at)

    def _read(
        self,
        source: PlainSource,
        parts: PageParts[PageItems | SymbolTable],
        rows: tuple[int, int],
        likely: Ints,
        some: Ints | slice = slice(None),
    ) -> tuple[list[TextRows], tuple[int, int]]:
        """Call the kernel for some of the columns.

        Args:
            source: What they are read from.
            parts: The dictionaries, or the symbols, of the pages.
            rows: The rows.
            likely: Bytes of the texts of each of all columns for which there is room: int64, shape
                (columns,).
            some: Numbers of the columns that are read.
        """
        layout = self._lay_out(rows[1] - rows[0], likely[some], some)
        reserve(sum([fixed for fixed, _ in layout.memories]), self._stored)
        return read_texts(*source, parts, layout.leaves, rows, layout.memories)

    def _lay_out(self, count: int, likely: Ints, some: Ints | slice) -> _TextLayout:
        """Lay out the memory of some columns: first offsets and validity of each, then the texts.

        Args:
            count: Number of rows.
            likely: Bytes of the texts of each of the columns: int64, shape (columns,).
            some: Numbers of the columns.
        """
        widths, have_levels = self._widths[some], self._have_levels[some]
        offsets = _align((count + 1) * widths)
        fixed = offsets + _align(have_levels * ((count + 7) // 8))
        rooms = _align(likely) + ALIGN
        # A column that begins beyond a memory of `_MAX_BYTES` begins the next one.
        before = np.cumsum(fixed + rooms) - fixed - rooms
        _, memory = np.unique(before // _MAX_BYTES, return_inverse=True)
        fixed_sizes = np.bincount(memory, fixed).astype(np.int64)
        sizes = fixed_sizes + np.bincount(memory, rooms).astype(np.int64)
        first_of_memory = np.cumsum(fixed_sizes) - fixed_sizes
        starts = np.cumsum(fixed) - fixed - first_of_memory[memory]
        columns = {
            StringColumn.FIRST_PAGE: self._firsts[some],
            StringColumn.PAGES: self._counts[some],
            StringColumn.MEMORY: memory,
            StringColumn.OUT: starts,
            StringColumn.VALIDITY: np.where(have_levels, starts + offsets, -1),
            StringColumn.WIDTH: widths,
            StringColumn.IS_TEXT: self._are_text[some],
        }
        leaves = np.empty((len(widths), len(StringColumn)), np.int64)
        for number, values in columns.items():
            leaves[:, number] = values
        return _TextLayout(leaves, list(zip(fixed_sizes.tolist(), sizes.tolist(), strict=True)))

    def _likely_bytes(self) -> Array:
        """Return the bytes that a row of each column is likely to have, before any was read."""
        pages, likely = self._pages, []
        for plan, first, count in zip(self._plans, self._firsts, self._counts, strict=True):
            own = pages[first : first + count]
            stored = own[:, PageColumn.CHUNKS_END] - own[:, PageColumn.CHUNKS]
            each = stored.sum() / max(int(own[:, PageColumn.ROWS].sum()), 1)
            likely.append(2 * each if plan.form is PointForm.CODES else each + _LIKELY_ITEM)
        return np.array(likely)


class _TextPages(CachedPages[PageItems | SymbolTable]):
    """Dictionaries of pages of strings, and the symbols of FSST.

    Args:
        plans: The plan of each column.
        pages: Their pages, with positions within the bytes that are read.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints) -> None:
        super().__init__(plans, pages, TextParts(len(pages)))

    def read_part(self, page: int, data: Bytes) -> PageItems | SymbolTable | None:
        """Return the dictionary, or the symbols, of a page; see `CachedPages`."""
        leaf, number = self._places[page]
        plan = self._plans[leaf]
        if self._pages[page, PageColumn.VALUES] in (Stored.STRINGS, Stored.ZIPPED):
            symbols = plan.dictionaries[number].symbols if plan.form is PointForm.CODES else None
            return None if symbols is None or symbols.raw else symbols
        start, end, count = self._pages[page, PageColumn.ITEMS :].tolist()
        packed = data[start:end]
        if plan.form is not PointForm.INDICES:  # `Stored.LOOKED_UP`
            block: Block = VariableWidth(*read_block(packed, count))
        else:
            block = plan.dictionaries[number].block(packed)
        if not isinstance(block, VariableWidth):
            raise CorruptFile(f"values of a fixed width where {plan.data_type} was expected")
        return _page_items(block, is_text(plan.data_type))

    def bytes_of(self, part: PageItems | SymbolTable) -> int:
        """Return how many bytes a part takes: a dictionary, not symbols."""
        return len(part.text) + part.offsets.nbytes if isinstance(part, PageItems) else 0


def _page_items(block: VariableWidth, has_text: bool) -> PageItems:
    """Return the items of a dictionary as the kernel takes them."""
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    if last - first > LARGEST:
        raise MemoryLimitExceeded("a dictionary of more than 2 GiB")
    text = np.empty(last - first + SLACK, np.uint8)[: last - first]  # it outlives pools of Arrow
    text[:] = block.data[first:last]
    offsets = (block.offsets - first).astype(np.int32)
    return PageItems(offsets, text, has_text and is_utf8(compact_offsets(offsets), text))


def _make_array(found: TextRows, data_type: pa.DataType, count: int) -> pa.Array:
    validity = None if found.validity is None else pa.py_buffer(found.validity)
    buffers = [validity, pa.py_buffer(found.offsets), pa.py_buffer(found.text)]
    array = pa.Array.from_buffers(data_type, count, buffers, found.nulls)
    if not found.is_utf8:
        check_utf8(array)  # which ignores the bytes of nulls
    return array


def _align(sizes: Ints) -> Ints:
    return (sizes + ALIGN - 1) // ALIGN * ALIGN
