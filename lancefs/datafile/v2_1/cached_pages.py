"""Decoded parts of pages that kernels need, such as dictionaries, cached for the next rows."""

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
# Bytes of dictionaries that are cached for pages that were read, but are not read now.
_MAX_BYTES = 4 * 1024 * 1024


class ReadOtherwise(Exception):
    """Kernels do not read some columns, and nothing says that they are damaged."""


class _PageCache(NamedTuple, Generic[_Part]):
    """What is cached of some pages.

    Attributes:
        parts: What the kernel needs of each page.
        are_cached: For each page, whether its part is cached: bool, shape (pages,).
        sizes: Bytes that are cached of each page: int64, shape (pages,).
    """

    parts: PageParts[_Part]
    are_cached: Mask
    sizes: Ints


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


class CachedPages(ABC, Generic[_Part]):
    """What is cached of the pages of some leaves, which threads read at the same time.

    A part is what a kernel needs of one page: a dictionary, or symbols of FSST.

    Args:
        plans: The plan of each leaf.
        pages: Their pages, with positions within the bytes that are read.
        parts: What a kernel needs of them, of which nothing is cached yet.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints, parts: PageParts[_Part]) -> None:
        self._plans, self._pages = plans, pages
        # The leaf of each page, and the number of the page in it.
        self._places = [
            (leaf, number) for leaf, plan in enumerate(plans) for number in range(len(plan.pages))
        ]
        none = np.zeros(len(pages), np.bool_)
        self._cache = _PageCache(parts, none, np.zeros(len(pages), np.int64))

    @abstractmethod
    def read_part(self, page: int, data: Bytes) -> _Part | None:
        """Return what the kernel needs of a page; None where it is nothing.

        Args:
            page: The number of the page.
            data: Bytes that have its dictionary, at the positions that the pages tell.

        Raises:
            CorruptFile: The dictionary is damaged.
            UnsupportedFeature: It is of a kind that is not known.
            ReadOtherwise: It has something that only the page-by-page path takes.
        """

    @abstractmethod
    def bytes_of(self, part: _Part) -> int:
        """Return how many bytes a part takes."""

    @property
    def cost(self) -> int:
        """Bytes that are cached."""
        return int(self._cache.sizes.sum())

    def parts_of(self, data: Bytes, rows: tuple[int, int]) -> PageParts[_Part]:
        """Return what the kernel needs of the pages that hold rows.

        Args:
            data: See `read_part`.
            rows: The first row, and the row after the last one.

        Raises:
            CorruptFile: See `read_part`.
            UnsupportedFeature: See `read_part`.
            ReadOtherwise: See `read_part`.
        """
        cache, first = self._cache, self._pages[:, PageColumn.FIRST_ROW]
        holds = (first < rows[1]) & (first + self._pages[:, PageColumn.ROWS] > rows[0])
        wanted = np.flatnonzero(holds & ~cache.are_cached)
        if not len(wanted):
            return cache.parts
        # A copy, since another thread may read with what is cached so far.
        cache = _PageCache(cache.parts.copy(), cache.are_cached.copy(), cache.sizes.copy())
        if self.cost > _MAX_BYTES:
            left = np.flatnonzero(~holds & (cache.sizes > 0))
            cache.are_cached[left], cache.sizes[left] = False, 0
            for page in left.tolist():
                cache.parts.put(page, None)
        for page in wanted.tolist():
            part = self.read_part(page, data)
            cache.parts.put(page, part)
            cache.are_cached[page] = True
            cache.sizes[page] = 0 if part is None else self.bytes_of(part)
        self._cache = cache
        return cache.parts
