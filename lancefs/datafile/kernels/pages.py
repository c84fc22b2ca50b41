"""Pages as kernels know them: where their buffers are, and how their values are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask
from lancefs.storage import Bytes

_Part = TypeVar("_Part")


class PageColumn(IntEnum):
    """The columns of the table of pages.

    The first row of the page in its leaf, and its number of rows; start and end, in the data, of
    the chunk table and of the chunks; bytes of an entry of the chunk table; how values are stored,
    and the bits of a value, an index or an offset; how definition levels are stored, and the bits
    of one that is packed apart from its width; start and end of a dictionary of strings, and its
    number of items.

    Of a full-zip page, the table is the index of rows and the chunks are the rows; the bits are
    those of the length of a string, and the width those of its level.

    Pages of data files 2.0 have no chunks; see `Stored` for what their buffers are. The entry is a
    number that is added to the end of a string that is null.
    """

    FIRST_ROW = 0
    ROWS = 1
    TABLE = 2
    TABLE_END = 3
    CHUNKS = 4
    CHUNKS_END = 5
    ENTRY = 6
    VALUES = 7
    BITS = 8
    LEVELS = 9
    WIDTH = 10
    ITEMS = 11
    ITEMS_END = 12
    ITEM_COUNT = 13


class Stored(IntEnum):
    """How values or levels are stored: not at all, plain, or as the encodings of these names."""

    NONE = 0
    FLAT = 1
    PACKED = 2  # inline bit-packing
    PACKED_APART = 3  # out-of-line bit-packing
    RUNS = 4  # of levels of two bytes or of values, and lengths of one
    LONG_RUNS = 5  # of values, and lengths of two bytes
    # Plain signed numbers of 128 bits, of which `read_plain` gives the low 64 bits: the others
    # repeat their sign, but below nulls.
    DECIMAL64 = 6
    SPLIT = 7  # byte-stream split values
    STRINGS = 8  # offsets and bytes
    LOOKED_UP = 9  # indices, bit-packed inline, into a dictionary of strings
    ZIPPED = 10  # strings of a full-zip page, each behind its level and its length
    SKIPPED = 11  # levels that are known; their width is the number of their buffers, 1 or 2
    # Pages without chunks (2.0, and vectors): values in place of chunks, and in place of a table a
    # bit for each that tells whether it is valid; strings in place of chunks, and where they end in
    # place of a table; indices from 1 on in place of a table, and in place of chunks where items
    # end, with as many bits each as the width.
    WHOLE = 12
    ENDS = 13
    INDEXED = 14


# How values in runs are stored, and the bytes of the length of a run.
RUN_LENGTHS = {Stored.RUNS: 1, Stored.LONG_RUNS: 2}

# The columns of the table of pages that are positions.
POSITIONS = [
    *range(PageColumn.TABLE, PageColumn.CHUNKS_END + 1),
    PageColumn.ITEMS,
    PageColumn.ITEMS_END,
]


class PageParts(ABC, Generic[_Part]):
    """What is known of pages beside their plans, as dictionaries.

    Args:
        pages: Number of pages.

    Attributes:
        parts: What is known of each page; None where it is nothing.
        table: The same as C takes it, with addresses.
    """

    columns: int  # of the table

    def __init__(self, pages: int) -> None:
        self.parts: list[_Part | None] = [None] * pages
        self.table = np.zeros((pages, self.columns), np.int64)

    @abstractmethod
    def row(self, part: _Part) -> tuple[int, ...]:
        """Return what is known of a page as C takes it."""

    def copy(self) -> Self:
        """Return the same, to be changed: a call in another thread may read this one."""
        other = type(self)(0)
        other.parts, other.table = list(self.parts), self.table.copy()
        return other

    def put(self, page: int, part: _Part | None) -> None:
        """Set what is known of a page."""
        self.parts[page] = part
        self.table[page] = 0 if part is None else self.row(part)


class TakenRows(NamedTuple):
    """Rows of a page.

    Attributes:
        values: The values; a boolean takes a byte.
        invalid: Which are null.
        looked_at: How many bytes were looked at, in how many places.
    """

    values: Array
    invalid: Mask
    looked_at: tuple[int, int]


def numbers_at(data: Bytes, starts: Ints, width: int) -> Ints:
    """Return unsigned numbers at places within the data; those beyond 63 bits are negative."""
    found = data[starts[:, None] + np.arange(width)]
    numbers: Ints = found.view(f"<u{width}").reshape(-1).astype(np.int64)
    return numbers
