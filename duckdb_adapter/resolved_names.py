"""Table names that lancefs resolves, and the query that replaces each."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from duckdb_adapter import functions
from duckdb_adapter.engine_settings import BindContext
from duckdb_adapter.frames import Source
from duckdb_adapter.identifiers import quoted
from duckdb_adapter.lake_names import LakeTable, parse_lake_name
from duckdb_adapter.queries.all_rows import needs_all_rows
from duckdb_adapter.queries.computed_values import computed_values
from duckdb_adapter.queries.extreme_tests import INTERVAL_FUNCTIONS, extreme_uses
from duckdb_adapter.queries.guessed_views import guessed_view
from duckdb_adapter.queries.joins import may_join, tests_constants
from duckdb_adapter.queries.kept_queries import StatementTable, table_query
from duckdb_adapter.queries.outside_tables import key_sources
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.rewrites import restrict, restrict_view
from duckdb_adapter.sources.arrow_source import ArrowDataset
from duckdb_adapter.sources.joined_keys import JoinedScan, is_long
from duckdb_adapter.sources.replacement import READER, Replacement, TableInMemory
from duckdb_adapter.sources.rows import Rows, RowSource
from duckdb_adapter.sources.told_bounds import ToldBound, told_bounds
from duckdb_adapter.sources.told_keys import ToldKeys, told_keys
from duckdb_adapter.sources.unions import TableUnion
from duckdb_adapter.storage import Storage
from duckdb_adapter.told_views import ToldView
from duckdb_adapter.version_cache import forget
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset

# The variable that has no rows of all columns.
_EMPTY = "no rows"
_threads = itertools.count(1)


class _ThreadNumber(threading.local):
    """A short number for this thread."""

    def __init__(self) -> None:
        self.number = next(_threads)


_thread = _ThreadNumber()


class ResolvedName(NamedTuple):
    """A table name in a statement that lancefs resolves.

    Attributes:
        name: The name as it stands in SQL.
        rows: The rows that replace it.
        alias: The default alias of the table in a query, as DuckDB derives it from file names.
        statement: The whole statement that uses it; empty if it is not known.
        reader: A part of the variable name that makes it unique among those of the same table.
        lake: The attached folder, if a view of the folder reads the table.
        columns: The columns that the view expects, if a view reads the table.
        query: The statement; None if the rows are not those of a whole table, or the
            statement is not known.
        context: What DuckDB reports about the statement; None before DuckDB 2.0.
        told: What DuckDB tells before the scan begins: keys that the table is joined by, and times.
        view: The view that the rows are read through, if they depend on what it selects.
    """

    name: str
    rows: Replacement
    alias: str
    statement: str = ""
    reader: str = READER
    lake: LakeTable | None = None
    columns: pa.Schema | None = None
    query: TableQuery | None = None
    context: BindContext | None = None
    told: tuple[ToldKeys | ToldBound, ...] = ()
    view: ToldView | None = None

    def restricted_to(self, text: str, context: BindContext | None) -> ResolvedName:
        """Return the name with only the rows that a statement uses, as far as they are known.

        Args:
            text: The whole statement.
            context: What DuckDB reports about the statement; None before DuckDB 2.0.
        """
        guessed = self._through_view(text, context)
        if guessed is not None:
            return guessed
        rows = self.rows
        columns = None
        if self.lake is not None and isinstance(rows, Rows):
            columns = rows.schema.remove(0) if rows.hidden else rows.schema
        query = self.query_in(text)
        if query is not None and isinstance(rows, Rows):
            rows = restrict(rows, query, context, self.lake is not None)
        found = self._replace(
            rows=rows, statement=text, columns=columns, query=query, context=context
        )
        return found._replace(told=found._told_values())

    def _through_view(self, text: str, context: BindContext | None) -> ResolvedName | None:
        """Return the name with only the rows that a statement uses if a view is all of the table.

        None where the statement reads no such view, or uses all rows.
        """
        rows, is_told = self.rows, context is not None and context.settings.calls_back
        if context is None or not is_told or self.lake is not None or not isinstance(rows, Rows):
            return None
        view = guessed_view(text, self.name) if context.use.bind_count == 1 else None
        if view is None:
            return None
        table = StatementTable(self.name, view.name, view)
        query = table_query(text, table, rows.dataset.schema, None)
        found = restrict_view(rows, query, context)
        if found is None:
            return None
        builtins = found.required_builtins
        if found.required_intervals:
            builtins |= INTERVAL_FUNCTIONS
        told = ToldView(view, self.name, functions.scan_call(self.name), builtins)
        context.use.view = told
        return self._replace(rows=found, statement=text, view=told)

    def _told_values(self) -> tuple[ToldKeys | ToldBound, ...]:
        """Return what DuckDB is to tell, that leaves out rows of a long table."""
        rows, query, context = self.rows, self.query, self.context
        if query is None or context is None or not isinstance(rows, RowSource) or not is_long(rows):
            return ()
        if context.use.bind_count > 1 or not context.settings.calls_back:
            return ()
        bounds, keys = computed_values(query)
        if extreme_uses(query) is not None:  # which are known without a scan
            bounds = [bound for bound in bounds if not bound.value.places]
        if may_join(query):
            keys = [*keys, *key_sources(query)]
        told = told_bounds(rows, bounds, context.settings.compares_bytes())
        return *told, *told_keys(rows, keys, context.settings)

    def query_in(self, text: str) -> TableQuery | None:
        """Return a statement, if the name stands for a whole table.

        Args:
            text: The whole statement.
        """
        call = functions.scan_call(self.name)
        if not isinstance(self.rows, RowSource) or (functions.is_call(self.name) and call is None):
            return None
        schema = self.rows.schema if self.rows.table is None else self.rows.table.schema
        return table_query(text, StatementTable(self.name, self.alias, self.lake), schema, call)

    def select(self, changes: Mapping[str, str] | None = None) -> str:
        """Return the query that replaces the name, over the variables of `sources`.

        Args:
            changes: SQL after the `*` of variables whose columns are not read as they are, by name.
        """

        def table_of(kind: str) -> str:
            name = self._variable(kind)
            changed = (changes or {}).get(name)
            return f"(SELECT *{changed} FROM {quoted(name)})" if changed else quoted(name)

        query = self.rows.query(table_of)
        has_tests = self.rows.required_builtins or self.rows.required_intervals
        if has_tests and self.view is None:
            test = builtins_test(self.rows.required_builtins, self.rows.required_intervals)
            query = f"{query} WHERE {test}"
        values = [*self.told, *([] if self.view is None else [self.view])]
        if values:
            told = " AND ".join(each.told() for each in values)
            query = f"SELECT * FROM ({query}) WHERE {told}"
        empty = self._missing_columns
        return query if empty is None else _with_all(query, empty, self._variable(_EMPTY))

    def sources(self) -> dict[str, Source]:
        """Return the rows for DuckDB 2.0, by the names of variables."""
        return {name: self._replacement(rows) for name, rows in self._variables().items()}

    def datasets(self) -> dict[str, ArrowDataset | pa.Table]:
        """Return the rows as any DuckDB can read them, by the names of variables."""
        return {
            name: ArrowDataset(rows) if isinstance(rows, RowSource) else rows
            for name, rows in self._variables().items()
        }

    def _variables(self) -> dict[str, RowSource | pa.Table]:
        variables = dict(self.rows.variables())
        if self._missing_columns is not None:
            variables[_EMPTY] = self._missing_columns
        return {self._variable(kind): rows for kind, rows in variables.items()}

    @property
    def _missing_columns(self) -> pa.Table | None:
        """An empty table with all columns, if the query has some of them only; else None."""
        if self.columns is None or self.rows.has_all_columns:
            return None
        return self.columns.empty_table()

    def _variable(self, kind: str) -> str:
        """Return the name of the variable in which DuckDB finds the rows.

        It is the same each time that DuckDB binds the table name, while it prepares and runs a
        statement: DuckDB remembers the variable, and thus reads one version.
        """
        return f"{self.name} ({self.reader if kind == READER else kind} {_thread.number})"

    def _replacement(self, rows: RowSource | pa.Table) -> Source:
        from duckdb_adapter.sources.scan_sources import LanceSource, TableSource

        if isinstance(rows, pa.Table):
            return partial(TableSource, rows)
        scanned = rows.for_scan(needs_all_rows(self.statement))
        return partial(
            LanceSource,
            scanned,
            is_alone=self._is_alone,
            is_filtered=self._is_filtered,
            joined=self._joined(scanned),
        )

    def _joined(self, rows: RowSource) -> JoinedScan | None:
        """Return the scan of rows that may be joined with others; None where the text tells not."""
        if self.query is None or self.context is None:
            return None
        if not (self.told or may_join(self.query)):
            return None
        is_binary = self.context.settings.compares_bytes()
        return JoinedScan(self.context.use, self.query, rows, is_binary, self.told)

    def _is_alone(self, columns: Collection[str]) -> bool:
        """Whether the statement reads this table only, and some columns outside of WHERE."""
        return self.query is not None and self.query.reads_alone(columns)

    def _is_filtered(self) -> bool:
        """Whether the statement joins rows that a comparison with a constant filters."""
        return self.query is not None and tests_constants(self.query)


def resolve_name(name: str, storage: Storage) -> ResolvedName | None:
    """Resolve a table name; None if it names no Lance table and no function of ours.

    Args:
        name: The name as it stands in SQL.
        storage: Provides the storage options, for names that carry none.

    Raises:
        LanceError: The table cannot be read.
        ValueError: The arguments in the name contradict each other.
    """
    lake = parse_lake_name(name)
    if lake is not None:
        found = resolve_name(lake.address, storage)
        return None if found is None else found._replace(name=name, alias=lake.table, lake=lake)
    try:
        answer = functions.call(name, storage)
        if answer is None:
            answer = functions.find_rows(name, storage)
    except LanceError:
        forget()
        raise
    if answer is None:
        return None
    if isinstance(answer, LanceDataset):
        return ResolvedName(name, Rows(answer), _stem(answer.uri))
    function = name.partition(" ")[0]
    if not isinstance(answer, TableUnion):
        return ResolvedName(name, TableInMemory(answer), function)
    alias = function if functions.is_call(name) else _stem(name)
    return ResolvedName(name, answer.rows(), alias)


def builtins_test(names: Collection[str], intervals: Collection[str] = ()) -> str:
    """Return a condition that DuckDB refuses where a function that aggregates is a macro.

    Such a macro would use more than the function does. DuckDB refuses one with FILTER. It knows the
    type of the values, which is never missing, without a value: the condition costs nothing.

    Args:
        names: The functions, which take one number.
        intervals: Intervals that functions make, such as `7 DAY`.
    """
    calls = (f"(SELECT {name}(1) FILTER (WHERE true))" for name in sorted(names))
    tests = [f"system.main.typeof({call}) IS NOT NULL" for call in calls]
    return " AND ".join([*tests, *map(_interval_test, sorted(intervals))])


def _interval_test(interval: str) -> str:
    """Return a condition that fails where macros make another interval of a constant one."""
    own = f"CAST('{interval}' AS INTERVAL)"
    is_same = f"CAST(INTERVAL {interval} AS VARCHAR) IS NOT DISTINCT FROM CAST({own} AS VARCHAR)"
    message = f"INTERVAL {interval} is made by a macro of yours; drop it, or call it otherwise"
    return f"CASE WHEN {is_same} THEN true ELSE system.main.error('{message}') END"


def _with_all(query: str, empty: pa.Table, name: str) -> str:
    """Return a query of all columns of a table, those that another one does not give being null.

    Args:
        query: The other one.
        empty: No rows of the table.
        name: The variable that holds these.
    """
    columns = ", ".join(map(quoted, empty.column_names))
    # The first one tells the order of members.
    both = f"FROM {quoted(name)} WHERE false UNION ALL BY NAME FROM ({query})"
    return f"SELECT {columns} FROM ({both})"


def _stem(url: str) -> str:
    return re.sub(r"\.lance(@.*)?$", "", os.path.basename(url.rstrip("/")))
