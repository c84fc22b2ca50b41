"""Rows of a data file 2.1 or later, as Arrow arrays.

Docs: format/file/encoding. A reader finds the pages of the columns that own the values of fields,
and fetches what holds the wanted rows; `assembly` makes arrays of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancefs.datafile.assembly import (
    FetchedLeaf,
    FetchedPage,
    FetchedRows,
    LeafField,
    assemble,
    leaves_of,
)
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.container import Container, Page
from lancefs.datafile.fields import Field
from lancefs.datafile.layouts.chunks import MiniBlock
from lancefs.datafile.layouts.page import PageReader, PageRows
from lancefs.datafile.layouts.registry import layout_of, open_page
from lancefs.datafile.layouts.whole import WholePage, fetch_whole
from lancefs.datafile.packed import stored_field
from lancefs.datafile.pages import by_page
from lancefs.datafile.row_ranges import count_rows, scaled
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

    def page_sizes(self, fields: Sequence[Field]) -> list[PageSizes]:
        """Return the pages of all columns of fields, with their bytes."""
        return self.container.page_sizes([self.columns[one.field.id] for one in leaves_of(fields)])

    def fetch(self, leaves: Sequence[LeafField], ranges: Sequence[RowRange]) -> Steps[FetchedRows]:
        """Fetch rows of leaves, to be assembled with those of other files, or without.

        Args:
            leaves: Of fields, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
        """
        yield from self.container.load([self.columns[leaf.field.id] for leaf in leaves])
        whole, steps = [], []
        for leaf in leaves:
            if pages := self._whole_pages(leaf, ranges):
                whole.append((leaf, pages))
            else:
                steps.append(self._fetch_leaf(leaf, ranges))
        if whole:
            steps.append(self._fetch_whole(whole))
        parts = yield from together(steps)
        found = {fetched.leaf.field.id: fetched for part in parts for fetched in part}
        url, count = self.container.file.url, count_rows(ranges)
        return FetchedRows(url, count, [found[leaf.field.id] for leaf in leaves])

    def _whole_pages(
        self, leaf: LeafField, ranges: Sequence[RowRange]
    ) -> Sequence[tuple[Page, MiniBlock]]:
        """Return the pages of a leaf where all rows of all are wanted, and none is to be found.

        Returns:
            The pages, and what their descriptions say; nothing where some are of another kind.
        """
        index = self.columns[leaf.field.id]
        column = self.container.column(index)
        if leaf.field.is_outline or len(ranges) != 1 or leaf.scale != 1:
            return ()
        if ranges[0] != (0, column.first_rows[-1]):
            return ()
        try:
            layouts = [layout_of(page.encoding) for page in column.pages]
        except (CorruptFile, UnsupportedFeature):  # reading page by page tells which one it is
            return ()
        pages = zip(column.pages, layouts, strict=True)
        whole = [(page, layout) for page, layout in pages if isinstance(layout, MiniBlock)]
        return whole if len(whole) == len(layouts) else ()

    def _fetch_whole(
        self, leaves: Sequence[tuple[LeafField, Sequence[tuple[Page, MiniBlock]]]]
    ) -> Steps[list[FetchedLeaf]]:
        """Fetch all pages of leaves, at once."""
        rows = iter((yield from fetch_whole([page for _, pages in leaves for page in pages])))
        return [
            self._fetched(leaf, [(number, next(rows)) for number in range(len(pages))])
            for leaf, pages in leaves
        ]

    def _fetch_leaf(self, leaf: LeafField, ranges: Sequence[RowRange]) -> Steps[list[FetchedLeaf]]:
        index, scale = self.columns[leaf.field.id], leaf.scale
        with locating(self.container.file.url, leaf.place(index)):
            rows = ranges if scale == 1 else scaled(ranges, scale)
            wanted = by_page(self.container.column(index).first_rows, rows)
            found = yield from together(
                [self._fetch_page(leaf.field, index, page, local) for page, local in wanted]
            )
        numbers = [page for page, _ in wanted]
        return [self._fetched(leaf, list(zip(numbers, found, strict=True)))]

    def _fetched(self, leaf: LeafField, pages: Sequence[FetchedPage]) -> FetchedLeaf:
        index, url = self.columns[leaf.field.id], self.container.file.url
        return FetchedLeaf(leaf, self._stored(leaf), url, index, pages)

    def _fetch_page(
        self, field: Field, column: int, number: int, ranges: Sequence[RowRange]
    ) -> Steps[PageRows | WholePage]:
        with locating(place=f"page {number}"):
            page = self.container.column(column).pages[number]
            if not field.is_outline and len(ranges) == 1 and ranges[0] == (0, page.rows):
                layout = layout_of(page.encoding)
                if isinstance(layout, MiniBlock):
                    return (yield from fetch_whole([(page, layout)]))[0]
            return (yield from self._page_reader(field, column, number).read(ranges))

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
        from lancefs.datafile.layouts.outlines import outlined

        return outlined(self._pages[key], field.storage_type)
