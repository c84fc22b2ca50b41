"""Rows of a data file 2.1 or later, as Arrow arrays.

Docs: format/file/encoding. A reader finds the pages of the columns that own the values of fields,
and fetches what holds the wanted rows; `assembly` makes arrays of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.container import Container, Page
from lancefs.datafile.fields import Field
from lancefs.datafile.packed_structs import stored_field
from lancefs.datafile.page_ranges import PageRanges, by_page
from lancefs.datafile.row_ranges import count_rows, scaled
from lancefs.datafile.v2_1.assembly import assemble
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, Request, request_whole
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of, open_page
from lancefs.datafile.v2_1.layouts.page_reader import PageReader, PageRows
from lancefs.datafile.v2_1.leaf_columns import (
    FetchedLeaf,
    FetchedPage,
    FetchedRows,
    LeafField,
    leaves_of,
)
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.storage import Steps, together

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import PageSizes


class StructuralReader:
    """Reads fields of one data file 2.1 or later.

    Args:
        container: The file.
        columns: Column index of each leaf field, by field id.
    """

    def __init__(self, container: Container, columns: Mapping[int, int]) -> None:
        self.container = container
        self.columns = columns
        self._pages: dict[tuple[int, int], PageReader] = {}
        self._packed: dict[int, Field] = {}  # packed structs as the file has them, by field id

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        first = next(iter(self.columns.values()), 0)
        return self.container.column(first).first_rows[-1]

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        """Read rows of a field whose leaves all have columns in this file.

        Args:
            field: The field, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
        """
        return (yield from self.read_all([field], ranges))[0]

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Steps[list[pa.Array]]:
        """Read rows of several fields in one go; see `read`."""
        return assemble(fields, [(yield from self.fetch(leaves_of(fields), ranges))])

    def page_sizes(self, fields: Sequence[Field]) -> list[list[PageSizes]]:
        """Return the pages of the columns of each field, with their bytes."""
        leaves = [leaves_of([field]) for field in fields]
        columns = [self.columns[leaf.field.id] for of_field in leaves for leaf in of_field]
        self.container.load_columns(columns)
        return [[self._page_sizes(leaf) for leaf in of_field] for of_field in leaves]

    def _page_sizes(self, leaf: LeafField) -> PageSizes:
        from lancefs.datafile.row_sizes import sizes_of

        column = self.container.column(self.columns[leaf.field.id])
        return sizes_of(column, leaf.field, _besides)

    def fetch(self, leaves: Sequence[LeafField], ranges: Sequence[RowRange]) -> Steps[FetchedRows]:
        """Fetch rows of leaves, to be assembled with those of other files, or without.

        Args:
            leaves: Of fields, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
        """
        yield from self.container.load([self.columns[leaf.field.id] for leaf in leaves])
        known, steps = [], []
        for leaf, pages in zip(leaves, self._cut(leaves, ranges), strict=True):
            if requests := self._requests(leaf, pages):
                known.append((leaf, requests))
            else:
                steps.append(self._fetch_leaf(leaf, pages))
        if known:
            steps.append(self._fetch_runs(known))
        parts = yield from together(steps)
        found = {fetched.leaf.field.id: fetched for part in parts for fetched in part}
        url, count = self.container.file.url, count_rows(ranges)
        return FetchedRows(url, count, [found[leaf.field.id] for leaf in leaves])

    def _cut(
        self, leaves: Sequence[LeafField], ranges: Sequence[RowRange]
    ) -> Iterator[Sequence[PageRanges]]:
        """Yield the pages of each leaf that hold the rows, with the rows of each."""
        known: dict[tuple[int, tuple[int, ...]], Sequence[PageRanges]] = {}
        for leaf in leaves:
            index, scale = self.columns[leaf.field.id], leaf.scale
            first_rows = self.container.column(index).first_rows
            if (scale, first_rows) not in known:
                with locating(self.container.file.url, leaf.place(index)):
                    rows = ranges if scale == 1 else scaled(ranges, scale)
                    known[scale, first_rows] = by_page(first_rows, rows)
            yield known[scale, first_rows]

    def _requests(
        self, leaf: LeafField, pages: Sequence[PageRanges]
    ) -> Sequence[tuple[int, Request]]:
        """Return what to fetch of the pages of a leaf, where it is known for all without a look.

        Returns:
            The pages, and what to fetch of each; nothing where some are to be looked into, or of
            other layouts.
        """
        if leaf.field.is_outline or leaf.scale != 1:
            return ()
        index = self.columns[leaf.field.id]
        column, requests = self.container.column(index), []
        with suppress(CorruptFile, UnsupportedFeature):  # reading page by page tells where
            for number, rows in pages:
                request = self._request(index, number, column.pages[number], rows)
                if request is None:
                    return ()
                requests.append((number, request))
            return requests
        return ()

    def _request(
        self, column: int, number: int, page: Page, rows: Sequence[RowRange]
    ) -> Request | None:
        """Return what to fetch of rows of a page, where it is known without a look at the page."""
        reader = self._pages.get((column, number))
        if reader is not None:
            return reader.request(rows) if isinstance(reader, MiniBlockPage) else None
        layout = layout_of(page.encoding)
        return request_whole(page, layout, rows) if isinstance(layout, MiniBlock) else None

    def _fetch_runs(
        self, leaves: Sequence[tuple[LeafField, Sequence[tuple[int, Request]]]]
    ) -> Steps[list[FetchedLeaf]]:
        """Fetch pages of leaves, all at once."""
        wanted = [one for _, pages in leaves for _, request in pages for one in request.ranges]
        got = iter((yield wanted))
        return [
            self._fetched(
                leaf,
                [
                    (number, request.opened([next(got) for _ in request.ranges]))
                    for number, request in pages
                ],
            )
            for leaf, pages in leaves
        ]

    def _fetch_leaf(self, leaf: LeafField, pages: Sequence[PageRanges]) -> Steps[list[FetchedLeaf]]:
        index = self.columns[leaf.field.id]
        with locating(self.container.file.url, leaf.place(index)):
            found = yield from together(
                [self._fetch_page(leaf.field, index, page, local) for page, local in pages]
            )
        numbers = [page for page, _ in pages]
        return [self._fetched(leaf, list(zip(numbers, found, strict=True)))]

    def _fetched(self, leaf: LeafField, pages: Sequence[FetchedPage]) -> FetchedLeaf:
        index, url = self.columns[leaf.field.id], self.container.file.url
        return FetchedLeaf(leaf, self._stored(leaf), url, index, pages)

    def _fetch_page(
        self, field: Field, column: int, number: int, ranges: Sequence[RowRange]
    ) -> Steps[PageRows | ChunkRun]:
        with locating(place=f"page {number}"):
            reader = self._page_reader(field, column, number)
            if isinstance(reader, MiniBlockPage) and not field.is_outline:
                return (yield from reader.fetch(ranges))
            return (yield from reader.read(ranges))

    def _stored(self, leaf: LeafField) -> Field:
        """Return the field of a column as the file has it."""
        field = leaf.field
        if not field.is_packed:
            return field
        if field.id not in self._packed:
            with locating(self.container.file.url, leaf.place(self.columns[field.id])):
                self._packed[field.id] = stored_field(self.container, field)
        return self._packed[field.id]

    def _page_reader(self, field: Field, column: int, page: int) -> PageReader:
        """Return the reader of a page, kept with what it has read of where things are."""
        key = (column, page)
        if key not in self._pages:
            self._pages[key] = open_page(self.container.column(column).pages[page])
        if not field.is_outline:
            return self._pages[key]
        from lancefs.datafile.v2_1.layouts.outline_pages import outlined

        return outlined(self._pages[key], field.storage_type)


def _besides(page: Page) -> float:
    """Return how many bytes the rows of a page take, once read, besides those that it stores."""
    layout = layout_of(page.encoding)
    return layout.besides(page) if isinstance(layout, MiniBlock) else 0.0
