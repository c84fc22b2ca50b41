"""Pages of data files 2.1 or later as outlines (see `datafile.outlines`).

What tells lengths depends on the page: the offsets of strings in chunks; the lengths of symbols and
of the items of dictionaries; the index of rows of large values, which stand in a page each behind
its levels and its length. What tells nulls are the levels, whatever the values are. The values of
all other pages are decoded, and let go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Block, FixedWidth, Ints, RowRange, lengths_of
from lancefs.datafile.outlines import LENGTHS, without_values, zeros
from lancefs.datafile.row_ranges import as_ranges
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.fixed_size_list import items_are_valid
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.page_reader import PageReader, PageRows
from lancefs.datafile.v2_1.levels import Leaf, Unravelled
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes, Steps


def outlined(page: PageReader, data_type: pa.DataType) -> PageReader:
    """Return what reads the rows of a page as an outline.

    Args:
        page: Reads the values; what it reads to find rows serves both.
        data_type: The type of the outline.
    """
    if isinstance(page, MiniBlockPage):
        make: Callable[[Chunks], Block]
        make = _lengths if data_type == LENGTHS else partial(_nothing, data_type=data_type)
        return page.making(make)
    if isinstance(page, FullZipPage) and _is_plain(page, data_type):
        return _ZippedOutline(page, data_type)
    return _Decoded(page, data_type)


def _lengths(chunks: Chunks) -> Block:
    """Return how long the values of chunks are."""
    if chunks.dictionary is not None:
        items = FixedWidth(64, lengths_of(chunks.dictionary.items))
        of_lengths = chunks._replace(dictionary=chunks.dictionary._replace(items=items))
        return of_lengths.decode()
    told = registry.value_lengths(chunks.encoding, chunks.buffers, chunks.counts)
    lengths = FixedWidth(64, told)
    return lengths if chunks.wanted is None else lengths.select(as_ranges(chunks.wanted))


def _nothing(chunks: Chunks, data_type: pa.DataType) -> Block:
    """Return nothing of the values of chunks but which items of fixed-size lists are null."""
    if pa.types.is_fixed_size_list(data_type):  # short ones: others are in full-zip pages
        return without_values(chunks.decode(), data_type)
    return zeros(data_type, chunks.length)


def _is_plain(page: FullZipPage, data_type: pa.DataType) -> bool:
    """Whether the values of a page need not be decoded to know what an outline has of them."""
    encoding = page.layout.value_compression
    if data_type == LENGTHS:
        is_variable = encoding.WhichOneof("compression") == "variable"
        return not page.is_fixed and is_variable and not encoding.variable.HasField("values")
    return page.is_fixed and _width(data_type) <= 8 * page.width and items_are_valid(encoding)


def _width(data_type: pa.DataType) -> int:
    """Return the bits of a value: in an outline they are no more than in the file."""
    if pa.types.is_fixed_size_list(data_type):
        return int(data_type.list_size) * _width(data_type.value_type)
    return int(data_type.bit_width)


class _ZippedOutline(FullZipPage):
    """Reads the levels of values, and their lengths, without them.

    Args:
        page: The page.
        data_type: The type of the outline.
    """

    def __init__(self, page: FullZipPage, data_type: pa.DataType) -> None:
        super().__init__(page.page, page.layout)
        self._data_type = data_type

    def read(self, ranges: Sequence[RowRange]) -> Steps[Leaf]:
        """Read rows, ascending and disjoint, within the page."""
        is_told = not (self.is_fixed or self.top) and sum(one.levels for one in self.layers) <= 1
        if not is_told:
            return (yield from super().read(ranges))
        bounds = yield from self.row_bounds(ranges)
        sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(rows) for rows in bounds)])
        definition, lengths = None, sizes - self.word - self.width
        if self.word:  # a row of one level is null where it has nothing else
            is_null = sizes == self.word
            definition = is_null.astype(np.uint16)
            lengths[is_null] = 0
        if np.any(lengths < 0):
            raise CorruptFile("rows of a full-zip page that are shorter than their lengths")
        return Leaf(FixedWidth(64, lengths), None, definition, self.layers, len(sizes)).check()

    def in_table(self, table: Bytes) -> Block:
        return zeros(self._data_type, len(table))

    def at_places(self, data: Bytes, begin: Ints, lengths: Ints | None) -> Block:
        if lengths is None:
            return zeros(self._data_type, len(begin))
        return FixedWidth(64, np.maximum(lengths, 0))


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Reads the values of a page, and returns what an outline has of them.

    Attributes:
        page: The page.
        data_type: The type of the outline.
    """

    page: PageReader
    data_type: pa.DataType

    def read(self, ranges: Sequence[RowRange]) -> Steps[PageRows]:
        """Read rows, ascending and disjoint, within the page."""
        read = yield from self.page.read(ranges)
        return _Rows(without_values(read.values, self.data_type), read)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a page with something else in place of their values."""

    values: Block
    read: PageRows

    @property
    def rows(self) -> int:
        return self.read.rows

    def unravel(self) -> list[Unravelled]:
        return self.read.unravel()
