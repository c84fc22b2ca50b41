"""How a kernel reads a few rows of leaf columns: a plan for each page (data files 2.1 and later).

A plan is a row of numbers: where the buffers of a page are, and how its values and levels are
stored. A leaf with a page that the kernel does not know has no plan, and is read in the general
way.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import dictionary_items, has_offsets
from lancefs.datafile.blocks import Block, Ints, RowRange, lengths_of
from lancefs.datafile.buffers import in_own_memory
from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.kernels.fsst import SymbolTable, parse_table
from lancefs.datafile.kernels.points import POSITIONS, PageColumn, Stored
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.levels import Layer, parse_layers
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, FullZipLayout
from lancefs.storage import ByteRange, Bytes

if TYPE_CHECKING:
    from lancefs.datafile.fields import Field
    from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip

# Most rows that are read in this way, most bytes of the chunk table of a page, which is walked up
# to its end for every read, and the share of a column's rows above which whole pages are quicker.
MAX_ROWS = 4096
# Rows in a row of many leaves are read in this way too, as far as Python takes most of the time
# that the general way takes for each leaf.
_MAX_IN_A_ROW = 16 * 1024
_MIN_LEAVES = 16
# So are spans of rows that lie apart, such as pages of an index: of a block of packed numbers each
# at least, and of so many rows on average and in all at most that memory is used again.
_MIN_SPAN, _MAX_SPAN, _MAX_OF_SPANS = 1024, 64 * 1024, 1024 * 1024
# Rows in a row of columns that may not all be plain are read by the kernel of plain ones where they
# are more than these.
_FEW_PLAIN = 256
MAX_TABLE_BYTES = 64 * 1024
_MIN_SHARE = 4
# Rows up to which a column is read in this way also as a whole: the general way takes longer for
# each leaf than kernels for so many values.
_FEW_OF_ALL = 256
_MAX_ITEMS = 64 * 1024  # of lists, that rows are likely to have
# In place of the bits of a value: an Arrow dictionary of strings; decimals whose low 64 bits are
# given.
CODED, DECIMAL64 = -1, -2
FEW_PAGES = 8  # of a column whose plan is kept for the next file

_WIDTHS = (8, 16, 32, 64)  # bits of values that are bit-packed
_MAX_BITS = 256  # of a plain value: those of a decimal
_LEVEL_BITS = 16
DECIMAL64_BITS = 64
SPAN_BITS = 128  # the start and the end of a string


class PointForm(Enum):
    """What the kernel gives for a leaf."""

    VALUES = "values"
    STRINGS = "strings"
    CODES = "codes"  # strings that are compressed with FSST
    INDICES = "indices"  # into the dictionaries of the pages


class PagePart:
    """What is known of a page beside its plan.

    Args:
        description: The parsed description of the page; None where it has no chunks.
        items: The byte range of its dictionary, if it has one; else any.
        symbols: Symbols of FSST, if the description does not tell them.

    Attributes:
        longest: Bytes of the longest string of the dictionary.
    """

    def __init__(
        self,
        description: MiniBlock | FullZip | None,
        items: ByteRange,
        symbols: SymbolTable | None = None,
    ) -> None:
        self.description = description
        self.items = items
        self.longest = 0
        self._values: pa.Array | None = None
        self._symbols = symbols

    def values(self, data_type: pa.DataType, data: Bytes, start: int) -> pa.Array:
        """Return the items of the dictionary of the page, which is decoded once.

        Args:
            data_type: The type of the items; see `dictionary_items` for text.
            data: Bytes of the file.
            start: Where the bytes begin in the file.

        Raises:
            CorruptFile: The dictionary is damaged.
        """
        if self._values is None:
            begin, end = self.items
            assert isinstance(self.description, MiniBlock)  # others have no dictionary
            # A copy, as what is decoded may be a part of it, and outlives the memory of the file.
            packed = data[begin - start : end - start].copy()
            self._values, self.longest = _decoded(self.description, packed, data_type)
        return self._values

    def block(self, packed: Bytes) -> Block:
        """Decode the dictionary of the page, which is not kept.

        Args:
            packed: The bytes of the dictionary.

        Raises:
            CorruptFile: The dictionary is damaged.
            UnsupportedFeature: It is stored in a way that is not known.
        """
        assert isinstance(self.description, MiniBlock)  # others have no dictionary
        return self.description.dictionary(packed).items

    @property
    def cached_bytes(self) -> int:
        """Bytes of the dictionary, if it was decoded."""
        return 0 if self._values is None else int(self._values.nbytes)

    @property
    def items_encoding(self) -> CompressiveEncoding:
        """How the dictionary of the page is stored."""
        assert isinstance(self.description, MiniBlock)  # others have no dictionary
        return self.description.layout.dictionary

    @property
    def symbols(self) -> SymbolTable:
        """The symbols of strings that are compressed with FSST."""
        if self._symbols is None:
            assert self.description is not None  # others come with their symbols
            encoding = self.description.layout.value_compression
            self._symbols = parse_table(encoding.fsst.symbol_table)
        return self._symbols


# Small dictionaries by their bytes: those of categories are the same in most files of a table, and
# take longer to decode than a few rows.
_KNOWN: dict[tuple[MiniBlock, bytes, pa.DataType], tuple[pa.Array, int]] = {}
_MAX_KNOWN = 256
_SMALL_DICTIONARY = 16 * 1024  # bytes, decoded


def _decoded(description: MiniBlock, packed: Bytes, data_type: pa.DataType) -> tuple[pa.Array, int]:
    """Return the items of a dictionary, and the bytes of the longest one if they are strings."""
    is_small = len(packed) <= _SMALL_DICTIONARY
    key = description, packed.tobytes() if is_small else b"", data_type
    known = _KNOWN.get(key) if is_small else None
    if known is not None:
        return known
    block = description.dictionary(packed).items
    longest = int(lengths_of(block).max(initial=0)) if has_offsets(data_type) else 0
    made = in_own_memory(dictionary_items(block, data_type)), longest
    if is_small and made[0].nbytes <= _SMALL_DICTIONARY:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = made
    return made


class LevelPlan(NamedTuple):
    """What the kernel needs to know of the levels of a leaf.

    Attributes:
        pages: How the levels of each page are stored; see `kernels.levels.LevelColumn`.
        layers: The layers of the levels that it gives, innermost first.
        has_lists: Whether one of them is a list.
        is_defined: Whether a page has definition levels.
        values: Number of values of all pages.
    """

    pages: Ints
    layers: tuple[Layer, ...]
    has_lists: bool
    is_defined: bool
    values: int


class LeafPlan(NamedTuple):
    """What the kernel needs to know of a leaf, and what becomes of what it gives.

    Attributes:
        pages: The plan of each page; see `kernels.points.PageColumn`.
        parts: What else is known of each page.
        data_type: The Arrow type of the values.
        form: What the kernel gives.
        bits: Bits of each value that it gives.
        has_levels: Whether a page has definition levels.
        rows: Number of rows.
        span: Start of the first and end of the last buffer.
        is_read_once: Whether the pages are those of many files, and what is decoded of one is not
            kept for the next read.
        levels: How lists and nulls around the values are found; None where every row is a value,
            and no struct around it is null.
    """

    pages: Ints
    parts: Sequence[PagePart]
    data_type: pa.DataType
    form: PointForm
    bits: int
    has_levels: bool
    rows: int
    span: ByteRange
    is_read_once: bool = False
    levels: LevelPlan | None = None

    @property
    def values(self) -> int:
        """Number of values of all rows."""
        return self.rows if self.levels is None else self.levels.values


class LeafMemory(NamedTuple):
    """Where the values of leaves that share memory are.

    Attributes:
        leaves: The leaves as the kernel takes them; see `LeafColumn`.
        lengths: Bytes of the values of each leaf.
        size: Bytes of the memory.
    """

    leaves: Ints
    lengths: Ints
    size: int


class PlanTable:
    """The plans of several leaves of a file, as one table of pages.

    Args:
        plans: The plans, one or more.

    Attributes:
        counts: Number of pages of each leaf.
        bits: Bits of each value that the kernel gives for a leaf.
        has_levels: For each leaf, whether a page has definition levels.
        rows: Number of rows of the longest leaf.
        span: Byte range of the file that has all pages.
        pages: The pages of the leaves, leaf by leaf.
        memories: Where the values of some leaves are, by the positions of the leaves and the number
            of rows, as far as that is kept.
    """

    def __init__(self, plans: Sequence[LeafPlan]) -> None:
        self.plans = tuple(plans)
        self.counts = np.array([len(plan.pages) for plan in plans], np.int64)
        self.bits = np.array([plan.bits for plan in plans], np.int64)
        self.has_levels = np.array([plan.has_levels for plan in plans], np.bool_)
        self.rows = max([plan.rows for plan in plans])
        self.span = min([plan.span[0] for plan in plans]), max([plan.span[1] for plan in plans])
        self.pages = np.concatenate([plan.pages for plan in plans])
        self.memories: dict[tuple[int, int, int], LeafMemory] = {}
        self._shifted: tuple[int, Ints] | None = None

    def pages_from(self, start: int) -> Ints:
        """Return the pages with positions that count from a byte of the file on.

        Those of the last start are kept, and nobody changes them.
        """
        known = self._shifted
        if known is None or known[0] != start:
            shifted = self.pages.copy()
            shifted[:, POSITIONS] -= start
            shifted.flags.writeable = False
            known = self._shifted = start, shifted
        return known[1]

    def pages_with(self, rows: Ints) -> int:
        """Return the number of pages of the leaves that hold rows, at least one."""
        if len(self.pages) == len(self.plans):
            return len(self.plans)
        first = self.pages[:, PageColumn.FIRST_ROW]
        end = first + self.pages[:, PageColumn.ROWS]
        return int(np.count_nonzero(rows.searchsorted(first) < rows.searchsorted(end)))


# The form of the values of a page and the bits of each; and the columns of its plan from
# `PageColumn.TABLE` on.
_PlannedPage: TypeAlias = tuple[tuple[PointForm, int], tuple[int, ...]]


class _ValuePlan(NamedTuple):
    """How the values of a page are stored, and what the kernel gives for them."""

    form: PointForm
    bits: int
    stored: Stored
    stored_bits: int


class PagePlan(NamedTuple):
    """What the description of a page tells.

    Attributes:
        form: What the kernel gives, and the bits of each value; equal for all pages of a leaf.
        stored: The columns of the plan from `PageColumn.ENTRY` to `WIDTH`.
        items: Number of items of the dictionary.
    """

    form: tuple[PointForm, int]
    stored: tuple[int, ...]
    items: int


def plan_leaf(leaf: LeafField, column: ColumnPages) -> LeafPlan | None:
    """Plan how the kernel reads a leaf; None where it does not know one of its pages.

    Pages of members of structs are known where no struct of theirs is null.

    Args:
        leaf: The leaf.
        column: The pages of the leaf.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The layout of a page, or the type of the field, is not known.
    """
    field, structs = leaf.field, len(leaf.around)
    bits = None if field.is_outline or field.is_decimal64 else value_bits(field.storage_type)
    if bits is None or not column.pages:
        return None
    if structs and any(around.logical_type != "struct" for around in leaf.around):
        return None
    return _plan_of_leaf(leaf, column, bits)


def plan_plain(leaf: LeafField, column: ColumnPages) -> LeafPlan | None:
    """Plan how `PlainColumns` reads what no other kernel does; see `plan_leaf`.

    Decimals in 64 bits, and columns with dictionaries as these.
    """
    if leaf.around or not column.pages:
        return None
    return _plan_of_leaf(leaf, column, DECIMAL64 if leaf.field.is_decimal64 else CODED)


def _plan_of_leaf(leaf: LeafField, column: ColumnPages, bits: int) -> LeafPlan | None:
    plan = _plan_pages if len(column.pages) <= FEW_PAGES else _plan
    known = plan(column, bits, len(leaf.around))
    if known is None:
        return None
    parts = [
        PagePart(description, items)
        for description, items in zip(known.descriptions, known.items, strict=True)
    ]
    form, rows = known.form, column.first_rows[-1]
    return LeafPlan(
        known.pages, parts, leaf.field.storage_type, *form, known.has_levels, rows, known.span
    )


class _LeafPages(NamedTuple):
    """What the descriptions of the pages of a leaf tell, and nothing that was read of the pages.

    Attributes:
        pages: The plan of each page.
        form: What the kernel gives, and the bits of each value.
        has_levels: Whether a page has definition levels.
        span: Start of the first and end of the last buffer.
        descriptions: Of the pages whose values need more than their plan; see `has_parts`.
        items: Byte ranges of the dictionaries of these pages.
    """

    pages: Ints
    form: tuple[PointForm, int]
    has_levels: bool
    span: ByteRange
    descriptions: Sequence[MiniBlock | FullZip]
    items: Sequence[ByteRange]


@lru_cache(maxsize=2048)  # a table that is opened again, or whose files are alike
def _plan_pages(column: ColumnPages, bits: int, structs: int) -> _LeafPages | None:
    return _plan(column, bits, structs)


def _plan(column: ColumnPages, bits: int, structs: int) -> _LeafPages | None:
    """Plan how the kernel reads the pages of a leaf; see `plan_leaf`."""
    plans, descriptions, form = [], [], None
    for page, first_row in zip(column.pages, column.first_rows, strict=False):
        description = description_of(page)
        if description is None:
            return None
        plan = _plan_of(description, page, bits, structs)
        if plan is None or (form is not None and plan[0] != form):
            return None
        form = plan[0]
        plans.append((first_row, page.rows, *plan[1]))
        descriptions.append(description)
    assert form is not None
    pages = np.array(plans, np.int64)
    pages.flags.writeable = False
    positions = pages[:, POSITIONS]
    span = int(positions.min()), int(positions.max())
    needed = descriptions if has_parts(form[0]) else []
    items = [(plan[PageColumn.ITEMS], plan[PageColumn.ITEMS_END]) for plan in plans[: len(needed)]]
    has_levels = any(plan[PageColumn.LEVELS] for plan in plans)
    return _LeafPages(pages, form, has_levels, span, needed, items)


def description_of(page: Page) -> MiniBlock | FullZip | None:
    """Return the description of a page; None for a layout that the kernel does not know."""
    description = layout_of(page.encoding)
    if isinstance(description, MiniBlock):
        return description
    if isinstance(description, partial):  # of constant pages, which come without full-zip ones
        return None
    from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip

    return description if isinstance(description, FullZip) else None


def _plan_of(
    description: MiniBlock | FullZip, page: Page, bits: int, structs: int
) -> _PlannedPage | None:
    """Plan how the kernel reads a page; None where it does not know it."""
    if isinstance(description, MiniBlock):
        return _plan_chunks(description, page, bits, structs)
    return None if bits else _plan_zipped(description.layout, page, structs)


def _plan_chunks(
    description: MiniBlock, page: Page, bits: int, structs: int
) -> _PlannedPage | None:
    plan = plan_page(description, bits, structs)
    if plan is None or description.items != page.rows:
        return None
    description.check_buffers(page)
    table, chunks = page.buffers[:2]
    items = page.buffers[2] if description.has_dictionary else chunks
    if table[1] - table[0] > MAX_TABLE_BYTES:
        return None
    return plan.form, (*table, *chunks, *plan.stored, *items, plan.items)


def _plan_zipped(layout: FullZipLayout, page: Page, structs: int) -> _PlannedPage | None:
    """Plan how the kernel reads a full-zip page of strings."""
    if len(page.buffers) < 2:
        return None
    rows, index = page.buffers[:2]
    layers, width = parse_layers(layout.layers), (index[1] - index[0]) // (page.rows + 1)
    has_levels = layout.bits_def > 0
    if layout.bits_rep or not _are_known(layers, structs, has_levels):
        return None
    if layout.bits_def > _LEVEL_BITS:
        return None
    form, encoding = PointForm.STRINGS, layout.value_compression
    if encoding.WhichOneof("compression") == "fsst":
        form, encoding = PointForm.CODES, encoding.fsst.values
    if _offset_bits(encoding) is None or layout.bits_per_offset not in _WIDTHS:
        return None
    if width not in (1, 2, 4, 8) or width * (page.rows + 1) != index[1] - index[0]:
        return None
    levels = (Stored.FLAT, layout.bits_def) if has_levels else (Stored.NONE, 0)
    stored = width, Stored.ZIPPED, layout.bits_per_offset, *levels
    return (form, SPAN_BITS), (*index, *rows, *stored, *rows, 0)


@lru_cache(maxsize=256)
def value_bits(data_type: pa.DataType) -> int | None:
    """Return the bits of a value of a leaf; None where a kernel reads no such leaf.

    They are 0 for strings, and `CODED` for an Arrow dictionary of strings.

    Args:
        data_type: The type of a field that is no outline.
    """
    if pa.types.is_nested(data_type):
        return None
    if pa.types.is_dictionary(data_type):
        return CODED if has_offsets(data_type.value_type) else None
    try:
        bits = int(data_type.bit_width)
    except ValueError:  # a type of variable width
        return 0 if has_offsets(data_type) else None
    return bits if 0 < bits <= _MAX_BITS else None


def has_parts(form: PointForm) -> bool:
    """Whether values of a form need more of each page than its plan."""
    return form in (PointForm.CODES, PointForm.INDICES)


@lru_cache(maxsize=256)  # pages of equal descriptions share one object
def plan_page(description: MiniBlock, bits: int, structs: int) -> PagePlan | None:
    """Return what a description tells; None where the kernel does not know such pages.

    Args:
        description: The description.
        bits: Bits of a value; see `value_bits`.
        structs: Number of structs around the values.
    """
    values, levels = plan_values(description, bits), _plan_levels(description, structs)
    if values is None or levels is None:
        return None
    stored = description.width, values.stored, values.stored_bits, *levels
    return PagePlan((values.form, values.bits), stored, description.dictionary_items)


def plan_values(description: MiniBlock, bits: int) -> _ValuePlan | None:
    """Return how values are stored; None where the kernel does not know it.

    Args:
        description: The description of the page.
        bits: Bits of a value; see `value_bits`.
    """
    if description.buffers != 1 or (bits == CODED and not description.has_dictionary):
        return None
    encoding = description.layout.value_compression
    if description.has_dictionary:
        return _plan_indices(encoding, description.layout.dictionary, bits)
    if bits == DECIMAL64:
        is_plain = _flat_bits(encoding) == 2 * DECIMAL64_BITS
        plan = PointForm.VALUES, DECIMAL64_BITS, Stored.DECIMAL64, DECIMAL64_BITS
        return _ValuePlan(*plan) if is_plain else None
    if bits:
        stored = _stored_as(encoding, bits)
        return None if stored is None else _ValuePlan(PointForm.VALUES, bits, stored, bits)
    form = PointForm.STRINGS
    if encoding.WhichOneof("compression") == "fsst":
        form, encoding = PointForm.CODES, encoding.fsst.values
    width = _offset_bits(encoding)
    return None if width is None else _ValuePlan(form, SPAN_BITS, Stored.STRINGS, width)


def _plan_indices(
    encoding: CompressiveEncoding, items: CompressiveEncoding, bits: int
) -> _ValuePlan | None:
    width = int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    if width not in _WIDTHS or _stored_as(encoding, width) is not Stored.PACKED:
        return None
    if not bits and _offset_bits(items) is not None:
        return _ValuePlan(PointForm.STRINGS, SPAN_BITS, Stored.LOOKED_UP, width)
    return _ValuePlan(PointForm.INDICES, width, Stored.PACKED, width)


def _are_known(layers: Sequence[Layer], structs: int, has_levels: bool) -> bool:
    """Whether a page has no lists and no null structs, so that its levels tell nulls of values."""
    if len(layers) != 1 + structs or any(layer.is_list for layer in layers):
        return False
    own, *around = layers
    return not has_levels or (own.nullable and not any(layer.nullable for layer in around))


def _plan_levels(description: MiniBlock, structs: int) -> tuple[int, int] | None:
    """Return how levels are stored, and the bits of a level that is packed apart from its width."""
    if description.has_rep or not _are_known(description.layers, structs, description.has_def):
        return None
    if not description.has_def:
        return Stored.NONE, 0
    return stored_levels(description.layout.def_compression)


def stored_levels(encoding: CompressiveEncoding) -> tuple[int, int] | None:
    """Return how levels are stored, and the bits of a level that is packed apart from its width.

    Args:
        encoding: The encoding of repetition or definition levels.

    Returns:
        None where the kernel does not know it.
    """
    match encoding.WhichOneof("compression"):
        case "flat" | "inline_bitpacking":
            stored = _stored_as(encoding, _LEVEL_BITS)
            return None if stored is None else (stored, 0)
        case "out_of_line_bitpacking":
            packed = encoding.out_of_line_bitpacking
            width = _flat_bits(packed.values) or 0
            is_known = packed.uncompressed_bits_per_value == _LEVEL_BITS
            return (Stored.PACKED_APART, width) if is_known and 0 < width <= _LEVEL_BITS else None
        case "rle":
            widths = _flat_bits(encoding.rle.values), _flat_bits(encoding.rle.run_lengths)
            return (Stored.RUNS, 0) if widths == (_LEVEL_BITS, 8) else None
        case _:
            return None


def _stored_as(encoding: CompressiveEncoding, bits: int) -> Stored | None:
    """Return how values of so many bits are stored, if they are plain or bit-packed."""
    match encoding.WhichOneof("compression"):
        case "flat":
            is_known = _flat_bits(encoding) == bits and (bits == 1 or bits % 8 == 0)
            return Stored.FLAT if is_known else None
        case "inline_bitpacking" if not encoding.inline_bitpacking.HasField("values"):
            packed = encoding.inline_bitpacking.uncompressed_bits_per_value
            return Stored.PACKED if packed == bits and bits in _WIDTHS else None
        case _:
            return None


def _offset_bits(encoding: CompressiveEncoding) -> int | None:
    """Return the bits of the offsets of plain strings; None for any other encoding."""
    if encoding.WhichOneof("compression") != "variable" or encoding.variable.HasField("values"):
        return None
    bits = _flat_bits(encoding.variable.offsets)
    return bits if bits in (32, 64) else None


def _flat_bits(encoding: CompressiveEncoding) -> int | None:
    """Return the bits of plain values; None for any other encoding."""
    if encoding.WhichOneof("compression") != "flat" or encoding.flat.HasField("data"):
        return None
    return int(encoding.flat.bits_per_value)


def is_worthwhile(count: int, rows: int, values: int, most: int = MAX_ROWS) -> bool:
    """Whether rows are few enough to be read singly.

    Args:
        count: Number of wanted rows.
        rows: Number of rows of the column.
        values: Number of values of these, which are the items where the column has lists.
        most: Rows that are read in this way at most; see `most_rows`.
    """
    is_few = 0 < count <= min(most, max(rows // _MIN_SHARE, _FEW_OF_ALL))
    return is_few and count * values // rows <= max(most, _MAX_ITEMS)


def most_rows(ranges: Sequence[RowRange]) -> int:
    """Return how many rows in some ranges are read by the kernel at most.

    Rows that follow each other are unpacked a block at a time, and the general way takes some
    hundred microseconds for each range.
    """
    if len(ranges) < 2 or count_rows(ranges) < _MIN_SPAN * len(ranges):
        return MAX_ROWS
    return min(_MAX_SPAN * len(ranges), _MAX_OF_SPANS)


def are_in_a_row(leaves: int, ranges: Sequence[RowRange]) -> bool:
    """Whether rows of so many leaves are quicker read by the kernel as they follow each other."""
    return leaves >= _MIN_LEAVES and len(ranges) == 1 and 0 < count_rows(ranges) <= _MAX_IN_A_ROW


def may_be_plain(field: Field) -> bool:
    """Whether a column may be one of `PlainColumns`, as far as its type tells."""
    return field.is_leaf and (value_bits(field.storage_type) or 0) > 0


def are_plainly_read(are_numbers: bool, ranges: Sequence[RowRange]) -> bool:
    """Whether rows of plain columns are quicker read by a kernel of theirs; see `PlainColumns`.

    Args:
        are_numbers: Whether all columns may be plain. Few rows of others beside them are quicker
            read with them, by one call of another kernel.
        ranges: The rows.
    """
    count = count_rows(ranges) if len(ranges) == 1 else 0
    return count > (0 if are_numbers else _FEW_PLAIN)
