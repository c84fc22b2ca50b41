"""Which columns a PIVOT uses: `PIVOT 'logs.lance' ON level USING count(*) GROUP BY host`.

Before that, DuckDB asks for the values of the columns after ON, where the text does not list them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.function_names import AGGREGATES, OF_VALUES
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import (
    calls_only,
    classes_in,
    column_of,
    expressions_in,
    shows_rows,
)

# How often DuckDB binds what it pivots: for its columns, and for its rows.
BIND_COUNT = 2
# Expressions that use nothing but what they are made of.
_KNOWN = {"COLUMN_REF", "CONSTANT", "CAST", "TYPE", "COMPARISON", "OPERATOR", "FUNCTION", "CASE"}


def pivoted_columns(query: TableQuery) -> list[str]:
    """Return the columns that a PIVOT of a table uses, if the order of rows is nothing to it.

    Args:
        query: The query.

    Returns:
        An empty list if the query is another one, or groups by columns that it does not name.
    """
    pivot = _pivot_of(query)
    if pivot is None or not query.names(pivot["source"]):
        return []
    named = [each for each in expressions_in(_parts(pivot)) if each["class"] == "COLUMN_REF"]
    used = {column_of(each, query.columns) for each in named}
    used |= {fold(name) for name in pivot["groups"]}
    if not used <= query.columns.keys():
        return []
    return [column for name, column in query.columns.items() if name in used]


@kept_by_query
def pivot_groups(query: TableQuery) -> list[str]:
    """Return the columns by which a PIVOT groups, in lower case, as `pivoted_columns` says.

    It may also be one of a SELECT of some columns of the table.
    """
    pivot = _pivot_of(query)
    if pivot is None or not (query.names(pivot["source"]) or _shows_columns(pivot, query)):
        return []
    shown = [each for one in pivot["pivots"] for each in one["pivot_expressions"]]
    groups = [fold(name) for name in pivot["groups"]]
    columns = [column_of(each, query.columns) for each in shown]
    return groups + [column for column in columns if column is not None]


def _pivot_of(query: TableQuery) -> Mapping[str, Any] | None:
    """Return the PIVOT that a query is, if the order of rows is nothing to it."""
    node = query.query_root if query.columns and "pivot" in query.text.lower() else None
    if node is None or node["type"] != "SELECT_NODE" or not _shows_all(node):
        return None
    pivot: Mapping[str, Any] = node["from_table"]
    if pivot["type"] != "PIVOT" or not pivot["groups"]:
        return None
    if pivot["sample"] or pivot["unpivot_names"] or not all(map(_is_plain, pivot["pivots"])):
        return None
    parts = _parts(pivot)
    is_free = classes_in(parts) <= _KNOWN and calls_only(parts, AGGREGATES | OF_VALUES)
    return pivot if is_free else None


def _parts(pivot: Mapping[str, Any]) -> list[Any]:
    """Return the expressions of a PIVOT."""
    return [pivot["aggregates"], [each["pivot_expressions"] for each in pivot["pivots"]]]


def _shows_columns(pivot: Mapping[str, Any], query: TableQuery) -> bool:
    """Whether a PIVOT is one of a SELECT of columns of the table, by their names."""
    source = pivot["source"]
    select = source["subquery"]["node"] if source["type"] == "SUBQUERY" else None
    if select is None or source["sample"] or source["column_name_alias"]:
        return False
    if select["type"] != "SELECT_NODE" or select["where_clause"] or select["modifiers"]:
        return False
    shown = select["select_list"]
    is_of_table = query.names(select["from_table"]) and not select["cte_map"]["map"]
    are_columns = all(column_of(each, query.columns) and not each["alias"] for each in shown)
    return is_of_table and are_columns and shows_rows(select)


def _shows_all(node: Mapping[str, Any]) -> bool:
    """Whether a SELECT shows all columns and rows of what it selects from."""
    first, *others = node["select_list"]
    changes = ("exclude_list", "replace_list", "rename_list", "qualified_exclude_list", "columns")
    is_star = first["class"] == "STAR" and not any(first.get(change) for change in changes)
    is_whole = not node["cte_map"]["map"] and not node["where_clause"] and shows_rows(node)
    return is_star and is_whole and not others and "SUBQUERY" not in classes_in(node["modifiers"])


def _is_plain(pivot: Mapping[str, Any]) -> bool:
    """Whether values that become columns are listed, or are those of a type."""
    return not (pivot["unpivot_names"] or pivot.get("subquery"))
