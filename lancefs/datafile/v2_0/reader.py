"""Reader of data files 2.0.

Docs: `encodings_v2_0.proto`. Unlike in later formats, lists and structs own columns too: the column
of a list holds the end of each list in the column of its items, the column of a struct only counts
rows. A list is therefore read in two rounds of requests: its offsets, then its items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lancefs.datafile.arrays import bitmap, to_arrow
from lancefs.datafile.blocks import FixedWidth, Ints, RowRange, VariableWidth
from lancefs.datafile.buffers import join_bytes
from lancefs.datafile.container import ColumnPages, Container, Page, PageEncoding
from lancefs.datafile.fields import Field
from lancefs.datafile.fieldwise import read_fields
from lancefs.datafile.packed_structs import stored_field, without_dropped
from lancefs.datafile.page_ranges import by_page, check_column_rows, join_arrays
from lancefs.datafile.row_ranges import count_rows, filled, rows_of
from lancefs.datafile.row_sizes import PageSizes, sizes_of
from lancefs.datafile.v2_0 import encodings, plain_pages
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, name_of
from lancefs.datafile.v2_0.encodings import dictionary_overhead, read_bytes, read_extents
from lancefs.datafile.v2_0.extents import Extents, join_extents
from lancefs.datafile.v2_0.plain_pages import DictionaryPage, PageForm, PlainPage
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Bytes, Reads, SparseRanges, count_pages, together

if TYPE_CHECKING:
    from lancefs.datafile.v2_1.leaf_columns import LeafField

_PAGE_TYPE = "lance.encodings.ArrayEncoding"
_COLUMN_TYPE = "lance.encodings.ColumnEncoding"
_LISTS = ("list", "list.struct")
_LARGE_LISTS = ("large_list", "large_list.struct")

_Encoding = TypeVar("_Encoding", pb.ArrayEncoding, pb.ColumnEncoding)


class ArrayReader:
    """Reads fields of one data file 2.0.

    Args:
        container: The file.
        columns: Column index of each field that owns a column, by field id.
        rows: Number of rows that the file should have; None if it is not known.
    """

    decodes_dictionaries = False

    def __init__(
        self, container: Container, columns: Mapping[int, int], rows: int | None = None
    ) -> None:
        self.container = container
        self.columns = columns
        self._expected_rows = rows
        # The last page that was read of each column, with its number: the next read may share its
        # decompressed buffers and dictionaries.
        self._latest_pages: dict[int, tuple[int, ArrayPage]] = {}
        # By column, page, and whether the column is of a dictionary type.
        self._plain_pages: dict[tuple[int, int, bool], PlainPage | DictionaryPage | None] = {}
        self._items: dict[tuple[int, int], Slots] = {}  # of dictionaries, by column and page
        self._first_items: dict[int, list[int]] = {}  # see `_items_before_pages`

    @property
    def num_rows(self) -> int:
        """Number of rows in the file.

        Raises:
            CorruptFile: The file's own schema, which holds the number, is damaged.
        """
        return int(self.container.descriptor().length)

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        """Read rows of a field as an array of its storage type.

        Args:
            field: The field, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.

        Raises:
            CorruptFile: The bytes of the file are damaged.
            UnsupportedFeature: An encoding or a type is not known; it is named.
        """
        rows = filled(ranges)
        with locating(self.container.file.url):
            yield from self.container.load(self._columns_of([field]))
            if field.id in self.columns:
                column = self.container.column(self.columns[field.id])
                check_column_rows(column.first_rows[-1], self._expected_rows)
            return (yield from self._read(field, rows))

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[list[pa.Array]]:
        """Read the same rows of several fields; see `read`. Errors name the field."""
        url, arrays = self.container.file.url, dict[int, pa.Array]()
        if self.container.file.is_in_memory and 0 < count_rows(ranges) <= plain_pages.MOST_ROWS:
            arrays = yield from self._look_up(fields, ranges)
        others = [field for number, field in enumerate(fields) if number not in arrays]
        left = iter((yield from read_fields(self.read, url, others, ranges)))
        return [arrays[number] if number in arrays else next(left) for number in range(len(fields))]

    def _look_up(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[dict[int, pa.Array]]:
        """Look few rows up in those fields whose pages are plain; see `plain_pages`.

        Returns:
            The rows of these fields, by their positions.
        """
        leaves = {
            number: field
            for number, field in enumerate(fields)
            if field.id in self.columns
            and not (field.children or field.is_outline or field.is_blob)
        }
        yield from self.container.load(self._columns_of([*leaves.values()]))
        cuts: dict[tuple[int, ...], list[tuple[int, Ints]]] = {}
        plain = {
            number: pages
            for number, field in leaves.items()
            if (pages := self._plain_pages_of(field, ranges, cuts))
        }
        spans = [page.span for pages in plain.values() for _, page, _ in pages]
        if not spans:
            return {}
        start, end = min(first for first, _ in spans), max(last for _, last in spans)
        (data,) = yield SparseRanges([(start, end)])
        arrays, size = {}, 0
        for number, pages in plain.items():
            field, parts = leaves[number], []
            with self._locating(field):
                for at, page, rows in pages:
                    with locating(place=f"page {at}"):
                        slots, seen = self._slots(field, at, page, rows, data, start)
                        parts.append(to_arrow(slots.values, field.storage_type, slots.valid))
                    size += seen
                arrays[number] = join_arrays(parts, field.storage_type)
        count_pages(len(spans))
        self.container.file.looked_at(size, len(spans))
        return arrays

    def _slots(
        self,
        field: Field,
        number: int,
        page: PlainPage | DictionaryPage,
        rows: Ints,
        data: Bytes,
        start: int,
    ) -> tuple[Slots, int]:
        """Look up rows of a page, and count the bytes that were looked at."""
        if isinstance(page, PlainPage):
            return plain_pages.look_up(page, rows, data, start)
        indices, seen = plain_pages.look_up(page.indices, rows, data, start)
        key = self.columns[field.id], number
        items = self._items.get(key)
        if items is None:
            items = self._items[key] = page.decoded(data, start)
        return encodings.look_up(indices, items, zero_based=False), seen

    def _locating(self, field: Field) -> AbstractContextManager[None]:
        """Add the file, the column and the field to errors; `read_fields` adds the same."""
        place = f"{field.name}, column {self.columns[field.id]} ({field.name})"
        return locating(self.container.file.url, place)

    def _plain_pages_of(
        self,
        field: Field,
        ranges: Sequence[RowRange],
        cuts: dict[tuple[int, ...], list[tuple[int, Ints]]],
    ) -> list[tuple[int, PlainPage | DictionaryPage, Ints]]:
        """Return the pages of a leaf that hold rows, each with its number and its rows.

        Args:
            field: The leaf.
            ranges: Rows of the file, ascending and disjoint.
            cuts: The pages and their rows, by the first rows of the pages, for the other leaves.

        Returns:
            Nothing where one of the pages is not plain.
        """
        index, pages = self.columns[field.id], []
        is_coded = pa.types.is_dictionary(field.storage_type)
        with self._locating(field):
            column = self.container.column(index)
            check_column_rows(column.first_rows[-1], self._expected_rows)
            if column.first_rows not in cuts:
                wanted = by_page(column.first_rows, filled(ranges))
                cuts[column.first_rows] = [(number, rows_of(rows)) for number, rows in wanted]
            for number, rows in cuts[column.first_rows]:
                page = self._plain(index, number, is_coded)
                if page is None:
                    return []
                pages.append((number, page, rows))
        return pages

    def _plain(self, column: int, number: int, is_coded: bool) -> PlainPage | DictionaryPage | None:
        """Return a page of a column if its rows can be looked up; else None.

        Args:
            column: Index of the column.
            number: Number of the page.
            is_coded: Whether the column is of a dictionary type.
        """
        key = column, number, is_coded
        if key not in self._plain_pages:
            pages = self.container.column(column)
            with locating(place=f"page {number}"):
                check_column(pages.encoding)
                form = parse_form(pages.pages[number].encoding)
                page = None if form is None else self._page(column, number, is_coded)
                self._plain_pages[key] = (
                    None if form is None or page is None else plain_pages.locate_any(form, page)
                )
        return self._plain_pages[key]

    def fetch(self, leaves: Sequence[LeafField], ranges: Sequence[RowRange]) -> None:
        """Return None: pages of data files 2.0 are decoded one by one."""

    def page_sizes(self, fields: Sequence[Field]) -> list[list[PageSizes]]:
        """Return the sizes of the pages of each field's columns."""
        self.container.load_columns(self._columns_of(fields))
        return [
            [
                sizes_of(self.container.column(self.columns[part.id]), part, _decoded_overhead)
                for part in field.walk()
                if part.id in self.columns
            ]
            for field in fields
        ]

    def _columns_of(self, fields: Sequence[Field]) -> list[int]:
        """Return the indices of the columns of fields and of all fields below them."""
        parts = chain.from_iterable(field.walk() for field in fields)
        return [self.columns[part.id] for part in parts if part.id in self.columns]

    def _column_of(self, field: Field) -> int:
        """Return the index of a field's own column."""
        if field.id not in self.columns:
            raise CorruptFile(f"field {field.id} ({field.name}) has no column")
        return self.columns[field.id]

    def _read(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        if field.is_blob:
            return (yield from self._read_leaf(field, ranges))
        if self._is_packed(field):
            stored = stored_field(self.container, field)
            rows = yield from self._read_leaf(stored, ranges)
            return rows if stored == field else without_dropped(rows, stored, field)
        if field.logical_type == "struct":
            return (yield from self._read_struct(field, ranges))
        if field.logical_type in (*_LISTS, *_LARGE_LISTS):
            return (yield from self._read_list(field, ranges))
        if field.children:
            raise UnsupportedFeature(f"{field.name}: {field.storage_type} in a data file 2.0")
        return (yield from self._read_leaf(field, ranges))

    def _is_packed(self, field: Field) -> bool:
        """Whether the members of a struct have no columns of their own.

        The metadata do not decide this: writers accepted any value of `lance-encoding:packed`.
        """
        members = field.children if field.logical_type == "struct" else ()
        return bool(members) and not any(member.id in self.columns for member in members)

    def _read_struct(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        """Read a struct, which is never null in a data file 2.0."""
        members = yield from together([self._read(member, ranges) for member in field.children])
        return pa.Array.from_buffers(
            field.storage_type, count_rows(ranges), [None], 0, children=members
        )

    def _read_list(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        index, data_type = self._column_of(field), field.storage_type
        offset_type: type[np.int32 | np.int64]
        offset_type = np.int64 if field.logical_type in _LARGE_LISTS else np.int32
        with locating(place=f"column {index} ({field.name})"):
            extents = yield from self._read_extents(index, ranges)
            if extents.offsets[-1] > np.iinfo(offset_type).max:
                raise CorruptFile(f"more than {np.iinfo(offset_type).max} items in one array")
        items = yield from self._read(field.children[0], extents.ranges)
        offsets = pa.py_buffer(extents.offsets.astype(offset_type))
        return pa.Array.from_buffers(
            data_type, count_rows(ranges), [bitmap(extents.valid), offsets], children=[items]
        )

    def _read_leaf(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        index, data_type = self._column_of(field), field.storage_type
        column = self.container.column(index)
        with locating(place=f"column {index} ({field.name})"):
            check_column(column.encoding)
            if _holds_lists(column):
                slots = yield from self._read_listed_strings(index, field.is_outline, ranges)
                return to_arrow(slots.values, data_type, slots.valid)
            read = _outline_reader(data_type) if field.is_outline else encodings.read
            reads = [
                self._read_page(index, page, rows, data_type, read)
                for page, rows in by_page(column.first_rows, ranges)
            ]
            return join_arrays((yield from together(reads)), data_type)

    def _read_page(
        self,
        column: int,
        number: int,
        rows: Sequence[RowRange],
        data_type: pa.DataType,
        read: encodings.Read,
    ) -> Reads[pa.Array]:
        with locating(place=f"page {number}"):
            count_pages(1)
            page = self._page(column, number, pa.types.is_dictionary(data_type))
            slots = yield from read(page.encoding, page, rows)
            return to_arrow(slots.values, data_type, slots.valid)

    def _read_extents(self, column: int, ranges: Sequence[RowRange]) -> Reads[Extents]:
        """Read the extents of lists in the column of their items."""
        metadata = self.container.column(column)
        check_column(metadata.encoding)
        pages = by_page(metadata.first_rows, ranges)
        count_pages(len(pages))
        reads = [self._read_page_extents(column, number, rows) for number, rows in pages]
        return join_extents((yield from together(reads)))

    def _read_page_extents(
        self, column: int, number: int, rows: Sequence[RowRange]
    ) -> Reads[Extents]:
        first_items = self._items_before_pages(column)
        with locating(place=f"page {number}"):
            page = self._page(column, number)
            lists = page.encoding.list
            extents = yield from read_extents(
                lists.offsets, page, rows, int(lists.null_offset_adjustment)
            )
            if extents.ranges and extents.ranges[-1][1] > lists.num_items:
                raise CorruptFile(
                    f"lists of {extents.ranges[-1][1]} items in all, expected {lists.num_items}"
                )
            return extents.shifted(first_items[number])

    def _items_before_pages(self, column: int) -> list[int]:
        """Return, for each page of a column of lists, the number of items of earlier pages."""
        if column not in self._first_items:
            counts = []
            for number, page in enumerate(self.container.column(column).pages):
                with locating(place=f"page {number}"):
                    encoding = _parse_page_encoding(page.encoding)
                    if name_of(encoding) != "list":
                        raise CorruptFile(f"lists encoded as {name_of(encoding)}")
                    counts.append(int(encoding.list.num_items) if page.rows else 0)
            self._first_items[column] = list(accumulate(counts, initial=0))
        return self._first_items[column]

    def _read_listed_strings(
        self, column: int, is_outline: bool, ranges: Sequence[RowRange]
    ) -> Reads[Slots]:
        """Read strings stored as lists of bytes; the next column holds the bytes.

        Only previews of the format contain them.
        """
        extents = yield from self._read_extents(column, ranges)
        if is_outline:
            return Slots(FixedWidth(64, np.diff(extents.offsets)), extents.valid)
        yield from self.container.load([column + 1])
        pages = [
            (self._page(column + 1, number), rows)
            for number, rows in by_page(
                self.container.column(column + 1).first_rows, extents.ranges
            )
        ]
        count_pages(len(pages))
        pieces = yield from together(
            [read_bytes(page.encoding, page, rows) for page, rows in pages]
        )
        return Slots(VariableWidth(extents.offsets, join_bytes(pieces)), extents.valid)

    def _page(self, column: int, number: int, zero_based: bool = False) -> ArrayPage:
        latest_number, latest = self._latest_pages.get(column, (None, None))
        if latest is not None and latest_number == number:
            return latest
        metadata = self.container.column(column)
        page = ArrayPage(
            _parse_page_encoding(metadata.pages[number].encoding),
            (
                metadata.pages[number].buffers,
                metadata.buffers,
                self.container.footer.global_buffers,
            ),
            zero_based,
        )
        self._latest_pages[column] = (number, page)
        return page


def _outline_reader(data_type: pa.DataType) -> encodings.Read:
    from lancefs.datafile.v2_0 import array_outlines

    return partial(array_outlines.read, data_type=data_type)


def _decoded_overhead(page: Page) -> float:
    """Estimate the bytes of a decoded page beyond its stored size."""
    encoding = _parse_page_encoding(page.encoding)
    return dictionary_overhead(ArrayPage(encoding, (page.buffers, (), ())), page.rows)


def _holds_lists(column: ColumnPages) -> bool:
    return bool(column.pages) and name_of(_parse_page_encoding(column.pages[0].encoding)) == "list"


@lru_cache(maxsize=1024)  # most pages of a column, in all fragments, share a description
def _parse_page_encoding(described: PageEncoding) -> pb.ArrayEncoding:
    if described.type_name != _PAGE_TYPE:
        raise UnsupportedFeature(f"page encoding {described.type_name or '(none)'}")
    return _parse(pb.ArrayEncoding, described)


@lru_cache(maxsize=1024)  # as above
def parse_form(described: PageEncoding) -> PageForm | None:
    """Return what a description of a page tells; see `plain_pages.page_form`.

    Raises:
        CorruptFile: The description, or the symbol table of strings, is damaged.
        UnsupportedFeature: It is not one of an array.
    """
    return plain_pages.page_form(_parse_page_encoding(described))


@lru_cache(maxsize=1024)  # most columns share a description
def check_column(described: PageEncoding) -> None:
    """Check that the pages of a column hold its values.

    The pages of a blob column hold descriptors, which are its values here; zone maps are stored
    beside the pages and are not needed.

    Raises:
        UnsupportedFeature: They do not, as far as is known.
    """
    if described.type_name != _COLUMN_TYPE:
        raise UnsupportedFeature(f"column encoding {described.type_name or '(none)'}")
    encoding = _parse(pb.ColumnEncoding, described)
    while (kind := encoding.WhichOneof("column_encoding")) != "values":
        if kind is None:
            raise UnsupportedFeature("a column encoding that this release of lancefs does not know")
        encoding = getattr(encoding, kind).inner


def _parse(kind: type[_Encoding], described: PageEncoding) -> _Encoding:
    try:
        return kind.FromString(described.data)
    except DecodeError as error:
        raise CorruptFile(f"the description is not a message {kind.DESCRIPTOR.name}") from error
