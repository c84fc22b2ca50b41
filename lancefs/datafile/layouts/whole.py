"""Mini-block pages of which all rows are wanted: pages that are alike are decoded as one.

Each page that is decoded costs some time in Python, whatever it holds. A table of small fragments
has a page for each of them in every column, and a long column of lists has hundreds of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block
from lancefs.datafile.buffers import empty
from lancefs.datafile.container import Page
from lancefs.datafile.encodings import registry
from lancefs.datafile.encodings.dictionary import Dictionaries
from lancefs.datafile.encodings.registry import Chunked
from lancefs.datafile.kernels import open_chunks
from lancefs.datafile.layouts.chunks import Chunks, MiniBlock, check_rows
from lancefs.datafile.levels import Leaf, Level, check_levels
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange, Bytes, Steps

# Bytes of a page that is decoded together with others, for which its bytes are copied.
_SMALL = 256 * 1024


class WholePage(NamedTuple):
    """A page of which all was fetched, and nothing decoded yet.

    Attributes:
        described: What its description says.
        rows: Its rows.
        make: What is made of the values of its chunks.
        table: The chunk table.
        chunks: The chunks.
        dictionary: The dictionary, where there is one.
    """

    described: MiniBlock
    rows: int
    make: Callable[[Chunks], Block]
    table: Bytes
    chunks: Bytes
    dictionary: Bytes | None = None

    def fits(self, other: WholePage) -> bool:
        """Whether this page can be decoded together with another one, which follows."""
        if max(len(self.chunks), len(other.chunks)) > _SMALL or self.make is not other.make:
            return False
        return self.described is other.described or self.described.kind == other.described.kind


def fetch_whole(
    pages: Sequence[tuple[Page, MiniBlock]], make: Callable[[Chunks], Block] = Chunks.decode
) -> Steps[list[WholePage]]:
    """Fetch all of some pages.

    Args:
        pages: Where the buffers of each are, and what its description says.
        make: What is made of the values of their chunks.

    Raises:
        CorruptFile: A page has too few buffers.
    """
    wanted: list[ByteRange] = []
    for page, described in pages:
        described.check_buffers(page)
        wanted += page.buffers[: 2 + described.has_dictionary]
    got = iter((yield wanted))
    return [
        WholePage(described, page.rows, make, *islice(got, 2 + described.has_dictionary))
        for page, described in pages
    ]


def decode(pages: Sequence[WholePage]) -> Leaf:
    """Decode pages that fit each other, as one page that has the rows of all.

    Raises:
        CorruptFile: One of them is damaged.
    """
    first, described = pages[0], pages[0].described
    sizes = [(len(one.table), len(one.chunks), one.described.items) for one in pages]
    data = _joined([one.chunks for one in pages])
    counts, levels, begins, ends = open_chunks(
        _joined([one.table for one in pages]),
        data,
        np.array(sizes, np.int64),
        described.width,
        described.size_widths,
    )
    buffers = [Chunked(data, *bounds) for bounds in zip(begins, ends, strict=True)]
    rep, definition = described.levels(buffers, levels)
    dictionary = _dictionaries(pages) if described.has_dictionary else None
    chunks = Chunks(described.layout.value_compression, buffers, counts, dictionary, None)
    rows = sum(one.rows for one in pages)
    leaf = Leaf(first.make(chunks), rep, definition, described.layers, rows)
    if len(pages) == 1:
        _check_rows(first)
        return leaf.check()
    if leaf.values.length != sum(one.described.items for one in pages):
        raise CorruptFile(f"{leaf.values.length} values in pages of another number")
    entries = [len(one.table) // described.width for one in pages]
    stops = levels.cumsum()[np.cumsum(entries) - 1].tolist()
    for one, (start, end) in zip(pages, pairwise([0, *stops]), strict=True):
        _check_page(one, rep, definition, start, end)
    return leaf


def _check_rows(page: WholePage) -> None:
    if not page.described.has_rep:
        check_rows(page.described.items, page.rows)


def _check_page(
    page: WholePage, rep: Level | None, definition: Level | None, start: int, end: int
) -> None:
    """Check that the rows of a page are its own, and not some of its neighbour's."""
    _check_rows(page)
    rep = None if rep is None else rep[start:end]
    definition = None if definition is None else definition[start:end]
    check_levels(page.described.layers, rep, definition, page.described.items, page.rows)
    if rep is not None and (not len(rep) or rep[0] != page.described.top):
        raise CorruptFile("a page of lists does not begin with a new row")


def _dictionaries(pages: Sequence[WholePage]) -> Dictionaries:
    found = [one.dictionary for one in pages if one.dictionary is not None]
    described = pages[0].described
    if len(found) == 1:
        return described.dictionary(found[0])
    ends = np.cumsum([len(data) for data in found])
    starts = ends - [len(data) for data in found]
    sizes = np.array([one.described.dictionary_items for one in pages], np.int64)
    packed = Chunked(_joined(found), starts, ends)
    items = registry.decode_blocks(described.layout.dictionary, packed, sizes)
    counts = np.array([one.described.items for one in pages], np.int64)
    return Dictionaries(items, sizes, counts)


def _joined(parts: Sequence[Bytes]) -> Bytes:
    """Put bytes one after the other; those of a single part are not copied."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, out=empty(sum(map(len, parts)), np.uint8))
