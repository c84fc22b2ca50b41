"""Rows of a data file 2.0, as Arrow arrays.

Docs: `encodings_v2_0.proto`. Unlike in later formats, lists and structs own columns too: a list's
column tells where in the column of its items each list ends, a struct's tells nothing but how many
rows there are. Reading lists therefore takes two rounds: their offsets, then their items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lancefs.datafile.arrays import bitmap, to_arrow
from lancefs.datafile.blocks import FixedWidth, RowRange, VariableWidth
from lancefs.datafile.container import Column, Container, Encoding, Page
from lancefs.datafile.fields import Field
from lancefs.datafile.fieldwise import read_fields
from lancefs.datafile.packed_structs import stored_field, without_dropped
from lancefs.datafile.page_ranges import by_page, join_arrays
from lancefs.datafile.row_ranges import filled
from lancefs.datafile.v2_0 import dictionary, registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows
from lancefs.datafile.v2_0.binary import read_bytes
from lancefs.datafile.v2_0.extents import Extents, join_extents, read_extents
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Steps, together

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import PageSizes

_PAGE_TYPE = "lance.encodings.ArrayEncoding"
_COLUMN_TYPE = "lance.encodings.ColumnEncoding"
_LISTS = ("list", "list.struct")
_LARGE_LISTS = ("large_list", "large_list.struct")


class ArrayReader:
    """Reads fields of one data file 2.0.

    Args:
        container: The file.
        columns: Column index of each field that has one, by field id: lists and structs do too.
    """

    def __init__(self, container: Container, columns: Mapping[int, int]) -> None:
        self.container = container
        self.columns = columns
        # The page of each column that was read last: what is kept of it serves the next read.
        self._latest: dict[int, tuple[int, ArrayPage]] = {}
        self._first_items: dict[int, list[int]] = {}

    @property
    def num_rows(self) -> int:
        """Rows of the file.

        Raises:
            CorruptFile: The file's own schema, which tells them, is damaged.
        """
        return int(self.container.descriptor().length)

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        """Read rows of a field as an array of its storage type.

        Args:
            field: The field, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.

        Raises:
            CorruptFile: The bytes of the file are damaged.
            UnsupportedFeature: An encoding or a type is not known; it is named.
        """
        wanted = filled(ranges)
        with locating(self.container.file.url):
            yield from self.container.load(self._columns([field]))
            return (yield from self._read(field, wanted))

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Steps[list[pa.Array]]:
        """Read the same rows of several fields; see `read`. Errors name the field."""
        return read_fields(self.read, self.container.file.url, fields, ranges)

    def page_sizes(self, fields: Sequence[Field]) -> list[list[PageSizes]]:
        """Return the pages of the columns of each field, with their bytes."""
        self.container.load_columns(self._columns(fields))
        return [
            [self._page_sizes(part) for part in field.walk() if part.id in self.columns]
            for field in fields
        ]

    def _page_sizes(self, field: Field) -> PageSizes:
        from lancefs.datafile.row_sizes import sizes_of

        return sizes_of(self.container.column(self.columns[field.id]), field, _looked_up)

    def _columns(self, fields: Sequence[Field]) -> list[int]:
        """Return the indices of the columns of fields and of all below them."""
        parts = chain.from_iterable(field.walk() for field in fields)
        return [self.columns[part.id] for part in parts if part.id in self.columns]

    def _read(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
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

        The columns tell, not the metadata: writers took any value of `lance-encoding:packed`.
        """
        members = field.children if field.logical_type == "struct" else ()
        return bool(members) and not any(member.id in self.columns for member in members)

    def _column(self, field: Field) -> int:
        """Return the index of a field's own column."""
        if field.id not in self.columns:
            raise CorruptFile(f"field {field.id} ({field.name}) has no column")
        return self.columns[field.id]

    def _read_struct(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        """Read a struct, which is never null in a data file 2.0."""
        members = yield from together([self._read(member, ranges) for member in field.children])
        return pa.Array.from_buffers(
            field.storage_type, count_rows(ranges), [None], 0, children=members
        )

    def _read_list(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        index, data_type = self._column(field), field.storage_type
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

    def _read_leaf(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        index, data_type = self._column(field), field.storage_type
        column = self.container.column(index)
        with locating(place=f"column {index} ({field.name})"):
            _check_column(column)
            if _holds_lists(column):
                slots = yield from self._read_listed_strings(index, field.is_outline, ranges)
                return to_arrow(slots.values, data_type, slots.valid)
            read = _outlines_of(data_type) if field.is_outline else registry.read
            reads = [
                self._read_page(index, page, rows, data_type, read)
                for page, rows in by_page(column.first_rows, ranges)
            ]
            return join_arrays((yield from together(reads)), data_type)

    def _read_page(
        self,
        column: int,
        page: int,
        rows: Sequence[RowRange],
        data_type: pa.DataType,
        read: registry.Read,
    ) -> Steps[pa.Array]:
        with locating(place=f"page {page}"):
            opened = self._page(column, page, pa.types.is_dictionary(data_type))
            slots = yield from read(opened.encoding, opened, rows)
            return to_arrow(slots.values, data_type, slots.valid)

    def _read_extents(self, column: int, ranges: Sequence[RowRange]) -> Steps[Extents]:
        """Read where in the column of their items lists are."""
        metadata = self.container.column(column)
        _check_column(metadata)
        wanted = by_page(metadata.first_rows, ranges)
        reads = [self._read_page_extents(column, page, rows) for page, rows in wanted]
        return join_extents((yield from together(reads)))

    def _read_page_extents(
        self, column: int, page: int, rows: Sequence[RowRange]
    ) -> Steps[Extents]:
        firsts = self._items_before(column)
        with locating(place=f"page {page}"):
            opened = self._page(column, page)
            lists = opened.encoding.list
            extents = yield from read_extents(
                lists.offsets, opened, rows, int(lists.null_offset_adjustment)
            )
            if extents.ranges and extents.ranges[-1][1] > lists.num_items:
                raise CorruptFile(
                    f"lists of {extents.ranges[-1][1]} items in all, expected {lists.num_items}"
                )
            return extents.shifted(firsts[page])

    def _items_before(self, column: int) -> list[int]:
        """Return for each page of lists how many items the pages before it have."""
        if column not in self._first_items:
            counts = []
            for number, page in enumerate(self.container.column(column).pages):
                with locating(place=f"page {number}"):
                    encoding = _parse(page.encoding)
                    if registry.name_of(encoding) != "list":
                        raise CorruptFile(f"lists encoded as {registry.name_of(encoding)}")
                    counts.append(int(encoding.list.num_items) if page.rows else 0)
            self._first_items[column] = list(accumulate(counts, initial=0))
        return self._first_items[column]

    def _read_listed_strings(
        self, column: int, is_outline: bool, ranges: Sequence[RowRange]
    ) -> Steps[Slots]:
        """Read strings stored as lists of bytes, the bytes in the next column.

        Only previews of the format were written so.
        """
        extents = yield from self._read_extents(column, ranges)
        if is_outline:
            return Slots(FixedWidth(64, np.diff(extents.offsets)), extents.valid)
        yield from self.container.load([column + 1])
        wanted = by_page(self.container.column(column + 1).first_rows, extents.ranges)
        pages = [(self._page(column + 1, page), rows) for page, rows in wanted]
        parts = [read_bytes(page.encoding, page, rows) for page, rows in pages]
        pieces = yield from together(parts)
        data = np.concatenate([np.empty(0, np.uint8), *pieces])
        return Slots(VariableWidth(extents.offsets, data), extents.valid)

    def _page(self, column: int, page: int, zero_based: bool = False) -> ArrayPage:
        latest = self._latest.get(column)
        if latest is not None and latest[0] == page:
            return latest[1]
        metadata = self.container.column(column)
        opened = ArrayPage(
            _parse(metadata.pages[page].encoding),
            (
                metadata.pages[page].buffers,
                metadata.buffers,
                self.container.footer.global_buffers,
            ),
            zero_based,
        )
        self._latest[column] = (page, opened)
        return opened


def _outlines_of(data_type: pa.DataType) -> registry.Read:
    from lancefs.datafile.v2_0 import array_outlines

    return partial(array_outlines.read, data_type=data_type)


def _looked_up(page: Page) -> float:
    """Return how many bytes the values of a page take that a dictionary, if any, holds once."""
    opened = ArrayPage(_parse(page.encoding), (page.buffers, (), ()))
    return sum(dictionary.looked_up(opened, page.rows))


@lru_cache(maxsize=1024)  # the pages of a column, and of the other fragments, are encoded alike
def _parse(described: Encoding) -> pb.ArrayEncoding:
    """Read the description of a page."""
    if described.type_name != _PAGE_TYPE:
        raise UnsupportedFeature(f"page encoding {described.type_name or '(none)'}")
    encoding = pb.ArrayEncoding()
    try:
        encoding.ParseFromString(described.data)
    except DecodeError as error:
        raise CorruptFile("the description of the page is not an ArrayEncoding message") from error
    return encoding


def _check_column(column: Column) -> None:
    """Check that the pages of a column are all that there is to it.

    A blob's pages are its descriptors; zone maps stand beside the pages and are not needed.
    """
    _check_encoding(column.encoding)


@lru_cache(maxsize=1024)  # most columns are described alike
def _check_encoding(described: Encoding) -> None:
    if described.type_name != _COLUMN_TYPE:
        raise UnsupportedFeature(f"column encoding {described.type_name or '(none)'}")
    encoding = pb.ColumnEncoding()
    try:
        encoding.ParseFromString(described.data)
    except DecodeError as error:
        raise CorruptFile("the description is not a ColumnEncoding message") from error
    while (kind := encoding.WhichOneof("column_encoding")) != "values":
        if kind is None:
            raise UnsupportedFeature("a column encoding that this release of lancefs does not know")
        encoding = getattr(encoding, kind).inner


def _holds_lists(column: Column) -> bool:
    return bool(column.pages) and registry.name_of(_parse(column.pages[0].encoding)) == "list"
