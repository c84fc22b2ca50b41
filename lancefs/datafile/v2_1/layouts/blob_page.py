"""The blob layout: the page holds the positions of large values, which lie elsewhere in the file.

Docs: format/file/encoding, "Blob page layout". The page contains descriptions (position, size) in
another layout. A size of 0 at position 0 is an empty value. A size of 0 at another position is no
value, and the position holds the levels: repetition in its low 16 bits, definition above them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Array, Block, FixedWidth, RowRange, Struct
from lancefs.datafile.v2_1.layouts.page_reader import PageReader
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import DecodedPage, Layer, visible_levels
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import Reads

_HIGHEST = np.iinfo(np.uint16).max


class BlobPage:
    """Reads the descriptions of rows of a blob page.

    Args:
        inner: Reads the descriptions.
        layers: The layers of the levels in the descriptions.
    """

    def __init__(self, inner: PageReader, layers: tuple[Layer, ...]) -> None:
        self.inner = inner
        self.layers = layers
        if any(layer.is_list for layer in layers):
            raise UnsupportedFeature("lists of blobs")

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        return self.inner.unplaced

    def read(self, ranges: Sequence[RowRange]) -> Reads[DecodedPage]:
        """Read rows, ascending and disjoint, within the page."""
        descriptions = yield from self.inner.read(ranges)
        positions, sizes = _columns(descriptions.values)
        has_levels = (sizes == 0) & (positions != 0)
        stored = np.where(has_levels, positions >> np.uint64(16), 0)
        if np.any(stored > _HIGHEST):
            raise CorruptFile(f"a definition level of {stored.max()} in a description of a blob")
        levels = stored.astype(np.uint16)
        definition = levels if visible_levels(self.layers) else None
        return DecodedPage(
            descriptions.values, None, definition, self.layers, descriptions.rows
        ).check()


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
