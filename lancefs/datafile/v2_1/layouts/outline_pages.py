"""Pages of data files 2.1 or later, read as outlines or as validity.

See `datafile.outlines` and `datafile.validity`. For outlines, lengths come from different places:
in chunks from the offsets of strings, from the lengths of FSST symbols or of dictionary items; in
full-zip pages from the row index, or from the length before each value. Nulls always come from the
levels. Some pages must be fully decoded to learn lengths; the values are discarded.

For validity, the layers of a page say whether a value of it may be missing at all: where none may
be, no byte of the page is read. The levels of other mini-block pages are decoded without their
values. Pages of other layouts are decoded, and their values are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Block, FixedWidth, Ints, RowRange, lengths_of
from lancefs.datafile.outlines import LENGTHS, without_values, zeros
from lancefs.datafile.row_ranges import as_ranges, count_rows
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.fixed_size_list import items_are_valid
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks, check_rows
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.page_reader import PageReader, PageRows, UnravelledRows
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import DecodedPage, Layer, Unravelled
from lancefs.datafile.validity import VALIDITY
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes, Reads


def outlined(page: PageReader, data_type: pa.DataType) -> PageReader:
    """Return a reader of the same page that gives outlines of the rows.

    Args:
        page: Reads the values; both readers share the index of the page.
        data_type: The type of the outline.
    """
    if isinstance(page, MiniBlockPage):
        make: Callable[[Chunks], Block]
        make = _lengths if data_type == LENGTHS else partial(_zeros, data_type=data_type)
        return page.with_decoder(make)
    if isinstance(page, FullZipPage) and _is_plain(page, data_type):
        return _ZippedOutline(page, data_type)
    return _DecodedOutline(page, data_type)


def _lengths(chunks: Chunks) -> Block:
    """Return the lengths of the values of chunks, in bytes."""
    if chunks.dictionary is not None:
        items = FixedWidth(64, lengths_of(chunks.dictionary.items))
        with_lengths = chunks._replace(dictionary=chunks.dictionary._replace(items=items))
        return with_lengths.decode()
    values = registry.value_lengths(chunks.encoding, chunks.buffers, chunks.counts)
    lengths = FixedWidth(64, values)
    return lengths if chunks.wanted is None else lengths.select(as_ranges(chunks.wanted))


def _zeros(chunks: Chunks, data_type: pa.DataType) -> Block:
    """Return zeros in place of the values of chunks; items of fixed-size lists stay null."""
    if pa.types.is_fixed_size_list(data_type):  # short lists: long ones are in full-zip pages
        return without_values(chunks.decode(), data_type)
    return zeros(data_type, chunks.length)


def _is_plain(page: FullZipPage, data_type: pa.DataType) -> bool:
    """Whether the outline of a page can be read without decoding its values."""
    encoding = page.layout.value_compression
    if data_type == LENGTHS:
        is_variable = encoding.WhichOneof("compression") == "variable"
        return not page.is_fixed and is_variable and not encoding.variable.HasField("values")
    return page.is_fixed and _width(data_type) <= 8 * page.width and items_are_valid(encoding)


def _width(data_type: pa.DataType) -> int:
    """Return the bits of a value in an outline, which are no more than in the file."""
    if pa.types.is_fixed_size_list(data_type):
        return int(data_type.list_size) * _width(data_type.value_type)
    return int(data_type.bit_width)


class _ZippedOutline(FullZipPage):
    """Reads the levels and the lengths of values, without the values.

    Args:
        page: The page.
        data_type: The type of the outline.
    """

    def __init__(self, page: FullZipPage, data_type: pa.DataType) -> None:
        super().__init__(page.page, page.layout)
        self._data_type = data_type

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`; the values are not read."""
        return None

    def read(self, ranges: Sequence[RowRange]) -> Reads[DecodedPage]:
        """Read rows, ascending and disjoint, within the page."""
        has_one_level = sum(layer.levels for layer in self.layers) <= 1
        # The row index tells neither nulls of several levels nor silent control words.
        if self.is_fixed or self.top or not has_one_level or self.may_be_silent:
            return (yield from super().read(ranges))
        sizes = (yield from self.row_bounds(ranges)).sizes
        definition, lengths = None, sizes - self.word - self.width
        if self.word:  # a null row is a control word alone
            is_null = sizes == self.word
            definition = is_null.astype(np.uint16)
            lengths[is_null] = 0
        if np.any(lengths < 0):
            raise CorruptFile("rows of a full-zip page that are shorter than their lengths")
        return DecodedPage(
            FixedWidth(64, lengths), None, definition, self.layers, len(sizes)
        ).check()

    def decode_table(self, table: Bytes) -> Block:
        return zeros(self._data_type, len(table))

    def decode_at(self, data: Bytes, begin: Ints, lengths: Ints | None) -> Block:
        if lengths is None:
            return zeros(self._data_type, len(begin))
        return FixedWidth(64, np.maximum(lengths, 0))


@dataclass(frozen=True, slots=True)
class _DecodedOutline:
    """Reads a page that must be decoded for its outline, and discards the values.

    Attributes:
        page: Reads the values.
        data_type: The type of the outline.
    """

    page: PageReader
    data_type: pa.DataType

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        return self.page.unplaced

    def read(self, ranges: Sequence[RowRange]) -> Reads[PageRows]:
        """Read rows, ascending and disjoint, within the page."""
        decoded = yield from self.page.read(ranges)
        values = without_values(decoded.values, self.data_type)
        return UnravelledRows(values, decoded.unravel(), decoded.rows)


def with_validity(page: PageReader, first: int) -> PageReader:
    """Return a reader of the same page that gives the validity of the rows.

    Args:
        page: Reads the values; both readers share the index of the page.
        first: The first of the layers, innermost first, whose nulls are wanted.
    """
    if not isinstance(page, MiniBlockPage | FullZipPage):
        return outlined(page, VALIDITY)
    values = page.layout.value_compression
    has_values = not values.HasField("constant") or values.constant.HasField("value")
    if has_values and not any(layer.nullable for layer in page.layers[first:]):
        if isinstance(page, MiniBlockPage) and not page.has_rep:
            check_rows(page.description.items, page.page.rows)
        return _ValidPage(page.layers)
    if isinstance(page, MiniBlockPage):
        return page.with_decoder(_without_values)
    return outlined(page, VALIDITY)


def _without_values(chunks: Chunks) -> Block:
    return zeros(VALIDITY, chunks.length)


@dataclass(frozen=True, slots=True)
class _ValidPage:
    """Gives rows of a page that has no nulls in the layers that are wanted, without reading it.

    Attributes:
        layers: The layers of the page, innermost first.
    """

    layers: tuple[Layer, ...]

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        return None

    def read(self, ranges: Sequence[RowRange]) -> Reads[PageRows]:
        """Return rows, ascending and disjoint, within the page; lists have no items."""
        yield from ()
        rows = count_rows(ranges)
        found, slots = list[Unravelled](), rows
        for layer in reversed(self.layers):
            offsets = np.zeros(slots + 1, np.int64) if layer.is_list else None
            found.append(Unravelled(None, offsets, slots))
            slots = 0 if layer.is_list else slots
        return UnravelledRows(zeros(VALIDITY, slots), found[::-1], rows)
