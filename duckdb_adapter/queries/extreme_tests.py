"""Columns that a query compares with their extremes: `WHERE ts = (SELECT max(ts) FROM 't.lance')`.

DuckDB joins the rows with what the subquery returns. A filter of the join reaches the scan of a
Parquet file, and not that of Arrow data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duckdb_adapter.queries.column_uses import sole_argument
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import NamedColumns, comparison_in, shows_rows, terms_of

_EXTREMES = ("min", "max")


class ExtremeTest(NamedTuple):
    """A comparison that is true for all rows that a query uses.

    Attributes:
        column: The column that is compared.
        operator: The comparison, named as Arrow's function.
        function: `min` or `max`.
        of: The column of all rows of the same version whose extreme it is compared with.
    """

    column: str
    operator: str
    function: str
    of: str


def extreme_tests(query: TableQuery) -> list[ExtremeTest]:
    """Return the comparisons of columns with extremes, of a query of one table and its subqueries.

    They are true of the rows of the table that the query selects from, which is bound first.
    """
    lower = query.text.lower()
    select = query.table_select if "(" in lower and "where" in lower else None
    if select is None or not select["where_clause"] or select["sample"]:
        return []
    return list(_tests(select, query))


def _tests(select: Mapping[str, Any], query: TableQuery) -> Iterator[ExtremeTest]:
    columns = NamedColumns(query.columns, query.table_names(select["from_table"]))
    for term in terms_of(select["where_clause"]):
        compared = comparison_in(term, query.columns)
        column = None if compared is None else columns.find(compared.column)
        if compared is None or column is None:
            continue
        for operator, other in zip(compared.operators, compared.others, strict=True):
            extreme = _extreme(other, query)
            if extreme is not None and operator != "not_equal":
                yield ExtremeTest(column, operator, *extreme)


def _extreme(expression: Mapping[str, Any], query: TableQuery) -> tuple[str, str] | None:
    """Return the function and the column of a subquery that is an extreme of all rows."""
    if expression["class"] != "SUBQUERY" or expression["subquery_type"] != "SCALAR":
        return None
    node = expression["subquery"]["node"]
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"] or node["modifiers"]:
        return None
    left_out = any(node[part] for part in ("where_clause", "group_expressions", "sample"))
    if left_out or not shows_rows(node) or not query.names(node["from_table"]):
        return None
    (call, *others) = node["select_list"]
    if others or call["class"] != "FUNCTION" or call["filter"]:
        return None
    if call["function_name"].lower() not in _EXTREMES:
        return None
    # A qualifier may be that of the table around it, for each row of which it is computed then.
    columns = NamedColumns(query.columns, query.table_names(node["from_table"]))
    argument = sole_argument(call)
    column = None if argument is None else columns.find(argument)
    return None if column is None else (call["function_name"].lower(), column)
