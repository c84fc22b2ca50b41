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

import numpy as np
import pyarrow as pa

from lancefs.datafile.container import ColumnPages
from lancefs.datafile.kernels.levels import MAX_MEANINGS, LevelColumn
from lancefs.datafile.kernels.points import RUN_LENGTHS, Stored
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.levels import Layer, visible_levels
from lancefs.datafile.v2_1.page_plans import (
    PagePlan,
    description_of,
    place_chunks,
    plan_values,
    point_bits,
    stored_levels,
)
from lancefs.datafile.v2_1.point_plans import (
    FEW_PAGES,
    LeafPlan,
    LevelPlan,
    join_pages,
    with_dictionaries,
)

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
    plan = _plan_few if len(column.pages) <= FEW_PAGES else _plan
    return with_dictionaries(plan(column, field.storage_type, bits, around))


def _layers_of(
    descriptions: Sequence[MiniBlock], around: tuple[Layer, ...]
) -> tuple[Layer, ...] | None:
    """Return the layers, innermost first, that fit all pages of a leaf; None where none do.

    A value or struct in a null struct is null itself where the page says that it may be null, and
    only there. Releases up to 0.38 say so in the pages that have nulls of it.
    """
    layers = [_ITEM, *around]
    for position, layer in enumerate(layers):
        if layer.is_list:
            continue
        found = set()
        for description in descriptions:
            own, *outer = description.layers[position:] or (_ITEM,)
            structs = takewhile(lambda layer: not layer.is_list, outer)
            if own.nullable or any(struct.nullable for struct in structs):
                found.add(own.nullable)
        if len(found) > 1:
            return None
        if found == {False}:
            layers[position] = _VALID_ITEM
    return tuple(layers)


@lru_cache(maxsize=2048)  # a table that is opened again, or whose files are alike
def _plan_few(
    column: ColumnPages, data_type: pa.DataType, bits: int, around: tuple[Layer, ...]
) -> LeafPlan | None:
    return _plan(column, data_type, bits, around)


def _plan(
    column: ColumnPages, data_type: pa.DataType, bits: int, around: tuple[Layer, ...]
) -> LeafPlan | None:
    """Plan how the kernel reads the pages of a leaf; see `plan_nested`."""
    descriptions = []
    for page in column.pages:
        description = description_of(page)
        if not isinstance(description, MiniBlock):
            return None
        descriptions.append(description)
    layers = _layers_of(descriptions, around)
    if layers is None:
        return None
    if sum(layer.levels for layer in layers) >= MAX_MEANINGS:
        return None
    planned, levels = [], []
    for description, page in zip(descriptions, column.pages, strict=True):
        plan = _plan_page(description, bits, layers)
        if plan is None or not (description.has_rep or description.items == page.rows):
            return None
        placed = place_chunks(description, page, plan)
        if placed is None:
            return None
        chunks, others = page.buffers[1], page.buffers[2 + description.has_dictionary :]
        index = others[0] if description.has_rep else chunks  # of repetition
        planned.append(placed)
        levels.append((*index, *plan.levels, 0, description.items))
    numbers = np.array(levels, np.int64)
    numbers.flags.writeable = False
    has_lists = any(layer.is_list for layer in around)
    is_defined = bool(numbers[:, LevelColumn.DEF].any())
    values = int(numbers[:, LevelColumn.VALUES].sum())
    level_plan = LevelPlan(numbers, layers, has_lists, is_defined, values)
    return join_pages(column, descriptions, planned, data_type, level_plan)


@lru_cache(maxsize=256)  # pages of equal descriptions share one object
def _plan_page(description: MiniBlock, bits: int, layers: tuple[Layer, ...]) -> PagePlan | None:
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
    return PagePlan(values.value_form, stored, values.packed, (stride, *rep, *defined, *said))


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
