"""How a kernel reads a few rows of plain pages: a plan for each page (data files 2.0).

See `v2_1.point_plans` for plans, and `plain_pages` for the pages. The page-by-page path asks
for the byte ranges of each buffer of each page, which takes much longer than finding some rows in a
file that is mapped anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.container import ColumnPages
from lancefs.datafile.kernels.fsst import SymbolTable
from lancefs.datafile.kernels.pages import POSITIONS, PageColumn, Stored
from lancefs.datafile.v2_0.array_page import ArrayPage
from lancefs.datafile.v2_0.descriptions import check_column, parse_form, parse_page_encoding
from lancefs.datafile.v2_0.extents import MAX_ADJUSTMENT
from lancefs.datafile.v2_0.plain_pages import DictionaryForm, PageForm, values_of
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.page_plans import CODED, SPAN_BITS, PointForm, value_bits
from lancefs.datafile.v2_1.point_plans import LeafPlan, PageDictionary
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import ByteRange

_NOT_COMPRESSED = SymbolTable(np.zeros((256, 8), np.uint8), np.zeros(256, np.uint8), raw=True)

# Where a buffer begins and ends: of a page, or of each of several pages.
_BufferPlaces: TypeAlias = ByteRange | tuple[Ints, Ints]
_Locate: TypeAlias = Callable[[pb.Buffer], _BufferPlaces]
# The columns of the plan of a page, or of several, from `PageColumn.TABLE` on.
_PlannedArray: TypeAlias = tuple[int | Ints, ...]


def plan_leaf(
    leaf: LeafField, column: ColumnPages, file_buffers: tuple[ByteRange, ...]
) -> LeafPlan | None:
    """Plan how the kernel reads a leaf; None where it does not know one of its pages.

    Args:
        leaf: The leaf. Structs around it are never null in a data file 2.0.
        column: The pages of the leaf.
        file_buffers: Byte ranges of the buffers that all columns share.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The description of a page, or of the column, is not known.
    """
    field = leaf.field
    if field.is_outline or field.is_blob or not column.pages:
        return None
    if any(around.logical_type != "struct" for around in leaf.around):
        return None
    bits = value_bits(field.storage_type)
    if bits is None or bits == CODED:
        return None
    check_column(column.encoding)
    plans, symbols = [], []
    for page, first_row in zip(column.pages, column.first_rows, strict=False):
        stored = parse_form(page.encoding)
        if stored is None:
            return None
        buffers = page.buffers, column.buffers, file_buffers
        located = ArrayPage(parse_page_encoding(page.encoding), buffers)
        plan = plan_page(stored, located.locate, bits)
        if plan is None:
            return None
        plans.append((first_row, page.rows, *plan))
        symbols.append(values_of(stored).symbols)
    pages = np.array(plans, np.int64)
    pages.flags.writeable = False
    positions, has_levels = pages[:, POSITIONS], bool(pages[:, PageColumn.LEVELS].any())
    span = int(positions.min()), int(positions.max())
    form, parts = form_of(bits, symbols)
    shape = bits or SPAN_BITS, has_levels, column.first_rows[-1]
    return LeafPlan(pages, parts, field.storage_type, form, *shape, span)


def form_of(
    bits: int, symbols: Sequence[SymbolTable | None]
) -> tuple[PointForm, Sequence[PageDictionary]]:
    """Return what the kernel gives, and the symbols of each page; none where it needs none."""
    if bits:
        return PointForm.VALUES, ()
    if not any(symbols):
        return PointForm.STRINGS, ()
    return PointForm.CODES, [
        PageDictionary(None, (0, 0), own or _NOT_COMPRESSED) for own in symbols
    ]


def plan_page(form: PageForm, locate: _Locate, bits: int) -> _PlannedArray | None:
    """Plan how the kernel reads a page, or pages that are alike.

    Args:
        form: What the description of the page tells.
        locate: Returns where a buffer is.
        bits: Bits of a value; 0 for strings.

    Returns:
        None where the page has other values.

    Raises:
        CorruptFile: The page does not have the buffers.
        UnsupportedFeature: The kind of a buffer is not known.
    """
    if isinstance(form, DictionaryForm):
        return None if bits else _plan_indexed(form, locate)
    stored = form.values
    if form.text is None:
        if stored.bits != bits:
            return None
        values = valid = locate(stored.values)
        levels = Stored.NONE
        if stored.validity is not None:
            valid, levels = locate(stored.validity), Stored.FLAT
        return (*valid, *values, 0, Stored.WHOLE, bits, levels, 0, *values, 0)
    if bits:
        return None
    ends, text = locate(stored.values), locate(form.text)
    how = adjustment(form), Stored.ENDS, stored.bits, Stored.FLAT, 0
    return (*ends, *text, *how, *text, 0)


def _plan_indexed(form: DictionaryForm, locate: _Locate) -> _PlannedArray | None:
    """Plan how the kernel reads a page of indices into a dictionary."""
    indices, items = form.indices.values, form.items
    if indices.validity is not None or items.text is None:
        return None
    how = adjustment(form), Stored.INDEXED, indices.bits, Stored.FLAT, items.values.bits
    ends, text = locate(items.values.values), locate(items.text)
    return (*locate(indices.values), *ends, *how, *text, form.num_items)


def adjustment(form: PageForm) -> int:
    """Return the number that is added to the end of a string that is null."""
    return min(values_of(form).adjustment, MAX_ADJUSTMENT)
