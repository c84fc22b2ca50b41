"""Columns whose values have to be in a column of something that is no Lance table.

Such as a table of DuckDB, a DataFrame or a Parquet file: `FROM 'logs.lance' AS l JOIN hosts AS h ON
l.host = h.name WHERE h.city = 'Oslo'`, `WHERE id IN (SELECT id FROM wanted)`. Only the text is
known of it, so that whoever asks it for its keys finds out whether it has such columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.computed_filters import is_of_row
from duckdb_adapter.queries.joined_columns import columns_joined_with, joins_in
from duckdb_adapter.queries.parsing import tail_to_sql
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.table_reads import plain_name, sources_of
from duckdb_adapter.queries.trees import (
    NamedColumns,
    expressions_in,
    is_unmodified_table,
    nodes_in,
    query_of,
    terms_of,
)

# Files that DuckDB reads by their names, and names of tables, views and variables.
_FILE = re.compile(r"(?!.*://).*\.(?:parquet|(?:csv|tsv|json|jsonl|ndjson)(?:\.gz|\.zst)?)")
_NAME = re.compile(r"(?!__duckdb_source_)[^/\\.:*?]+")
# What DuckDB calls the variables of Python that a relation captured, in the query of each.
_CAPTURED = "__duckdb_source_"
# Most columns whose keys are asked for.
_MAX_KEYS = 4


class OutsideKey(NamedTuple):
    """A column of something else whose values a column of the table has to have.

    Attributes:
        column: The column of the table.
        key: The column of the other one.
        name: What the other one is called in the statement.
        alias: What its columns are qualified with in `tail`.
        tail: Conditions of its rows that are joined, as SQL with a blank before it; perhaps empty.
        used: The columns that are named in these, with the key.
        is_file: Whether it is a file.
        is_captured: Whether it is a variable that a relation of Python captured.
    """

    column: str
    key: str
    name: str
    alias: str
    tail: str
    used: tuple[str, ...]
    is_file: bool
    is_captured: bool


class _Outside(NamedTuple):
    """Something that a SELECT reads; see `joined_columns.OtherTable`.

    Attributes:
        source: Its node.
        select: The node of the SELECT.
        columns: The columns that the text names, by their names in lower case.
    """

    source: Mapping[str, Any]
    select: Mapping[str, Any]
    columns: Mapping[str, str]

    @property
    def alias(self) -> str:
        """What columns are qualified with."""
        alias: str = self.source["alias"] or self.source["table_name"]
        return alias

    def names(self, node: Mapping[str, Any]) -> bool:
        """Whether a node is this one."""
        return node is self.source

    def table_names(self, source: Mapping[str, Any]) -> set[str]:
        """Return what columns can be qualified with, in lower case."""
        return {fold(self.alias)}


@kept_by_query
def outside_keys(query: TableQuery) -> list[OutsideKey]:
    """Return the columns of a table whose values have to be in something that is no Lance table.

    Args:
        query: The statement with the table.
    """
    root, read = query.statement_root, query.table_read if query.columns else None
    if root is None or read is None or read.select.get("sample"):
        return []
    captured = _captured_names(root)
    found = list[OutsideKey]()
    for source, select in _tables_in(root):
        is_named = captured.get(plain_name(source))  # by a common table expression
        name: str = source["table_name"]
        is_file = _FILE.fullmatch(name) is not None
        if source is read.source or is_named is False or not (is_file or _NAME.fullmatch(name)):
            continue
        if query.is_lake_view and not (is_file or is_named):
            continue  # perhaps a view of the view that is being bound, which DuckDB refuses
        other = _Outside(source, select, _columns_in(root, source, select, query))
        pairs = columns_joined_with(query, other)
        tail, used = _tail_of(other) if pairs else ("", set[str]())
        for ours, their in pairs:
            names = (their, *sorted(used - {their}))
            place = name, other.alias, tail, names
            found.append(OutsideKey(ours, their, *place, is_file, is_captured=bool(is_named)))
    return found[:_MAX_KEYS]


def _tables_in(
    root: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield what SELECTs read by names alone, and the SELECT of each."""
    for node in nodes_in(root):
        if node.get("type") != "SELECT_NODE" or node.get("sample"):
            continue
        for source in sources_of(node["from_table"]):
            if is_unmodified_table(source) and plain_name(source):
                yield source, node


def _captured_names(root: Mapping[str, Any]) -> dict[str, bool]:
    """Return the names of common table expressions, and which ones are variables of Python."""
    found = dict[str, bool]()
    for node in nodes_in(root):
        for each in node.get("cte_map", {}).get("map", ()):
            inner = query_of(each["value"]).get("from_table", {})
            is_captured = inner.get("table_name", "").startswith(_CAPTURED)
            name = fold(each["key"])
            found[name] = is_captured and name not in found
    return found


def _columns_in(
    root: Mapping[str, Any],
    source: Mapping[str, Any],
    select: Mapping[str, Any],
    query: TableQuery,
) -> dict[str, str]:
    """Return the columns that something in a FROM clause may have, as far as the text tells."""
    alias = fold(source["alias"] or source["table_name"])
    beside = [each for each in sources_of(select["from_table"]) if each is not source]
    if not beside:  # a name alone is one of its columns, and so may be what `*` shows to others
        refs = (each for each in expressions_in(root) if each["class"] == "COLUMN_REF")
        return {fold(name): name for name in (each["column_names"][-1] for each in refs)}
    # Otherwise it is if there is only our table beside it, which has no such column.
    known: Collection[str] | None = None
    if len(beside) == 1 and query.names(beside[0]):
        known = query.columns
    names = set[str]()
    for each in expressions_in(select):
        parts: list[str] = each["column_names"] if each["class"] == "COLUMN_REF" else []
        is_alone = len(parts) == 1 and known is not None and fold(parts[0]) not in known
        if is_alone or (len(parts) == 2 and fold(parts[0]) == alias):
            names.add(parts[-1])
    for join in joins_in(select["from_table"]):
        names.update(join.get("using_columns") or ())
    return {fold(name): name for name in names}


def _tail_of(other: _Outside) -> tuple[str, Set[str]]:
    """Return the conditions that are true for all rows that are joined, and the columns in them."""
    where = other.select.get("where_clause")
    columns = NamedColumns(other.columns, other.table_names(other.source))
    terms = [term for term in terms_of(where) if _is_about(term, columns)] if where else []
    if not where or not terms:
        return "", set()
    joined = {**where, "children": terms} if len(terms) > 1 else terms[0]
    tail = tail_to_sql(joined, [])
    refs = (each for each in expressions_in(terms) if each["class"] == "COLUMN_REF")
    return ("", set()) if tail is None else (tail, {each["column_names"][-1] for each in refs})


def _is_about(term: Mapping[str, Any], columns: NamedColumns) -> bool:
    """Whether a condition is computed of some columns, and is the same whenever it is."""
    return all(
        columns.find(each) is not None if each["class"] == "COLUMN_REF" else is_of_row(each)
        for each in expressions_in(term)
    )
