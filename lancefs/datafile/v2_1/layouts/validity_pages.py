"""Pages of data files 2.1 or later, read as validity (see `datafile.validity`).

The layers of a page say whether a value of it may be missing at all: where none may be, no byte of
the page is read. The levels of other mini-block pages are decoded without their values. Pages of
other layouts are decoded, and their values are discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lancefs.datafile.blocks import Block, RowRange
from lancefs.datafile.outlines import zeros
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks, check_rows
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.outline_pages import outlined
from lancefs.datafile.v2_1.layouts.page_reader import PageReader, PageRows
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import Layer, Unravelled
from lancefs.datafile.validity import VALIDITY
from lancefs.storage import Reads


def with_validity(page: PageReader, first: int) -> PageReader:
    """Return a reader of the same page that gives the validity of the rows.

    Args:
        page: Reads the values; both readers share the index of the page.
        first: The first of the layers, innermost first, whose nulls are wanted.
    """
    if not isinstance(page, MiniBlockPage | FullZipPage):
        return outlined(page, VALIDITY)
    values = page.layout.value_compression
    has_values = not values.HasField("constant") or values.constant.HasField("value")
    if has_values and not any(layer.nullable for layer in page.layers[first:]):
        if isinstance(page, MiniBlockPage) and not page.has_rep:
            check_rows(page.description.items, page.page.rows)
        return _ValidPage(page.layers)
    if isinstance(page, MiniBlockPage):
        return page.with_decoder(_without_values)
    return outlined(page, VALIDITY)


def _without_values(chunks: Chunks) -> Block:
    return zeros(VALIDITY, chunks.length)


@dataclass(frozen=True, slots=True)
class _ValidPage:
    """Gives rows of a page that has no nulls in the layers that are wanted, without reading it.

    Attributes:
        layers: The layers of the page, innermost first.
    """

    layers: tuple[Layer, ...]

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        return None

    def read(self, ranges: Sequence[RowRange]) -> Reads[PageRows]:
        """Return rows, ascending and disjoint, within the page."""
        yield from ()
        return _ValidRows(self.layers, count_rows(ranges))


@dataclass(frozen=True, slots=True)
class _ValidRows:
    """Rows without nulls; lists among them have no items, of which nothing is wanted.

    Attributes:
        layers: The layers of the page, innermost first.
        rows: Number of rows.
    """

    layers: tuple[Layer, ...]
    rows: int

    @property
    def values(self) -> Block:
        has_items = not any(layer.is_list for layer in self.layers)
        return zeros(VALIDITY, self.rows if has_items else 0)

    def unravel(self) -> list[Unravelled]:
        found, slots = list[Unravelled](), self.rows
        for layer in reversed(self.layers):
            offsets = np.zeros(slots + 1, np.int64) if layer.is_list else None
            found.append(Unravelled(None, offsets, slots))
            slots = 0 if layer.is_list else slots
        return found[::-1]
