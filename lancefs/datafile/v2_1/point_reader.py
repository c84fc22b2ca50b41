"""Base of readers whose kernels read a few rows of many leaf columns at once (2.0 and later)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.column_facts import ColumnFacts
from lancefs.datafile.container import Container, Page
from lancefs.datafile.field_reader import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import rows_of
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.nested_points import (
    FilePlan,
    FoundLeaves,
    check_levels_of,
    read_leaves,
)
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.errors import CorruptFile, MemoryLimitExceeded, UnsupportedFeature
from lancefs.storage import Bytes, Reads, SparseRanges, count_pages

# Most groups of leaves whose joint plans are cached: streams and views read some columns at a time.
_MAX_PLANS = 16


class CachedMetadata:
    """What is cached of the metadata of a data file, and nothing that its memory is needed for.

    Attributes:
        plans: How kernels read columns, by column and whether it may be nested.
        file_plans: Plans of leaves that were read at once.
        facts: Facts about columns, of a file that is all of its fragment.
    """

    def __init__(self) -> None:
        self.plans: dict[tuple[int, bool], tuple[Field | None, LeafPlan | None]] = {}
        self.file_plans: deque[FilePlan] = deque(maxlen=_MAX_PLANS)
        self.facts = ColumnFacts()

    @property
    def cached_bytes(self) -> int:
        """Bytes of cached parts of pages, without the metadata of columns."""
        plans = [
            plan for _, plan in list(self.plans.values()) if plan is not None and plan.dictionaries
        ]
        return sum([page.cached_bytes for plan in plans for page in plan.dictionaries])


class PointReader(FieldReader):
    """Reads fields of one data file.

    Args:
        container: The file.
        columns: Column index of each field that has a column, by field id.
        rows: Number of rows that the file should have; None if it is not known.
    """

    def __init__(
        self, container: Container, columns: Mapping[int, int], rows: int | None = None
    ) -> None:
        self.container = container
        self.columns = columns
        self._expected_rows = rows
        self._cached_metadata = CachedMetadata()

    def of(self, container: Container) -> Self:
        """Return a reader of a file with the same bytes, which shares what is cached of them.

        Args:
            container: The file, from `Container.of`; the memory of the other one is not used.
        """
        reader = type(self)(container, self.columns, self._expected_rows)
        reader._cached_metadata = self._cached_metadata
        return reader

    @property
    def num_rows(self) -> int:
        """Number of rows of the file; pages of structs in fixed-size lists have more.

        Raises:
            CorruptFile: The file's own schema, which holds the number, is damaged.
        """
        return int(self.container.descriptor().length)

    @property
    def cached_bytes(self) -> int:
        """Bytes of cached parts of pages, without the metadata of columns."""
        return self._cached_metadata.cached_bytes

    @property
    def facts(self) -> ColumnFacts:
        """Facts about columns, of a file that is all of its fragment."""
        return self._cached_metadata.facts

    def plan(self, leaf: LeafField, is_nested: bool) -> LeafPlan | None:
        """Return how kernels read a leaf, whose column is loaded.

        Args:
            leaf: The leaf.
            is_nested: Whether it may have lists or null structs around it, which are found first.

        Returns:
            None where the leaf is not read in this way.
        """
        field, key = leaf.field, (self.columns[leaf.field.id], is_nested)
        cached, plan = self._cached_metadata.plans.get(key, (None, None))
        if cached is not field:
            plan = None
            with suppress(CorruptFile, UnsupportedFeature):  # in a page that may not be wanted
                plan = self._make_plan(leaf, is_nested)
            self._cached_metadata.plans[key] = field, plan
        return plan

    @abstractmethod
    def _make_plan(self, leaf: LeafField, is_nested: bool) -> LeafPlan | None:
        """Return how kernels read a leaf; see `plan`.

        Raises:
            CorruptFile: The metadata of the column is damaged.
            UnsupportedFeature: Something in it is not known.
        """

    @abstractmethod
    def dictionary_items(self, page: Page) -> int | None:
        """Return how many items the dictionary of a page has; None where it has none.

        Raises:
            CorruptFile: The description of the page is damaged.
            UnsupportedFeature: It is of a kind that is not known.
        """

    def may_have(self, rows: int) -> bool:
        """Whether a column may have so many rows; see `check_column_rows`."""
        return self._expected_rows is None or rows <= self._expected_rows

    def file_plan(self, leaves: Sequence[LeafField], plans: Sequence[LeafPlan]) -> FilePlan:
        """Return plans of leaves as one, which is kept for the next read."""
        for cached in tuple(self._cached_metadata.file_plans):
            if cached.is_of(plans):
                return cached
        made = FilePlan(leaves, plans)
        self._cached_metadata.file_plans.append(made)
        return made

    def read_points(self, plan: FilePlan, ranges: Sequence[RowRange]) -> Reads[FoundLeaves]:
        """Read rows of leaves by kernels; see `take_leaves`."""
        (data,) = yield SparseRanges([plan.span])
        return take_leaves([self], [plan], [rows_of(ranges)], [data])


def take_leaves(
    readers: Sequence[PointReader],
    plans: Sequence[FilePlan],
    rows: Sequence[Ints],
    data: Sequence[Bytes],
) -> FoundLeaves:
    """Take rows of leaves by kernels.

    Args:
        readers: The reader of each file.
        plans: As for `read_leaves`.
        rows: As for `read_leaves`.
        data: As for `read_leaves`.

    Returns:
        No leaves where they have to be read page by page.

    Raises:
        CorruptFile: The levels of a page are damaged, which is not always seen page by page.
    """
    try:
        found = read_leaves(plans, rows, data)
    except (CorruptFile, UnsupportedFeature) as error:
        for reader, plan, own, bytes_of_file in zip(readers, plans, rows, data, strict=True):
            with suppress(MemoryLimitExceeded):  # page by page, the error says where
                url = reader.container.file.url
                check_levels_of(plan, own, bytes_of_file, url, reader.columns)
        return FoundLeaves({}, refusal=error)
    except MemoryLimitExceeded:  # page by page, less is decoded at once
        return FoundLeaves({})
    files = len(readers)
    for reader, plan, own in zip(readers, plans, rows, strict=True):
        reader.container.file.looked_at(found.size // files, found.places // files)
        count_pages(plan.table.pages_with(own))
    return found
