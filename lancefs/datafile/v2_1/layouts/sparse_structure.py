"""Sparse structure: nulls and lists as sets of slots, separate from the values (format 2.3).

Layers are listed from the outermost in; the slots of one layer are the parents of the next. A
validity layer lists its null or its valid slots. A list layer lists the lists that are not empty,
and the number of items of each. A fixed-size list layer has a fixed number of slots below each of
its own. The buffers of the sets follow the buffers of the values, in the order of the layers.

A set is read whole, for all rows of the page, so that memory for it is reserved: few bytes may tell
of any number of slots. There is a limit to that number, below which no sum or product wraps.

Source of the facts: pages written by Lance 14, see protos/encodings_v2_3.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from lancefs.datafile.blocks import Ints, Mask, RowRange, offsets_of
from lancefs.datafile.buffers import reserve
from lancefs.datafile.container import Page
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.layouts.page_reader import UnravelledRows
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.layouts.sparse_values import SlotValues
from lancefs.datafile.v2_1.levels import Unravelled
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding
from lancefs.proto.encodings_v2_3_pb2 import (
    SparseListLayer,
    SparseStructuralLayer,
    SparseStructure,
    SparseValiditySet,
)
from lancefs.storage import Bytes, Reads


class SparsePage:
    """Reads rows of one page with sparse structure; keeps the structure once it was read.

    Args:
        page: The location of the page.
        structure: The description of the layers.
        values: Reads the values of slots.
    """

    def __init__(self, page: Page, structure: SparseStructure, values: SlotValues) -> None:
        self.page = page
        self.structure = structure
        self.values = values
        self._layers: list[Unravelled] | None = None

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        return self.values.unplaced

    def read(self, ranges: Sequence[RowRange]) -> Reads[UnravelledRows]:
        """Read rows, ascending and disjoint, within the page."""
        if self._layers is None:
            buffers = yield list(self.page.buffers[self.values.buffers :])
            parsed = list(_parse(self.structure.layers, iter(buffers), self.page.rows))
            layers, (slots, alive) = [layer for layer, _ in parsed], parsed[-1]
            self.values.place(slots.length, alive)
            # As in pages with levels, a value inside a null list or struct is null, too.
            is_null = alive is not None and not alive.all()
            layers[-1] = Unravelled(alive if is_null else None, None, slots.length)
            self._layers = _flattened(self.structure.layers, layers)
        cut, spans = [], ranges
        # A fixed-size list inside a list counts in the rows of the page, and not in its own slots.
        if ranges and ranges[-1][1] > self._layers[0].length:
            raise CorruptFile(
                f"row {ranges[-1][1] - 1} of a page whose outermost layer has "
                f"{self._layers[0].length} slots"
            )
        for layer in self._layers:
            cut.append(layer.select(spans))
            spans = layer.below(spans)
        values = yield from self.values.read([span for span in spans if span[0] < span[1]])
        if values.length != cut[-1].length:
            raise CorruptFile(f"{values.length} values for {cut[-1].length} slots")
        rows = count_rows(ranges)
        return UnravelledRows(values, tuple(reversed(cut)), rows)


def _parse(
    layers: Sequence[SparseStructuralLayer], buffers: Iterator[Bytes], rows: int
) -> Iterator[tuple[Unravelled, Mask | None]]:
    """Yield the layers, each with the mask of slots valid in it and in all layers around it.

    The mask is None where all slots are valid: a page of many rows need not have any bytes.
    """
    for layer in layers:
        dimension = layer.fixed_size_list.dimension
        if layer.HasField("fixed_size_list") and not 0 < dimension < 1 << 31:
            raise CorruptFile(f"a fixed-size list of {dimension} items")
    slots, rest = divmod(rows, prod(max(1, layer.fixed_size_list.dimension) for layer in layers))
    if rest or not layers:
        raise CorruptFile(f"{rows} rows of fixed-size lists, or a page without layers")
    innermost = layers[-1].WhichOneof("layer")
    if innermost in ("list", "fixed_size_list"):
        raise CorruptFile(f"the innermost layer is a {innermost}, and has no slots for its values")
    alive: Mask | None = None
    for layer in layers:
        _check_slots(slots)
        match layer.WhichOneof("layer"):
            case "validity":
                valid = _validity(layer.validity, buffers, slots)
                alive = _both(alive, valid)
                yield Unravelled(valid, None, slots), alive
            case "list":
                offsets = _offsets(layer.list, buffers, slots)
                valid = _validity(layer.list.validity, buffers, slots)
                alive = _repeated(_both(alive, valid), np.diff(offsets), int(offsets[-1]))
                yield Unravelled(valid, offsets, slots), alive
                slots = int(offsets[-1])
            case "fixed_size_list":
                valid = _validity(layer.fixed_size_list.validity, buffers, slots)
                dimension = int(layer.fixed_size_list.dimension)
                _check_slots(slots * dimension)
                alive = _repeated(_both(alive, valid), dimension, slots * dimension)
                yield Unravelled(valid, None, slots), alive
                slots *= dimension
            case _:
                raise UnsupportedFeature("a layer of sparse structure of an unknown kind")


def _check_slots(slots: int) -> None:
    if slots >= registry.MAX_VALUES:
        raise CorruptFile(f"a layer of {slots} slots")


def _both(alive: Mask | None, valid: Mask | None) -> Mask | None:
    """Return which slots are set in both masks; None stands for all."""
    if alive is None or valid is None:
        return valid if alive is None else alive
    return alive & valid


def _repeated(mask: Mask | None, times: int | Ints, length: int) -> Mask | None:
    """Repeat each slot of a mask; the result has a given length."""
    if mask is None:
        return None
    reserve(length)
    return np.repeat(mask, times)


def _flattened(
    kinds: Sequence[SparseStructuralLayer], layers: Sequence[Unravelled]
) -> list[Unravelled]:
    """Flatten fixed-size lists, as pages with levels have them: repeat slots of and around them."""
    flat, factor = [], 1
    for kind, layer in zip(reversed(kinds), reversed(layers), strict=True):
        factor *= max(1, int(kind.fixed_size_list.dimension))
        if factor > 1 and layer.offsets is not None:
            layer = Unravelled(layer.validity, layer.offsets * factor, layer.length)
            factor = 1  # fixed-size lists inside a list do not flatten the layers around it
        elif factor > 1:
            valid = _repeated(layer.validity, factor, layer.length * factor)
            layer = Unravelled(valid, None, layer.length * factor)
        flat.append(layer)
    return flat[::-1]


def _offsets(layer: SparseListLayer, buffers: Iterator[Bytes], slots: int) -> Ints:
    count, below = int(layer.num_non_empty_positions), int(layer.num_child_slots)
    _check_slots(below)
    positions = _positions(layer.non_empty_positions, buffers, count, slots)
    counts = registry.take_sequence(layer.counts, buffers, count)
    if count and (counts.min() <= 0 or int(counts.max()) > below):
        raise CorruptFile("a list that is not empty has no items, or more than there are")
    # Offsets that wrap may end where they should: a sum of floats does not wrap, and is exact
    # enough to tell that one of integers does not, either.
    found = counts.sum(dtype=np.float64)
    if found > 2.0 * below or int(counts.sum()) != below:
        raise CorruptFile(f"lists of {found:.0f} items in all, of {below}")
    reserve(2 * 8 * slots)  # lengths and offsets
    lengths = np.zeros(slots, np.int64)
    lengths[positions] = counts
    return offsets_of(lengths)


def _validity(layer: SparseValiditySet, buffers: Iterator[Bytes], slots: int) -> Mask | None:
    positions = _positions(layer.positions, buffers, int(layer.num_positions), slots)
    if layer.meaning == SparseValiditySet.SPARSE_VALIDITY_NULL_POSITIONS:
        if not len(positions):
            return None
        reserve(slots)
        valid = np.ones(slots, np.bool_)
        valid[positions] = False
        return valid
    if layer.meaning != SparseValiditySet.SPARSE_VALIDITY_VALID_POSITIONS:
        raise CorruptFile(f"a validity set of the kind {layer.meaning}")
    reserve(slots)
    valid = np.zeros(slots, np.bool_)
    valid[positions] = True
    return valid


def _positions(
    encoding: CompressiveEncoding, buffers: Iterator[Bytes], count: int, slots: int
) -> Ints:
    """Read the indices of some slots, in ascending order.

    Raises:
        CorruptFile: There are more indices than slots, they do not ascend, or one is no slot.
    """
    if count > slots:
        raise CorruptFile(f"{count} of {slots} slots are named")
    positions = registry.take_sequence(encoding, buffers, count)
    if count and (positions[0] < 0 or positions[-1] >= slots or np.any(np.diff(positions) <= 0)):
        raise CorruptFile("named slots do not ascend, or leave the page")
    return positions
