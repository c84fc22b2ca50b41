"""The layers of leaves, as Arrow stores them, from repetition and definition levels.

Docs: format/file/encoding, "Repetition and definition levels". See `v2_1.levels` for what layers
and levels mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints, Mask, empty
from lancefs.datafile.kernels.calls import Call, small, twin_of
from lancefs.errors import CorruptFile

# The bits of the kind of a layer; an item layer may be nullable only. No flags of `enum`, each test
# of which takes a microsecond.
LIST, NULLABLE, EMPTYABLE = 1, 2, 4
_ALL = 0xFFFF  # the highest level of all


class LeafLevels(NamedTuple):
    """Which levels a leaf has.

    Attributes:
        items: Number of levels.
        values: Number of values.
        kinds: The kinds of its layers, innermost first; see `LIST`.
        has_rep: Whether it has repetition levels; else all are 0.
        has_def: Whether it has definition levels; else all are 0.
    """

    items: int
    values: int
    kinds: tuple[int, ...]
    has_rep: bool
    has_def: bool


class LayerSlots(NamedTuple):
    """A layer of a leaf.

    Attributes:
        validity: Which slots are valid: bool, shape (slots,); None where all are.
        offsets: Start of each list's items, then the number of items: int64, shape (slots + 1,);
            None for an item layer.
        length: Number of slots.
    """

    validity: Mask | None
    offsets: Ints | None
    length: int


_Level = npt.NDArray[np.uint16]


def unravel(
    rep: _Level | None, definition: _Level | None, leaves: Sequence[LeafLevels]
) -> list[list[LayerSlots]]:
    """Turn the levels of leaves into validity and offsets, layer by layer.

    Args:
        rep: The repetition levels of all leaves, one after the other: uint16, shape (items,). None
            where no leaf has some.
        definition: Their definition levels, likewise.
        leaves: The leaves.

    Returns:
        The layers of each leaf, innermost first.

    Raises:
        CorruptFile: Levels contradict the layers.
    """
    found, first = [], 0
    for leaf in leaves:
        own = slice(first, first := first + leaf.items)
        own_rep = rep[own] if rep is not None and leaf.has_rep else None
        own_definition = definition[own] if definition is not None and leaf.has_def else None
        found.append(_layers_of(own_rep, own_definition, leaf))
    return found


def _layers_of(rep: _Level | None, definition: _Level | None, leaf: LeafLevels) -> list[LayerSlots]:
    """Return the layers of one leaf; after a list layer, one item a list is left."""
    found, count, below = list[LayerSlots](), leaf.values, 0
    has_lists = any(kind & LIST for kind in leaf.kinds)
    for number, kind in enumerate(leaf.kinds):
        limit, rest = below, leaf.kinds[number + 1 :]
        below += _levels(kind)
        highest = below + _levels_before_list(rest) if has_lists else _ALL
        if not kind & LIST:
            found.append(_item_layer(definition, kind, limit, highest, count))
            continue
        if rep is None:
            raise CorruptFile("a list column without repetition levels")
        null = limit + 1 if kind & NULLABLE else 0
        none = (null or limit) + 1 if kind & EMPTYABLE else 0
        layer, starts = _split_lists(rep, definition, (null, none, below, highest))
        assert layer.offsets is not None
        if layer.offsets[0] != 0:
            raise CorruptFile("a page of lists does not begin with a new row")
        if layer.offsets[-1] != count:
            raise CorruptFile(f"lists of {layer.offsets[-1]} items in all, where there are {count}")
        found.append(layer)
        rep = rep[starts] - np.uint16(1)
        definition = None if definition is None else definition[starts]
        count = layer.length
    return found


def _levels(kind: int) -> int:
    """Return the number of definition levels of a layer."""
    return bool(kind & NULLABLE) + bool(kind & EMPTYABLE)


def _levels_before_list(kinds: Sequence[int]) -> int:
    """Return the number of definition levels of layers up to the next list."""
    total = 0
    for kind in kinds:
        if kind & LIST:
            break
        total += _levels(kind)
    return total


def _item_layer(
    definition: _Level | None, kind: int, limit: int, highest: int, count: int
) -> LayerSlots:
    """Return an item layer, whose slots are valid up to a level; above `highest` are no slots."""
    if definition is None or not kind & NULLABLE:
        return LayerSlots(None, None, count)
    shown = definition[definition <= highest]
    valid = shown <= limit
    return LayerSlots(None if valid.all() else valid, None, len(shown))


def _split_lists(
    rep: _Level, definition: _Level | None, meanings: tuple[int, int, int, int]
) -> tuple[LayerSlots, Ints]:
    """Split levels into the lists of the innermost layer.

    Args:
        rep: The repetition level of each item, above 0 if the item begins a list.
        definition: The definition level of each item; None if all are 0.
        meanings: The level at which a list is null, and at which it is empty, 0 for neither; above
            the third one a layer around it is null; above the fourth one there is no list, because
            an outer list has no items.

    Returns:
        The lists, and the items that begin one.
    """
    starts = np.flatnonzero(rep)
    if definition is None:
        offsets = np.append(starts, len(rep)).astype(np.int64)
        return LayerSlots(None, offsets, len(starts)), starts
    null, none, upper, highest = meanings
    levels = definition[starts]
    shown = levels <= highest
    is_null = shown & (((levels == null) & (null > 0)) | (levels > upper))
    is_empty = shown & (levels == none) & (none > 0)
    # Every item counts, except an item that stands for a list without items.
    items = np.ones(len(rep), np.int64)
    items[starts[~shown | is_null | is_empty]] = 0
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(items)))
    offsets = np.append(before[starts[shown]], before[-1])
    validity = ~is_null[shown] if is_null.any() else None
    return LayerSlots(validity, offsets, len(offsets) - 1), starts


# What the kernel tells of a layer: its slots and nulls, and where its offsets and validity begin.
_LAYER_COLUMNS = 4


@twin_of(unravel, "levels levels ints number ints out out out out")
def _compiled_unravel(
    call: Call, rep: _Level | None, definition: _Level | None, leaves: Sequence[LeafLevels]
) -> list[list[LayerSlots]]:
    table, kinds, first, most = list[tuple[int, ...]](), list[int](), 0, 0
    offset_room = slot_room = 0
    for items, values, own, has_rep, has_def in leaves:
        has_rep, starts = has_rep and rep is not None, 0
        if rep is not None and has_rep:
            starts = int(np.count_nonzero(rep[first : first + items]))
        first += items
        has_def = has_def and definition is not None
        has_lists = any(kind & LIST for kind in own)
        table.append((items, values, len(own), has_lists, has_rep, has_def, starts))
        kinds += own
        room, most = items, max(most, starts)
        for kind in own:
            if kind & LIST:
                room = starts
                offset_room += room + 1
            slot_room += room + 1
    offsets, valid = empty(offset_room, np.int64), empty(slot_room, np.bool_)
    found = np.empty((len(kinds), _LAYER_COLUMNS), np.int64)
    what = np.array(table, np.int64), len(table), small(tuple(kinds))
    call(rep, definition, *what, offsets, valid, empty(2 * most + 2, np.uint16), found)
    layers = [
        LayerSlots(
            valid[slot : slot + length] if nulls else None,
            offsets[offset : offset + length + 1] if kind & LIST else None,
            length,
        )
        for kind, (length, nulls, offset, slot) in zip(kinds, found.tolist(), strict=True)
    ]
    left = iter(layers)
    return [list(islice(left, len(leaf.kinds))) for leaf in leaves]
