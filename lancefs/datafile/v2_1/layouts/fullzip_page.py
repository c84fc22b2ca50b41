"""The full-zip layout: large values, each with its levels right before it.

Docs: format/file/encoding, "Full-zip page layout". An item is a control word (its levels), then the
value. A length precedes a value of variable width; a null has neither length nor value; an
invisible item is a control word alone. For rows of variable width or with lists, a second buffer is
an index: the start of each row, and the end of the last one.

Releases from 0.36 to 4 of pylance wrote *silent* control words: where the rows of a page have no
nulls, but the batch that they are a slice of has some, each row begins with a byte of zero, while
the description says that levels take no bits. Found in files of 0.36, 0.39, 2.0 and 4.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, Ints, RowRange, gather, offsets_of
from lancefs.datafile.container import Page
from lancefs.datafile.kernels import find_items
from lancefs.datafile.kernels.items import ItemForm
from lancefs.datafile.row_ranges import RowRanges, bounds_of, connected, count_rows
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.layouts.page_segments import fetch_segments
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import DecodedPage, Level, parse_layers, visible_levels
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, FullZipLayout
from lancefs.storage import Bytes, Reads

# How much sizes of rows vary, see `Unplaced`: as those of texts.
ROW_VARIATION = 0.5
# Bytes of an index that is kept.
_MOST_KEPT = 256 * 1024


class FullZip:
    """The parsed description of full-zip pages, which opens them.

    Args:
        layout: The description.
    """

    def __init__(self, layout: FullZipLayout) -> None:
        self.layout = layout

    def __call__(self, page: Page) -> FullZipPage:
        return FullZipPage(page, self.layout)


class RowBounds(NamedTuple):
    """Where some rows of a page are.

    Attributes:
        sizes: Bytes of each row.
        starts: Where each range of rows begins in the buffer of the page.
        ends: Where each ends.
        rows: Number of rows of each range.
    """

    sizes: Ints
    starts: Ints
    ends: Ints
    rows: Ints


class FullZipPage:
    """Reads rows of one full-zip page; finds every row without reading others.

    Args:
        page: The location of the page.
        layout: The description of the page.

    Attributes:
        layers: The layers of the levels, innermost first.
        top: Number of list layers, which is the repetition level of a new row.
        visible: Highest definition level at which an item still has a value.
        word: Bytes of a control word; of values of variable width, without silent ones.
        may_be_silent: Whether there may be control words that the description does not tell of.
        is_fixed: Whether all values have the same width.
        width: Bytes of a value, or of the length before it.
        has_index: Whether a second buffer holds the starts of rows.
    """

    def __init__(self, page: Page, layout: FullZipLayout) -> None:
        self.page = page
        self.layout = layout
        self.layers = parse_layers(layout.layers)
        self.top = sum(layer.is_list for layer in self.layers)
        self.visible = visible_levels(self.layers)
        self.word = _word_size(layout.bits_rep, layout.bits_def)
        self.is_fixed = layout.WhichOneof("details") == "bits_per_value"
        self.width = _width(layout)
        has_levels = any(layer.levels for layer in self.layers)
        self.may_be_silent = has_levels and not (self.word or self.top)
        if self.may_be_silent and self.is_fixed:
            self.word = self._silent_byte_of_fixed()
        if not self.is_fixed and self.width not in (1, 2, 4, 8):
            raise CorruptFile(f"full-zip values with length prefixes of {self.width} bytes")
        if self.top and not self.word:
            raise CorruptFile("a full-zip page of lists has no levels")
        self.has_index = not self.is_fixed or layout.bits_rep > 0
        if len(page.buffers) < 1 + self.has_index:
            raise CorruptFile(f"a full-zip page of {len(page.buffers)} buffers")
        self._index: Bytes | None = None  # the starts of all rows, see `load_index`

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`; what is read of the index for some rows is not kept."""
        if not self.has_index or self._index is not None:
            return None
        return Unplaced(self.page.buffers[0], self.page.rows, ROW_VARIATION)

    def load_index(self) -> Reads[None]:
        """Read the index and keep it, unless it is long: it tells where rows are."""
        start, end = self.page.buffers[1] if self.has_index else (0, 0)
        if self._index is None and 0 < end - start <= _MOST_KEPT:
            (self._index,) = yield [(start, end)]

    def read(self, ranges: Sequence[RowRange]) -> Reads[DecodedPage]:
        """Read rows, ascending and disjoint, within the page."""
        rows = count_rows(ranges)
        base, limit = self.page.buffers[0]
        if not self.has_index:
            stride = self.word + self.width
            places = bounds_of(ranges) * stride
            _check_end(places, limit - base)
            data = yield from _fetch_joined(base, places[:, 0], places[:, 1])
            return self._decode_table(data, rows).check()
        bounds = yield from self.row_bounds(ranges)
        data, begins = yield from fetch_segments(base, bounds.starts, bounds.ends)
        offsets = offsets_of(bounds.sizes)
        # As if the bytes of the ranges followed each other, but for what was fetched between them.
        before = begins - offsets[np.cumsum(bounds.rows) - bounds.rows]
        starts = offsets[:-1] + np.repeat(before, bounds.rows)
        ends = starts + bounds.sizes
        if self.may_be_silent and not self.is_fixed:
            starts = starts + self._silent_byte(data, starts, ends)
        return self._decode_rows(data, starts, ends).check()

    def _silent_byte_of_fixed(self) -> int:
        """Return the bytes of a silent control word before values of one width: 0 or 1."""
        start, end = self.page.buffers[0] if self.page.buffers else (0, 0)
        return int(end - start == self.page.rows * (1 + self.width))

    def _silent_byte(self, data: Bytes, starts: Ints, ends: Ints) -> int:
        """Return the bytes of a silent control word before lengths: 0 or 1.

        No row is null, so that the length of the first one tells: it is that of the rest of the row
        at only one of both places, since rows are shorter than 4 GiB.
        """
        if not len(starts):
            return 0
        start, behind = int(starts[0]), 1 + self.width
        head = data[start : start + behind].tobytes()
        rest = int(ends[0]) - start - behind
        return int(head[:1] == b"\0" and int.from_bytes(head[1:], "little") == rest)

    def row_bounds(self, ranges: Sequence[RowRange]) -> Reads[RowBounds]:
        """Read where rows are; ranges that follow each other become one."""
        start, end = self.page.buffers[1]
        entries = self.page.rows + 1
        width = (end - start) // entries
        if width not in (1, 2, 4, 8) or width * entries != end - start:
            raise CorruptFile(f"a row index of {end - start} bytes for {self.page.rows} rows")
        # Ranges that follow each other share an entry.
        entries_of = connected(RowRanges(bounds_of(ranges))).bounds + np.array([0, 1])
        begins, stops = (entries_of * width).T
        if self._index is None:
            data = yield from _fetch_joined(start, begins, stops)
        else:
            data = gather(self._index, begins, stops)
        places = data.view(f"<u{width}").astype(np.int64)
        lengths = np.diff(entries_of).reshape(-1)
        lasts = np.cumsum(lengths) - 1
        is_within = np.ones(max(len(places) - 1, 0), np.bool_)
        is_within[lasts[:-1]] = False  # the steps from one range to the next
        sizes = np.diff(places)[is_within]
        if np.any(sizes < 0):
            raise CorruptFile("the row index of a full-zip page descends")
        base, limit = self.page.buffers[0]
        if np.any(places < 0) or np.any(places > limit - base):
            raise CorruptFile(f"rows lie outside of a page buffer of {limit - base} bytes")
        return RowBounds(sizes, places[lasts + 1 - lengths], places[lasts], lengths - 1)

    def _decode_table(self, data: Bytes, rows: int) -> DecodedPage:
        """Decode rows that all have the same width."""
        table = data.reshape(rows, self.word + self.width)
        words = np.ascontiguousarray(table[:, : self.word]).reshape(-1)
        rep, definition = self._levels(words, rows)
        return DecodedPage(self.decode_table(table), rep, definition, self.layers, rows)

    def _decode_rows(self, data: Bytes, starts: Ints, ends: Ints) -> DecodedPage:
        """Decode rows, each at `data[starts[i]:ends[i]]`."""
        items = find_items(data, starts, ends, self._form()) if self.top else starts
        words = gather(data, items, items + self.word)
        rep, definition = self._levels(words, len(items))
        is_visible = slice(None) if definition is None else definition <= self.visible
        visible = items[is_visible]
        lengths = None if self.is_fixed else self._lengths(data, items, definition)
        if lengths is not None and not self.top:  # `find_items` checks the items of lists
            after = np.zeros(len(items), np.int64)
            after[is_visible] = np.where(lengths < 0, 0, self.width + lengths)
            if np.any(items + self.word + after != ends):
                raise CorruptFile("a value of a full-zip page is longer or shorter than its row")
        block = self.decode_at(data, visible + self.word, lengths)
        return DecodedPage(block, rep, definition, self.layers, len(starts))

    def _form(self) -> ItemForm:
        with_value = self.visible if self.is_fixed else 0
        return ItemForm(self.word, self.layout.bits_def, with_value, self.width, self.is_fixed)

    def decode_table(self, table: Bytes) -> Block:
        """Decode values that all have the same width.

        Args:
            table: Values, of shape (values, bytes), each with its levels before it.
        """
        values = np.ascontiguousarray(table[:, self.word :]).reshape(-1)
        return self._decode_fixed(values, len(table))

    def decode_at(self, data: Bytes, begin: Ints, lengths: Ints | None) -> Block:
        """Decode values at given offsets.

        Args:
            data: Bytes that hold the values.
            begin: Offset of each value; of a value of variable width, the offset of its length.
            lengths: Bytes of each value of variable width, −1 for a null; None for values that all
                have the same width.
        """
        if lengths is not None:
            return self._decode_variable(data, begin, lengths)
        return self._decode_fixed(gather(data, begin, begin + self.width), len(begin))

    def _lengths(self, data: Bytes, items: Ints, definition: Level | None) -> Ints:
        """Return the length of each visible value, −1 for a null."""
        if definition is None:
            return self._prefixes(data, items + self.word)
        lengths = np.full(len(items), -1, np.int64)
        valid = definition == 0
        lengths[valid] = self._prefixes(data, items[valid] + self.word)
        return lengths[definition <= self.visible]

    def _prefixes(self, data: Bytes, positions: Ints) -> Ints:
        prefixes = gather(data, positions, positions + self.width)
        lengths = prefixes.view(f"<u{self.width}").astype(np.int64)
        if np.any(lengths < 0) or np.any(lengths > len(data)):
            raise CorruptFile("a value of a full-zip page is longer than the page")
        return lengths

    def _decode_variable(self, data: Bytes, begin: Ints, lengths: Ints) -> Block:
        starts = np.where(lengths < 0, begin, begin + self.width)
        ends = starts + np.maximum(lengths, 0)
        if np.any(starts[1:] < ends[:-1]) or np.any(ends[-1:] > len(data)):
            raise CorruptFile("values of a full-zip page overlap or leave it")
        values = Chunked(data, starts, ends)
        return registry.decode_variable(self.layout.value_compression, values)

    def _decode_fixed(self, data: Bytes, count: int) -> Block:
        return registry.decode_fixed(self.layout.value_compression, data, count)

    def _levels(self, words: Bytes, count: int) -> tuple[Level | None, Level | None]:
        """Split control words into repetition and definition levels."""
        if not self.word:
            return None, None
        both = words.view(f"<u{self.word}")[:count]
        bits_def = self.layout.bits_def
        rep = None
        if self.layout.bits_rep:
            rep = (both >> both.dtype.type(bits_def)).astype(np.uint16)
        mask = both.dtype.type((1 << bits_def) - 1)
        definition = (both & mask).astype(np.uint16) if bits_def else None
        return rep, definition


