"""How a kernel reads a few rows of leaves in lists and structs (data files 2.1 and later).

The levels of a page tell what is null or empty around a value. Pages number their levels by what
they contain: one without null lists has no level for them. The kernel writes levels that mean the
same for all pages of a leaf, as if every layer had nulls and every list layer had empty lists. Only
the values themselves have nulls where the pages say so.

Docs: format/file/encoding, "Repetition and definition levels".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.kernels.levels import LEVEL_POSITIONS, MAX_MEANINGS, LevelColumn
from lancefs.datafile.kernels.points import POSITIONS, RUN_LENGTHS, PageColumn, Stored
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.levels import Layer, visible_levels
from lancefs.datafile.v2_1.page_plans import (
    MAX_TABLE_BYTES,
    ValueForm,
    description_of,
    joint_form,
    may_have_form,
    needs_dictionary,
    plan_values,
    point_bits,
    stored_levels,
)
from lancefs.datafile.v2_1.point_plans import FEW_PAGES, LeafPlan, LevelPlan, PageDictionary
from lancefs.proto.encodings_v2_1_pb2 import General
from lancefs.storage import ByteRange

_IS_LIST = {
    "struct": False,
    "list": True,
    "list.struct": True,
    "large_list": True,
    "large_list.struct": True,
    "map": True,
}
_ITEM, _LIST = Layer(False, True, False), Layer(True, True, True)
_VALID_ITEM = Layer(False, False, False)


class _Pages(NamedTuple):
    """What the descriptions of the pages of a leaf tell, and nothing that was read of the pages."""

    pages: Ints
    levels: Ints
    layers: tuple[Layer, ...]
    form: ValueForm
    descriptions: Sequence[MiniBlock]
    span: ByteRange
    packed: Sequence[General | None]


class _StoredPage(NamedTuple):
    """What a description tells of a page.

    Attributes:
        form: What the kernel gives for the values.
        stored: The columns of the plan from `PageColumn.ENTRY` to `WIDTH`.
        levels: The columns of the plan of levels from `LevelColumn.STRIDE` to `MEANINGS`.
        packed: How the values of a chunk are compressed as a whole; None where they are not.
    """

    form: ValueForm
    stored: tuple[int, ...]
    levels: tuple[int, ...]
    packed: General | None


def plan_nested(leaf: LeafField, column: ColumnPages) -> LeafPlan | None:
    """Plan how the kernel reads a leaf that is in structs and lists.

    Args:
        leaf: The leaf.
        column: The pages of the leaf.

    Returns:
        None where nothing is around the leaf, or where the kernel does not support one of its
        pages.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The layout of a page, or the type of the field, is not known.
    """
    field, kinds = leaf.field, [_IS_LIST.get(around.logical_type) for around in leaf.around]
    bits = None if field.is_outline or field.is_packed else point_bits(field.storage_type)
    if bits is None or not kinds or None in kinds or not column.pages:
        return None
    around = tuple(_LIST if is_list else _ITEM for is_list in kinds)
    described = (_plan_few if len(column.pages) <= FEW_PAGES else _plan)(column, bits, around)
    if described is None or not may_have_form(field.storage_type, described.form):
        return None
    dictionaries = []
    if needs_dictionary(described.form.form):
        items = described.pages[:, PageColumn.ITEMS : PageColumn.ITEMS_END + 1].tolist()
        pairs = zip(described.descriptions, items, strict=True)
        dictionaries = [
            PageDictionary(description, (start, end)) for description, (start, end) in pairs
        ]
    is_defined = bool(described.levels[:, LevelColumn.DEF].any())
    values = int(described.levels[:, LevelColumn.VALUES].sum())
    levels = LevelPlan(described.levels, described.layers, any(kinds), is_defined, values)
    rows = column.first_rows[-1]
    plan = (
        described.pages,
        dictionaries,
        field.storage_type,
        described.form.form,
        described.form.bits,
        False,
        rows,
        described.span,
    )
    return LeafPlan(*plan, levels=levels, packed=described.packed)


def _layer_of_values(descriptions: Sequence[MiniBlock]) -> Layer | None:
    """Return the layer of the values that fits all pages of a leaf; None where none does.

    A value of a null struct is null itself where the page says that values may be null, and only
    there. Releases up to 0.38 say so of the pages that have nulls.
    """
    found = set()
    for description in descriptions:
        values, *around = description.layers
        structs = takewhile(lambda layer: not layer.is_list, around)
        if values.nullable or any(layer.nullable for layer in structs):
            found.add(values.nullable)
    if len(found) > 1:
        return None
    return _VALID_ITEM if found == {False} else _ITEM


@lru_cache(maxsize=2048)  # a table that is opened again, or whose files are alike
def _plan_few(column: ColumnPages, bits: int, around: tuple[Layer, ...]) -> _Pages | None:
    return _plan(column, bits, around)


def _plan(column: ColumnPages, bits: int, around: tuple[Layer, ...]) -> _Pages | None:
    """Plan how the kernel reads the pages of a leaf; see `plan_nested`."""
    descriptions = []
    for page in column.pages:
        description = description_of(page)
        if not isinstance(description, MiniBlock):
            return None
        descriptions.append(description)
    innermost = _layer_of_values(descriptions)
    if innermost is None:
        return None
    layers = innermost, *around
    if sum(layer.levels for layer in layers) >= MAX_MEANINGS:
        return None
    pages, levels, form = [], [], None
    packed = list[General | None]()
    for description, page, first_row in zip(
        descriptions, column.pages, column.first_rows, strict=False
    ):
        stored = _plan_page(description, bits, layers)
        if stored is None:
            return None
        joined = stored.form if form is None else joint_form(form, stored.form)
        if joined is None:
            return None
        if not description.has_rep and description.items != page.rows:
            return None
        form = joined
        description.check_buffers(page)
        table, chunks = page.buffers[:2]
        if table[1] - table[0] > MAX_TABLE_BYTES:
            return None
        items, index = _other_buffers(description, page)
        count = description.dictionary_items
        pages.append((first_row, page.rows, *table, *chunks, *stored.stored, *items, count))
        levels.append((*index, *stored.levels, 0, description.items))
        packed.append(stored.packed)
    assert form is not None
    tables = np.array(pages, np.int64), np.array(levels, np.int64)
    for some in tables:
        some.flags.writeable = False
    positions = np.concatenate((tables[0][:, POSITIONS], tables[1][:, LEVEL_POSITIONS]), axis=1)
    span = int(positions.min()), int(positions.max())
    compressed = packed if any(one is not None for one in packed) else ()
    return _Pages(*tables, layers, form, descriptions, span, compressed)


def _other_buffers(description: MiniBlock, page: Page) -> tuple[ByteRange, ByteRange]:
    """Return the dictionary and the repetition index of a page; the chunks if it has none."""
    chunks, others = page.buffers[1], list(page.buffers[2:])
    items = others.pop(0) if description.has_dictionary else chunks
    return items, others.pop(0) if description.has_rep else chunks


@lru_cache(maxsize=256)  # pages of equal descriptions share one object
def _plan_page(description: MiniBlock, bits: int, layers: tuple[Layer, ...]) -> _StoredPage | None:
    """Return what a description tells; None where the kernel does not support such pages."""
    own, values = description.layers, plan_values(description, bits)
    if values is None or values.stored in RUN_LENGTHS:  # the kernel of levels knows one buffer
        return None
    if [one.is_list for one in own] != [one.is_list for one in layers]:
        return None
    if description.has_rep != (description.top > 0):
        return None
    layout = description.layout
    rep = stored_levels(layout.rep_compression) if description.has_rep else (Stored.NONE, 0)
    defined = stored_levels(layout.def_compression) if description.has_def else (Stored.NONE, 0)
    if rep is None or defined is None:
        return None
    buffers = description.has_rep + description.has_def
    skipped = (Stored.SKIPPED, buffers) if buffers else (Stored.NONE, 0)
    stored = description.width, values.stored, values.stored_bits, *skipped
    meanings = _meanings(own, layers)
    highest = len(meanings) - 1 if description.has_def else 0
    shown = min(visible_levels(own), highest)
    stride = int(layout.repetition_index_depth) + 1
    if not 2 <= stride < MAX_MEANINGS and description.has_rep:
        return None
    said = description.top, shown, highest, _pack(meanings)
    return _StoredPage(values.value_form, stored, (stride, *rep, *defined, *said), values.packed)


def _meanings(own: Sequence[Layer], layers: Sequence[Layer]) -> list[int]:
    """Return the level of full layers that each level of the layers of a page stands for."""
    meanings, below = [0], 0
    for layer, full in zip(own, layers, strict=True):
        if layer.nullable:
            meanings.append(below + 1)
        if layer.emptyable:
            meanings.append(below + 2)
        below += full.levels
    return meanings


def _pack(meanings: Sequence[int]) -> int:
    """Return levels as the bits of a signed number, four for each from the lowest on."""
    bits = sum(level << (4 * number) for number, level in enumerate(meanings))
    return bits - (1 << 64) if bits >> 63 else bits
