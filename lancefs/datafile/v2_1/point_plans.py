"""How a kernel reads a few rows of leaf columns: the plans of their pages (2.1 and later).

See `page_plans` for the plan of a page. A leaf with a page that the kernel does not support has no
plan, and is read page by page.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import dictionary_items, has_offsets
from lancefs.datafile.blocks import Block, Ints, lengths_of
from lancefs.datafile.buffers import in_own_memory
from lancefs.datafile.container import ColumnPages
from lancefs.datafile.kernels.fsst import SymbolTable, parse_table
from lancefs.datafile.kernels.levels import LEVEL_POSITIONS
from lancefs.datafile.kernels.points import POSITIONS, PageColumn, Stored
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.levels import Layer
from lancefs.datafile.v2_1.packed_pages import PackedPages
from lancefs.datafile.v2_1.page_plans import (
    CODED,
    DECIMAL64,
    RECORD,
    PlannedPage,
    PointForm,
    description_of,
    joint_form,
    may_have_form,
    needs_dictionary,
    plan_page_in_file,
    point_bits,
    value_bits,
)
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, General
from lancefs.storage import ByteRange, Bytes

if TYPE_CHECKING:
    from lancefs.datafile.fields import Field
    from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip

FEW_PAGES = 8  # of a column whose plan is kept for the next file


class PageDictionary:
    """What is needed beside the plan of a page: its dictionary, symbols of FSST, or encoding.

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
            self._values, self.longest = _decode_dictionary(self.description, packed, data_type)
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
    def encoding(self) -> CompressiveEncoding:
        """How the values of the page are stored."""
        assert self.description is not None  # as for `PointForm.ENCODED`
        return self.description.layout.value_compression

    @property
    def items_encoding(self) -> CompressiveEncoding:
        """How the dictionary of the page is stored."""
        assert isinstance(self.description, MiniBlock)  # others have no dictionary
        return self.description.layout.dictionary

    @property
    def symbols(self) -> SymbolTable | None:
        """The symbols of strings that are compressed with FSST; None where they are plain."""
        if self._symbols is None:
            assert self.description is not None  # others come with their symbols
            encoding = self.description.layout.value_compression
            if encoding.WhichOneof("compression") == "fsst":
                self._symbols = parse_table(encoding.fsst.symbol_table)
        return self._symbols


# Small dictionaries by their bytes: those of categories are the same in most files of a table, and
# take longer to decode than a few rows.
_CACHE: dict[tuple[MiniBlock, bytes, pa.DataType], tuple[pa.Array, int]] = {}
_MAX_CACHED = 256
_SMALL_DICTIONARY = 16 * 1024  # bytes, decoded


def _decode_dictionary(
    description: MiniBlock, packed: Bytes, data_type: pa.DataType
) -> tuple[pa.Array, int]:
    """Return the items of a dictionary, and the bytes of the longest one if they are strings."""
    is_small = len(packed) <= _SMALL_DICTIONARY
    key = description, packed.tobytes() if is_small else b"", data_type
    cached = _CACHE.get(key) if is_small else None
    if cached is not None:
        return cached
    block = description.dictionary(packed).items
    longest = int(lengths_of(block).max(initial=0)) if has_offsets(data_type) else 0
    made = in_own_memory(dictionary_items(block, data_type)), longest
    if is_small and made[0].nbytes <= _SMALL_DICTIONARY:
        if len(_CACHE) >= _MAX_CACHED:
            _CACHE.clear()
        _CACHE[key] = made
    return made


class LevelPlan(NamedTuple):
    """What the kernel needs to know of the levels of a leaf.

    Attributes:
        pages: How the levels of each page are stored; see `kernels.levels.LevelColumn`: int64,
            shape (pages, columns).
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
        pages: The plan of each page; see `kernels.points.PageColumn`: int64, shape (pages,
            columns).
        dictionaries: The dictionary, or the symbols, of each page; empty where `form` needs none.
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
        packed: For each page, how the values of its chunks are compressed as a whole, or None;
            empty where those of no page are.
        descriptions: The description of each page, of which `dictionaries` are made.
    """

    pages: Ints
    dictionaries: Sequence[PageDictionary]
    data_type: pa.DataType
    form: PointForm
    bits: int
    has_levels: bool
    rows: int
    span: ByteRange
    is_read_once: bool = False
    levels: LevelPlan | None = None
    packed: Sequence[General | None] = ()
    descriptions: Sequence[MiniBlock | FullZip] = ()

    @property
    def values(self) -> int:
        """Number of values of all rows."""
        return self.rows if self.levels is None else self.levels.values

    @property
    def is_flat(self) -> bool:
        """Whether the pages are nothing but values of one width, so that no range is copied."""
        return bool((self.pages[:, PageColumn.VALUES] == Stored.WHOLE).all())

    @property
    def joint_form(self) -> Hashable:
        """What the plans of the same leaf in several files have in common that are read as one."""
        return self.form, self.bits, None if self.levels is None else self.levels.layers


class LeafMemory(NamedTuple):
    """Where the values of leaves that share memory are.

    Attributes:
        leaves: The leaves as the kernel takes them; see `LeafColumn`: int64, shape (leaves,
            columns).
        lengths: Bytes of the values of each leaf: int64, shape (leaves,).
        size: Bytes of the memory.
        of_vectors: Bytes of the values that are vectors, of which few rows may have many.
    """

    leaves: Ints
    lengths: Ints
    size: int
    of_vectors: int


