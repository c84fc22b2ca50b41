"""How a kernel reads a page: a plan, made of the description of the page (2.1 and later).

A plan is a row of numbers: where the buffers of a page are, and how its values and levels are
stored; see `kernels.points.PageColumn`. A page that the kernel does not support has no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from lancefs.datafile.arrays import has_offsets
from lancefs.datafile.container import Page
from lancefs.datafile.kernels.points import Stored
from lancefs.datafile.logical_types import bit_width
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.levels import Layer, parse_layers
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, FullZipLayout, General

if TYPE_CHECKING:
    from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip, FullZipPage

# Most bytes of the chunk table of a page, which is walked up to its end for every read.
MAX_TABLE_BYTES = 64 * 1024
# In place of the bits of a value: an Arrow dictionary of strings; decimals whose low 64 bits are
# given; structs of variable width.
CODED, DECIMAL64, RECORD = -1, -2, -3
DECIMAL64_BITS = 64
SPAN_BITS = 128  # the start and the end of a string

_WIDTHS = (8, 16, 32, 64)  # bits of values that are bit-packed
MAX_BITS = 256  # of a plain value: those of a decimal
_MAX_SPLIT_BITS = 128  # of a byte-stream split value
_LEVEL_BITS = 16


class PointForm(Enum):
    """What the kernel gives for a leaf."""

    VALUES = "values"
    STRINGS = "strings"
    CODES = "codes"  # strings that are compressed with FSST
    INDICES = "indices"  # into the dictionaries of the pages
    ENCODED = "encoded"  # values that are encoded one by one, such as texts of a zstd frame each


class ValueForm(NamedTuple):
    """What the kernel gives for the values of a leaf, whose pages must agree on it.

    Attributes:
        form: Of what kind the values are.
        bits: Bits of each.
        dimension: Numbers of each where they are stored as vectors; 0 where they are not.
    """

    form: PointForm
    bits: int
    dimension: int = 0


# The form of the values of a page; the columns of its plan from `PageColumn.TABLE` on; and how the
# values of its chunks are compressed as a whole, if they are.
PlannedPage: TypeAlias = tuple[ValueForm, tuple[int, ...], General | None]


class _ValuePlan(NamedTuple):
    """How the values of a page are stored, and what the kernel gives for them.

    `packed` tells how the values of chunks are compressed before that; None where they are not.
    """

    form: PointForm
    bits: int
    stored: Stored
    stored_bits: int
    packed: General | None = None
    dimension: int = 0

    @property
    def value_form(self) -> ValueForm:
        return ValueForm(self.form, self.bits, self.dimension)


class PagePlan(NamedTuple):
    """What the description of a page tells.

    Attributes:
        form: What the kernel gives; equal for all pages of a leaf.
        stored: The columns of the plan from `PageColumn.ENTRY` to `WIDTH`.
        packed: How the values of a chunk are compressed as a whole; None where they are not.
        levels: The columns of the plan of levels from `LevelColumn.STRIDE` to `MEANINGS`; none
            where the levels are those of values only.
    """

    form: ValueForm
    stored: tuple[int, ...]
    packed: General | None
    levels: tuple[int, ...] = ()


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
    bits = bit_width(data_type)
    if bits is None:
        return 0 if has_offsets(data_type) else None
    return bits if 0 < bits <= MAX_BITS else None


@lru_cache(maxsize=256)
def point_bits(data_type: pa.DataType) -> int | None:
    """Return the bits of a value of which a few are read singly; see `value_bits`.

    A vector of numbers is such a value too: its numbers lie one behind the other.

    Args:
        data_type: The type of a field that is no outline.
    """
    if not pa.types.is_fixed_size_list(data_type):
        return value_bits(data_type)
    kind = data_type.value_type
    if not pa.types.is_primitive(kind) or kind.bit_width % 8:
        return None
    return data_type.list_size * int(kind.bit_width) or None


def may_have_form(data_type: pa.DataType, form: ValueForm) -> bool:
    """Whether the values of a leaf are read in a form.

    No vectors are looked up in dictionaries, and pages of vectors have those of no other type: of
    another number of items of other bits, they may take as many bytes.
    """
    if not pa.types.is_fixed_size_list(data_type):
        return form.dimension == 0
    return form.form is PointForm.VALUES and form.dimension == data_type.list_size


def joint_form(one: ValueForm, other: ValueForm) -> ValueForm | None:
    """Return the form of pages of two forms; None where a leaf cannot have both.

    Lance compresses strings with FSST in pages of 32 KB or more, which the last one may not have:
    plain strings are codes without symbols.
    """
    if one == other:
        return one
    if {one.form, other.form} == {PointForm.CODES, PointForm.STRINGS}:
        return ValueForm(PointForm.CODES, SPAN_BITS)
    return None


def needs_dictionary(form: PointForm) -> bool:
    """Whether a kernel needs a `PageDictionary` of each page for values of a form."""
    return form in (PointForm.CODES, PointForm.INDICES, PointForm.ENCODED)


def description_of(page: Page) -> MiniBlock | FullZip | None:
    """Return the description of a page; None for a layout that the kernel does not support."""
    description = layout_of(page.encoding)
    if isinstance(description, MiniBlock):
        return description
    if isinstance(description, partial):  # of constant pages, which come without full-zip ones
        return None
    from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip

    return description if isinstance(description, FullZip) else None


def plan_page_in_file(
    description: MiniBlock | FullZip, page: Page, bits: int, structs: int
) -> PlannedPage | None:
    """Plan how the kernel reads a page, with the places of its buffers; None where it cannot."""
    if isinstance(description, MiniBlock):
        return _plan_chunks(description, page, bits, structs)
    if bits in (0, RECORD):
        return _plan_zipped(description.layout, page, structs, is_record=bits == RECORD)
    return _plan_vectors(description(page), structs, bits)


def _plan_chunks(description: MiniBlock, page: Page, bits: int, structs: int) -> PlannedPage | None:
    plan = plan_page(description, bits, structs)
    if plan is None or description.items != page.rows:
        return None
    return place_chunks(description, page, plan)


def place_chunks(description: MiniBlock, page: Page, plan: PagePlan) -> PlannedPage | None:
    """Return the plan of a page, with the places of its buffers; None where the table is too long.

    Raises:
        CorruptFile: The page lacks a buffer.
    """
    description.check_buffers(page)
    table, chunks = page.buffers[:2]
    items = page.buffers[2] if description.has_dictionary else chunks
    if table[1] - table[0] > MAX_TABLE_BYTES:
        return None
    places = *table, *chunks, *plan.stored, *items, description.dictionary_items
    return plan.form, places, plan.packed


def _plan_zipped(
    layout: FullZipLayout, page: Page, structs: int, is_record: bool
) -> PlannedPage | None:
    """Plan how the kernel reads a full-zip page of strings, or of structs of variable width."""
    if len(page.buffers) < 2:
        return None
    rows, index = page.buffers[:2]
    layers, width = parse_layers(layout.layers), (index[1] - index[0]) // (page.rows + 1)
    has_levels = layout.bits_def > 0
    if layout.bits_rep or not _are_supported(layers, structs, has_levels):
        return None
    if layout.bits_def > _LEVEL_BITS:
        return None
    if not has_levels and any(layer.levels for layer in layers):
        return None  # there may be silent control words; see `fullzip_page`
    form = _form_of_zipped(layout.value_compression, is_record)
    if form is None or layout.bits_per_offset not in _WIDTHS:
        return None
    if width not in (1, 2, 4, 8) or width * (page.rows + 1) != index[1] - index[0]:
        return None
    levels = (Stored.FLAT, layout.bits_def) if has_levels else (Stored.NONE, 0)
    stored = width, Stored.ZIPPED, layout.bits_per_offset, *levels
    return ValueForm(form, SPAN_BITS), (*index, *rows, *stored, *rows, 0), None


def _plan_vectors(reader: FullZipPage, structs: int, bits: int) -> PlannedPage | None:
    """Plan how the kernel reads a full-zip page of vectors that has nothing but their numbers."""
    encoding, (start, end) = reader.layout.value_compression, reader.page.buffers[0]
    if reader.word or reader.has_index or not _are_supported(reader.layers, structs, False):
        return None
    if _stored_as(encoding, bits) is not Stored.FLAT or reader.width * 8 != bits:
        return None
    if not 0 <= reader.page.rows * reader.width <= end - start:
        return None
    form = ValueForm(PointForm.VALUES, bits, int(encoding.fixed_size_list.items_per_value))
    stored = 0, Stored.WHOLE, bits, Stored.NONE, 0
    return form, (start, start, start, end, *stored, start, start, 0), None


def _form_of_zipped(encoding: CompressiveEncoding, is_record: bool) -> PointForm | None:
    """Return what the kernel gives for values of a full-zip page; None where it knows none."""
    kind, form = encoding.WhichOneof("compression"), PointForm.STRINGS
    if is_record:
        return PointForm.ENCODED if kind == "variable_packed_struct" else None
    if kind == "fsst":
        form, encoding = PointForm.CODES, encoding.fsst.values
    elif kind == "general":
        form, encoding = PointForm.ENCODED, encoding.general.values
    return None if _offset_bits(encoding) is None else form


@lru_cache(maxsize=256)  # pages of equal descriptions share one object
def plan_page(description: MiniBlock, bits: int, structs: int) -> PagePlan | None:
    """Return what a description tells; None where the kernel does not support such pages.

    Args:
        description: The description.
        bits: Bits of a value; see `value_bits`.
        structs: Number of structs around the values.
    """
    values, levels = plan_values(description, bits), _plan_levels(description, structs)
    if values is None or levels is None:
        return None
    stored = description.width, values.stored, values.stored_bits, *levels
    return PagePlan(values.value_form, stored, values.packed)


def plan_values(description: MiniBlock, bits: int) -> _ValuePlan | None:
    """Return how values are stored; None where the kernel does not support it.

    Args:
        description: The description of the page.
        bits: Bits of a value; see `value_bits`.
    """
    encoding, packed = description.layout.value_compression, None
    if encoding.WhichOneof("compression") == "general":
        packed, encoding = encoding.general, encoding.general.values
    plan = _plan_encoding(description, encoding, bits)
    if plan is None or packed is None:
        # The kernels of contiguous rows know no indices that are split.
        if plan is not None and plan.form is PointForm.INDICES and plan.stored is Stored.SPLIT:
            return None
        return plan
    if plan.form is PointForm.CODES:
        return None
    if plan.stored is Stored.LOOKED_UP:  # the dictionary does not lie beside restored chunks
        width = plan.stored_bits
        plan = _ValuePlan(PointForm.INDICES, width, Stored.PACKED, width)
    return plan._replace(packed=packed)


def _plan_encoding(
    description: MiniBlock, encoding: CompressiveEncoding, bits: int
) -> _ValuePlan | None:
    """Return how values of an encoding are stored; see `plan_values`."""
    buffers = 2 if encoding.WhichOneof("compression") == "rle" else 1
    if description.buffers != buffers or (bits == CODED and not description.has_dictionary):
        return None
    if description.has_dictionary:
        return _plan_indices(encoding, description.layout.dictionary, bits)
    if bits == DECIMAL64:
        is_plain = _flat_bits(encoding) == 2 * DECIMAL64_BITS
        plan = PointForm.VALUES, DECIMAL64_BITS, Stored.DECIMAL64, DECIMAL64_BITS
        return _ValuePlan(*plan) if is_plain else None
    if bits:
        stored = _stored_as(encoding, bits)
        if stored is None:
            return None
        dimension = int(encoding.fixed_size_list.items_per_value)  # 0 of values that are no vectors
        return _ValuePlan(PointForm.VALUES, bits, stored, bits, dimension=dimension)
    form = PointForm.STRINGS
    if encoding.WhichOneof("compression") == "fsst":
        form, encoding = PointForm.CODES, encoding.fsst.values
    width = _offset_bits(encoding)
    return None if width is None else _ValuePlan(form, SPAN_BITS, Stored.STRINGS, width)


def _plan_indices(
    encoding: CompressiveEncoding, items: CompressiveEncoding, bits: int
) -> _ValuePlan | None:
    if encoding.WhichOneof("compression") == "rle":
        width = _flat_bits(encoding.rle.values) or 0
        stored = _stored_as(encoding, width)
        return None if stored is None else _ValuePlan(PointForm.INDICES, width, stored, width)
    if encoding.WhichOneof("compression") == "byte_stream_split":
        width = _flat_bits(encoding.byte_stream_split.values) or 0
        plan = _ValuePlan(PointForm.INDICES, width, Stored.SPLIT, width)
        return plan if width in _WIDTHS else None
    width = int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    if width not in _WIDTHS or _stored_as(encoding, width) is not Stored.PACKED:
        return None
    if not bits and _offset_bits(items) is not None:
        return _ValuePlan(PointForm.STRINGS, SPAN_BITS, Stored.LOOKED_UP, width)
    return _ValuePlan(PointForm.INDICES, width, Stored.PACKED, width)


def _are_supported(layers: Sequence[Layer], structs: int, has_levels: bool) -> bool:
    """Whether a page has no lists and no null structs, so that its levels tell nulls of values."""
    if len(layers) != 1 + structs or any(layer.is_list for layer in layers):
        return False
    own, *around = layers
    return not has_levels or (own.nullable and not any(layer.nullable for layer in around))


def _plan_levels(description: MiniBlock, structs: int) -> tuple[int, int] | None:
    """Return how levels are stored, and the bits of a level that is packed apart from its width."""
    if description.has_rep or not _are_supported(description.layers, structs, description.has_def):
        return None
    if not description.has_def:
        return Stored.NONE, 0
    return stored_levels(description.layout.def_compression)


def stored_levels(encoding: CompressiveEncoding) -> tuple[int, int] | None:
    """Return how levels are stored, and the bits of a level that is packed apart from its width.

    Args:
        encoding: The encoding of repetition or definition levels.

    Returns:
        None where the kernel does not support it.
    """
    match encoding.WhichOneof("compression"):
        case "flat" | "inline_bitpacking":
            stored = _stored_as(encoding, _LEVEL_BITS)
            return None if stored is None else (stored, 0)
        case "out_of_line_bitpacking":
            packed = encoding.out_of_line_bitpacking
            width = _flat_bits(packed.values)  # 0 where all levels are
            if packed.uncompressed_bits_per_value != _LEVEL_BITS:
                return None
            if width is None or not 0 <= width <= _LEVEL_BITS:
                return None
            return Stored.PACKED_APART, width
        case "rle":
            widths = _flat_bits(encoding.rle.values), _flat_bits(encoding.rle.run_lengths)
            return (Stored.RUNS, 0) if widths == (_LEVEL_BITS, 8) else None
        case _:
            return None


def _stored_as(encoding: CompressiveEncoding, bits: int) -> Stored | None:
    """Return how values of so many bits are stored: plain, split, bit-packed or in runs."""
    match encoding.WhichOneof("compression"):
        case "flat":
            is_supported = _flat_bits(encoding) == bits and (bits == 1 or bits % 8 == 0)
            return Stored.FLAT if is_supported else None
        case "fixed_size_list" if not encoding.fixed_size_list.has_validity:
            lists = encoding.fixed_size_list
            own = _flat_bits(lists.values) or 0
            is_supported = own % 8 == 0 and own * lists.items_per_value == bits > 0
            return Stored.FLAT if is_supported else None
        case "inline_bitpacking" if not encoding.inline_bitpacking.HasField("values"):
            packed = encoding.inline_bitpacking.uncompressed_bits_per_value
            return Stored.PACKED if packed == bits and bits in _WIDTHS else None
        case "byte_stream_split":
            own = _flat_bits(encoding.byte_stream_split.values) or 0
            is_supported = own == bits and bits % 8 == 0 and 0 < bits <= _MAX_SPLIT_BITS
            return Stored.SPLIT if is_supported else None
        case "rle":
            runs = {8: Stored.RUNS, 16: Stored.LONG_RUNS}.get(
                _flat_bits(encoding.rle.run_lengths) or 0
            )
            return runs if _flat_bits(encoding.rle.values) == bits and bits in _WIDTHS else None
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
