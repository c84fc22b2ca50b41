"""Columns whose values have to be in a column of something that is no Lance table.

Such as a table of DuckDB, a DataFrame or a file: `FROM 'logs.lance' AS l JOIN hosts AS h ON l.host
= h.name WHERE h.city = 'Oslo'`, `WHERE id IN (FROM wanted)`.
Only the text is known of it, so that whoever asks it for its keys finds out whether it has such
columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import sole_argument
from duckdb_adapter.queries.computed_keys import EXTREMES, KeySource
from duckdb_adapter.queries.joined_columns import OtherSource, columns_joined_with, joins_in
from duckdb_adapter.queries.joins import join_conditions
from duckdb_adapter.queries.parsing import rows_to_sql
from duckdb_adapter.queries.repeatable import is_constant, is_repeatable
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.table_reads import TableRead, plain_name, sources_of
from duckdb_adapter.queries.times import ORDERING
from duckdb_adapter.queries.trees import (
    NamedColumns,
    arguments_of,
    compared_values,
    constant_text,
    expressions_in,
    function_of,
    is_scalar,
    is_unmodified_table,
    nodes_in,
    query_of,
    shows_rows,
    terms_of,
)

# Files that DuckDB reads by their names, and names of tables, views and variables.
_FILE = re.compile(r"(?!.*://).*\.(?:parquet|(?:csv|tsv|json|jsonl|ndjson)(?:\.gz|\.zst)?)")
_NAME = re.compile(r"(?!__duckdb_source_)[^/\\.:*?]+")
# Functions that read files.
_READING = {
    *("read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto"),
    *("read_ndjson", "read_ndjson_auto", "read_json_objects", "read_text"),
}
# What DuckDB calls the variables of Python that a relation captured, in the query of each.
_CAPTURED = "__duckdb_source_"
# Most columns whose keys are asked for.
_MAX_KEYS = 4


class _Outside(NamedTuple):
    """Something that a SELECT reads.

    Attributes:
        table: What it is in the FROM clause.
        select: The node of the SELECT.
    """

    table: OtherSource
    select: Mapping[str, Any]

    def conditions(self) -> list[Mapping[str, Any]]:
        """Return conditions of the SELECT that only ask for these columns."""
        where, columns = self.select.get("where_clause"), self.table.named_columns
        return [term for term in terms_of(where) if _is_about(term, columns)] if where else []

    @property
    def has_all_conditions(self) -> bool:
        """Whether `conditions` are all of the SELECT."""
        where = self.select.get("where_clause")
        return where is None or len(self.conditions()) == len(list(terms_of(where)))


class _Compared(NamedTuple):
    """A column of the table, and what it is compared with.

    Attributes:
        column: The column.
        key: The column of the other one.
        operator: The comparison, a function of Arrow.
        function: The aggregate of the other column; empty for one of its values.
    """

    column: str
    key: str
    operator: str = "equal"
    function: str = ""


@kept_by_query
def key_sources(query: TableQuery) -> list[KeySource]:
    """Return the columns of a table whose values have to be in something that is no Lance table.

    Args:
        query: The statement with the table.
    """
    root, read = query.statement_root, query.table_read if query.columns else None
    if root is None or read is None or read.select.get("sample"):
        return []
    found = list[KeySource]()
    captured = _captured_names(root)
    for source, select in _sources_in(root):
        is_captured = captured.get(plain_name(source), False)
        if source is read.source or not _is_outside(source, captured):
            continue
        files = _files_of(source)
        name = "" if files else source["table_name"]
        # Where a view or `lance_scan` is being bound, a name may be a view with it, which DuckDB
        # refuses; and what a relation captured is not known.
        if name and not query.is_by_name:
            continue
        columns = _columns_in(root, source, select, query)
        other = _Outside(OtherSource(source, _alias_of(source), columns), select)
        compared = [_Compared(*pair) for pair in columns_joined_with(query, other.table)]
        compared += _compared_with(query, read, other)
        for key in _keys_of(other, compared):
            found.append(key._replace(name=name, is_captured=is_captured, files=files))
    return found[:_MAX_KEYS]


def _compared_with(query: TableQuery, read: TableRead, other: _Outside) -> Iterator[_Compared]:
    """Yield columns that are compared with a value of something, `(SELECT max(id) FROM wanted)`."""
    ours = NamedColumns(query.columns, query.table_names(read.source))
    for term in join_conditions(read.select):
        for column, operator, value in compared_values(term, ours):
            node = value["subquery"]["node"] if is_scalar(value) else None
            if operator in ORDERING and node is other.select and _is_value(node, other):
                yield from _shown_by(node, other, column, operator)


def _is_value(node: Mapping[str, Any], other: _Outside) -> bool:
    """Whether a SELECT shows one thing of something, and of nothing besides."""
    is_one = len(node["select_list"]) == 1 and node["from_table"] is other.table.source
    return is_one and shows_rows(node) and not (node["modifiers"] or node["cte_map"]["map"])


def _shown_by(
    node: Mapping[str, Any], other: _Outside, column: str, operator: str
) -> Iterator[_Compared]:
    """Yield what a column is compared with, where that is a column, or an extreme of one."""
    (shown,) = node["select_list"]
    function = function_of(shown) or ""
    argument = sole_argument(shown) if function in EXTREMES else None
    key = other.table.named_columns.find(shown if argument is None else argument)
    # Of more rows, an extreme would be another one.
    is_known = argument is None or (other.has_all_conditions and not shown["filter"])
    if key is not None and is_known:
        yield _Compared(column, key, operator, function)


def _keys_of(other: _Outside, compared: Sequence[_Compared]) -> Iterator[KeySource]:
    """Yield the keys of something that columns are compared with."""
    terms = other.conditions() if compared else []
    where = None
    if terms:
        joined = other.select["where_clause"]
        where = {**joined, "children": terms} if len(terms) > 1 else terms[0]
    alias = other.table.alias
    rows = rows_to_sql({**other.table.source, "alias": alias}, where) if compared else None
    if rows is None:
        return
    refs = (each for each in expressions_in(terms) if each["class"] == "COLUMN_REF")
    used = sorted({ref["column_names"][-1] for ref in refs})
    for each in compared:
        names = each.key, *(one for one in used if one != each.key)
        key = KeySource(each.column, each.key, rows, bool(terms), alias, names)
        yield key._replace(operator=each.operator, function=each.function)


def _is_outside(source: Mapping[str, Any], captured: Mapping[str, bool]) -> bool:
    """Whether something in a FROM clause may be read twice, as far as the text tells."""
    if source["type"] == "BASE_TABLE":
        name: str = source["table_name"]
        is_named = bool(_FILE.fullmatch(name) or _NAME.fullmatch(name))
        # A common table expression is read as what it is made of.
        return is_named and is_unmodified_table(source) and captured.get(plain_name(source), True)
    if source["type"] != "TABLE_FUNCTION" or source.get("sample"):
        return False
    call, is_plain = source["function"], not source.get("column_name_alias")
    is_plain &= source.get("with_ordinality", "WITHOUT_ORDINALITY") == "WITHOUT_ORDINALITY"
    has_constants = all(map(is_constant, expressions_in(arguments_of(call))))
    return is_plain and function_of(call) in _READING and has_constants and bool(_files_of(source))


def _files_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that something in a FROM clause reads, or patterns of them; none of others.

    Args:
        source: A name, or a function with constants.
    """
    if source["type"] == "BASE_TABLE":
        name: str = source["table_name"]
        return (name,) if _FILE.fullmatch(name) else ()
    arguments = arguments_of(source["function"])
    parts = expressions_in(arguments[0]) if arguments else ()
    return tuple(path for part in parts if (path := constant_text(part, "STRING")) is not None)


