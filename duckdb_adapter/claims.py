"""What we claim of the names that DuckDB does not know, and what it reads in their place."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from duckdb_adapter import functions
from duckdb_adapter.frames import Source
from duckdb_adapter.lake_names import LakeTable, parse_lake_name
from duckdb_adapter.paths import quoted
from duckdb_adapter.pins import Use
from duckdb_adapter.queries.members import UsedColumns
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.table_uses import StatementTable, TableUses, table_uses
from duckdb_adapter.queries.trees import needs_all_rows
from duckdb_adapter.sources.arrow_source import CountedDataset, make_source, make_table_source
from duckdb_adapter.sources.column_values import are_values_cached
from duckdb_adapter.sources.counted import CountedRows
from duckdb_adapter.sources.extremes import extreme_rows
from duckdb_adapter.sources.filtered import FilteredRows
from duckdb_adapter.sources.groups import GROUP, GroupedRows, grouped
from duckdb_adapter.sources.join_keys import known_keys
from duckdb_adapter.sources.members import MemberRows
from duckdb_adapter.sources.offsets import OffsetRows
from duckdb_adapter.sources.rows import COUNTER, Rows, RowSource
from duckdb_adapter.sources.samples import SampledRows
from duckdb_adapter.sources.top_n import TopNRows
from duckdb_adapter.sources.unions import TableUnion
from duckdb_adapter.sources.value_counts import ValueCountRows, value_count_rows
from duckdb_adapter.storage import Storage
from duckdb_adapter.version_cache import forget
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset

# Settings without which DuckDB looks neither outside of the database nor among variables, so that
# nothing can be handed to it, and nothing may be looked at.
NEEDED_SETTINGS = ("enable_external_access", "python_enable_replacements")

# DuckDB remembers what it found by a name, also where it looks again and is told another query.
_GROUPED, _GROUPS, _EMPTY = "grouped reader", "groups", "no rows"
_threads = itertools.count(1)


class _ThreadNumber(threading.local):
    """A short number for this thread."""

    def __init__(self) -> None:
        self.number = next(_threads)


_thread = _ThreadNumber()


class EngineSettings(Protocol):
    """Settings of DuckDB that decide which rows a statement uses."""

    def collation(self) -> str:
        """Return how texts are compared; empty for by their bytes."""
        ...

    def descends(self) -> bool:
        """Return whether ORDER BY puts the greatest value first where it does not say."""
        ...

    def keeps_order(self) -> bool:
        """Return whether rows are used in the order in which they come."""
        ...

    def finds_file(self, path: str) -> bool:
        """Return whether there is a file that the statement may read."""
        ...


class LookContext(NamedTuple):
    """What DuckDB tells where it looks for a name.

    Attributes:
        use: How often the statement uses the name.
        settings: How DuckDB answers it.
    """

    use: Use
    settings: EngineSettings


AnyRows: TypeAlias = RowSource | CountedRows | ValueCountRows | pa.Table


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that is ours.

    Attributes:
        name: As it stands in SQL.
        rows: What it stands for.
        alias: What the table is called in a query that gives it no name, as for other files.
        statement: The whole statement that uses it; empty where that is not known.
        reader: What tells the variable of its rows from others of the same name.
        lake: The folder that it is attached in, where a view of a folder reads it.
        columns: Those that the name has to have, where it is a view that reads it.
        replaced: Columns that come as an expression with the same values.
    """

    name: str
    rows: AnyRows
    alias: str
    statement: str = ""
    reader: str = "reader"
    lake: LakeTable | None = None
    columns: pa.Schema | None = None
    replaced: Mapping[str, str] = field(default_factory=dict)

    def _key(self, kind: str = "") -> str:
        """Return the name of the variable that DuckDB will find rows in.

        The same for every look at the name while a statement is prepared and run, since DuckDB
        remembers what it found, so that it reads one version.
        """
        return f"{self.name} ({kind or self.reader} {_thread.number})"

    def select(self) -> str:
        """Return the query that the name stands for, over the variables that `sources` names."""
        rows, query = self.rows, self._query()
        rows = rows.rows if isinstance(rows, GroupedRows) else rows
        if isinstance(rows, CountedRows | MemberRows | ValueCountRows) and rows.functions:
            query = _with_guard(query, rows.functions)
        return query if self._empty is None else _with_all(query, self._empty, self._key(_EMPTY))

    def _query(self) -> str:
        if isinstance(self.rows, CountedRows | ValueCountRows):
            return self.rows.query(self._key)
        if isinstance(self.rows, GroupedRows):
            columns = ", ".join(map(quoted, self.rows.columns()))
            rows, groups = quoted(self._key(_GROUPED)), quoted(self._key(_GROUPS))
            # DuckDB aggregates before an inner join only what cannot fail for rows that it removes.
            return f"SELECT {columns} FROM {rows} LEFT JOIN {groups} USING ({GROUP})"
        shown = [f"{each} AS {quoted(column)}" for column, each in self.replaced.items()]
        replaced = f" REPLACE ({', '.join(shown)})" if shown else ""
        return f"SELECT *{self.left_out}{replaced} FROM {quoted(self._key())}"

    @property
    def _empty(self) -> pa.Table | None:
        """No rows of all columns, of which the query gives some only; None where it gives all."""
        if self.columns is None or not isinstance(self.rows, CountedRows | ValueCountRows):
            return None
        return self.columns.empty_table()

    @property
    def left_out(self) -> str:
        """What follows the star: the counting column is shown only of a table without columns."""
        is_counted = isinstance(self.rows, RowSource) and len(self.rows.schema) > 1
        return f" EXCLUDE ({COUNTER})" if is_counted else ""

    def restricted_to(self, text: str, look: LookContext | None = None) -> Claim:
        """Return the claim with the rows as far as a query uses them.

        Args:
            text: The whole statement.
            look: What else DuckDB tells of it; None where it tells nothing.
        """
        columns = None
        if self.lake is not None and isinstance(self.rows, Rows):
            columns = self.rows.schema
            columns = columns.remove(0) if self.left_out else columns
        if not (isinstance(self.rows, Rows) and self._is_table):
            return replace(self, statement=text, columns=columns)
        table = StatementTable(self.name, self.alias, self.lake)
        schema, call = self.rows.dataset.schema, functions.scan_call(self.name)
        uses = table_uses(text, table, schema, call)
        rows = self._used_rows(self.rows, uses, look)
        keys = uses.join_keys if look is not None and type(rows) in (Rows, FilteredRows) else ()
        replaced = known_keys(self.rows, keys) if keys else {}
        return replace(self, rows=rows, statement=text, columns=columns, replaced=replaced)

    def _used_rows(self, rows: Rows, uses: TableUses, look: LookContext | None) -> AnyRows:
        """Return rows as far as a query uses them; see `restricted_to`."""
        dataset = rows.dataset
        first = uses.first_rows
        if first is not None and not (first.calls and look is None):
            if look is None:
                return TopNRows(dataset, first)
            first = first.with_default(look.settings.descends)
            use = look.use if first.calls else None
            return TopNRows(dataset, first, use, not look.settings.collation())
        if look is None:
            return rows
        # What a query selects from is looked for first, then what macros in it use.
        is_first = look.use.looks == 1
        used = uses.columns if is_first else UsedColumns()
        if self.lake is not None and not used.uses_nothing:
            used = UsedColumns()  # a view has its columns as they are
        is_known = look.use.looks <= uses.looks
        known = _known_rows(rows, uses.query, used, look.settings) if is_known else None
        if known is not None:
            return known
        if uses.skipped_rows and look.settings.keeps_order():
            return OffsetRows(dataset, uses.skipped_rows, look.use)
        if uses.sampled_rows and is_first:
            return SampledRows(dataset, uses.sampled_rows, look.use)
        conditions = uses.unasked_conditions
        if conditions and not look.settings.collation():
            rows = FilteredRows(dataset, conditions, look.use)
        elif used != UsedColumns():
            rows = MemberRows(dataset, used)
        return grouped(rows, uses.query) if is_first else rows

    def sources(self) -> dict[str, Source]:
        """Return the rows for DuckDB 2.0, by the names of variables."""
        if isinstance(self.rows, CountedRows | ValueCountRows):
            tables = {**self.rows.tables}
            if self._empty is not None:
                tables[_EMPTY] = self._empty
            return {self._key(kind): partial(make_table_source, tables[kind]) for kind in tables}
        if not isinstance(self.rows, RowSource):
            return {self._key(): partial(make_table_source, self.rows)}
        rows = self.rows.for_scan(needs_all_rows(self.statement))
        source = partial(make_source, rows, is_alone=self._is_alone)
        if not isinstance(self.rows, GroupedRows):
            return {self._key(): source}
        groups = partial(make_table_source, self.rows.combinations())
        return {self._key(_GROUPED): source, self._key(_GROUPS): groups}

    def _is_alone(self) -> bool:
        """Whether the statement reads no other table, and more than what its conditions need."""
        assert isinstance(self.rows, RowSource)
        if not self._is_table:
            return False
        call = functions.scan_call(self.name)
        of_table = self.name, self.alias, self.rows.schema, self.lake, call
        return TableQuery(self.statement, *of_table).reads_alone()

    @property
    def _is_table(self) -> bool:
        """Whether the name stands for all of a table, and for no other call."""
        return not functions.is_call(self.name) or functions.scan_call(self.name) is not None

    def dataset(self) -> object:
        """Return the rows as any DuckDB can read them."""
        return CountedDataset(self.rows) if isinstance(self.rows, RowSource) else self.rows


