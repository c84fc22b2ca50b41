"""Fixed-size lists: the items of all rows, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import FixedSizeList as FixedSizeListBlock
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows, scaled
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import FixedSizeList
from lancefs.storage import Steps


def read(
    encoding: FixedSizeList,
    page: ArrayPage,
    ranges: Sequence[RowRange],
    read_items: registry.Read = registry.read,
) -> Steps[Slots]:
    dimension = checked_dimension(encoding)
    items = yield from read_items(encoding.items, page, scaled(ranges, dimension))
    lists = FixedSizeListBlock(dimension, items.values, items.valid, count_rows(ranges))
    return Slots(lists)


def checked_dimension(encoding: FixedSizeList) -> int:
    """Return how many items a list has.

    Raises:
        CorruptFile: No list can have as many.
        UnsupportedFeature: The lists have a validity of their own, as later formats store it.
    """
    if encoding.has_validity:
        raise UnsupportedFeature("the validity of fixed-size lists in a data file 2.0")
    dimension = int(encoding.dimension)
    if not 0 < dimension < 1 << 31:
        raise CorruptFile(f"a fixed-size list of {dimension} items")
    return dimension