def _word_size(bits_rep: int, bits_def: int) -> int:
    bits = bits_rep + bits_def
    if bits_rep > 16 or bits_def > 16:
        raise CorruptFile(f"control words of {bits} bits")
    return 0 if not bits else 1 if bits <= 8 else 2 if bits <= 16 else 4


def _width(layout: FullZipLayout) -> int:
    """Return the bytes of a value, or of the length before it."""
    if layout.WhichOneof("details") != "bits_per_value":
        return _byte_width(layout.bits_per_offset)
    if not layout.bits_per_value and _is_constant(layout.value_compression):
        return 0  # releases from 0.39 to 4 write wide values like this where all are null
    return _byte_width(layout.bits_per_value)


def _is_constant(encoding: CompressiveEncoding) -> bool:
    """Whether values, or the items of fixed-size lists of any depth, take no bytes."""
    while encoding.HasField("fixed_size_list"):
        encoding = encoding.fixed_size_list.values
    return encoding.HasField("constant")


def _byte_width(bits: int) -> int:
    if bits % 8 or not bits:
        raise UnsupportedFeature(f"full-zip values of {bits} bits; only whole bytes are known")
    return int(bits) // 8


def _check_end(places: Ints, size: int) -> None:
    if places.max(initial=0) > size:
        raise CorruptFile(f"rows up to byte {places.max()} of a page buffer of {size} bytes")


def _fetch_joined(base: int, starts: Ints, ends: Ints) -> Reads[Bytes]:
    """Fetch segments of a buffer, and nothing between them; see `fetch_segments`."""
    data, begins = yield from fetch_segments(base, starts, ends)
    return gather(data, begins, begins + (ends - starts))
