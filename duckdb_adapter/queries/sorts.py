"""The columns of a statement that sorts all rows of a table, as its text tells.

DuckDB packs whole numbers that it sorts, and those that it carries along, into fewer bytes where
it knows their ranges (its `compressed_materialization`). The Arrow scan gives none.
"""

from __future__ import annotations

from collections.abc import Collection

from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import classes_in, shows_rows


@kept_by_query
def sorted_columns(query: TableQuery) -> Collection[str]:
    """Return the columns that a statement sorts, or carries along, where it sorts all rows.

    There are none where it has conditions, which the scan has to see.
    """
    lower = query.text.lower()
    select = query.table_select if "order" in lower and "limit" not in lower else None
    if select is None or not shows_rows(select) or select["where_clause"]:
        return ()
    if [each["type"] for each in select["modifiers"]] != ["ORDER_MODIFIER"]:
        return ()
    if query.uses is not None:
        return [query.columns[name] for name in query.uses]
    is_star = classes_in(select["select_list"]) == {"STAR"}
    return list(query.columns.values()) if is_star else ()
