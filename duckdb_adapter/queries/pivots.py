"""Which columns a PIVOT uses: `PIVOT 'logs.lance' ON level USING count(*) GROUP BY host`.

Before that, DuckDB asks for the values of the columns after ON, where the text does not list them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.function_names import AGGREGATES, OF_VALUES
from duckdb_adapter.queries.table_query import TableQuery
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
    node = query.query_root if query.columns and "pivot" in query.text.lower() else None
    if node is None or node["type"] != "SELECT_NODE" or not _shows_all(node):
        return []
    pivot = node["from_table"]
    if pivot["type"] != "PIVOT" or not pivot["groups"] or not query.names(pivot["source"]):
        return []
    if pivot["sample"] or pivot["unpivot_names"] or not all(map(_is_plain, pivot["pivots"])):
        return []
    parts = [pivot["aggregates"], [each["pivot_expressions"] for each in pivot["pivots"]]]
    if not classes_in(parts) <= _KNOWN or not calls_only(parts, AGGREGATES | OF_VALUES):
        return []
    named = [each for each in expressions_in(parts) if each["class"] == "COLUMN_REF"]
    used = {column_of(each, query.columns) for each in named}
    used |= {fold(name) for name in pivot["groups"]}
    if not used <= query.columns.keys():
        return []
    return [column for name, column in query.columns.items() if name in used]


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
