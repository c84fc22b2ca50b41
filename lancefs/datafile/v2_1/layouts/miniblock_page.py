"""The mini-block layout: small values in chunks of a few kilobytes, found by their rows.

Docs: format/file/encoding, "Mini-block page layout". What a page consists of says
`layouts.miniblock_chunks`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, Ints, Mask, RowRange, offsets_of
from lancefs.datafile.buffers import in_place, total
from lancefs.datafile.container import Page
from lancefs.datafile.kernels import find_buffers
from lancefs.datafile.kernels.chunks import read_table
from lancefs.datafile.row_ranges import RowRanges, as_ranges, bounds_of, rows_of
from lancefs.datafile.v2_1.encodings.dictionary import Dictionaries
from lancefs.datafile.v2_1.encodings.registry import NO_BYTES, Chunked
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, Request, decode, request_whole
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks, MiniBlock, check_rows
from lancefs.datafile.v2_1.levels import Leaf
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange, Bytes, Steps

# More byte ranges than this are joined where no more bytes than this lie between them.
_MANY_SPANS = 32
_GAP = 64 * 1024
# A value that is decoded alone costs as much as so many that are decoded with others.
_FEW = 16


class _Index(NamedTuple):
    """What must be known of a page before a row can be found in it."""

    table: Bytes  # the chunk table
    starts: Ints  # of each chunk, in the chunk buffer
    ends: Ints
    counts: Ints  # values in each chunk
    first_row: Ints  # first row that starts in each chunk; then the rows of the page
    continues: Mask | None  # whether a chunk begins in the middle of a row; None where none does
    reach: Ints  # for each chunk, the one after the last with some of the rows that start in it
    dictionary: Dictionaries | None


class _Found:
    """What was read of a page to find rows in it; all readers of the page share it."""

    index: _Index | None = None


class MiniBlockPage:
    """Reads rows of one mini-block page; keeps its chunk table once that was read.

    Args:
        page: Where the buffers are.
        described: What the description of the page says.
    """

    def __init__(self, page: Page, described: MiniBlock) -> None:
        self.page = page
        self.described = described
        self.layout = described.layout
        self.layers = described.layers
        self.top = described.top
        self.has_rep = described.has_rep
        described.check_buffers(page)
        self._found = _Found()
        self._make: Callable[[Chunks], Block] = Chunks.decode

    def making(self, make: Callable[[Chunks], Block]) -> MiniBlockPage:
        """Return a reader of the same rows that makes something else of their values.

        Args:
            make: What it makes of the values of chunks: as many as are wanted of them.
        """
        other = copy(self)
        other._make = make
        return other

    def read(self, ranges: Sequence[RowRange]) -> Steps[Leaf]:
        """Read rows, ascending and disjoint, within the page."""
        found = yield from self.fetch(ranges)
        return found if isinstance(found, Leaf) else decode([[found]])[0]

    def request(self, ranges: Sequence[RowRange]) -> Request | None:
        """Return what to fetch of rows of the page.

        Returns:
            None where that is not known yet, or the rows are scattered: `fetch` finds it out.
        """
        page, described = self.page, self.described
        request = request_whole(page, described, ranges, self._make)
        if request is not None:
            return request
        if self._found.index is None or len(ranges) != 1:
            return None
        index, (start, end) = self._found.index, ranges[0]
        first = bisect_right(index.first_row, start, hi=len(index.counts)) - 1
        last = bisect_right(index.first_row, end - 1, lo=first, hi=len(index.counts)) - 1
        chosen = slice(first, max(index.reach.item(last), last + 1))
        base, begin, stop = page.buffers[1][0], index.starts.item(first), chosen.stop
        span = base + begin, base + index.ends.item(stop - 1)
        return Request([span], partial(self._some, index, chosen, (start, end)))

    def fetch(self, ranges: Sequence[RowRange]) -> Steps[ChunkRun | Leaf]:
        """Fetch rows of the page, ascending and disjoint.

        Returns:
            Chunks that follow each other, to be decoded with others; or rows, where they are
            scattered.
        """
        request = self.request(ranges)
        if request is None:
            index = yield from self._load()
            request = self.request(ranges)
            if request is None:
                return (yield from self._scattered(index, ranges))
        return request.opened((yield request.ranges))

    def _scattered(self, index: _Index, ranges: Sequence[RowRange]) -> Steps[Leaf]:
        if not self.has_rep:
            return (yield from self._read_values(index, rows_of(ranges)))
        chosen = _chunks_of(index, ranges)
        data, starts = yield from self._fetch_chunks(index, chosen)
        leaf = self._decode(index, chosen, data, starts).check()
        return leaf.select(_moved_rows(index, chosen, ranges))

    def _some(
        self, index: _Index, chosen: slice, rows: RowRange, buffers: Sequence[Bytes]
    ) -> ChunkRun:
        """Return some chunks of the page, and where in them rows of the page are."""
        first, stop, width = chosen.start, chosen.stop, self.described.width
        before = index.first_row.item(first)
        starting = index.first_row.item(stop) - before
        return ChunkRun(
            self.described,
            self._make,
            index.table[first * width : stop * width],
            buffers[0],
            total(index.counts[chosen]) if self.has_rep else starting,
            starting,
            [(rows[0] - before, rows[1] - before)],
            index.dictionary,
            index.continues is not None and bool(index.continues[first]),
        )

    def _load(self) -> Steps[_Index]:
        """Return the index of the page, which is read once."""
        if self._found.index is None:
            self._found.index = self._parse_index((yield self._index_ranges()))
        return self._found.index

    def _read_values(self, index: _Index, rows: Ints) -> Steps[Leaf]:
        """Read rows of a page without lists, each of which is a value."""
        chosen, wanted = _located(index, rows)
        data, starts = yield from self._fetch_chunks(index, chosen)
        if len(wanted) * _FEW <= int(index.counts[chosen].sum()):
            return self._decode(index, chosen, data, starts, wanted).check()
        return self._decode(index, chosen, data, starts).check().select(as_ranges(wanted))

    def _fetch_chunks(self, index: _Index, chosen: Ints) -> Steps[tuple[Bytes, Ints]]:
        """Fetch chunks; return bytes that hold them, and where in those they start."""
        spans, base = _spans(index, chosen), self.page.buffers[1][0]
        buffers = yield [(base + start, base + end) for start, end in spans]
        # There are none where the rows have no values, such as those that are empty lists.
        data = in_place(buffers) if buffers else NO_BYTES
        if data is not None:
            spans = [(spans[0][0], spans[-1][1])] if spans else []
        else:
            data = np.concatenate(buffers)
        return data, _moved(index.starts[chosen], spans)

    def _index_ranges(self) -> list[ByteRange]:
        ranges = [self.page.buffers[0]]
        if self.described.has_dictionary:
            ranges.append(self.page.buffers[2])
        if self.has_rep:
            ranges.append(self.page.buffers[2 + self.described.has_dictionary])
        return ranges

    def _parse_index(self, buffers: Sequence[Bytes]) -> _Index:
        described, (start, end) = self.described, self.page.buffers[1]
        counts, bounds = read_table(buffers[0], end - start, described.items, described.width)
        dictionary = described.dictionary(buffers[1]) if described.has_dictionary else None
        if self.has_rep:
            position = 1 + self.described.has_dictionary
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
        """Return how many rows start in each chunk, and which chunks begin inside a row."""
        stride = int(self.layout.repetition_index_depth) + 1
        if len(data) != chunks * stride * 8:
            raise CorruptFile(
                f"a repetition index of {len(data)} bytes for {chunks} chunks of {stride} counts"
            )
        entries = data.view("<i8").reshape(chunks, stride)
        if entries.min(initial=0) < 0 or entries.max(initial=0) > self.page.rows + (1 << 32):
            raise CorruptFile("a count in the repetition index is out of bounds")
        unfinished = entries[:, 1] > 0
        continues = np.concatenate((np.zeros(1, np.bool_), unfinished[:-1]))
        return entries[:, 0] + unfinished - continues, continues

    def _decode(
        self,
        index: _Index,
        chosen: Ints,
        data: Bytes,
        starts: Ints,
        wanted: Ints | None = None,
    ) -> Leaf:
        """Decode chunks, of which `data` has the bytes at `starts`.

        All values are decoded, or those at the `wanted` positions where values are rows.
        """
        sizes = (index.ends - index.starts)[chosen]
        counts = index.counts[chosen]
        levels, buffers = self._parse_chunks(data, starts, sizes)
        rep, definition = self.described.levels(buffers, levels)
        if wanted is None:
            rows = int((index.first_row[1:][chosen] - index.first_row[:-1][chosen]).sum())
        else:
            definition = None if definition is None else definition[wanted]
            rows = len(wanted)
        encoding = self.layout.value_compression
        values = self._make(Chunks(encoding, buffers, counts, index.dictionary, wanted))
        leaf = Leaf(values, rep, definition, self.layers, rows)
        return self._without_continuations(leaf, index, chosen, levels)

    def _parse_chunks(self, data: Bytes, starts: Ints, sizes: Ints) -> tuple[Ints, list[Chunked]]:
        """Read the headers of all chunks: their numbers of levels, and where their buffers are."""
        levels, begins, ends = find_buffers(data, starts, sizes, self.described.size_widths)
        return levels, [Chunked(data, *bounds) for bounds in zip(begins, ends, strict=True)]

    def _without_continuations(self, leaf: Leaf, index: _Index, chosen: Ints, levels: Ints) -> Leaf:
        """Drop items that end a row whose beginning was not read, at each gap between chunks."""
        if leaf.rep is None or index.continues is None:
            return leaf
        gap = np.concatenate((np.ones(1, np.bool_), np.diff(chosen) != 1))
        cut = np.flatnonzero(gap & index.continues[chosen])
        if not len(cut):
            return leaf
        ends = np.cumsum(levels)
        row_starts = np.flatnonzero(leaf.rep == self.top)
        keep: list[RowRange] = []
        position = 0
        for chunk in cut.tolist():
            begin = int(ends[chunk] - levels[chunk])
            following = row_starts[np.searchsorted(row_starts, begin) :]
            keep.append((position, begin))
            position = int(following[0]) if len(following) else len(leaf.rep)
        keep.append((position, len(leaf.rep)))
        return leaf.select_items(keep)


def _located(index: _Index, rows: Ints) -> tuple[Ints, Ints]:
    """Return the chunks that hold rows which are values, and where in those the rows are."""
    chunk = np.searchsorted(index.first_row, rows, side="right") - 1
    is_next = np.empty(len(chunk), np.bool_)
    is_next[:1] = True
    np.not_equal(chunk[1:], chunk[:-1], out=is_next[1:])
    chosen = chunk[is_next]
    counts = index.counts[chosen]
    shifts = np.cumsum(counts) - counts - index.first_row[chosen]
    return chosen, rows + shifts[np.cumsum(is_next) - 1]


def _reach(first_row: Ints, continues: Mask | None) -> Ints:
    """Return, for each chunk, the chunk after the last one with rows that start in it.

    Args:
        first_row: The first row that starts in each chunk; then the rows of the page.
        continues: Whether a chunk begins in the middle of a row; None where none does.
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


