"""The chunks of a mini-block page that hold wanted rows, and their buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.chunks import find_buffers, read_table
from lancefs.datafile.kernels.pages import RUN_LENGTHS, PageColumn, Stored
from lancefs.datafile.kernels.segments import places_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


class WantedChunks(NamedTuple):
    """Chunks of a page, ascending; arrays are int64, shape (chunks,) where nothing else is said.

    Attributes:
        chunks: Their numbers in the page.
        counts: The number of values of each.
        starts: Where each begins in the data.
        sizes: The bytes of each.
        levels: The number of levels that each tells.
        begins: Where each buffer begins in the data: shape (buffers, chunks).
        ends: Where it ends: shape (buffers, chunks).
        level_buffers: Number of those buffers that are of levels, the first ones.
        positions: The position of the chunk of each row among these: shape (rows,).
        within: The position of each row in its chunk: shape (rows,).
    """

    chunks: Ints
    counts: Ints
    starts: Ints
    sizes: Ints
    levels: Ints
    begins: Ints
    ends: Ints
    level_buffers: int
    positions: Ints
    within: Ints


def wanted_chunks(table: Bytes, data: Bytes, page: Ints, rows: Ints) -> WantedChunks:
    """Find the chunks of a page that hold rows.

    Args:
        table: The chunk table of the page.
        data: Bytes that have its chunks, which lie within.
        page: The page; see `PageColumn`.
        rows: The rows: int64, shape (rows,), ascending and each once.

    Raises:
        CorruptFile: The page is damaged.
    """
    column = PageColumn
    start, stop = page[column.CHUNKS : column.CHUNKS_END + 1].tolist()
    width, items = int(page[column.ENTRY]), int(page[column.ROWS])
    counts, bounds = read_table(table, stop - start, items, width)
    chunk, within = places_of(counts, rows - page[column.FIRST_ROW])
    chunks, positions = np.unique(chunk, return_inverse=True)
    counts, sizes = counts[chunks], (bounds[1:] - bounds[:-1])[chunks]
    starts = bounds[:-1][chunks] + start
    buffers, levels, begins, ends = buffers_of(data, page, starts, sizes, counts)
    found = chunks, counts, starts, sizes, levels, begins, ends
    return WantedChunks(*found, buffers, positions, within)


def buffers_of(
    data: Bytes, page: Ints, starts: Ints, sizes: Ints, counts: Ints
) -> tuple[int, Ints, Ints, Ints]:
    """Find the buffers of some chunks of a page.

    Args:
        data: Bytes that have the chunks.
        page: The page; see `PageColumn`.
        starts: Where each chunk begins: int64, shape (chunks,), as those that follow.
        sizes: Its bytes.
        counts: Its number of values.

    Returns:
        The number of buffers of levels, which are the first ones; and as `find_buffers` does.

    Raises:
        CorruptFile: A chunk is damaged.
    """
    is_skipped = page[PageColumn.LEVELS] == Stored.SKIPPED
    has_levels = page[PageColumn.LEVELS] not in (Stored.NONE, Stored.SKIPPED)
    buffers = int(page[PageColumn.WIDTH]) if is_skipped else int(has_levels)
    if not 0 <= buffers <= 2:
        raise CorruptFile(f"{buffers} buffers of levels in a chunk")
    has_runs = Stored(page[PageColumn.VALUES]) in RUN_LENGTHS
    widths = (*[2] * buffers, *[int(page[PageColumn.ENTRY])] * (1 + has_runs))
    levels, begins, ends = find_buffers(data, starts, sizes, widths)
    if has_levels and np.any(levels != counts):
        raise CorruptFile("a chunk has more or fewer levels than values")
    return buffers, levels, begins, ends
