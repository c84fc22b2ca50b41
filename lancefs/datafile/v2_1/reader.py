"""Rows of a data file 2.1 or later, as Arrow arrays.

Docs: format/file/encoding. Kernels read the rows of the leaf columns of fields that they support;
of the others `page_fetcher` fetches the chunks that hold the rows, and `assembly` makes arrays of
them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Self, TypeAlias

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.container import Container, Page
from lancefs.datafile.fields import CacheByFields, Field, are_same
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.assembly import assemble, assemble_rows
from lancefs.datafile.v2_1.cached_pages import ReadOtherwise
from lancefs.datafile.v2_1.kernel_choice import (
    MAX_ROWS,
    are_contiguous,
    are_plainly_read,
    is_worthwhile,
    most_nested_rows,
    most_rows,
)
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.leaf_columns import (
    FetchedLeaf,
    FetchedRows,
    LeafField,
    LeafRows,
    leaves_of,
)
from lancefs.datafile.v2_1.nested_plans import plan_nested
from lancefs.datafile.v2_1.nested_points import FilePlan
from lancefs.datafile.v2_1.number_columns import are_read_as_numbers, is_coded
from lancefs.datafile.v2_1.page_fetcher import PageFetcher
from lancefs.datafile.v2_1.plain_columns import PlainColumns
from lancefs.datafile.v2_1.point_plans import LeafPlan, may_be_plain, plan_leaf, plan_plain
from lancefs.datafile.v2_1.point_reader import CachedMetadata, PointReader
from lancefs.datafile.v2_1.text_columns import are_read_as_texts
from lancefs.errors import CorruptFile, MemoryLimitExceeded, Refusal, UnsupportedFeature, locating
from lancefs.storage import Reads, SparseRanges, count_pages

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import PageSizes

# A leaf, and how kernels read it.
_PlannedLeaf: TypeAlias = tuple[LeafField, LeafPlan]
# Bytes of the chunk tables of all groups of plain columns, about.
_MAX_TABLES = 8 * 1024 * 1024
_MAX_ASKED = 4  # groups of fields that are cached


class _Asked:
    """Fields that are read together.

    Args:
        fields: The fields.
        leaves: Their leaves.
        are_numbers: Whether all of them may be plain.

    Attributes:
        plan: How a few rows of all leaves are read at once; None where not all leaves can be.
        is_planned: Whether `plan` was made.
    """

    def __init__(
        self, fields: Sequence[Field], leaves: Sequence[LeafField], are_numbers: bool
    ) -> None:
        self.fields = tuple(fields)
        self.leaves = leaves
        self.are_numbers = are_numbers
        self.plan: FilePlan | None = None
        self.is_planned = False


class _CachedLeafMetadata(CachedMetadata):
    """What is cached of the metadata of a data file.

    Attributes:
        asked: What was asked for last, which mostly is asked for again: by a scan with a filter the
            columns of the filter, and all others.
        plain: Which of some fields are plain.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = deque[_Asked](maxlen=_MAX_ASKED)
        self.plain = CacheByFields[PlainColumns | None]()
        self._unchecked = 0  # what came to `plain` since its bytes were added up

    def keep_plain(self, fields: Sequence[Field], columns: PlainColumns | None) -> None:
        """Keep which of some fields are plain, and forget all others if these take much memory.

        Args:
            fields: The fields, at least one.
            columns: Those that are plain; None where none is.
        """
        self._unchecked += 1
        if self._unchecked * 8 > len(self.plain):  # added up for each of many columns, it is slow
            self._unchecked = 0
            if self.table_bytes > _MAX_TABLES:
                self.plain.clear()
        self.plain.put(fields, columns)

    @property
    def table_bytes(self) -> int:
        """Bytes of the chunk tables of plain columns."""
        return sum([each.cost for each in self.plain.values() if each is not None])

    @property
    def cached_bytes(self) -> int:
        """Bytes of dictionaries and chunk tables."""
        return self.table_bytes + super().cached_bytes


