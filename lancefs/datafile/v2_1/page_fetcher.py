"""Pages of the leaf columns of a data file 2.1 or later, fetched one by one, from any store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lancefs.datafile.blocks import Block, RowRange
from lancefs.datafile.container import Container, Page
from lancefs.datafile.fields import Field
from lancefs.datafile.packed_structs import stored_field
from lancefs.datafile.page_ranges import PageRanges, by_page, check_column_rows
from lancefs.datafile.row_ranges import scaled
from lancefs.datafile.v2_1.layouts.chunk_decoders import coded_chunks, decimal64_chunks
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, Request, request_whole
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks, MiniBlock
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of, open_page
from lancefs.datafile.v2_1.layouts.page_reader import PageReader, PageRows
from lancefs.datafile.v2_1.layouts.prefetch_ranges import prefetch_ranges, spare_bytes
from lancefs.datafile.v2_1.leaf_columns import FetchedLeaf, FetchedPage, LeafField
from lancefs.datafile.v2_1.number_columns import is_coded
from lancefs.errors import locating
from lancefs.storage import Reads, together, with_prefetch


class PageFetcher:
    """Fetches pages of one data file; their readers are kept, with the chunk tables that they read.

    Args:
        container: The file.
        columns: Column index of each field that has a column, by field id.
        rows: Number of rows that the file should have; None if it is not known.
    """

    def __init__(
        self,
        container: Container,
        columns: Mapping[int, int],
        rows: int | None = None,
    ) -> None:
        self._container = container
        self._columns = columns
        self._expected_rows = rows
        self._pages: dict[tuple[int, int], PageReader] = {}
        self._packed: dict[int, Field] = {}  # structs as the file stores them, by field id

    def of(self, container: Container) -> PageFetcher:
        """Return a fetcher of a file with the same bytes; see `PointReader.of`."""
        fetcher = PageFetcher(container, self._columns, self._expected_rows)
        fetcher._packed = self._packed
        return fetcher

    def cut(
        self, leaves: Sequence[LeafField], ranges: Sequence[RowRange]
    ) -> Iterator[Sequence[PageRanges]]:
        """Yield the pages of each leaf that hold the rows, with the rows in each page.

        Args:
            leaves: The leaves.
            ranges: Ranges of rows of the file, ascending and disjoint.

        Raises:
            CorruptFile: A column has another number of rows than the file should have.
        """
        # Most columns of a file have the same first rows of pages.
        cuts: dict[tuple[int, tuple[int, ...]], Sequence[PageRanges]] = {}
        for leaf in leaves:
            index, scale = self._columns[leaf.field.id], leaf.scale
            first_rows = self._container.column(index).first_rows
            if (scale, first_rows) not in cuts:
                with locating(self._container.file.url, leaf.place(index)):
                    check_column_rows(first_rows[-1], self._expected_rows, leaf.declared_scale)
                    rows = ranges if scale == 1 else scaled(ranges, scale)
                    cuts[scale, first_rows] = by_page(first_rows, rows)
            yield cuts[scale, first_rows]

    def fetch(
        self, leaves: Sequence[tuple[LeafField, Sequence[PageRanges]]]
    ) -> Reads[list[FetchedLeaf]]:
        """Fetch pages of leaves.

        Args:
            leaves: The leaves, whose columns are loaded, each with its pages, as `cut` gives them.
        """
        planned, others = [], []
        for leaf, pages in leaves:
            if requests := self._requests(leaf, pages):
                planned.append((leaf, requests))
            else:
                others.append((leaf, pages))
        is_local = self._container.file.store.is_local
        spare = 0 if is_local else spare_bytes(sum(len(pages) for _, pages in others))
        reads = [self._fetch_leaf(leaf, pages, spare) for leaf, pages in others]
        if planned:
            reads.append(self._fetch_runs(planned))
        parts = yield from together(reads)
        return [fetched for part in parts for fetched in part]

    def load_indices(self, leaves: Sequence[LeafField]) -> Reads[None]:
        """Read what tells where rows are in the pages of leaves, whose columns are loaded."""
        from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage

        reads = []
        for leaf in leaves:
            index = self._columns[leaf.field.id]
            for number in range(len(self._container.column(index).pages)):
                with locating(self._container.file.url, f"{leaf.place(index)}, page {number}"):
                    reader = self._page_reader(leaf, index, number)
                if isinstance(reader, MiniBlockPage | FullZipPage):
                    reads.append(reader.load_index())
        yield from together(reads)

    def _requests(
        self, leaf: LeafField, pages: Sequence[PageRanges]
    ) -> Sequence[tuple[int, Request]]:
        """Return what to fetch of the pages of a leaf, where their descriptions tell it.

        Returns:
            The index of each page, and its request. Empty where the chunk table of a page must be
            read first, or a page has another layout than mini-block.
        """
        if leaf.field.is_outline or leaf.scale != 1:
            return ()
        index = self._columns[leaf.field.id]
        column, requests = self._container.column(index), []
        url, place = self._container.file.url, leaf.place(index)
        for number, rows in pages:
            with locating(url, f"{place}, page {number}"):
                request = self._request(leaf, number, column.pages[number], rows)
            if request is None:
                return ()
            requests.append((number, request))
        return requests

    def _request(
        self, leaf: LeafField, number: int, page: Page, rows: Sequence[RowRange]
    ) -> Request | None:
        """Return what to fetch for rows of a page; None where the page must be read to know."""
        if (self._columns[leaf.field.id], number) in self._pages:
            reader = self._page_reader(leaf, self._columns[leaf.field.id], number)
            return reader.request(rows) if isinstance(reader, MiniBlockPage) else None
        layout = layout_of(page.encoding)
        if not isinstance(layout, MiniBlock):
            return None
        return request_whole(page, layout, rows, _decoder_of(leaf.field))

    def _fetch_runs(
        self, leaves: Sequence[tuple[LeafField, Sequence[tuple[int, Request]]]]
    ) -> Reads[list[FetchedLeaf]]:
        """Fetch pages of leaves, all in one round of requests."""
        ranges = [span for _, pages in leaves for _, request in pages for span in request.ranges]
        buffers = iter((yield ranges))
        return [
            self._make_fetched(
                leaf,
                [
                    (number, request.open([next(buffers) for _ in request.ranges]))
                    for number, request in pages
                ],
            )
            for leaf, pages in leaves
        ]

    def _fetch_leaf(
        self, leaf: LeafField, pages: Sequence[PageRanges], spare: int
    ) -> Reads[list[FetchedLeaf]]:
        """Fetch pages of a leaf, some of which may have to be read to know where rows are.

        Args:
            leaf: The leaf.
            pages: The pages, with the rows in each.
            spare: See `prefetch_ranges`.
        """
        index = self._columns[leaf.field.id]
        with locating(self._container.file.url, leaf.place(index)):
            rows = yield from together(
                [self._fetch_page(leaf, index, page, local, spare) for page, local in pages]
            )
        numbers = [page for page, _ in pages]
        return [self._make_fetched(leaf, list(zip(numbers, rows, strict=True)))]

    def _make_fetched(self, leaf: LeafField, pages: Sequence[FetchedPage]) -> FetchedLeaf:
        index, url = self._columns[leaf.field.id], self._container.file.url
        return FetchedLeaf(leaf, self._find_stored(leaf), url, index, pages)

    def _fetch_page(
        self, leaf: LeafField, column: int, number: int, ranges: Sequence[RowRange], spare: int
    ) -> Reads[PageRows | ChunkRun]:
        with locating(place=f"page {number}"):
            reader = self._page_reader(leaf, column, number)
            step: Reads[PageRows | ChunkRun]
            if isinstance(reader, MiniBlockPage) and not leaf.field.is_outline:
                step = reader.fetch(ranges)
            else:
                step = reader.read(ranges)
            if not spare or reader.unplaced is None:
                return (yield from step)
            rows = self._container.column(column).pages[number].rows
            ahead = prefetch_ranges(reader.unplaced, rows, ranges, spare)
            return (yield from with_prefetch(step, ahead))

    def _find_stored(self, leaf: LeafField) -> Field:
        """Return the field of a leaf as the file stores it."""
        field = leaf.field
        if not field.is_packed:
            return field
        if field.id not in self._packed:
            with locating(self._container.file.url, leaf.place(self._columns[field.id])):
                self._packed[field.id] = stored_field(self._container, field)
        return self._packed[field.id]

    def _page_reader(self, leaf: LeafField, column: int, page: int) -> PageReader:
        """Return the reader of a page; it is kept, with the chunk table that it has read."""
        key = (column, page)
        if key not in self._pages:
            self._pages[key] = open_page(self._container.column(column).pages[page])
        reader = self._pages[key]
        if not leaf.field.is_outline:
            decoder = _decoder_of(leaf.field)
            if decoder is not Chunks.decode and isinstance(reader, MiniBlockPage):
                return reader.with_decoder(decoder)
            return reader
        from lancefs.datafile.v2_1.layouts.outline_pages import outlined, with_validity

        if leaf.field.is_validity:
            return with_validity(reader, leaf.first_validity)
        return outlined(reader, leaf.field.storage_type)


def _decoder_of(field: Field) -> Callable[[Chunks], Block]:
    """Return how the values of chunks of mini-block pages are decoded."""
    if field.is_decimal64:
        return decimal64_chunks
    return coded_chunks if is_coded(field.storage_type) else Chunks.decode
