"""Rows as sources of the Arrow scan of DuckDB 2.0, whose Python package has the base classes.

The base classes are private, and older releases lack them. So this module is imported only when
DuckDB 2.0 asks for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from duckdb._sources import ArrowScanSource
from duckdb._sources.nodes import Untranslatable
from duckdb._sources.pyarrow import PyArrowTableSource

from duckdb_adapter.interrupts import reraise_interrupts
from duckdb_adapter.planned_scans import note_scan
from duckdb_adapter.sources.joined_keys import JoinedScan
from duckdb_adapter.sources.predicates import is_selective, predicate_columns, to_arrow_expression
from duckdb_adapter.sources.rows import RowSource, has_lengths

# The share of rows that DuckDB takes a scan for that it gives a filter.
_FILTERED_SHARE = 0.2


class LanceSource(ArrowScanSource):
    """Rows as DuckDB 2.0's scan reads them best: with row counts and exact filters.

    Args:
        rows: The rows of a table, or of several; see `RowSource.for_scan`.
        on_bind: Called when DuckDB has the source, before it reads anything.
        is_alone: Returns whether the query reads nothing else, and some columns, or any, besides
            those that filters need.
        is_filtered: Returns whether the query joins the rows that pass a filter.
        joined: The same scan, beside those of tables that it may be joined with; None of others.
    """

    schema_is_stable = True

    def __init__(
        self,
        rows: RowSource,
        on_bind: Callable[[], None],
        is_alone: Callable[[Collection[str]], bool],
        is_filtered: Callable[[], bool],
        joined: JoinedScan | None,
    ) -> None:
        super().__init__(rows)
        self._rows = rows
        self._on_bind = on_bind
        self._is_alone, self._is_filtered = is_alone, is_filtered
        self._joined = joined
        self._planned = None if rows.table is None else note_scan(rows.table)
        # DuckDB asks whether a filter is accepted, and then for the rows that it keeps.
        self._filters: WeakKeyDictionary[Any, pc.Expression] = WeakKeyDictionary()

    # DuckDB takes what has this attribute for Arrow data, and an interrupt that is raised
    # while it looks for it as its absence: so no code of ours runs before it is called.
    def __arrow_c_stream__(self, *_: object) -> object:
        return self._rows.read(None).__arrow_c_stream__()

    @reraise_interrupts
    def __arrow_c_schema__(self) -> object:
        self._on_bind()
        return self._rows.schema.__arrow_c_schema__()

    @reraise_interrupts
    def rows(self) -> int | None:
        self._on_bind()
        count = self._rows.known_count()
        if not count or not self._is_filtered():
            return count
        # DuckDB puts joins in order by this number, before it asks for filters.
        return max(int(count * _FILTERED_SHARE), 1)

    @reraise_interrupts
    def accepts(self, predicate: Any) -> bool:
        if self._joined is not None and self._joined.narrows_others:
            self._rows.take_filters()
        try:
            filter = self._filter(predicate)
        except Untranslatable:
            return False
        # DuckDB takes what it tests itself for a fifth of the rows, and would put joins in an
        # order that is good for so few.
        kinds = {name: self._rows.filter_field(name).type for name in predicate_columns(predicate)}
        # To hand strings over that only the filter needs would take longer than to test them.
        texts = [name for name, kind in kinds.items() if has_lengths(kind)]
        is_wide = not is_selective(predicate, list(kinds.values()))
        is_left = is_wide and self._rows.keeps_most(filter) and self._is_alone(texts)
        if self._planned is not None:
            self._planned.add(filter, is_left)
        return not is_left

    def stream(self, columns: Any, filters: Any) -> tuple[object, bool]:
        terms = [self._filter(predicate) for predicate in filters]
        names = self._rows.schema.names
        chosen = names if columns is None else [names[index] for index in columns]
        if self._joined is None:
            return self._rows.read(chosen, terms).__arrow_c_stream__(), True
        terms += self._joined.open(chosen)
        noting = self._joined.noting
        return self._rows.read(chosen, terms, noting).__arrow_c_stream__(), True

    def _filter(self, predicate: Any) -> pc.Expression:
        """Translate a predicate, given only the columns that it speaks of."""
        known = self._filters.get(predicate)
        if known is not None:
            return known
        columns = predicate_columns(predicate)
        if not all(self._rows.can_filter(column) for column in columns):
            raise Untranslatable(predicate)
        fields = [self._rows.filter_field(column) for column in columns]
        self._filters[predicate] = found = to_arrow_expression(predicate, pa.schema(fields))
        return found


class TableSource(PyArrowTableSource):
    """Rows that are in memory, as `LanceSource` is for those of a table."""

    def __init__(self, table: pa.Table, on_bind: Callable[[], None]) -> None:
        super().__init__(table)
        self._on_bind = on_bind

    def __arrow_c_stream__(self, *_: object) -> object:
        return self.obj.__arrow_c_stream__()

    def rows(self) -> int | None:
        self._on_bind()
        return super().rows()