class PlanTable:
    """The plans of several leaves of a file, as one table of pages.

    Args:
        plans: The plans, one or more.

    Attributes:
        counts: Number of pages of each leaf: int64, shape (leaves,).
        bits: Bits of each value that the kernel gives for a leaf: int64, shape (leaves,).
        has_levels: For each leaf, whether a page has definition levels: bool, shape (leaves,).
        rows: Number of rows of the longest leaf.
        span: Byte range of the file that has all pages.
        pages: The plans of the pages of the leaves, leaf by leaf: int64, shape (pages, columns).
        packed: Which pages are compressed, and how; None where none is.
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
        self.packed = PackedPages.of([(plan.packed, len(plan.pages)) for plan in plans])
        self.memories: dict[tuple[int, int, int], LeafMemory] = {}
        self._shifted: tuple[int, Ints] | None = None

    def pages_from(self, start: int) -> Ints:
        """Return the pages with positions that count from a byte of the file on.

        Those of the last start are kept, and nobody changes them.
        """
        cached = self._shifted
        if cached is None or cached[0] != start:
            shifted = self.pages.copy()
            shifted[:, POSITIONS] -= start
            shifted.flags.writeable = False
            cached = self._shifted = start, shifted
        return cached[1]

    def pages_with(self, rows: Ints) -> int:
        """Return the number of pages of the leaves that hold rows, at least one.

        Args:
            rows: int64, shape (rows,), ascending.
        """
        if len(self.pages) == len(self.plans):
            return len(self.plans)
        first = self.pages[:, PageColumn.FIRST_ROW]
        end = first + self.pages[:, PageColumn.ROWS]
        return int(np.count_nonzero(rows.searchsorted(first) < rows.searchsorted(end)))


def may_be_plain(field: Field) -> bool:
    """Whether a column may be one of `PlainColumns`, as far as its type tells."""
    return field.is_leaf and (value_bits(field.storage_type) or 0) > 0


def plan_leaf(leaf: LeafField, column: ColumnPages) -> LeafPlan | None:
    """Plan how the kernel reads a leaf; None where it does not know one of its pages.

    Pages of members of structs are supported where no struct of theirs is null.

    Args:
        leaf: The leaf.
        column: The pages of the leaf.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The layout of a page, or the type of the field, is not known.
    """
    field, structs = leaf.field, len(leaf.around)
    bits = None if field.is_outline or field.is_decimal64 else _point_bits(field)
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


def _point_bits(field: Field) -> int | None:
    """Return the bits of a value of a leaf, of which a few are read singly; see `point_bits`."""
    return RECORD if field.blob_version == 2 else point_bits(field.storage_type)


def _plan_of_leaf(leaf: LeafField, column: ColumnPages, bits: int) -> LeafPlan | None:
    plan = _plan_pages if len(column.pages) <= FEW_PAGES else _plan
    return with_dictionaries(plan(column, leaf.field.storage_type, bits, len(leaf.around)))


def with_dictionaries(plan: LeafPlan | None) -> LeafPlan | None:
    """Return a plan of pages, which other files may share, with dictionaries of its own."""
    if plan is None or not needs_dictionary(plan.form):
        return plan
    items = plan.pages[:, PageColumn.ITEMS : PageColumn.ITEMS_END + 1].tolist()
    dictionaries = [
        PageDictionary(description, (start, end))
        for description, (start, end) in zip(plan.descriptions, items, strict=True)
    ]
    return plan._replace(dictionaries=dictionaries)


def join_pages(
    column: ColumnPages,
    descriptions: Sequence[MiniBlock | FullZip],
    planned: Sequence[PlannedPage],
    data_type: pa.DataType,
    levels: LevelPlan | None = None,
) -> LeafPlan | None:
    """Return the plan of a leaf, without dictionaries; None where pages disagree on what is read.

    Args:
        column: The pages, one at least.
        descriptions: Their descriptions.
        planned: Their plans.
        data_type: The type of the values; None is returned if the pages have another one.
        levels: How lists and nulls around the values are found, if they are.
    """
    form = planned[0][0]
    for own, _, _ in planned:
        joined = joint_form(form, own)
        if joined is None:
            return None
        form = joined
    if not may_have_form(data_type, form):
        return None
    pages = np.array(
        [
            (first_row, page.rows, *places)
            for page, first_row, (_, places, _) in zip(
                column.pages, column.first_rows, planned, strict=False
            )
        ],
        np.int64,
    )
    pages.flags.writeable = False
    positions = [pages[:, POSITIONS]]
    positions += [] if levels is None else [levels.pages[:, LEVEL_POSITIONS]]
    span = min(int(own.min()) for own in positions), max(int(own.max()) for own in positions)
    has_levels = levels is None and bool(pages[:, PageColumn.LEVELS].any())
    packed = [own for _, _, own in planned]
    compressed = packed if any(one is not None for one in packed) else ()
    shape = form.bits, has_levels, column.first_rows[-1], span
    of_pages = levels, compressed, descriptions
    return LeafPlan(pages, (), data_type, form.form, *shape, False, *of_pages)


@lru_cache(maxsize=2048)  # a table that is opened again, or whose files are alike
def _plan_pages(
    column: ColumnPages, data_type: pa.DataType, bits: int, structs: int
) -> LeafPlan | None:
    return _plan(column, data_type, bits, structs)


def _plan(column: ColumnPages, data_type: pa.DataType, bits: int, structs: int) -> LeafPlan | None:
    """Plan how the kernel reads the pages of a leaf; see `plan_leaf`."""
    planned, descriptions = [], []
    for page in column.pages:
        description = description_of(page)
        if description is None:
            return None
        plan = plan_page_in_file(description, page, bits, structs)
        if plan is None:
            return None
        planned.append(plan)
        descriptions.append(description)
    return join_pages(column, descriptions, planned, data_type)