def find_claim(name: str, storage: Storage) -> Claim | None:
    """Look whether a name is ours.

    Args:
        name: As it stands in SQL.
        storage: Gives the storage options, for names that carry none.

    Raises:
        LanceError: It is, but what it stands for cannot be read.
        ValueError: It is, but it contradicts itself.
    """
    lake = parse_lake_name(name)
    if lake is not None:
        claim = find_claim(lake.address, storage)
        return None if claim is None else replace(claim, name=name, alias=lake.table, lake=lake)
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
        return Claim(name, Rows(answer), _stem(answer.uri))
    is_pattern = isinstance(answer, TableUnion) and not functions.is_call(name)
    alias = _stem(name) if is_pattern else name.partition(" ")[0]
    return Claim(name, answer.rows() if isinstance(answer, TableUnion) else answer, alias)


def _known_rows(
    rows: Rows, query: TableQuery, used: UsedColumns, settings: EngineSettings
) -> CountedRows | ValueCountRows | None:
    """Return rows for a query that uses of them only what is known, or found out once."""
    counted = None
    if used.no_values:
        counted = MemberRows(rows.dataset, used).counted(settings.finds_file)
    if counted is not None or not are_values_cached(rows):
        return counted
    shown = MemberRows(rows.dataset, used) if used.members else rows
    extremes = extreme_rows(shown, query, lambda: not settings.collation())
    return extremes or value_count_rows(rows, query)


def _with_guard(query: str, names: Collection[str]) -> str:
    """Return a query that DuckDB refuses where a function that makes one value of all is a macro.

    Such a macro would use more than the function does. DuckDB refuses one with FILTER. It knows the
    type of the values, which is never missing, without a value: the condition costs nothing.

    Args:
        query: A query that may be followed by a condition.
        names: The functions.
    """
    calls = (f"(SELECT {name}(1) FILTER (WHERE true))" for name in sorted(names))
    return f"{query} WHERE typeof([{', '.join(calls)}]) IS NOT NULL"


def _with_all(query: str, empty: pa.Table, name: str) -> str:
    """Return a query of all columns of a table, those that another one does not give being null.

    Args:
        query: The other one.
        empty: No rows of the table.
        name: The variable that holds these.
    """
    columns = ", ".join(map(quoted, empty.column_names))
    both = f"FROM ({query}) UNION ALL BY NAME (FROM {quoted(name)} WHERE false)"
    return f"SELECT {columns} FROM ({both})"


def _stem(url: str) -> str:
    return re.sub(r"\.lance(@.*)?$", "", os.path.basename(url.rstrip("/")))
