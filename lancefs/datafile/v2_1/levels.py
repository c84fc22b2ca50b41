"""Repetition and definition levels: from the levels of a leaf column to validity and offsets.

Docs: format/file/encoding, "Repetition and definition levels". A leaf column of a data file 2.1+
has one pair of levels for each item. The *layers* define the meaning of the levels, from the
innermost layer (the leaf's own values) to the outermost: an item layer has at most one definition
level (null), a list layer up to two (null, empty). At definition level 0, all layers are valid; the
levels count up layer by layer. A repetition level above 0 starts a new list, the highest one a new
row.

An item whose definition level belongs to a list layer or beyond has no value: it is *invisible*.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lancefs.datafile.blocks import Block, Ints, Mask, RowRange, offsets_of, select
from lancefs.datafile.kernels import find_rows, unravel
from lancefs.datafile.kernels.layers import EMPTYABLE, LIST, NULLABLE, LeafLevels
from lancefs.datafile.row_ranges import RowRanges, bounds_of, count_rows
from lancefs.errors import CorruptFile
from lancefs.proto import encodings_v2_1_pb2 as pb

Level: TypeAlias = npt.NDArray[np.uint16]
# Bytes of the pair of levels of an item.
LEVEL_BYTES = 4

_LISTS: dict[int, tuple[bool, bool]] = {
    pb.REPDEF_ALL_VALID_LIST: (False, False),
    pb.REPDEF_NULLABLE_LIST: (True, False),
    pb.REPDEF_EMPTYABLE_LIST: (False, True),
    pb.REPDEF_NULL_AND_EMPTY_LIST: (True, True),
}
_ITEMS: dict[int, bool] = {pb.REPDEF_ALL_VALID_ITEM: False, pb.REPDEF_NULLABLE_ITEM: True}


class Layer(NamedTuple):
    """A layer of a page.

    Attributes:
        is_list: Whether it is a list layer; else it is an item layer.
        nullable: Whether it has a definition level for nulls.
        emptyable: Whether it has a definition level for empty lists.
    """

    is_list: bool
    nullable: bool
    emptyable: bool

    @property
    def levels(self) -> int:
        """Number of definition levels of the layer."""
        return self.nullable + self.emptyable


def parse_layers(layers: Sequence[int]) -> tuple[Layer, ...]:
    """Read the layers of a page, innermost first.

    Raises:
        CorruptFile: There is no layer, or one is of an unknown kind.
    """
    if not layers:
        raise CorruptFile("a page has no layers")
    parsed = []
    for layer in layers:
        if layer in _LISTS:
            parsed.append(Layer(True, *_LISTS[layer]))
        elif layer in _ITEMS:
            parsed.append(Layer(False, _ITEMS[layer], False))
        else:
            raise CorruptFile(f"layer kind {layer} of the repetition and definition levels")
    return tuple(parsed)


@lru_cache(maxsize=256)
def kinds_of(layers: tuple[Layer, ...]) -> tuple[int, ...]:
    """Return layers as a kernel takes them; see `layers.LIST`."""
    return tuple(
        LIST * layer.is_list | NULLABLE * layer.nullable | EMPTYABLE * layer.emptyable
        for layer in layers
    )


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
    """Check that the levels of rows fit their layers, values and number of rows.

    Args:
        layers: The layers, innermost first.
        rep: The repetition level of each item; None where all are 0.
        definition: The definition level of each item; None where all are 0.
        values: Number of values.
        rows: Number of rows.

    Raises:
        CorruptFile: The levels do not fit.
    """
    lists = sum(layer.is_list for layer in layers)
    highest = sum(layer.levels for layer in layers)
    visible, starts = values, values if definition is None else len(definition)
    if rep is not None:
        inside = int(np.count_nonzero(rep < lists))
        if lists == 0 or rep.max(initial=0) > lists:
            raise CorruptFile(f"a repetition level above the page's {lists} list layers")
        visible, starts = len(rep), len(rep) - inside
    if definition is not None:
        visible = int(np.count_nonzero(definition <= visible_levels(layers)))
        if definition.max(initial=0) > highest:
            raise CorruptFile(f"a definition level above {highest}, the highest of the page")
    if rep is not None and definition is not None and len(rep) != len(definition):
        raise CorruptFile(f"{len(rep)} repetition levels, {len(definition)} definition levels")
    if visible != values:
        raise CorruptFile(f"{values} values where the levels tell of {visible}")
    if starts != rows:
        raise CorruptFile(f"the levels tell of {starts} rows, expected {rows}")


class DecodedPage(NamedTuple):
    """Decoded rows of a leaf column.

    Attributes:
        values: The values of the visible items.
        rep: The repetition level of each item; None where all are 0.
        definition: The definition level of each item; None where all are 0.
        layers: The layers, innermost first.
        rows: Number of rows.
    """

    values: Block
    rep: Level | None
    definition: Level | None
    layers: tuple[Layer, ...]
    rows: int

    def check(self) -> "DecodedPage":
        """Check that levels, layers and values fit each other; return self.

        Raises:
            CorruptFile: The levels do not fit.
        """
        check_levels(self.layers, self.rep, self.definition, self.values.length, self.rows)
        return self

    def select(self, ranges: Sequence[RowRange]) -> "DecodedPage":
        """Cut row ranges, ascending and disjoint, out of these rows."""
        rows = count_rows(ranges)
        if rows == self.rows:
            return self
        items = ranges if self.rep is None else self._item_ranges(ranges)
        return self.select_items(items, rows)

    def select_items(self, ranges: Sequence[RowRange], rows: int | None = None) -> "DecodedPage":
        """Cut ranges of items out, which must form whole rows.

        Args:
            ranges: Ranges of items, ascending and disjoint.
            rows: Number of rows in the ranges; None for the number of all rows.
        """
        rep = None if self.rep is None else select(self.rep, ranges)
        definition = None if self.definition is None else select(self.definition, ranges)
        values = self.values.select(self._visible(ranges))
        return DecodedPage(
            values, rep, definition, self.layers, self.rows if rows is None else rows
        )

    def unravel(self) -> "list[Unravelled]":
        """Turn the levels into validity and offsets, layer by layer.

        Returns:
            The layers, innermost first; the first has as many slots as there are values.

        Raises:
            CorruptFile: The levels contradict the layers.
        """
        if self.definition is None and len(self.layers) == 1 and not self.layers[0].is_list:
            return [Unravelled(None, None, self.values.length)]
        rep, definition = self.rep, self.definition
        if rep is not None and definition is not None and len(rep) != len(definition):
            raise CorruptFile(f"{len(rep)} repetition levels, {len(definition)} definition levels")
        levels = rep if definition is None else definition
        items = self.values.length if levels is None else len(levels)
        kinds, has_levels = kinds_of(self.layers), (rep is not None, definition is not None)
        leaf = LeafLevels(items, self.values.length, kinds, *has_levels)
        return [Unravelled(*layer) for layer in unravel(rep, definition, [leaf])[0]]

    def _item_ranges(self, ranges: Sequence[RowRange]) -> Sequence[RowRange]:
        assert self.rep is not None
        top = sum(layer.is_list for layer in self.layers)
        bounds = bounds_of(ranges)
        return RowRanges(find_rows(self.rep, top, bounds.ravel()).reshape(bounds.shape))

    def _visible(self, items: Sequence[RowRange]) -> Sequence[RowRange]:
        if self.definition is None or self.rep is None:
            return items
        highest = visible_levels(self.layers)
        if len(items) == 1:  # counting takes a fraction of the memory of a running total
            start, end = items[0]
            before = int(np.count_nonzero(self.definition[:start] <= highest))
            within = int(np.count_nonzero(self.definition[start:end] <= highest))
            return [(before, before + within)]
        seen = np.zeros(len(self.definition) + 1, np.int64)
        np.cumsum(self.definition <= highest, out=seen[1:])
        return RowRanges(seen[bounds_of(items)])


class Unravelled(NamedTuple):
    """One layer of rows, as Arrow stores it.

    Attributes:
        validity: Which slots are valid; None where all are.
        offsets: Start of each list's items, then the number of items; None for an item layer.
        length: Number of slots.
    """

    validity: Mask | None
    offsets: Ints | None
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
