"""Contiguous rows of many columns of plain values, in one call.

As in `points`, the chunk tables of pages are walked up to their ends. A table is looked at for
every read, so that the tables of all pages are given as bytes of their own. The chunks are read
from the file where it is open: mapped bytes are brought into memory with those around them, and
have to be given back, which takes longer than to copy them to memory that the processor has at
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, dtype_of, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.datafile.kernels.lookup import take
from lancefs.datafile.kernels.pages import PageParts
from lancefs.datafile.kernels.points import (
    RUN_LENGTHS,
    PageColumn,
    Pieces,
    Stored,
    TakenRows,
    rows_by_page,
    take_chunks,
    write_leaf,
)
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

SCRATCH = 128 * 1024  # bytes that are read from a file at once, at most; as in rows.h


class PlainColumn(IntEnum):
    """The columns of the table of leaves.

    The first page of the leaf and its number of pages, which cover its rows; the number of the
    memory that it is written to; in this memory, where its values begin, and its validity behind
    them, -1 if no page of it has levels; where its part of the memory ends; and the bits of each of
    its values, which are those of the items where pages have dictionaries.
    """

    FIRST_PAGE = 0
    PAGES = 1
    MEMORY = 2
    OUT = 3
    VALIDITY = 4
    END = 5
    BITS = 6


class ItemParts(PageParts[Array]):
    """The items of dictionaries of pages; None where values are no indices."""

    columns = 3

    def row(self, part: Array) -> tuple[int, ...]:
        """Return what is known of a page as C takes it."""
        return 1, int(pa.py_buffer(part).address), len(part)


def read_plain(
    tables: Bytes,
    data: Bytes,
    file: tuple[int, int],
    pages: Ints,
    items: PageParts[Array],
    leaves: Ints,
    rows: tuple[int, int],
    sizes: Sequence[int],
) -> tuple[list[Bytes], Ints]:
    """Read rows of several leaves.

    Args:
        tables: The chunk tables of the pages.
        data: Bytes that have the chunks of the pages.
        file: A descriptor of the open file that has the same bytes, or -1; and where they begin in
            the file.
        pages: The pages of the leaves; see `PageColumn`. The positions of tables are those in
            `tables`, all others are those in `data`.
        items: The dictionaries of those pages whose values are indices, which are packed; their
            items have as many bits as the values of the leaf.
        leaves: The leaves; see `PlainColumn`.
        rows: The first row, and the row after the last one.
        sizes: Bytes of each memory that leaves share.

    Returns:
        The memories, as `take_points` fills its output. Then the number of nulls of each leaf, and
        after them how many bytes were looked at, in how many places.

    Raises:
        CorruptFile: A page is damaged, or does not have a wanted row.
    """
    memories = [np.zeros(size, np.uint8) for size in sizes]
    nulls = np.zeros(len(leaves) + 2, np.int64)
    for number, (first, count, memory, at, validity_at, *_) in enumerate(leaves.tolist()):
        own = pages[first : first + count]
        parts = [
            _take_plain(tables, data, own[index], items.parts[first + index], some)
            for index, some in rows_by_page(own, np.arange(*rows))
        ]
        if parts:
            nulls[number] = write_leaf(parts, own, memories[memory], (at, validity_at))
            nulls[-2:] += np.sum([part.looked_at for part in parts], axis=0)
    return memories, nulls


def _take_plain(
    tables: Bytes, data: Bytes, page: Ints, items: Array | None, rows: Ints
) -> TakenRows:
    """Return rows of a page whose table is apart from its chunks."""
    begin, end, start, stop = page[PageColumn.TABLE : PageColumn.CHUNKS_END + 1].tolist()
    if not (0 <= begin <= end <= len(tables) and 0 <= start <= stop <= len(data)):
        raise CorruptFile(f"the chunks of a page leave its {len(data)} bytes")
    is_decimal64 = items is None and page[PageColumn.VALUES] == Stored.DECIMAL64
    if is_decimal64:
        page = page.copy()
        page[[PageColumn.VALUES, PageColumn.BITS]] = Stored.FLAT, 2 * page[PageColumn.BITS]
    taken = take_chunks(tables[begin:end], data, page, rows)
    values = taken.values
    if is_decimal64:
        values = _low_halves(values, taken.invalid)
    if items is not None:
        if page[PageColumn.VALUES] not in (Stored.PACKED, *RUN_LENGTHS):
            raise CorruptFile("the indices into a dictionary are neither packed nor runs")
        values = take(items, values.view(dtype_of(int(page[PageColumn.BITS]) // 8))).view(np.uint8)
    return taken._replace(values=values, looked_at=(taken.looked_at[0], 2))


def _low_halves(numbers: Array, invalid: Mask) -> Array:
    """Return the low halves of signed numbers of 128 bits, which are the numbers but for nulls."""
    low, high = numbers.view("<i8").reshape(-1, 2).T
    if np.any((high != low >> 63) & ~invalid):
        raise CorruptFile("a number takes more than 64 bits")
    return np.ascontiguousarray(low).view(np.uint8)


@twin_of(
    read_plain, "bytes number bytes number number number ints ints ints number ints ints out out"
)
def _compiled_read_plain(
    call: Call,
    tables: Bytes,
    data: Bytes,
    file: tuple[int, int],
    pages: Ints,
    items: PageParts[Array],
    leaves: Ints,
    rows: tuple[int, int],
    sizes: Sequence[int],
) -> tuple[list[Bytes], Ints]:
    memories, nulls = [empty(size, np.uint8) for size in sizes], np.empty(len(leaves) + 2, np.int64)
    scratch = empty(SCRATCH if file[0] >= 0 else 0, np.uint8)
    where = tables, len(tables), data, len(data), *file
    what = pages, items.table, leaves, len(leaves), np.array(rows, np.int64)
    call(*where, *what, Pieces(memories).addresses, scratch, nulls)
    return memories, nulls
