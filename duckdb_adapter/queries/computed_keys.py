"""Columns whose values have to be among those that a statement lists, or computes of groups.

Lists are `id = ANY($1)`, `id IN (VALUES (1), (2))` and `JOIN (VALUES (1, 'a')) AS v(id, x)`. Of
groups of the table itself, the extremes are looked for: `(host, ts) IN (SELECT host, max(ts) FROM
't.lance' GROUP BY host)`, and the same as a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.aggregate_values import reads_only
from duckdb_adapter.queries.joined_columns import OtherSource, columns_joined_with
from duckdb_adapter.queries.parsing import parse, rows_to_sql
from duckdb_adapter.queries.repeatable import is_constant, is_repeatable
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.table_reads import (
    TableRead,
    as_subquery,
    shown_columns,
    sources_of,
    subquery_of,
)
from duckdb_adapter.queries.trees import (
    NamedColumns,
    arguments_of,
    expressions_in,
    function_of,
    terms_of,
)

# What keys are called, as a table and as its column; and a list as one.
_ALIAS, _KEY = "lancefs_listed", "key"
_UNNESTED = "SELECT unnest(list_value(1))"
EXTREMES = ("min", "max")


class KeySource(NamedTuple):
    """A column of something else whose values a column of the table has to have.

    Attributes:
        column: The column of the table.
        key: The column of the other one.
        rows: The rows of the other one that are joined, or more: `FROM … WHERE …` with a blank
            before it.
        has_where: Whether it has a condition.
        alias: What columns are qualified with in it.
        used: The columns that are named in it, with the key.
        name: What the other one is called, if it may be a table, a view or a variable of Python.
        is_captured: Whether it is a variable that a relation of Python captured.
        files: The files that are read, or patterns of them.
        places: How often the table itself stands in it.
        read: The columns that are read of the table for it, by their names in lower case.
        groups: The columns of the table of which each combination has a key.
        operator: How the column compares with one of the keys, a function of Arrow.
        function: The aggregate of the keys that it compares with; empty for any of them.
    """

    column: str
    key: str
    rows: str
    has_where: bool
    alias: str
    used: tuple[str, ...]
    name: str = ""
    is_captured: bool = False
    files: tuple[str, ...] = ()
    places: int = 0
    read: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    operator: str = "equal"
    function: str = ""


class _Equal(NamedTuple):
    """A column that has to be equal to what a query shows.

    Attributes:
        column: The column of the table.
        node: The query.
        place: Which one of what it shows.
    """

    column: str
    node: Mapping[str, Any]
    place: int


def computed_keys(query: TableQuery, read: TableRead) -> list[KeySource]:
    """Return the columns whose values have to be in lists, or extremes of groups.

    Args:
        query: The statement with the table.
        read: The SELECT that reads the table.
    """
    found = dict[int, KeySource]()
    for equal in (*_in_subqueries(query, read), *_joined(query, read)):
        key = None if id(equal.node) in found else _key(equal, query)
        if key is not None:
            found[id(equal.node)] = key
    return list(found.values())


def is_grouped(node: Mapping[str, Any], query: TableQuery) -> bool:
    """Whether a query shows groups of the table, and reads nothing else.

    Args:
        node: The query.
        query: The statement with the table.
    """
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"] or not node["group_expressions"]:
        return False
    return not (node["sample"] or node["qualify"]) and reads_only(node, query)


def _in_subqueries(query: TableQuery, read: TableRead) -> Iterator[_Equal]:
    """Yield what conditions say: `id IN (SELECT …)`, `(a, b) IN (SELECT …)`."""
    columns = NamedColumns(query.columns, query.table_names(read.source))
    where = read.select.get("where_clause")
    for term in terms_of(where) if where else ():
        if term["class"] != "SUBQUERY" or term["subquery_type"] != "ANY":
            continue
        if term["comparison_type"] != "COMPARE_EQUAL":
            continue
        child, node = term["child"], term["subquery"]["node"]
        compared = arguments_of(child) if function_of(child) == "row" else [child]
        for place, each in enumerate(compared):
            column = columns.find(each)
            if column is not None:
                yield _Equal(column, node, place)


def _joined(query: TableQuery, read: TableRead) -> Iterator[_Equal]:
    """Yield the columns that the table is joined by with subqueries beside it."""
    for source in sources_of(read.select["from_table"]):
        subquery = (
            None if source is read.source else as_subquery(source, read, query.statement_root)
        )
        if subquery is None:
            continue
        node, shown = subquery["subquery"]["node"], shown_columns(subquery)
        other = OtherSource(source, subquery["alias"], {name: name for name in shown})
        for ours, their in columns_joined_with(query, other, read):
            yield _Equal(ours, node, shown[their])


def _key(equal: _Equal, query: TableQuery) -> KeySource | None:
    """Return the keys that are to be told; None where they are not worthwhile, or not clear."""
    node = equal.node
    if _is_list(node):
        column = _column_of(node, equal.place)
        return None if column is None else _as_key(equal.column, column)
    if not is_grouped(node, query) or equal.place >= len(node["select_list"]):
        return None
    shown = node["select_list"][equal.place]
    is_extreme = function_of(shown) in EXTREMES and len(arguments_of(shown)) == 1
    computed = [arguments_of(shown), node["group_expressions"], node["where_clause"]]
    if not is_extreme or not all(map(is_repeatable, expressions_in(computed))):
        return None
    # Without what leaves groups out, there are more keys.
    groups = {**node, "select_list": [shown], "having": None, "modifiers": []}
    key = _as_key(equal.column, groups)
    if key is None:
        return None
    refs = (each for each in expressions_in(node["group_expressions"]) if "column_names" in each)
    named = {fold(each["column_names"][-1]) for each in refs}
    columns = tuple(query.columns[name] for name in sorted(named))
    return key._replace(places=1, read=frozenset(query.uses_in(node) or ()), groups=columns)


def _as_key(column: str, node: Mapping[str, Any]) -> KeySource | None:
    """Return what a query of one column shows as keys of a column of the table."""
    source = subquery_of(node, _ALIAS, [_KEY])
    rows = None if source is None else rows_to_sql(source, None)
    return None if rows is None else KeySource(column, _KEY, rows, False, _ALIAS, used=(_KEY,))


def _is_list(node: Mapping[str, Any]) -> bool:
    """Whether a query shows the items of a list, or rows of constants, all of them."""
    if node["type"] != "SELECT_NODE" or len(node["select_list"]) != 1:
        return False
    if node["cte_map"]["map"] or node["modifiers"] or node.get("where_clause"):
        return False
    (shown,), source = node["select_list"], node["from_table"]
    if source["type"] == "EXPRESSION_LIST":
        return shown["class"] == "STAR" and all(map(is_constant, expressions_in(source["values"])))
    is_unnested = source["type"] == "EMPTY" and function_of(shown) == "unnest"
    arguments = arguments_of(shown) if is_unnested else []
    return len(arguments) == 1 and all(map(is_constant, expressions_in(arguments)))


def _column_of(node: Mapping[str, Any], place: int) -> Mapping[str, Any] | None:
    """Return the query of one column of a list; None where it has fewer."""
    rows = node["from_table"].get("values")
    if rows is None:
        return node if place == 0 else None
    template = parse(_UNNESTED) if place < len(rows[0]) else None
    if template is None:
        return None
    (unnest,) = template["select_list"]
    (items,) = arguments_of(unnest)
    listed = _with_arguments(items, [row[place] for row in rows])
    return {**template, "select_list": [_with_arguments(unnest, [listed])]}


def _with_arguments(
    call: Mapping[str, Any], arguments: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return a call of one argument with others."""
    (argument,) = call["arguments"]
    return {**call, "arguments": [{**argument, "expression": each} for each in arguments]}
