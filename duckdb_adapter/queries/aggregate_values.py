"""Values that a statement computes of all rows of a table: `2 * (SELECT avg(x) FROM 't.lance')`.

Also of what a common table expression, or a subquery beside the table, shows: `WITH s AS (SELECT
avg(x) AS mean FROM 't.lance') SELECT … FROM 't.lance', s WHERE x > 2 * s.mean`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.function_names import AGGREGATES
from duckdb_adapter.queries.parsing import expression_to_sql, rows_to_sql
from duckdb_adapter.queries.repeatable import is_repeatable
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.table_reads import TableRead, as_subquery, shown_columns, sources_of
from duckdb_adapter.queries.trees import (
    expressions_in,
    function_of,
    has_aggregates,
    is_scalar,
    nodes_in,
)

# Parts of a SELECT that make several rows of one, or leave it out.
_OF_ROWS = ("modifiers", "group_expressions", "group_sets", "having", "qualify", "sample")


class AggregateValue(NamedTuple):
    """A value that a statement computes of a table.

    Attributes:
        expression: It in SQL.
        places: How often the table stands in the expression.
        used: The columns that are read for it, by their names in lower case.
    """

    expression: str
    places: int
    used: frozenset[str]


def aggregate_value(
    expression: Mapping[str, Any], query: TableQuery, read: TableRead
) -> AggregateValue | None:
    """Return the value that an expression of aggregates is.

    Args:
        expression: The expression.
        query: The statement with the table.
        read: The SELECT that the expression stands in, and the table there.

    Returns:
        None where there are no aggregates, and where the expression may be another value when it is
        computed again, or use rows or tables besides.
    """
    subqueries = [each for each in expressions_in(expression) if each["class"] == "SUBQUERY"]
    inside = {id(part) for each in subqueries for part in nodes_in(each["subquery"])}
    around = [each for each in expressions_in(expression) if id(each) not in inside]
    columns = [each for each in around if each["class"] == "COLUMN_REF"]
    if not all(
        each["class"] in ("SUBQUERY", "COLUMN_REF") or is_repeatable(each) for each in around
    ):
        return None
    if not all(map(is_scalar, subqueries)):
        return None
    selects = [each["subquery"]["node"] for each in subqueries]
    source = _shown_beside(columns, query, read) if columns else None
    if columns and source is None:
        return None
    if source is not None:
        selects.append(source["subquery"]["node"])
    value = expression_to_sql(expression)
    rows = "" if source is None else rows_to_sql(source, None)
    used = _used_by(selects, query)
    if not used or value is None or rows is None:
        return None
    return AggregateValue(f"(SELECT {value}{rows})" if rows else value, len(selects), used)


def makes_one_row(node: Mapping[str, Any], query: TableQuery) -> bool:
    """Whether a query is one row of aggregates, which is the same when it is computed again.

    Args:
        node: The query.
        query: The statement with the table that it has to read, and no other one.
    """
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"]:
        return False
    if any(node.get(part) for part in _OF_ROWS) or not reads_only(node, query):
        return False
    computed = [*expressions_in(node["select_list"]), *expressions_in(node.get("where_clause"))]
    return all(map(has_aggregates, node["select_list"])) and all(map(_may_repeat, computed))


def reads_only(node: Mapping[str, Any], query: TableQuery) -> bool:
    """Whether a SELECT reads a table and names columns of it alone, not of what is around it.

    Args:
        node: Its node.
        query: The statement with the table.
    """
    if not query.names(node["from_table"]) or query.uses_in(node) is None:
        return False
    tables = query.table_names(node["from_table"])
    names = (
        list(map(fold, each["column_names"]))
        for each in expressions_in({**node, "from_table": None})
        if each["class"] == "COLUMN_REF"
    )
    return all(
        first in query.columns or (first in tables and others and others[0] in query.columns)
        for first, *others in names
    )


def _used_by(selects: Sequence[Mapping[str, Any]], query: TableQuery) -> frozenset[str] | None:
    """Return the columns that aggregates are computed of; None where it is not clear."""
    used = frozenset[str]()
    for node in selects:
        uses = query.uses_in(node) if makes_one_row(node, query) else None
        if uses is None:
            return None
        used |= uses.keys()
    return used


def _may_repeat(expression: Mapping[str, Any]) -> bool:
    """Whether an expression is the same whenever it is computed; not what it is made of."""
    return is_repeatable(expression) or function_of(expression) in AGGREGATES


def _shown_beside(
    columns: Sequence[Mapping[str, Any]], query: TableQuery, read: TableRead
) -> Mapping[str, Any] | None:
    """Return the subquery beside the table that shows columns, all of them; None for no such one.

    Of a common table expression, it is a subquery of the same name.
    """
    sources = list(sources_of(read.select["from_table"]))
    others = [each for each in sources if each is not read.source]
    if len(sources) < 2 or len(others) != 1:
        return None
    source = as_subquery(others[0], read, query.statement_root)
    if source is None:
        return None
    shown, alias = shown_columns(source), fold(source["alias"])
    for each in columns:
        *table, name = map(fold, each["column_names"])
        is_theirs = table == [alias] or (not table and name not in query.columns)
        if not is_theirs or name not in shown or alias in query.columns:
            return None
    return source
