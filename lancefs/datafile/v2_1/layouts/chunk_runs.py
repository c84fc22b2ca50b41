"""Runs of consecutive chunks of mini-block pages; runs of equal kinds are decoded in one call.

Every call costs some time in Python, however little it decodes. A table of small fragments has one
page for each fragment in every column, a long column of lists has hundreds of pages, and a scan of
a thousand columns reads little of each column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, Ints, RowRange, VariableWidth
from lancefs.datafile.buffers import empty
from lancefs.datafile.container import Page
from lancefs.datafile.kernels import find_rows, open_chunks
from lancefs.datafile.row_ranges import RowRanges, bounds_of, connected, count_rows
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.dictionary import PageDictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.layouts.miniblock_chunks import (
    Chunks,
    MiniBlock,
    check_items,
    check_rows,
    check_visible,
)
from lancefs.datafile.v2_1.levels import DecodedPage, check_levels
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange, Bytes

# Largest run, in bytes, that is decoded together with others: its bytes are copied for it.
_MAX_JOINED_BYTES = 256 * 1024
# Pages with at most this many bytes and values are read whole, even for a few of their rows: this
# takes less time than finding the chunks that hold the rows.
_MAX_WHOLE_BYTES = 64 * 1024
_MAX_WHOLE_VALUES = 16 * 1024


class ChunkRun(NamedTuple):
    """Consecutive chunks of a page, fetched and not yet decoded.

    Attributes:
        description: The parsed description of the page.
        make: Decodes the values of chunks, or reduces them to an outline.
        table: The entries of the chunks in the chunk table.
        chunks: The bytes of the chunks.
        items: Number of values in the chunks.
        rows: Number of rows that start in the chunks.
        wanted: Ranges of these rows to return, ascending and disjoint.
        dictionary: The dictionary of the page, as bytes or decoded; None if it has none.
        continues: Whether the first chunk begins in the middle of a row.
    """

    description: MiniBlock
    make: Callable[[Chunks], Block]
    table: Bytes
    chunks: Bytes
    items: int
    rows: int
    wanted: Sequence[RowRange]
    dictionary: Bytes | PageDictionaries | None
    continues: bool = False

    @property
    def kind(self) -> Hashable | None:
        """Key that runs share which one call can decode; None for a run too large to be copied."""
        is_small = len(self.chunks) <= _MAX_JOINED_BYTES
        return (self.make, self.description.kind) if is_small else None

    def is_followed_by(self, other: ChunkRun) -> bool:
        """Whether another run can be decoded with this one, as if its chunks came next."""
        if other.continues:
            return False
        if isinstance(self.dictionary, PageDictionaries) or isinstance(
            other.dictionary, PageDictionaries
        ):
            return False
        if max(len(self.chunks), len(other.chunks)) > _MAX_JOINED_BYTES:
            return False
        if self.make is not other.make:
            return False
        ours, theirs = self.description, other.description
        return ours is theirs or ours.kind == theirs.kind


class Request(NamedTuple):
    """The byte ranges to fetch for a run of chunks.

    Attributes:
        ranges: The byte ranges of the file.
        open: Makes the run, from the bytes of the ranges.
    """

    ranges: Sequence[ByteRange]
    open: Callable[[Sequence[Bytes]], ChunkRun]


def request_whole(
    page: Page,
    description: MiniBlock,
    wanted: Sequence[RowRange],
    make: Callable[[Chunks], Block] = Chunks.decode,
) -> Request | None:
    """Return the request for a page that is read whole, for all of its rows or because it is small.

    Args:
        page: The location of the page.
        description: The parsed description of the page.
        wanted: Ranges of rows to return, ascending and disjoint.
        make: Decodes the values of the chunks.

    Returns:
        The request; None if the page should not be read whole.

    Raises:
        CorruptFile: The page has too few buffers.
    """
    description.check_buffers(page)
    buffers = page.buffers[: 2 + description.has_dictionary]
    start, end = buffers[1]
    is_small = end - start <= _MAX_WHOLE_BYTES and description.items <= _MAX_WHOLE_VALUES
    if not is_small and (len(wanted) != 1 or wanted[0] != (0, page.rows)):
        return None
    return Request(buffers, partial(_open_whole, description, make, page.rows, wanted))


def _open_whole(
    description: MiniBlock,
    make: Callable[[Chunks], Block],
    rows: int,
    wanted: Sequence[RowRange],
    buffers: Sequence[Bytes],
) -> ChunkRun:
    dictionary = buffers[2] if description.has_dictionary else None
    table, chunks = buffers[:2]
    return ChunkRun(description, make, table, chunks, description.items, rows, wanted, dictionary)


def decode(groups: Sequence[Sequence[ChunkRun]]) -> list[DecodedPage]:
    """Decode runs in one call.

    Args:
        groups: Runs of one kind, in groups; the runs of a group follow each other.

    Returns:
        The wanted rows of each group.

    Raises:
        CorruptFile: A run is damaged.
    """
    runs = [run for group in groups for run in group]
    dictionaries = [_dictionary(group) for group in groups]
    leaf, levels = _decode_all(runs, dictionaries[0] if len(groups) == 1 else None)
    if leaf.rep is None and leaf.definition is None:
        leaf.check()
    values = [0, *accumulate([run.items for run in runs])]
    if leaf.values.length != values[-1]:
        raise CorruptFile(f"{leaf.values.length} values in runs of {values[-1]}")
    entries = [len(run.table) // run.description.width for run in runs]
    items = [0, *levels.cumsum()[np.cumsum(entries) - 1].tolist()]
    for run, bounds in zip(runs, pairwise(items), strict=True):
        _check_run(run, leaf, bounds)
    if len(groups) == 1:
        return [_select_wanted(leaf, runs)]
    pages, first = [], 0
    for group, dictionary in zip(groups, dictionaries, strict=True):
        stop = first + len(group)
        parts = (values[first], values[stop]), (items[first], items[stop])
        pages.append(_select_wanted(_cut(leaf, *parts, group, dictionary), group))
        first = stop
    return pages


def _decode_all(
    runs: Sequence[ChunkRun], dictionary: PageDictionaries | None
) -> tuple[DecodedPage, Ints]:
    """Return all rows of runs, decoded as one run, and the number of levels of each chunk."""
    first, description = runs[0], runs[0].description
    if not description.has_rep:
        for run in runs:
            check_rows(run.items, run.rows)
    sizes = [(len(run.table), len(run.chunks), run.items) for run in runs]
    data = _concatenate([run.chunks for run in runs])
    counts, levels, begins, ends = open_chunks(
        _concatenate([run.table for run in runs]),
        data,
        np.array(sizes, np.int64),
        description.width,
        description.size_widths,
    )
    buffers = [Chunked(data, *bounds) for bounds in zip(begins, ends, strict=True)]
    check_items(description, counts, levels, len(data))
    rep, definition = description.levels(buffers, levels)
    check_visible(description, definition, levels, counts)
    encoding = description.layout.value_compression
    values = first.make(Chunks(encoding, buffers, counts, dictionary, None))
    return DecodedPage(
        values, rep, definition, description.layers, sum([run.rows for run in runs])
    ), levels


def _check_run(run: ChunkRun, leaf: DecodedPage, bounds: RowRange) -> None:
    """Check that the rows of a run come from its own levels, not from those of a neighbour.

    Args:
        run: The run.
        leaf: The rows of all runs.
        bounds: Start and end of the run's levels among the levels of all runs.
    """
    description = run.description
    if leaf.rep is None and leaf.definition is None:
        return
    rep = None if leaf.rep is None else leaf.rep[slice(*bounds)]
    definition = None if leaf.definition is None else leaf.definition[slice(*bounds)]
    check_levels(description.layers, rep, definition, run.items, run.rows)
    if rep is not None and not run.continues and (not len(rep) or rep[0] != description.top):
        raise CorruptFile("a page of lists does not begin with a new row")


def _cut(
    leaf: DecodedPage,
    values: RowRange,
    items: RowRange,
    runs: Sequence[ChunkRun],
    dictionary: PageDictionaries | None,
) -> DecodedPage:
    """Cut the rows of some runs out of the rows of all runs.

    Args:
        leaf: The rows of all runs.
        values: Start and end of the values to cut out.
        items: Start and end of the levels to cut out.
        runs: The runs to cut out.
        dictionary: The dictionary that the values are indices into; None for plain values.
    """
    rep = None if leaf.rep is None else leaf.rep[slice(*items)]
    definition = None if leaf.definition is None else leaf.definition[slice(*items)]
    block = leaf.values.select([values])
    if isinstance(block, VariableWidth):  # without the bytes of other runs, which may be many
        start, end = int(block.offsets[0]), int(block.offsets[-1])
        block = VariableWidth(block.offsets - block.offsets[0], block.data[start:end])
    if dictionary is not None:
        block = look_up(block, dictionary)
    return DecodedPage(block, rep, definition, leaf.layers, sum([run.rows for run in runs]))


def _select_wanted(leaf: DecodedPage, runs: Sequence[ChunkRun]) -> DecodedPage:
    """Cut the wanted rows out of all rows of consecutive runs."""
    first = runs[0]
    if first.continues and leaf.rep is not None:
        # The first items end a row whose beginning was not fetched.
        begin = int(find_rows(leaf.rep, first.description.top, np.zeros(1, np.int64))[0])
        leaf = leaf.select_items([(begin, len(leaf.rep))])
    if len(runs) == 1:
        return leaf.select(first.wanted)
    if sum([count_rows(run.wanted) for run in runs]) == leaf.rows:
        return leaf
    first_rows = accumulate([run.rows for run in runs], initial=0)
    wanted = [bounds_of(run.wanted) + row for run, row in zip(runs, first_rows, strict=False)]
    return leaf.select(connected(RowRanges(np.concatenate(wanted))))


def _dictionary(runs: Sequence[ChunkRun]) -> PageDictionaries | None:
    first, description = runs[0].dictionary, runs[0].description
    if first is None or isinstance(first, PageDictionaries):
        return first
    if len(runs) == 1:
        return description.dictionary(first)
    parts = [run.dictionary for run in runs if isinstance(run.dictionary, np.ndarray)]
    ends = np.cumsum([len(data) for data in parts])
    starts = ends - [len(data) for data in parts]
    sizes = np.array([run.description.dictionary_items for run in runs], np.int64)
    packed = Chunked(_concatenate(parts), starts, ends)
    items = registry.decode_blocks(description.layout.dictionary, packed, sizes)
    return PageDictionaries(items, sizes, np.array([run.items for run in runs], np.int64))


def _concatenate(parts: Sequence[Bytes]) -> Bytes:
    """Concatenate bytes; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, out=empty(sum(map(len, parts)), np.uint8))
