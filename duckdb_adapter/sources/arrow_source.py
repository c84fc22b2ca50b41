"""Rows as DuckDB's Arrow scan takes them: a pyarrow dataset, or a source of DuckDB 2.0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.interrupts import passed_on
from duckdb_adapter.planned_scans import note_scan
from duckdb_adapter.sources.rows import RowSource
from lancefs.arrow_dataset import pads

if TYPE_CHECKING:
    from duckdb._sources import ArrowScanSource


class CountedDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Rows as a pyarrow dataset, which DuckDB has always been able to scan.

    Args:
        rows: Of a table, or of several.
    """

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    @property
    @passed_on
    def schema(self) -> pa.Schema:
        """The columns, the counting one first."""
        return self._rows.schema

    @passed_on
    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> _Scanner:
        """Say what to read: columns by name, and the rows for which a filter is true."""
        return _Scanner(self._rows, columns, filter)


class _Scanner:
    """What DuckDB wants of a pyarrow scanner."""

    def __init__(
        self, rows: RowSource, columns: Sequence[str] | None, filter: pc.Expression | None
    ) -> None:
        self._arguments = rows, columns, filter

    @property
    @passed_on
    def projected_schema(self) -> pa.Schema:
        rows, columns, _ = self._arguments
        return pa.schema([rows.schema.field(name) for name in columns or rows.schema.names])

    def to_reader(self) -> pa.RecordBatchReader:
        rows, columns, filter = self._arguments
        return rows.read(columns, () if filter is None else (filter,))


def make_source(
    rows: RowSource, on_bind: Callable[[], None], is_alone: Callable[[], bool]
) -> ArrowScanSource:
    """Return rows as DuckDB 2.0's scan reads them best: with row counts and exact filters.

    Args:
        rows: Of a table, or of several; see `RowSource.for_scan`.
        on_bind: Called when DuckDB has the source, before it reads anything.
        is_alone: Returns whether the query reads nothing else, and more than what filters need.
    """
    source: ArrowScanSource = _source_classes()[0](rows, on_bind, is_alone)
    return source


def make_table_source(table: pa.Table, on_bind: Callable[[], None]) -> ArrowScanSource:
    """Return rows that are in memory, as `make_source` does for a table."""
    source: ArrowScanSource = _source_classes()[1](table, on_bind)
    return source


@cache
def _source_classes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Define the classes when DuckDB is there; their base is no public part of its package."""
    from duckdb._sources import ArrowScanSource
    from duckdb._sources.nodes import Untranslatable
    from duckdb._sources.pyarrow import PyArrowTableSource

    from duckdb_adapter.sources.predicates import is_selective, predicate_columns, translate

    class LanceSource(ArrowScanSource):
        """Rows as a source of DuckDB's Arrow scan."""

        schema_is_stable = True

        def __init__(
            self, rows: RowSource, on_bind: Callable[[], None], is_alone: Callable[[], bool]
        ) -> None:
            super().__init__(rows)
            self._rows = rows
            self._on_bind = on_bind
            self._is_alone = is_alone
            self._planned = None if rows.table is None else note_scan(rows.table)
            # DuckDB asks whether a filter is accepted, and then for the rows that it keeps.
            self._filters: WeakKeyDictionary[Any, pc.Expression] = WeakKeyDictionary()

        # DuckDB takes what has this attribute for Arrow data, and an interrupt that is raised
        # while it looks for it as its absence: so no code of ours runs before it is called.
        def __arrow_c_stream__(self, *_: object) -> object:
            return self._rows.read(None).__arrow_c_stream__()

        @passed_on
        def __arrow_c_schema__(self) -> object:
            self._on_bind()
            return self._rows.schema.__arrow_c_schema__()

        @passed_on
        def rows(self) -> int | None:
            self._on_bind()
            return self._rows.known_count()

        @passed_on
        def accepts(self, predicate: Any) -> bool:
            try:
                filter = self._filter(predicate)
            except Untranslatable:
                return False
            # DuckDB takes what it tests itself for a fifth of the rows, and would put joins in an
            # order that is good for so few.
            kinds = [self._rows.plain_field(name).type for name in predicate_columns(predicate)]
            is_wide = not is_selective(predicate, kinds)
            is_left = is_wide and self._rows.keeps_most(filter) and self._is_alone()
            if self._planned is not None:
                self._planned.add(filter, is_left)
            return not is_left

        def stream(self, columns: Any, filters: Any) -> tuple[object, bool]:
            terms = [self._filter(predicate) for predicate in filters]
            names = self._rows.schema.names
            chosen = names if columns is None else [names[index] for index in columns]
            return self._rows.read(chosen, terms).__arrow_c_stream__(), True

        def _filter(self, predicate: Any) -> pc.Expression:
            """Translate a predicate, given only the columns that it speaks of."""
            known = self._filters.get(predicate)
            if known is not None:
                return known
            columns = predicate_columns(predicate)
            if not all(self._rows.can_filter(column) for column in columns):
                raise Untranslatable(predicate)
            fields = [self._rows.plain_field(column) for column in columns]
            self._filters[predicate] = found = translate(predicate, pa.schema(fields))
            return found

    class TableSource(PyArrowTableSource):
        """An Arrow table as a source."""

        def __init__(self, table: pa.Table, on_bind: Callable[[], None]) -> None:
            super().__init__(table)
            self._on_bind = on_bind

        def __arrow_c_stream__(self, *_: object) -> object:
            return self.obj.__arrow_c_stream__()

        def rows(self) -> int | None:
            self._on_bind()
            return super().rows()

    return LanceSource, TableSource
