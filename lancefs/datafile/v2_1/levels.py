"""Repetition and definition levels: from the levels of a leaf column to validity and offsets.

Docs: format/file/encoding, "Repetition and definition levels". A leaf column of a data file 2.1+
has one level pair an item. The *layers* say what the levels mean, from the innermost (the leaf's
own values) to the outermost: an item layer has at most one definition level (null), a list layer up
to two (null, empty). Definition level 0 is "valid all the way"; levels count up layer by layer. A
repetition level above 0 starts a new list: the highest starts a new row.

Items whose definition level belongs to a list layer or beyond have no value: they are *invisible*.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lancefs.datafile.blocks import Block, Ints, Mask, RowRange, offsets_of, select
from lancefs.datafile.kernels import find_rows, split_lists, tally_levels
from lancefs.datafile.kernels.lists import Meanings
from lancefs.datafile.row_ranges import RowRanges, bounds_of, count_rows
from lancefs.errors import CorruptFile
from lancefs.proto import encodings_v2_1_pb2 as pb

Level: TypeAlias = npt.NDArray[np.uint16]
# Bytes of the two levels of an item.
LEVEL_BYTES = 4

_LISTS: dict[int, tuple[bool, bool]] = {
    pb.REPDEF_ALL_VALID_LIST: (False, False),
    pb.REPDEF_NULLABLE_LIST: (True, False),
    pb.REPDEF_EMPTYABLE_LIST: (False, True),
    pb.REPDEF_NULL_AND_EMPTY_LIST: (True, True),
}
_ITEMS: dict[int, bool] = {pb.REPDEF_ALL_VALID_ITEM: False, pb.REPDEF_NULLABLE_ITEM: True}


class Layer(NamedTuple):
    """What one layer's levels can say."""

    is_list: bool
    nullable: bool
    emptyable: bool

    @property
    def levels(self) -> int:
        """How many definition levels it has."""
        return self.nullable + self.emptyable


def parse_layers(layers: Sequence[int]) -> tuple[Layer, ...]:
    """Read the layers of a page, innermost first.

    Raises:
        CorruptFile: One of them is not known.
    """
    parsed = []
    for layer in layers:
        if layer in _LISTS:
            parsed.append(Layer(True, *_LISTS[layer]))
        elif layer in _ITEMS:
            parsed.append(Layer(False, _ITEMS[layer], False))
        else:
            raise CorruptFile(f"layer kind {layer} of the repetition and definition levels")
    return tuple(parsed)


def visible_levels(layers: Sequence[Layer]) -> int:
    """Return the highest definition level at which an item still has a value."""
    total = 0
    for layer in layers:
        if layer.is_list:
            break
        total += layer.levels
    return total


def check_levels(
    layers: Sequence[Layer], rep: Level | None, definition: Level | None, values: int, rows: int
) -> None:
    """Check that the levels of rows fit their layers and values.

    Args:
        layers: What the levels mean.
        rep: One repetition level an item; None where all are 0.
        definition: The same of definition levels.
        values: How many values there are.
        rows: How many rows there are.

    Raises:
        CorruptFile: They do not.
    """
    if not layers:
        raise CorruptFile("a page has no layers")
    lists = sum(layer.is_list for layer in layers)
    highest = sum(layer.levels for layer in layers)
    visible, told = values, values if definition is None else len(definition)
    if rep is not None:
        found, inside = tally_levels(rep, lists - 1)
        if lists == 0 or found > lists:
            raise CorruptFile(f"a repetition level above the page's {lists} list layers")
        visible, told = len(rep), len(rep) - inside
    if definition is not None:
        found, visible = tally_levels(definition, visible_levels(layers))
        if found > highest:
            raise CorruptFile(f"a definition level above {highest}, the highest of the page")
    if rep is not None and definition is not None and len(rep) != len(definition):
        raise CorruptFile(f"{len(rep)} repetition levels, {len(definition)} definition levels")
    if visible != values:
        raise CorruptFile(f"{values} values where the levels tell of {visible}")
    if told != rows:
        raise CorruptFile(f"the levels tell of {told} rows, expected {rows}")


