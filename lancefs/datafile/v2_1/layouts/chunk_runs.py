"""Runs of chunks of mini-block pages: runs that are alike are decoded as one.

Each run that is decoded costs some time in Python, whatever it holds. A table of small fragments
has a page for each of them in every column, a long column of lists has hundreds of pages, and of a
table of a thousand columns little of each is read at a time.
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
from lancefs.datafile.v2_1.encodings.dictionary import Dictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks, MiniBlock, check_rows
from lancefs.datafile.v2_1.levels import Leaf, check_levels
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange, Bytes

# Bytes of a run that is decoded together with others, for which its bytes are copied.
_SMALL = 256 * 1024
# Pages of so few bytes and values are read whole, where some of their rows are wanted: that takes
# less time than to look for the chunks with these, page by page.
_LITTLE = 64 * 1024
_FEW_VALUES = 16 * 1024


class ChunkRun(NamedTuple):
    """Chunks of a page that follow each other, which were fetched and not decoded yet.

    Attributes:
        described: What the description of the page says.
        make: What is made of the values of chunks.
        table: The entries of the chunk table.
        chunks: The chunks.
        items: Their values.
        rows: The rows that start in them.
        wanted: Which of those rows are wanted, ascending and disjoint.
        dictionary: That of the page, where it has one: its bytes, or decoded.
        continues: Whether the first chunk begins in the middle of a row.
    """

    described: MiniBlock
    make: Callable[[Chunks], Block]
    table: Bytes
    chunks: Bytes
    items: int
    rows: int
    wanted: Sequence[RowRange]
    dictionary: Bytes | Dictionaries | None = None
    continues: bool = False

    @property
    def kind(self) -> Hashable | None:
        """What runs have in common that can be decoded as one; None where that is not worth it."""
        return (self.make, self.described.kind) if len(self.chunks) <= _SMALL else None

    def is_followed_by(self, other: ChunkRun) -> bool:
        """Whether another one can be decoded with this one, as if its chunks came next."""
        if other.continues:
            return False
        if isinstance(self.dictionary, Dictionaries) or isinstance(other.dictionary, Dictionaries):
            return False
        if max(len(self.chunks), len(other.chunks)) > _SMALL or self.make is not other.make:
            return False
        return self.described is other.described or self.described.kind == other.described.kind


class Request(NamedTuple):
    """What must be fetched for a run of chunks.

    Attributes:
        ranges: The bytes.
        opened: Makes the run of them.
    """

    ranges: Sequence[ByteRange]
    opened: Callable[[Sequence[Bytes]], ChunkRun]


def request_whole(
    page: Page,
    described: MiniBlock,
    wanted: Sequence[RowRange],
    make: Callable[[Chunks], Block] = Chunks.decode,
) -> Request | None:
    """Return what to fetch of a page that is read whole, as all of it is wanted or it is small.

    Args:
        page: Where its buffers are.
        described: What its description says.
        wanted: The rows that are wanted, ascending and disjoint.
        make: What is made of the values of its chunks.

    Returns:
        None for a page that is not read whole.

    Raises:
        CorruptFile: It has too few buffers.
    """
    described.check_buffers(page)
    buffers = page.buffers[: 2 + described.has_dictionary]
    start, end = buffers[1]
    is_small = end - start <= _LITTLE and described.items <= _FEW_VALUES
    if not is_small and (len(wanted) != 1 or wanted[0] != (0, page.rows)):
        return None
    return Request(buffers, partial(_whole, described, make, page.rows, wanted))


def _whole(
    described: MiniBlock,
    make: Callable[[Chunks], Block],
    rows: int,
    wanted: Sequence[RowRange],
    buffers: Sequence[Bytes],
) -> ChunkRun:
    dictionary = buffers[2] if described.has_dictionary else None
    table, chunks = buffers[:2]
    return ChunkRun(described, make, table, chunks, described.items, rows, wanted, dictionary)


def decode(pieces: Sequence[Sequence[ChunkRun]]) -> list[Leaf]:
    """Decode runs in one go.

    Args:
        pieces: Runs of one kind, in pieces; those of a piece follow each other.

    Returns:
        The rows that are wanted of each piece.

    Raises:
        CorruptFile: One of them is damaged.
    """
    runs = [run for piece in pieces for run in piece]
    dictionaries = [_dictionary(piece) for piece in pieces]
    leaf, levels = _joined(runs, dictionaries[0] if len(pieces) == 1 else None)
    if leaf.rep is None and leaf.definition is None:
        leaf.check()
    values = [0, *accumulate([run.items for run in runs])]
    if leaf.values.length != values[-1]:
        raise CorruptFile(f"{leaf.values.length} values in runs of {values[-1]}")
    entries = [len(run.table) // run.described.width for run in runs]
    items = [0, *levels.cumsum()[np.cumsum(entries) - 1].tolist()]
    for run, bounds in zip(runs, pairwise(items), strict=True):
        _check_run(run, leaf, bounds)
    if len(pieces) == 1:
        return [_wanted(leaf, runs)]
    found, first = [], 0
    for piece, dictionary in zip(pieces, dictionaries, strict=True):
        stop = first + len(piece)
        parts = (values[first], values[stop]), (items[first], items[stop])
        found.append(_wanted(_cut(leaf, *parts, piece, dictionary), piece))
        first = stop
    return found


def _joined(runs: Sequence[ChunkRun], dictionary: Dictionaries | None) -> tuple[Leaf, Ints]:
    """Return all rows of runs, as if they were one, and how many levels each chunk has."""
    first, described = runs[0], runs[0].described
    sizes = [(len(run.table), len(run.chunks), run.items) for run in runs]
    data = _bytes([run.chunks for run in runs])
    counts, levels, begins, ends = open_chunks(
        _bytes([run.table for run in runs]),
        data,
        np.array(sizes, np.int64),
        described.width,
        described.size_widths,
    )
    buffers = [Chunked(data, *bounds) for bounds in zip(begins, ends, strict=True)]
    rep, definition = described.levels(buffers, levels)
    encoding = described.layout.value_compression
    values = first.make(Chunks(encoding, buffers, counts, dictionary, None))
    return Leaf(values, rep, definition, described.layers, sum([run.rows for run in runs])), levels


def _check_run(run: ChunkRun, leaf: Leaf, bounds: RowRange) -> None:
    """Check that the rows of a run are its own, and not some of its neighbour's.

    Args:
        run: The run.
        leaf: The rows of all runs.
        bounds: Where in their levels those of the run are.
    """
    described = run.described
    if not described.has_rep:
        check_rows(run.items, run.rows)
    if leaf.rep is None and leaf.definition is None:
        return
    rep = None if leaf.rep is None else leaf.rep[slice(*bounds)]
    definition = None if leaf.definition is None else leaf.definition[slice(*bounds)]
    check_levels(described.layers, rep, definition, run.items, run.rows)
    if rep is not None and not run.continues and (not len(rep) or rep[0] != described.top):
        raise CorruptFile("a page of lists does not begin with a new row")


def _cut(
    leaf: Leaf,
    values: RowRange,
    items: RowRange,
    runs: Sequence[ChunkRun],
    dictionary: Dictionaries | None,
) -> Leaf:
    """Cut the rows of some runs out of those of all.

    Args:
        leaf: The rows of all.
        values: Where their values are.
        items: Where their levels are.
        runs: Those to cut out.
        dictionary: What their values point into; None where they stand for themselves.
    """
    rep = None if leaf.rep is None else leaf.rep[slice(*items)]
    definition = None if leaf.definition is None else leaf.definition[slice(*items)]
    block = leaf.values.select([values])
    if isinstance(block, VariableWidth):  # with no bytes of the others, which may be many
        start, end = int(block.offsets[0]), int(block.offsets[-1])
        block = VariableWidth(block.offsets - block.offsets[0], block.data[start:end])
    if dictionary is not None:
        block = look_up(block, dictionary)
    return Leaf(block, rep, definition, leaf.layers, sum([run.rows for run in runs]))


def _wanted(leaf: Leaf, runs: Sequence[ChunkRun]) -> Leaf:
    """Cut the rows that are wanted out of those of runs that follow each other."""
    first = runs[0]
    if first.continues and leaf.rep is not None:
        # Its first items end a row whose beginning was not fetched.
        begin = int(find_rows(leaf.rep, first.described.top, np.zeros(1, np.int64))[0])
        leaf = leaf.select_items([(begin, len(leaf.rep))])
    if len(runs) == 1:
        return leaf.select(first.wanted)
    if sum([count_rows(run.wanted) for run in runs]) == leaf.rows:
        return leaf
    first_rows = accumulate([run.rows for run in runs], initial=0)
    wanted = [bounds_of(run.wanted) + row for run, row in zip(runs, first_rows, strict=False)]
    return leaf.select(connected(RowRanges(np.concatenate(wanted))))


def _dictionary(runs: Sequence[ChunkRun]) -> Dictionaries | None:
    first, described = runs[0].dictionary, runs[0].described
    if first is None or isinstance(first, Dictionaries):
        return first
    if len(runs) == 1:
        return described.dictionary(first)
    found = [run.dictionary for run in runs if isinstance(run.dictionary, np.ndarray)]
    ends = np.cumsum([len(data) for data in found])
    starts = ends - [len(data) for data in found]
    sizes = np.array([run.described.dictionary_items for run in runs], np.int64)
    packed = Chunked(_bytes(found), starts, ends)
    items = registry.decode_blocks(described.layout.dictionary, packed, sizes)
    return Dictionaries(items, sizes, np.array([run.items for run in runs], np.int64))


def _bytes(parts: Sequence[Bytes]) -> Bytes:
    """Put bytes one after the other; those of a single part are not copied."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, out=empty(sum(map(len, parts)), np.uint8))