def _spans(index: _Index, chosen: Ints) -> list[ByteRange]:
    """Return the byte ranges that hold the chosen chunks, neighbours joined.

    Where there are many, also those that lie close together are one: what is between them costs
    nothing in a mapped file, a remote one would send it anyway, and nothing is to be put together.
    """
    if not len(chosen):
        return []
    starts, ends = index.starts[chosen], index.ends[chosen]
    gaps = starts[1:] - ends[:-1]
    breaks = np.flatnonzero(gaps)
    if len(breaks) > _MANY_SPANS:
        breaks = np.flatnonzero(gaps > _GAP)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(chosen) - 1)
    return list(zip(starts[first].tolist(), ends[last].tolist(), strict=True))


def _moved(starts: Ints, spans: Sequence[ByteRange]) -> Ints:
    """Translate positions in the chunk buffer into positions in the joined spans."""
    if len(spans) <= 1:
        return starts - spans[0][0] if spans else starts
    begins = np.array([start for start, _ in spans], np.int64)
    lengths = np.array([end - start for start, end in spans], np.int64)
    span = np.searchsorted(begins, starts, side="right") - 1
    return starts - begins[span] + (np.cumsum(lengths) - lengths)[span]


def _moved_rows(index: _Index, chosen: Ints, ranges: Sequence[RowRange]) -> RowRanges:
    """Translate rows of the page into rows of the chosen chunks."""
    first = index.first_row[chosen]
    starting = np.diff(index.first_row)[chosen]
    before = np.cumsum(starting) - starting
    rows = _not_empty(ranges)
    chunk = np.searchsorted(first, rows[:, 0], side="right") - 1
    moved = rows + (before[chunk] - first[chunk])[:, None]
    return RowRanges(moved)
