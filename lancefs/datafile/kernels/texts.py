"""Contiguous rows of many columns of strings, in one call.

What `plain` does for values of a fixed width, of plain strings, strings that are compressed with
FSST, and indices into dictionaries. How many bytes strings have is known when they are decoded:
columns share memory with room for the bytes that they are likely to have. A column that does not
fit gets none; how many bytes it needs is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, dtype_of, empty, join_bytes
from lancefs.datafile.kernels.calls import SLACK, Call, twin_of
from lancefs.datafile.kernels.fsst import SymbolTable, decode_fsst
from lancefs.datafile.kernels.lookup import take_strings
from lancefs.datafile.kernels.pages import PageParts
from lancefs.datafile.kernels.plain import SCRATCH
from lancefs.datafile.kernels.points import (
    RUN_LENGTHS,
    PageColumn,
    Stored,
    rows_by_page,
    take_chunks,
    take_zipped,
)
from lancefs.datafile.kernels.segments import gather
from lancefs.datafile.kernels.utf8 import is_utf8
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

ALIGN = 64  # bytes, of the text of a leaf


class StringColumn(IntEnum):
    """The columns of the table of leaves.

    The first page of the leaf and its number of pages, which cover its rows; the number of the
    memory that it is written to; in this memory, where its offsets begin, and its validity behind
    them, -1 if no page of it has levels; bytes of an offset, 4 or 8; and whether the bytes have to
    be UTF-8. Leaves of one memory follow each other.
    """

    FIRST_PAGE = 0
    PAGES = 1
    MEMORY = 2
    OUT = 3
    VALIDITY = 4
    WIDTH = 5
    IS_TEXT = 6


class PageItems(NamedTuple):
    """The dictionary of a page.

    Attributes:
        offsets: The offsets of the items, from 0 (int32).
        text: The bytes of the items; those after them, as many as `SLACK`, may be read as well.
        is_utf8: Whether all items are known to be UTF-8.
    """

    offsets: Array
    text: Bytes
    is_utf8: bool


class TextParts(PageParts[PageItems | SymbolTable]):
    """Dictionaries of pages, and the symbols of FSST; None where a page has plain strings."""

    columns = 6

    def row(self, part: PageItems | SymbolTable) -> tuple[int, ...]:
        """Return what is known of a page as C takes it."""
        if isinstance(part, SymbolTable):
            return 1, _address(part.symbols), _address(part.lengths), 0, 0, 0
        longest = int(np.diff(part.offsets).max(initial=0))
        where = _address(part.offsets), _address(part.text)
        return 2, *where, len(part.offsets) - 1, longest, part.is_utf8


class TextRows(NamedTuple):
    """Rows of a leaf.

    Attributes:
        offsets: The offsets of the strings in `text`, from 0, one more than there are rows; none
            where there was no room.
        text: The bytes of the strings; None where there was no room.
        validity: A bit for each row that tells whether it is valid; None where all are.
        size: Bytes of the strings.
        nulls: Number of nulls.
        is_utf8: Whether the strings are UTF-8, or need not be. The bytes of nulls count.
    """

    offsets: Array
    text: Bytes | None
    validity: Bytes | None
    size: int
    nulls: int
    is_utf8: bool


def read_texts(
    tables: Bytes,
    data: Bytes,
    file: tuple[int, int],
    pages: Ints,
    parts: PageParts[PageItems | SymbolTable],
    leaves: Ints,
    rows: tuple[int, int],
    memories: Sequence[tuple[int, int]],
) -> tuple[list[TextRows], tuple[int, int]]:
    """Read rows of several leaves of strings.

    Args:
        tables: The chunk tables of the pages.
        data: Bytes that have the chunks of the pages.
        file: A descriptor of the open file that has the same bytes, or -1; and where they begin in
            the file.
        pages: The pages of the leaves; see `PageColumn`. The positions of tables are those in
            `tables`, but for the indices of full-zip pages; all others are those in `data`.
        parts: What else is known of the pages.
        leaves: The leaves; see `StringColumn`.
        rows: The first row, and the row after the last one.
        memories: For each memory that leaves share: where the first text begins, behind all
            offsets and validities, and the bytes of the memory. Texts begin at multiples of
            `ALIGN`, and need room for `SLACK` more bytes each.

    Returns:
        The rows of each leaf; and how many bytes were looked at, in how many places.

    Raises:
        CorruptFile: A page is damaged, or does not have a wanted row.
    """
    found, seen, at, last = [], np.zeros(2, np.int64), 0, -1
    for first, count, memory, _, validity_at, width, is_text in leaves.tolist():
        own = slice(first, first + count)
        taken = [
            _take_texts(tables, data, pages[own][page], parts.parts[own][page], some)
            for page, some in rows_by_page(pages[own], np.arange(*rows))
        ]
        text = join_bytes([np.empty(0, np.uint8), *(one.text for one in taken)])
        lengths = np.concatenate([np.empty(0, np.int64), *(one.lengths for one in taken)])
        invalid = np.concatenate([np.empty(0, np.bool_), *(one.invalid for one in taken)])
        seen += np.sum([one.looked_at for one in taken], axis=0, dtype=np.int64)
        at = memories[memory][0] if memory != last else at
        last, has_room = memory, at + len(text) + SLACK <= memories[memory][1]
        offsets = np.zeros(has_room * (len(lengths) + 1), np.int32 if width == 4 else np.int64)
        nulls, size = int(np.count_nonzero(invalid)), int(lengths.sum())
        valid = np.packbits(~invalid, bitorder="little") if nulls and validity_at >= 0 else None
        if has_room:
            np.cumsum(lengths, out=offsets[1:])
            at = (at + size + ALIGN - 1) // ALIGN * ALIGN
        is_sound = not (has_room and is_text) or is_utf8(offsets, text)
        found.append(TextRows(offsets, text if has_room else None, valid, size, nulls, is_sound))
    return found, (int(seen[0]), int(seen[1]))


class _TakenTexts(NamedTuple):
    """Strings of a page: their lengths, their bytes, which are null, and what was looked at."""

    lengths: Ints
    text: Bytes
    invalid: Mask
    looked_at: tuple[int, int]


def _take_texts(
    tables: Bytes, data: Bytes, page: Ints, part: PageItems | SymbolTable | None, rows: Ints
) -> _TakenTexts:
    """Return rows of a page."""
    if page[PageColumn.VALUES] == Stored.ZIPPED:
        spans, invalid, (size, _) = take_zipped(data, page, rows)
        return _spelled(data, spans, part, invalid, size)
    begin, end, start, stop = page[PageColumn.TABLE : PageColumn.CHUNKS_END + 1].tolist()
    if not (0 <= begin <= end <= len(tables) and 0 <= start <= stop <= len(data)):
        raise CorruptFile(f"the chunks of a page leave its {len(data)} bytes")
    is_coded = page[PageColumn.VALUES] in (Stored.PACKED, Stored.LOOKED_UP, *RUN_LENGTHS)
    if not is_coded and page[PageColumn.VALUES] != Stored.STRINGS:
        raise CorruptFile("a page of strings is stored as something else")
    if page[PageColumn.VALUES] == Stored.LOOKED_UP:
        page = page.copy()
        page[PageColumn.VALUES] = Stored.PACKED
    taken = take_chunks(tables[begin:end], data, page, rows)
    if is_coded:
        indices = taken.values.view(dtype_of(int(page[PageColumn.BITS]) // 8))
        texts = _look_up(part, indices, taken.invalid)
        return _TakenTexts(*texts, taken.invalid, (taken.looked_at[0], 2))
    spans = taken.values.view(np.int64).reshape(-1, 2)
    return _spelled(data, spans, part, taken.invalid, taken.looked_at[0])


def _spelled(
    data: Bytes, spans: Ints, part: PageItems | SymbolTable | None, invalid: Mask, size: int
) -> _TakenTexts:
    """Return strings whose bytes, or codes, begin and end at places in the data."""
    starts, ends = spans.T
    lengths, text = ends - starts, gather(data, starts, ends)
    if isinstance(part, SymbolTable):
        codes = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        offsets, text = decode_fsst(part, codes, text)
        lengths = np.diff(offsets).astype(np.int64)
    return _TakenTexts(lengths, text, invalid, (size, 2))


def _look_up(
    part: PageItems | SymbolTable | None, indices: Array, invalid: Mask
) -> tuple[Ints, Bytes]:
    """Return the lengths and the bytes of items; a null has none."""
    count = len(part.offsets) - 1 if isinstance(part, PageItems) else 0
    if not isinstance(part, PageItems) or int(indices.max(initial=0)) >= count:
        raise CorruptFile(f"an index is beyond the {count} items of a dictionary")
    offsets, text = take_strings(part.offsets, part.text, indices, ~invalid)
    return np.diff(offsets).astype(np.int64), text


@twin_of(
    read_texts, "bytes number bytes number number number ints ints ints number ints ints out out"
)
def _compiled_read_texts(
    call: Call,
    tables: Bytes,
    data: Bytes,
    file: tuple[int, int],
    pages: Ints,
    parts: PageParts[PageItems | SymbolTable],
    leaves: Ints,
    rows: tuple[int, int],
    memories: Sequence[tuple[int, int]],
) -> tuple[list[TextRows], tuple[int, int]]:
    owned = [empty(size, np.uint8) for _, size in memories]
    where = [(_address(memory), *bounds) for memory, bounds in zip(owned, memories, strict=True)]
    numbers = np.empty(4 * len(leaves) + 2, np.int64)
    scratch = empty(SCRATCH, np.uint8)
    call(
        *(tables, len(tables), data, len(data), *file),
        *(pages, parts.table, leaves, len(leaves), np.array(rows, np.int64)),
        *(np.array(where, np.int64), scratch, numbers),
    )
    count, found = rows[1] - rows[0], []
    for leaf, (nulls, start, size, is_sound) in zip(
        leaves.tolist(), numbers[:-2].reshape(-1, 4).tolist(), strict=True
    ):
        _, _, number, out, valid_at, width, _ = leaf
        memory, text, end = owned[number], None, out
        if start >= 0:
            text, end = memory[start : start + size], out + (count + 1) * width
        offsets = memory[out:end].view(np.int32 if width == 4 else np.int64)
        validity = memory[valid_at : valid_at + (count + 7) // 8] if nulls else None
        found.append(TextRows(offsets, text, validity, size, nulls, bool(is_sound)))
    return found, (int(numbers[-2]), int(numbers[-1]))


def _address(array: Array) -> int:
    return int(pa.py_buffer(array).address)
