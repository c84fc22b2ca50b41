"""The blob layout: large values lie elsewhere in the file, the page says where.

Docs: format/file/encoding, "Blob page layout". The page is a page of descriptions (position, size)
in another layout. A size of 0 at position 0 is an empty value; a size of 0 elsewhere is no value,
and the position holds the levels: repetition in its low 16 bits, definition above them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Array, Block, FixedWidth, RowRange, Struct
from lancefs.datafile.v2_1.layouts.page_reader import PageReader
from lancefs.datafile.v2_1.levels import Layer, Leaf, visible_levels
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import Steps


class BlobPage:
    """Reads the descriptions of rows of a blob page.

    Args:
        inner: The page of descriptions.
        layers: What the levels in the descriptions mean.
    """

    def __init__(self, inner: PageReader, layers: tuple[Layer, ...]) -> None:
        self.inner = inner
        self.layers = layers
        if any(layer.is_list for layer in layers):
            raise UnsupportedFeature("lists of blobs")

    def read(self, ranges: Sequence[RowRange]) -> Steps[Leaf]:
        """Read rows, ascending and disjoint, within the page."""
        descriptions = yield from self.inner.read(ranges)
        positions, sizes = _columns(descriptions.values)
        none = (sizes == 0) & (positions != 0)
        levels = np.where(none, positions >> np.uint64(16), 0).astype(np.uint16)
        definition = levels if visible_levels(self.layers) else None
        return Leaf(descriptions.values, None, definition, self.layers, descriptions.rows).check()


def _columns(block: Block) -> tuple[Array, Array]:
    if isinstance(block, Struct) and len(block.children) == 2:
        position, size = block.children
        if (
            isinstance(position, FixedWidth)
            and isinstance(size, FixedWidth)
            and position.bits == size.bits == 64
        ):
            return position.values, size.values
    raise CorruptFile("the descriptions of blobs are not pairs of a position and a size")