def _sources_in(
    root: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield what SELECTs read, and the SELECT of each."""
    for node in nodes_in(root):
        if node.get("type") != "SELECT_NODE" or node.get("sample"):
            continue
        for source in sources_of(node["from_table"]):
            yield source, node
        for join in joins_in(node["from_table"]):
            if join["join_type"] == "SEMI" and join["right"]["type"] != "JOIN":
                yield join["right"], node


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


def _alias_of(source: Mapping[str, Any]) -> str:
    """Return what the columns of something in a FROM clause are qualified with."""
    if source["type"] == "TABLE_FUNCTION":
        alias: str = source["alias"] or source["function"]["function_name"]
        return alias
    alias = source["alias"] or source.get("table_name", "")
    return alias


def _columns_in(
    root: Mapping[str, Any],
    source: Mapping[str, Any],
    select: Mapping[str, Any],
    query: TableQuery,
) -> dict[str, str]:
    """Return the columns that something in a FROM clause may have, as far as the text tells."""
    alias = fold(_alias_of(source))
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


def _is_about(term: Mapping[str, Any], columns: NamedColumns) -> bool:
    """Whether a condition is computed of some columns, and is the same whenever it is."""
    return all(
        columns.find(each) is not None if each["class"] == "COLUMN_REF" else is_repeatable(each)
        for each in expressions_in(term)
    )