class StructuralReader(PointReader):
    """Reads fields of one data file 2.1 or later; see `PointReader` for the arguments."""

    decodes_dictionaries = True
    reads_decimal64 = True
    _cached_metadata: _CachedLeafMetadata

    def __init__(
        self, container: Container, columns: Mapping[int, int], rows: int | None = None
    ) -> None:
        super().__init__(container, columns, rows)
        self._cached_metadata = _CachedLeafMetadata()
        self._fetcher = PageFetcher(container, columns, rows)

    def of(self, container: Container) -> Self:
        """Return a reader of a file with the same bytes; see `PointReader.of`."""
        reader = super().of(container)
        reader._fetcher = self._fetcher.of(container)
        return reader

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        """Read rows of a field whose leaves all have columns in this file.

        Args:
            field: The field, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
        """
        return (yield from self.read_all([field], ranges))[0]

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[list[pa.Array]]:
        """Read rows of several fields in the same rounds of requests; see `read`."""
        asked, refusal = self._find_asked(fields), None
        if fields and self.container.file.is_in_memory:
            if are_plainly_read(asked.are_numbers, ranges):
                plain = yield from self._plain_columns(fields)
                if plain is not None:
                    return (yield from self._read_plain(plain, ranges))
            arrays, refusal = yield from self._read_few(asked, ranges)
            if arrays is not None:
                return arrays
        return assemble(fields, [(yield from self.fetch(asked.leaves, ranges, refusal=refusal))])

    def load_indices(self, fields: Sequence[Field]) -> Reads[list[pa.Array]]:
        """Read what tells where rows of fields are, for later reads of a remote file; no arrays."""
        leaves = leaves_of(fields)
        yield from self.container.load([self.columns[leaf.field.id] for leaf in leaves])
        yield from self._fetcher.load_indices(leaves)
        return []

    def _find_asked(self, fields: Sequence[Field]) -> _Asked:
        """Return fields that are read together, with what is cached of them."""
        for cached in tuple(self._cached_metadata.asked):
            if are_same(fields, cached.fields):
                return cached
        asked = _Asked(fields, leaves_of(fields), all(map(may_be_plain, fields)))
        self._cached_metadata.asked.append(asked)
        return asked

    def _read_few(
        self, asked: _Asked, ranges: Sequence[RowRange]
    ) -> Reads[tuple[list[pa.Array] | None, Refusal | None]]:
        """Read a few rows of fields whose leaves all are supported by kernels.

        Returns:
            The rows of each field, or None where `fetch` has to read them; and the error of a
            kernel that refused pages.
        """
        count = count_rows(ranges)
        if not 0 < count <= MAX_ROWS:
            return None, None
        if not asked.is_planned:
            yield from self._plan_few(asked)
        if asked.plan is None or not asked.plan.is_worthwhile(count):
            return None, None
        found = yield from self.read_points(asked.plan, ranges)
        if not found.leaves:
            return None, found.refusal
        return [self._assemble_field(field, found.leaves, count) for field in asked.fields], None

    def _plan_few(self, asked: _Asked) -> Reads[None]:
        """Plan how kernels read a few rows of fields, if they support all of the leaves."""
        yield from self.container.load([self.columns[leaf.field.id] for leaf in asked.leaves])
        planned = self._plans_of(asked.leaves)
        are_all = len(planned) == len(asked.leaves) > 0
        if are_all and all(self.may_have(plan.rows) for _, plan in planned):
            asked.plan = self.file_plan(*zip(*planned, strict=True))
        asked.is_planned = True

    def _assemble_field(self, field: Field, leaves: Mapping[int, LeafRows], count: int) -> pa.Array:
        leaf = leaves.get(field.id)
        if leaf is not None:
            return leaf.values
        with locating(self.container.file.url, field.name):
            return assemble_rows(field, leaves, count)

    def mapped_fields(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[Sequence[Field]]:
        """Return the fields that are read from mapped bytes, not from copies of them.

        Args:
            fields: The fields to read.
            ranges: Ranges of rows, ascending and disjoint.

        Raises:
            LanceError: The metadata of a column cannot be read.
        """
        if not are_contiguous(len(fields), ranges):
            return fields
        plain = yield from self._plain_columns(fields)
        return fields if plain is None else plain.others

    def _read_plain(
        self, columns: PlainColumns, ranges: Sequence[RowRange]
    ) -> Reads[list[pa.Array]]:
        """Read a range of rows of columns of which most are plain."""
        file, (rows,) = self.container.file, ranges
        (data,) = yield SparseRanges([columns.span])
        is_read = are_contiguous(len(columns.fields), ranges)  # longer parts are quicker looked at
        try:
            with file.opened() if is_read else nullcontext(-1) as descriptor:
                found = columns.read(data, descriptor, rows)
        except (CorruptFile, MemoryLimitExceeded, ReadOtherwise, UnsupportedFeature) as error:
            # Page by page, less is decoded at once, and all is read that may be read otherwise.
            refusal = error if isinstance(error, Refusal) else None
            leaves = leaves_of(columns.fields)
            fetched = yield from self.fetch(leaves, ranges, refusal=refusal)
            return assemble(columns.fields, [fetched])
        file.looked_at(found.size, found.places, descriptor < 0)
        count_pages(columns.pages_with(rows))
        others: Sequence[pa.Array] = ()
        if columns.others:
            leaves = leaves_of(columns.others)
            fetched = yield from self.fetch(leaves, ranges, columns=len(columns.fields))
            others = assemble(columns.others, [fetched])
        values = {
            leaf.field.id: LeafRows.in_valid_structs(leaf, array)
            for leaf, array in zip(columns.leaves, found.arrays, strict=True)
        }
        count, left = rows[1] - rows[0], iter(others)
        return [
            self._assemble_field(field, values, count) if is_plain else next(left)
            for field, is_plain in zip(columns.fields, columns.are_plain, strict=True)
        ]

    def _plain_columns(self, fields: Sequence[Field]) -> Reads[PlainColumns | None]:
        """Return the plain ones of some fields, cached; None where none is."""
        cached = self._cached_metadata.plain.find(fields)
        if cached is not None:
            return cached[1]
        leaves = [leaves_of([field]) for field in fields]
        yield from self.container.load(
            [self.columns[leaf.field.id] for own in leaves for leaf in own]
        )
        planned = [self._plain_leaves(own) for own in leaves]
        columns = PlainColumns(fields, planned) if any(planned) else None
        self._cached_metadata.keep_plain(fields, columns)
        return columns

    def _plain_leaves(self, leaves: Sequence[LeafField]) -> Sequence[_PlannedLeaf]:
        """Return how the leaves of a field are read, if it is plain; none of others."""
        planned: list[_PlannedLeaf] = []
        for leaf in leaves:
            plan = self._plain_plan(leaf)
            if plan is None:
                return ()
            planned.append((leaf, plan))
        return planned

    def _plain_plan(self, leaf: LeafField) -> LeafPlan | None:
        """Return how a kernel reads a leaf; None where it is not plain."""
        plan, field = None, leaf.field
        if field.is_decimal64 or is_coded(field.storage_type):
            with suppress(CorruptFile, UnsupportedFeature):  # in a page that may not be wanted
                plan = plan_plain(leaf, self.container.column(self.columns[field.id]))
        else:
            plan = self.plan(leaf, is_nested=False)
        if plan is None or plan.packed or not self.may_have(plan.rows):
            return None
        return plan if are_read_as_numbers(plan) or are_read_as_texts(plan) else None

    def dictionary_items(self, page: Page) -> int | None:
        """Return how many items the dictionary of a page has; see `PointReader`."""
        layout = layout_of(page.encoding)
        if not isinstance(layout, MiniBlock) or not layout.has_dictionary:
            return None
        return layout.dictionary_items

    def page_sizes(self, fields: Sequence[Field]) -> list[list[PageSizes]]:
        """Return the sizes of the pages of each field's columns."""
        leaves = [leaves_of([field]) for field in fields]
        columns = [self.columns[leaf.field.id] for of_field in leaves for leaf in of_field]
        self.container.load_columns(columns)
        return [[self._page_sizes(leaf) for leaf in of_field] for of_field in leaves]

    def _page_sizes(self, leaf: LeafField) -> PageSizes:
        from lancefs.datafile.row_sizes import sizes_of

        column = self.container.column(self.columns[leaf.field.id])
        return sizes_of(column, leaf.field, decoded_overhead)

    def fetch(
        self,
        leaves: Sequence[LeafField],
        ranges: Sequence[RowRange],
        refusal: Refusal | None = None,
        columns: int = 0,
    ) -> Reads[FetchedRows]:
        """Fetch rows of leaves; `assemble` joins them with the rows of other files, if any.

        Args:
            leaves: The leaves of fields that are pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
            refusal: The error of a kernel that refused pages of the leaves, so that all of them are
                read page by page; None if none did.
            columns: Number of columns that are read at the same rows, these among them.
        """
        yield from self.container.load([self.columns[leaf.field.id] for leaf in leaves])
        cut, count = list(self._fetcher.cut(leaves, ranges)), count_rows(ranges)
        by_id: dict[int, FetchedLeaf] = {}
        is_contiguous = are_contiguous(max(len(leaves), columns), ranges)
        are_points = self.container.file.is_in_memory and (
            is_contiguous or count <= max(most_rows(ranges), most_nested_rows(ranges))
        )
        if are_points and refusal is None:
            by_id, refusal = yield from self._fetch_points(leaves, ranges, count, is_contiguous)
        left = [each for each in zip(leaves, cut, strict=True) if each[0].field.id not in by_id]
        if left:
            pages = yield from self._fetcher.fetch(left)
            by_id |= {fetched.leaf.field.id: fetched for fetched in pages}
        count_pages(sum(map(len, cut)))
        fetched = [by_id[leaf.field.id] for leaf in leaves]
        return FetchedRows(self.container.file.url, count, fetched, refusal)

    def _fetch_points(
        self,
        leaves: Sequence[LeafField],
        ranges: Sequence[RowRange],
        count: int,
        is_contiguous: bool,
    ) -> Reads[tuple[dict[int, FetchedLeaf], Refusal | None]]:
        """Read rows of those leaves whose pages kernels support; see `points` and `nested_points`.

        Returns:
            The leaves, by field id; and the error of a kernel that refused them.
        """
        most, most_nested = most_rows(ranges), most_nested_rows(ranges)
        # A single range of leaves with lists takes a run of chunks, which is as quick; one of flat
        # pages is not copied.
        planned = [
            each
            for each in self._plans_of(leaves)
            if not (len(ranges) == 1 and each[1].is_flat)
            if is_contiguous
            or is_worthwhile(
                count,
                each[1].rows,
                each[1].values,
                most if each[1].levels is None else most_nested,
            )
        ]
        if not planned:
            return {}, None
        plan = self.file_plan(*zip(*planned, strict=True))
        found = yield from self.read_points(plan, ranges)
        url = self.container.file.url
        fetched = {
            leaf.field.id: FetchedLeaf(
                leaf, leaf.field, url, self.columns[leaf.field.id], (), found.leaves[leaf.field.id]
            )
            for leaf, _ in planned
            if found.leaves
        }
        return fetched, found.refusal

    def _plans_of(self, leaves: Sequence[LeafField]) -> Sequence[_PlannedLeaf]:
        """Return those leaves that kernels read, with how they do."""
        plans = [
            self.plan(leaf, is_nested=False) or self.plan(leaf, is_nested=True) for leaf in leaves
        ]
        return [(leaf, plan) for leaf, plan in zip(leaves, plans, strict=True) if plan is not None]

    def _make_plan(self, leaf: LeafField, is_nested: bool) -> LeafPlan | None:
        make = plan_nested if is_nested else plan_leaf
        return make(leaf, self.container.column(self.columns[leaf.field.id]))


def decoded_overhead(page: Page) -> float:
    """Bytes the decoded page needs beyond its stored size."""
    layout = layout_of(page.encoding)
    return layout.decoded_overhead(page) if isinstance(layout, MiniBlock) else 0.0
