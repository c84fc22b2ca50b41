"""What has to be known of pages beside their plans, as dictionaries, once rows of them are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import Mask
from lancefs.datafile.kernels.pages import PageColumn, PageParts
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.storage import Bytes

_Part = TypeVar("_Part")
# Bytes of dictionaries that are kept for pages that were read, but are not read now.
_MAX_BYTES = 4 * 1024 * 1024


class ReadOtherwise(Exception):
    """Kernels do not read some columns, and nothing says that they are damaged."""


class _KnownSoFar(NamedTuple, Generic[_Part]):
    """What is known so far.

    Attributes:
        parts: What the kernel has to know.
        are_known: For each page, whether it is known.
        kept: Bytes that are kept of each page.
    """

    parts: PageParts[_Part]
    are_known: Mask
    kept: Ints


class PlainSource(NamedTuple):
    """What rows of some leaves are read from: the first arguments of kernels.

    Attributes:
        tables: The bytes that have the chunk tables.
        data: The bytes that have all else of the pages.
        file: A descriptor of the open file that has the same bytes, or -1; and where they begin in
            the file.
        pages: The pages of the leaves, with the positions of their tables in `tables`.
    """

    tables: Bytes
    data: Bytes
    file: tuple[int, int]
    pages: Ints


class KnownPages(ABC, Generic[_Part]):
    """What is known of the pages of some leaves, which threads read at the same time.

    Args:
        plans: The plan of each leaf.
        pages: Their pages, with positions within the bytes that are read.
        parts: What a kernel has to know of them, of which nothing is known yet.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints, parts: PageParts[_Part]) -> None:
        self._plans, self._pages = plans, pages
        # The leaf of each page, and the number of the page in it.
        self._places = [
            (leaf, number) for leaf, plan in enumerate(plans) for number in range(len(plan.pages))
        ]
        none = np.zeros(len(pages), np.bool_)
        self._known = _KnownSoFar(parts, none, np.zeros(len(pages), np.int64))

    @abstractmethod
    def read_part(self, page: int, data: Bytes) -> _Part | None:
        """Return what has to be known of a page; None where it is nothing.

        Args:
            page: The number of the page.
            data: Bytes that have its dictionary, at the positions that the pages tell.

        Raises:
            CorruptFile: The dictionary is damaged.
            UnsupportedFeature: It is of a kind that is not known.
            ReadOtherwise: It has something that only the general way takes.
        """

    @abstractmethod
    def bytes_of(self, part: _Part) -> int:
        """Return how many bytes are kept of a page."""

    @property
    def cost(self) -> int:
        """Bytes that are kept."""
        return int(self._known.kept.sum())

    def parts_of(self, data: Bytes, rows: tuple[int, int]) -> PageParts[_Part]:
        """Return what has to be known of the pages that hold rows.

        Args:
            data: See `read_part`.
            rows: The first row, and the row after the last one.

        Raises:
            CorruptFile: See `read_part`.
            UnsupportedFeature: See `read_part`.
            ReadOtherwise: See `read_part`.
        """
        known, first = self._known, self._pages[:, PageColumn.FIRST_ROW]
        holds = (first < rows[1]) & (first + self._pages[:, PageColumn.ROWS] > rows[0])
        wanted = np.flatnonzero(holds & ~known.are_known)
        if not len(wanted):
            return known.parts
        # A copy, since another thread may read with what is known so far.
        known = _KnownSoFar(known.parts.copy(), known.are_known.copy(), known.kept.copy())
        if self.cost > _MAX_BYTES:
            left = np.flatnonzero(~holds & (known.kept > 0))
            known.are_known[left], known.kept[left] = False, 0
            for page in left.tolist():
                known.parts.put(page, None)
        for page in wanted.tolist():
            part = self.read_part(page, data)
            known.parts.put(page, part)
            known.are_known[page] = True
            known.kept[page] = 0 if part is None else self.bytes_of(part)
        self._known = known
        return known.parts