class Leaf(NamedTuple):
    """Some rows of a leaf column: its values and its levels.

    `rep` and `definition` have one entry an item, or are None where all of them are 0; `values`
    has the visible items.
    """

    values: Block
    rep: Level | None
    definition: Level | None
    layers: tuple[Layer, ...]
    rows: int

    def check(self) -> "Leaf":
        """Check that levels, layers and values fit each other; return self.

        Raises:
            CorruptFile: They do not.
        """
        check_levels(self.layers, self.rep, self.definition, self.values.length, self.rows)
        return self

    def select(self, ranges: Sequence[RowRange]) -> "Leaf":
        """Cut row ranges, ascending and disjoint, out of these rows."""
        rows = count_rows(ranges)
        if rows == self.rows:
            return self
        items = ranges if self.rep is None else self._item_ranges(ranges)
        return self.select_items(items, rows)

    def select_items(self, ranges: Sequence[RowRange], rows: int | None = None) -> "Leaf":
        """Cut ranges of items; they must hold whole rows, `rows` of them (default: all rows)."""
        rep = None if self.rep is None else select(self.rep, ranges)
        definition = None if self.definition is None else select(self.definition, ranges)
        values = self.values.select(self._visible(ranges))
        return Leaf(values, rep, definition, self.layers, self.rows if rows is None else rows)

    def unravel(self) -> "list[Unravelled]":
        """Turn the levels into validity and offsets, layer by layer.

        Returns:
            One entry a layer, innermost first; the first has as many slots as there are values.

        Raises:
            CorruptFile: The levels contradict the layers.
        """
        if self.definition is None and len(self.layers) == 1 and not self.layers[0].is_list:
            return [Unravelled(None, None, self.values.length)]
        state = _Unraveller(self)
        return [
            state.list_layer(layer) if layer.is_list else state.item_layer(layer)
            for layer in self.layers
        ]

    def _item_ranges(self, ranges: Sequence[RowRange]) -> Sequence[RowRange]:
        assert self.rep is not None
        top = sum(layer.is_list for layer in self.layers)
        bounds = bounds_of(ranges)
        return RowRanges(find_rows(self.rep, top, bounds.ravel()).reshape(bounds.shape))

    def _visible(self, items: Sequence[RowRange]) -> Sequence[RowRange]:
        if self.definition is None or self.rep is None:
            return items
        highest = visible_levels(self.layers)
        if len(items) == 1:  # the numbers of all items would be several times what is counted
            start, end = items[0]
            _, before = tally_levels(self.definition[:start], highest)
            return [(before, before + tally_levels(self.definition[start:end], highest)[1])]
        seen = np.zeros(len(self.definition) + 1, np.int64)
        np.cumsum(self.definition <= highest, out=seen[1:])
        return RowRanges(seen[bounds_of(items)])


class Unravelled(NamedTuple):
    """One layer of rows: which slots are valid (None: all), and where the items of lists start."""

    validity: Mask | None
    offsets: Ints | None  # n + 1, starting at 0; None for an item layer
    length: int

    def select(self, ranges: Sequence[RowRange]) -> "Unravelled":
        """Cut ranges of slots out of this layer."""
        count = count_rows(ranges)
        validity = None if self.validity is None else select(self.validity, ranges)
        if self.offsets is None:
            return Unravelled(validity, None, count)
        if len(ranges) == 1:
            offsets = self.offsets[ranges[0][0] : ranges[0][1] + 1]
            return Unravelled(validity, offsets - offsets[0], count)
        return Unravelled(validity, offsets_of(select(np.diff(self.offsets), ranges)), count)

    def below(self, ranges: Sequence[RowRange]) -> Sequence[RowRange]:
        """Translate ranges of slots into ranges of the slots of the next layer in."""
        if self.offsets is None:
            return ranges
        return RowRanges(self.offsets[bounds_of(ranges)])


class _Unraveller:
    """Walks the layers from the inside out, dropping the items of a list when it is done."""

    def __init__(self, leaf: Leaf) -> None:
        self.rep = leaf.rep
        self.definition = leaf.definition
        self.layers = leaf.layers
        self.count = leaf.values.length  # slots of the current layer
        self.below = 0  # definition levels of the layers already done
        self.lists = 0  # list layers already done
        self.index = 0
        self.seen_from = _visible_from(leaf.layers)

    def item_layer(self, layer: Layer) -> Unravelled:
        self.index += 1
        if not layer.nullable:
            return Unravelled(None, None, self.count)
        limit, self.below = self.below, self.below + 1
        if self.definition is None:
            return Unravelled(None, None, self.count)
        definition = self.definition
        if self.seen_from is not None:
            definition = definition[self.seen_from[definition] <= self.lists]
        return Unravelled(definition <= limit, None, len(definition))

    def list_layer(self, layer: Layer) -> Unravelled:
        if self.rep is None:
            raise CorruptFile("a list column without repetition levels")
        valid = self.below
        null = valid + 1 if layer.nullable else 0
        empty = (null or valid) + 1 if layer.emptyable else 0
        self.below += layer.levels
        self.index += 1
        self.lists += 1
        # Up to `upper` the levels speak of this list; from there to `highest` a null struct around
        # it masks it; above that the list is part of an outer list without items.
        upper = max(null, empty) or self.below
        highest = upper + visible_levels(self.layers[self.index :])
        lists = split_lists(self.rep, self.definition, Meanings(null, empty, upper, highest))
        if lists.offsets[0] != 0:
            raise CorruptFile("a page of lists does not begin with a new row")
        self._check_items(int(lists.offsets[-1]))
        self.rep, self.definition = lists.rep, lists.definition
        self.count = len(lists.offsets) - 1
        return Unravelled(lists.validity, lists.offsets, self.count)

    def _check_items(self, items: int) -> None:
        if items != self.count:
            raise CorruptFile(f"lists of {items} items in all, where there are {self.count}")


def _visible_from(layers: Sequence[Layer]) -> npt.NDArray[np.int64] | None:
    """For each definition level: after how many list layers its items begin to be seen.

    None where there are no lists, so that all are seen at once.
    """
    if not any(layer.is_list for layer in layers):
        return None
    seen, lists = [0], 0
    for layer in layers:
        lists += layer.is_list
        seen.extend([lists] * layer.levels)
    return np.array(seen, dtype=np.int64)
