"""Reader of data files 2.0.

Docs: `encodings_v2_0.proto`. Unlike in later formats, lists and structs own columns too: the column
of a list holds the end of each list in the column of its items, the column of a struct only counts
rows. A list is therefore read in two rounds of requests: its offsets, then its items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, nulls, to_arrow
from lancefs.datafile.blocks import FixedWidth, RowRange, VariableWidth
from lancefs.datafile.buffers import join_bytes
from lancefs.datafile.container import ColumnPages, Container, Page
from lancefs.datafile.field_reader import read_fields
from lancefs.datafile.fields import CacheByFields, Field
from lancefs.datafile.outlines import zeros
from lancefs.datafile.packed_structs import stored_field, without_dropped
from lancefs.datafile.page_ranges import by_page, check_column_rows, join_arrays
from lancefs.datafile.row_ranges import count_rows, filled
from lancefs.datafile.row_sizes import PageSizes, sizes_of
from lancefs.datafile.v2_0 import encodings
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, name_of
from lancefs.datafile.v2_0.descriptions import check_column, parse_page_encoding
from lancefs.datafile.v2_0.encodings import dictionary_overhead, read_bytes, read_extents
from lancefs.datafile.v2_0.extents import Extents, join_extents
from lancefs.datafile.v2_0.flat_columns import FlatColumns
from lancefs.datafile.v2_0.point_plans import plan_leaf
from lancefs.datafile.v2_1.assembly import assemble_rows, report_disagreement
from lancefs.datafile.v2_1.kernel_choice import MAX_ROWS, are_plainly_read
from lancefs.datafile.v2_1.leaf_columns import LeafField, leaves_below
from lancefs.datafile.v2_1.nested_points import FilePlan
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.datafile.v2_1.point_reader import CachedMetadata, PointReader
from lancefs.errors import CorruptFile, Refusal, UnsupportedFeature, locating
from lancefs.storage import Reads, SparseRanges, count_pages, together

_LISTS = ("list", "list.struct")
_LARGE_LISTS = ("large_list", "large_list.struct")


class _FewRows(NamedTuple):
    """How a few rows of some fields are read.

    Attributes:
        numbers: Positions of the fields whose pages kernels support.
        plan: How these are read; None where there are none.
    """

    numbers: Sequence[int]
    plan: FilePlan | None


class _CachedArrayMetadata(CachedMetadata):
    """What is cached of the metadata of a data file.

    Attributes:
        few: How a few rows of some fields are read.
        flat: Which of some fields are flat; None where none is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.few = CacheByFields[_FewRows]()
        self.flat = CacheByFields[FlatColumns | None]()


