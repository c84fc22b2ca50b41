"""The interface of page layouts: rows of a page, as values and the layers around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lancefs.datafile.blocks import Block, RowRange
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import Unravelled
from lancefs.storage import Reads


class PageRows(Protocol):
    """Some rows of a page."""

    @property
    def values(self) -> Block:
        """The values of the leaf."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    def unravel(self) -> list[Unravelled]:
        """Return the layers, innermost first; the validity of the first is that of the values."""
        ...


@dataclass(frozen=True, slots=True)
class UnravelledRows:
    """Some rows of a page, whose levels were read or are none.

    Attributes:
        values: The values of the leaf.
        layers: The layers, innermost first.
        rows: Number of rows.
    """

    values: Block
    layers: Sequence[Unravelled]
    rows: int

    def unravel(self) -> list[Unravelled]:
        """Return the layers, innermost first."""
        return list(self.layers)


class PageReader(Protocol):
    """Reads rows of one page."""

    @property
    def unplaced(self) -> Unplaced | None:
        """The values, if an index that is still to be read tells where rows are among them."""
        ...

    def read(self, ranges: Sequence[RowRange]) -> Reads[PageRows]:
        """Read rows, ascending and disjoint, within the page."""
        ...
