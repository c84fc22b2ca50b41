"""The mini-block layout: small values in chunks of a few kilobytes, which an index finds by row.

Docs: format/file/encoding, "Mini-block page layout". `layouts.miniblock_chunks` describes the parts
of a page.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, Ints, Mask, RowRange, offsets_of
from lancefs.datafile.buffers import total
from lancefs.datafile.container import Page
from lancefs.datafile.kernels import find_buffers, find_rows
from lancefs.datafile.kernels.chunks import read_table
from lancefs.datafile.row_ranges import RowRanges, as_ranges, bounds_of, count_rows, rows_of
from lancefs.datafile.v2_1.encodings.dictionary import PageDictionaries
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.layouts.chunk_runs import (
    ChunkRun,
    Request,
    decode,
    request_whole,
)
from lancefs.datafile.v2_1.layouts.miniblock_chunks import (
    Chunks,
    MiniBlock,
    check_items,
    check_rows,
    check_visible,
)
from lancefs.datafile.v2_1.layouts.page_segments import fetch_segments
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import DecodedPage, Level
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange, Bytes, Reads

# Decoding one value alone costs as much as decoding this many values of whole chunks.
_COST_OF_ONE = 16


class _Index(NamedTuple):
    """The chunks of a page, by which rows are found in it.

    Attributes:
        table: The chunk table, as bytes.
        starts: Offset of each chunk in the chunk buffer.
        ends: Offset after each chunk.
        counts: Number of values in each chunk.
        first_row: First row that starts in each chunk; then the number of rows of the page.
        continues: Whether a chunk begins in the middle of a row; None where no chunk does.
        reach: For each chunk, the chunk after the last one with rows that start in it.
        dictionary: The dictionary of the page; None if it has none.
    """

    table: Bytes
    starts: Ints
    ends: Ints
    counts: Ints
    first_row: Ints
    continues: Mask | None
    reach: Ints
    dictionary: PageDictionaries | None


class _SharedIndex:
    """The index of a page once it was read; all readers of the page share it."""

    index: _Index | None = None


class MiniBlockPage:
    """Reads rows of one mini-block page; keeps its chunk table once it was read.

    Args:
        page: The location of the page.
        description: The parsed description of the page.
    """

    def __init__(self, page: Page, description: MiniBlock) -> None:
        self.page = page
        self.description = description
        self.layout = description.layout
        self.layers = description.layers
        self.top = description.top
        self.has_rep = description.has_rep
        description.check_buffers(page)
        self._shared = _SharedIndex()
        self._make: Callable[[Chunks], Block] = Chunks.decode

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        return self.description.unplaced(self.page) if self._shared.index is None else None

    def with_decoder(self, make: Callable[[Chunks], Block]) -> MiniBlockPage:
        """Return a reader of the same rows that decodes their values in another way.

        Args:
            make: Decodes the values of chunks, or reduces them to an outline.
        """
        other = copy(self)
        other._make = make
        return other

    def read(self, ranges: Sequence[RowRange]) -> Reads[DecodedPage]:
        """Read rows, ascending and disjoint, within the page."""
        fetched = yield from self.fetch(ranges)
        return fetched if isinstance(fetched, DecodedPage) else decode([[fetched]])[0]

    def request(self, ranges: Sequence[RowRange]) -> Request | None:
        """Return the byte ranges to fetch for rows of the page.

        Returns:
            The request; None where the index was not read yet, or the rows are scattered over the
            page: `fetch` handles both.
        """
        page, description = self.page, self.description
        request = request_whole(page, description, ranges, self._make)
        if request is not None:
            return request
        if self._shared.index is None or len(ranges) != 1:
            return None
        index, (start, end) = self._shared.index, ranges[0]
        first = bisect_right(index.first_row, start, hi=len(index.counts)) - 1
        last = bisect_right(index.first_row, end - 1, lo=first, hi=len(index.counts)) - 1
        chunks = slice(first, max(index.reach.item(last), last + 1))
        base, begin, stop = page.buffers[1][0], index.starts.item(first), chunks.stop
        span = base + begin, base + index.ends.item(stop - 1)
        return Request([span], partial(self._open_run, index, chunks, (start, end)))

    def fetch(self, ranges: Sequence[RowRange]) -> Reads[ChunkRun | DecodedPage]:
        """Fetch rows of the page, ascending and disjoint.

        Returns:
            Consecutive chunks, to be decoded with others; or decoded rows, where they are scattered
            over the page.
        """
        request = self.request(ranges)
        if request is not None:
            return request.open((yield request.ranges))
        index = yield from self._loaded()
        request = self.request(ranges)
        if request is None:
            return (yield from self._read_scattered(index, ranges))
        return request.open((yield request.ranges))

    def _read_scattered(self, index: _Index, ranges: Sequence[RowRange]) -> Reads[DecodedPage]:
        if not self.has_rep:
            return (yield from self._read_values(index, rows_of(ranges)))
        chunks = _chunks_of(index, ranges)
        data, starts = yield from self._fetch_chunks(index, chunks)
        levels, leaf = self._decode(index, chunks, data, starts)
        assert leaf.rep is not None
        items = _items_of(index, chunks, ranges, leaf.rep, self.top, np.cumsum(levels))
        return leaf.check().select_items(items, count_rows(ranges))

    def _open_run(
        self, index: _Index, chunks: slice, rows: RowRange, buffers: Sequence[Bytes]
    ) -> ChunkRun:
        """Return fetched chunks as a run, with rows of the page as rows of the run."""
        first, stop, width = chunks.start, chunks.stop, self.description.width
        before = index.first_row.item(first)
        starting = index.first_row.item(stop) - before
        return ChunkRun(
            self.description,
            self._make,
            index.table[first * width : stop * width],
            buffers[0],
            total(index.counts[chunks]) if self.has_rep else starting,
            starting,
            [(rows[0] - before, rows[1] - before)],
            index.dictionary,
            index.continues is not None and bool(index.continues[first]),
        )

    def load_index(self) -> Reads[None]:
        """Read the index and keep it: it tells where rows are that are read later."""
        if request_whole(self.page, self.description, [(0, 1)]) is None:
            yield from self._loaded()

    def _loaded(self) -> Reads[_Index]:
        """Return the index of the page; read it unless it was read before."""
        if self._shared.index is None:
            self._shared.index = self._parse_index((yield self._index_ranges()))
        return self._shared.index

    def _read_values(self, index: _Index, rows: Ints) -> Reads[DecodedPage]:
        """Read rows of a page without lists, where every row is one value."""
        chunks, wanted = _locate(index, rows)
        data, starts = yield from self._fetch_chunks(index, chunks)
        if len(wanted) * _COST_OF_ONE <= int(index.counts[chunks].sum()):
            return self._decode(index, chunks, data, starts, wanted)[1].check()
        return self._decode(index, chunks, data, starts)[1].check().select(as_ranges(wanted))

    def _fetch_chunks(self, index: _Index, chunks: Ints) -> Reads[tuple[Bytes, Ints]]:
        """Fetch chunks; return bytes that hold them, and the offset of each chunk in the bytes."""
        starts, ends = index.starts[chunks], index.ends[chunks]
        return (yield from fetch_segments(self.page.buffers[1][0], starts, ends))

    def _index_ranges(self) -> list[ByteRange]:
        ranges = [self.page.buffers[0]]
        if self.description.has_dictionary:
            ranges.append(self.page.buffers[2])
        if self.has_rep:
            ranges.append(self.page.buffers[2 + self.description.has_dictionary])
        return ranges

    def _parse_index(self, buffers: Sequence[Bytes]) -> _Index:
        description, (start, end) = self.description, self.page.buffers[1]
        counts, bounds = read_table(buffers[0], end - start, description.items, description.width)
        dictionary = description.dictionary(buffers[1]) if description.has_dictionary else None
        if self.has_rep:
            position = 1 + self.description.has_dictionary
            starting, continues = self._parse_repetition(buffers[position], len(counts))
        else:
            starting, continues = counts, None
        first_row = offsets_of(starting)
        check_rows(int(first_row[-1]), self.page.rows)
        reach = _reach(first_row, continues)
        return _Index(
            buffers[0], bounds[:-1], bounds[1:], counts, first_row, continues, reach, dictionary
        )

    def _parse_repetition(self, data: Bytes, chunks: int) -> tuple[Ints, Mask]:
        """Return the number of rows that start in each chunk, and which chunks begin in a row."""
        stride = int(self.layout.repetition_index_depth) + 1
        if len(data) != chunks * stride * 8:
            raise CorruptFile(
                f"a repetition index of {len(data)} bytes for {chunks} chunks of {stride} counts"
            )
        entries = data.view("<i8").reshape(chunks, stride)
        if entries.min(initial=0) < 0 or entries.max(initial=0) > self.page.rows + (1 << 32):
            raise CorruptFile("a count in the repetition index is out of bounds")
        # Sums of the counts that wrap may end where they should; a sum of floats does not wrap.
        if entries[:, 0].sum(dtype=np.float64) > 2.0 * self.page.rows + chunks:
            raise CorruptFile(f"the chunks of the page hold more than its {self.page.rows} rows")
        unfinished = entries[:, 1] > 0
        continues = np.concatenate((np.zeros(1, np.bool_), unfinished[:-1]))
        return entries[:, 0] + unfinished - continues, continues

    def _decode(
        self,
        index: _Index,
        chunks: Ints,
        data: Bytes,
        starts: Ints,
        wanted: Ints | None = None,
    ) -> tuple[Ints, DecodedPage]:
        """Decode chunks; return the number of levels of each, and their items.

        The items of a chunk may begin with those that end a row of the chunk before it.

        Args:
            index: The index of the page.
            chunks: The indices of the chunks, ascending.
            data: Bytes that hold the chunks.
            starts: Offset of each chunk in `data`.
            wanted: Positions of the values to decode, on pages where every row is one value; None
                for all.
        """
        sizes = (index.ends - index.starts)[chunks]
        counts = index.counts[chunks]
        levels, buffers = self._parse_chunks(data, starts, sizes)
        check_items(self.description, counts, levels, int(sizes.sum()))
        rep, definition = self.description.levels(buffers, levels)
        check_visible(self.description, definition, levels, counts)
        if wanted is None:
            rows = int((index.first_row[1:][chunks] - index.first_row[:-1][chunks]).sum())
        else:
            definition = None if definition is None else definition[wanted]
            rows = len(wanted)
        encoding = self.layout.value_compression
        values = self._make(Chunks(encoding, buffers, counts, index.dictionary, wanted))
        return levels, DecodedPage(values, rep, definition, self.layers, rows)

    def _parse_chunks(self, data: Bytes, starts: Ints, sizes: Ints) -> tuple[Ints, list[Chunked]]:
        """Read the headers of chunks: the number of levels and the buffers of each."""
        levels, begins, ends = find_buffers(data, starts, sizes, self.description.size_widths)
        return levels, [Chunked(data, *bounds) for bounds in zip(begins, ends, strict=True)]


def _locate(index: _Index, rows: Ints) -> tuple[Ints, Ints]:
    """Find rows of a page where every row is one value.

    Returns:
        The chunks that hold the rows, and the position of each row among their values.
    """
    chunk = np.searchsorted(index.first_row, rows, side="right") - 1
    is_next = np.empty(len(chunk), np.bool_)
    is_next[:1] = True
    np.not_equal(chunk[1:], chunk[:-1], out=is_next[1:])
    chunks = chunk[is_next]
    counts = index.counts[chunks]
    shifts = np.cumsum(counts) - counts - index.first_row[chunks]
    return chunks, rows + shifts[np.cumsum(is_next) - 1]


def _reach(first_row: Ints, continues: Mask | None) -> Ints:
    """Return, for each chunk, the chunk after the last one with rows that start in it.

    Args:
        first_row: The first row that starts in each chunk; then the number of rows of the page.
        continues: Whether a chunk begins in the middle of a row; None where no chunk does.
    """
    total = len(first_row) - 1
    if continues is None:
        return np.arange(1, total + 1)
    reach = np.full(total, total, np.int64)
    with_rows = np.flatnonzero(np.diff(first_row))
    if len(with_rows):
        following = with_rows[1:]
        reach[with_rows[:-1]] = following + continues[following]
    return reach


def _chunks_of(index: _Index, ranges: Sequence[RowRange]) -> Ints:
    """Return the chunks that hold the rows, ascending."""
    total = len(index.counts)
    rows = _not_empty(ranges)
    first = np.searchsorted(index.first_row[:-1], rows[:, 0], side="right") - 1
    last = np.searchsorted(index.first_row[:-1], rows[:, 1] - 1, side="right") - 1
    stop = np.maximum(index.reach[last], last + 1)
    change = np.bincount(first, minlength=total + 1) - np.bincount(stop, minlength=total + 1)
    return np.flatnonzero(np.cumsum(change[:-1]))


def _not_empty(ranges: Sequence[RowRange]) -> Ints:
    """Return the ranges with rows, of shape (ranges, 2)."""
    rows = bounds_of(ranges)
    return rows[rows[:, 0] < rows[:, 1]]


def _items_of(
    index: _Index, chunks: Ints, ranges: Sequence[RowRange], rep: Level, top: int, ends: Ints
) -> RowRanges:
    """Return where the items of rows are among the items of the chosen chunks.

    Args:
        index: The index of the page.
        chunks: The indices of the chunks, ascending.
        ranges: Ranges of rows of the page, all of whose items are in the chunks.
        rep: The repetition level of each item.
        top: The repetition level of items that begin a row.
        ends: The number of items up to the end of each chunk.

    Raises:
        CorruptFile: The items are not those that the index tells of.
    """
    first = index.first_row[chunks]
    starting = np.diff(index.first_row)[chunks]
    before = np.cumsum(starting) - starting
    rows = _not_empty(ranges)
    chunk = np.searchsorted(first, rows[:, 0], side="right") - 1
    moved = rows + (before[chunk] - first[chunk])[:, None]
    items = find_rows(rep, top, moved.ravel()).reshape(moved.shape)
    # Behind a gap between chunks, a chunk may begin with items of a row in the gap.
    lasts = np.flatnonzero(np.append(np.diff(chunks) != 1, True))
    last = np.searchsorted(first, rows[:, 1] - 1, side="right") - 1
    items[:, 1] = np.minimum(items[:, 1], ends[lasts[np.searchsorted(lasts, last)]])
    if (items[:, 0] > items[:, 1]).any() or (items[1:, 0] < items[:-1, 1]).any():
        raise CorruptFile("the repetition levels of a page contradict its repetition index")
    return RowRanges(items)