class ArrayReader(PointReader):
    """Reads fields of one data file 2.0; see `PointReader` for the arguments."""

    decodes_dictionaries = True
    reads_decimal64 = False
    _cached_metadata: _CachedArrayMetadata

    def __init__(
        self, container: Container, columns: Mapping[int, int], rows: int | None = None
    ) -> None:
        super().__init__(container, columns, rows)
        self._cached_metadata = _CachedArrayMetadata()
        # The last page that was read of each column, with its number: the next read may share its
        # decompressed buffers and dictionaries.
        self._latest_pages: dict[int, tuple[int, ArrayPage]] = {}
        self._first_items: dict[int, list[int]] = {}  # see `_items_before_pages`

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
        url, arrays, refusal = self.container.file.url, dict[int, pa.Array](), None
        if fields and self.container.file.is_in_memory:
            if are_plainly_read(False, ranges):
                arrays |= yield from self._read_flat(fields, ranges[0])
            if len(arrays) < len(fields) and 0 < count_rows(ranges) <= MAX_ROWS:
                left = [number for number in range(len(fields)) if number not in arrays]
                few, refusal = yield from self._read_few([fields[one] for one in left], ranges)
                arrays |= {left[number]: array for number, array in few.items()}
        others = [field for number, field in enumerate(fields) if number not in arrays]
        rest = iter((yield from read_fields(self.read, url, others, ranges)))
        if refusal is not None:
            report_disagreement(url, refusal)
        return [arrays[number] if number in arrays else next(rest) for number in range(len(fields))]

    def _read_flat(self, fields: Sequence[Field], rows: RowRange) -> Reads[Mapping[int, pa.Array]]:
        """Read a range of rows of those fields that are flat and have it in one page.

        Returns:
            The rows of these fields, by their positions.
        """
        cached = self._cached_metadata.flat.find(fields)
        columns = cached[1] if cached is not None else (yield from self._plan_flat(fields))
        if columns is None:
            return {}
        (data,) = yield SparseRanges([columns.span])
        found = columns.read(data, rows)
        self.container.file.looked_at(found.size, len(found.arrays))
        count_pages(len(found.arrays))
        return found.arrays

    def _plan_flat(self, fields: Sequence[Field]) -> Reads[FlatColumns | None]:
        """Return which of some fields are flat; cached."""
        own = [
            (number, leaf)
            for number, field in enumerate(fields)
            if field.is_leaf and field.id in self.columns
            for leaf in leaves_below(field)
        ]
        yield from self.container.load([self.columns[leaf.field.id] for _, leaf in own])
        planned = [(number, self._fitting_plan(leaf)) for number, leaf in own]
        flat = [(number, plan) for number, plan in planned if plan is not None and plan.is_flat]
        columns = FlatColumns(*zip(*flat, strict=True)) if flat else None
        self._cached_metadata.flat.put(fields, columns)
        return columns

    def _read_few(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[tuple[dict[int, pa.Array], Refusal | None]]:
        """Read a few rows of those fields whose pages kernels support.

        Returns:
            The rows of these fields, by their positions, none where they have to be read page by
            page; and the error of the kernel if it refused pages.
        """
        cached = self._cached_metadata.few.find(fields)
        numbers, plan = cached[1] if cached is not None else (yield from self._plan_few(fields))
        if plan is None:
            return {}, None
        found, count = (yield from self.read_points(plan, ranges)), count_rows(ranges)
        if not found.leaves:
            return {}, found.refusal
        arrays = {one: assemble_rows(fields[one], found.leaves, count) for one in numbers}
        return arrays, None

    def _plan_few(self, fields: Sequence[Field]) -> Reads[_FewRows]:
        """Return a plan to read a few rows of fields; cached."""
        of_fields = [
            [leaf for leaf in leaves_below(field) if leaf.field.id in self.columns]
            for field in fields
        ]
        leaves = [leaf for own in of_fields for leaf in own]
        yield from self.container.load([self.columns[leaf.field.id] for leaf in leaves])
        numbers, planned = [], list[tuple[LeafField, LeafPlan]]()
        for number, (field, own) in enumerate(zip(fields, of_fields, strict=True)):
            plans = [(leaf, plan) for leaf in own if (plan := self._fitting_plan(leaf)) is not None]
            if plans and len(plans) == sum(1 for _ in leaves_below(field)):
                numbers.append(number)
                planned += plans
        few = _FewRows(numbers, self.file_plan(*zip(*planned, strict=True)) if planned else None)
        self._cached_metadata.few.put(fields, few)
        return few

    def _fitting_plan(self, leaf: LeafField) -> LeafPlan | None:
        """Return how kernels read a leaf, if it has no more rows than the file should have."""
        plan = self.plan(leaf, is_nested=False)
        return plan if plan is not None and self.may_have(plan.rows) else None

    def _make_plan(self, leaf: LeafField, is_nested: bool) -> LeafPlan | None:
        if is_nested or leaf.field.id not in self.columns:
            return None
        column = self.container.column(self.columns[leaf.field.id])
        return plan_leaf(leaf, column, self.container.footer.global_buffers)

    def fetch(
        self,
        leaves: Sequence[LeafField],
        ranges: Sequence[RowRange],
        refusal: Refusal | None = None,
    ) -> None:
        """Return None: pages of data files 2.0 are decoded one by one."""

    def dictionary_items(self, page: Page) -> int | None:
        """Return how many items the dictionary of a page has; see `PointReader`."""
        encoding = parse_page_encoding(page.encoding)
        has_dictionary = name_of(encoding) == "dictionary"
        return int(encoding.dictionary.num_dictionary_items) if has_dictionary else None

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
        if field.is_validity and field.children:
            return (yield from self._read_validity(field, ranges))
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
        self._check_members(field)
        members = yield from together([self._read(member, ranges) for member in field.children])
        return pa.Array.from_buffers(
            field.storage_type, count_rows(ranges), [None], 0, children=members
        )

    def _check_members(self, field: Field) -> None:
        """Refuse a struct whose members have more rows, of which its own are not known.

        Releases up to 0.27 wrote a slice of an array of structs with the members of all the array.
        """
        if field.id not in self.columns:
            return
        rows = self.container.column(self.columns[field.id]).first_rows[-1]
        for member in field.children:
            if member.id in self.columns:
                found = self.container.column(self.columns[member.id]).first_rows[-1]
                if found > rows:
                    raise UnsupportedFeature(
                        f"the struct {field.name} of {rows} rows with {found} of {member.name}; "
                        "Lance before 0.30 wrote slices so: write the rows anew from their source"
                    )

    def _read_validity(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        """Read which lists are null, without their items, or structs, of which none is."""
        rows, kind = count_rows(ranges), field.storage_type
        if pa.types.is_struct(kind):
            members = [nulls(rows, child.storage_type) for child in field.children]
            return pa.Array.from_buffers(kind, rows, [None], 0, children=members)
        if field.logical_type not in (*_LISTS, *_LARGE_LISTS):
            raise UnsupportedFeature(f"{field.name}: {kind} in a data file 2.0")
        index = self._column_of(field)
        with locating(place=f"column {index} ({field.name})"):
            extents = yield from self._read_extents(index, ranges)
        width = np.int64 if pa.types.is_large_list(kind) else np.int32
        offsets = pa.py_buffer(np.zeros(rows + 1, width))
        items = pa.nulls(0, field.children[0].storage_type)
        return pa.Array.from_buffers(kind, rows, [bitmap(extents.valid), offsets], children=[items])

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
                values = slots.values
                if field.is_validity:
                    values = zeros(data_type, values.length)
                return to_arrow(values, data_type, slots.valid)
            read = encodings.read if not field.is_outline else _reduced_reader(field)
            # Strings that are read with dictionaries are stored as all strings are.
            zero_based = pa.types.is_dictionary(data_type) and not field.is_encoded
            reads = [
                self._read_page(index, page, rows, data_type, zero_based, read)
                for page, rows in by_page(column.first_rows, ranges)
            ]
            return join_arrays((yield from together(reads)), data_type)

    def _read_page(
        self,
        column: int,
        number: int,
        rows: Sequence[RowRange],
        data_type: pa.DataType,
        zero_based: bool,
        read: encodings.Read,
    ) -> Reads[pa.Array]:
        with locating(place=f"page {number}"):
            count_pages(1)
            page = self._page(column, number, zero_based)
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
                    encoding = parse_page_encoding(page.encoding)
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
            return Slots(FixedWidth(64, extents.lengths), extents.valid)
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
            parse_page_encoding(metadata.pages[number].encoding),
            (
                metadata.pages[number].buffers,
                metadata.buffers,
                self.container.footer.global_buffers,
            ),
            zero_based,
        )
        self._latest_pages[column] = (number, page)
        return page


def _reduced_reader(field: Field) -> encodings.Read:
    """Return what reads the outline of a leaf, or its validity."""
    from lancefs.datafile.v2_0.array_outlines import read_outline, read_validity

    if field.is_validity:
        return read_validity
    return partial(read_outline, data_type=field.storage_type)


def _decoded_overhead(page: Page) -> float:
    """Estimate the bytes of a decoded page beyond its stored size."""
    encoding = parse_page_encoding(page.encoding)
    return dictionary_overhead(ArrayPage(encoding, (page.buffers, (), ())), page.rows)


def _holds_lists(column: ColumnPages) -> bool:
    return bool(column.pages) and name_of(parse_page_encoding(column.pages[0].encoding)) == "list"
