"""How many rows of a table a query passes over, as its text tells: `LIMIT 10 OFFSET 1000000`.

DuckDB asks the Arrow scan for all rows, also for those that it passes over. Where the text of the
query proves that it uses no values of these, there is nothing to read. A proof needs that the text
is all that there is: one table by its path, and columns. What is not understood passes over none.
"""

from __future__ import annotations

from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import expressions_in, number_of, shows_rows

# Expressions that use nothing but the row.
_PLAIN = {"COLUMN_REF", "CONSTANT", "STAR"}


def skipped_rows(query: TableQuery) -> int:
    """Return how many rows of a table a query passes over before those that it uses."""
    node = query.table_select if "offset" in query.text.lower() else None
    if node is None or node.get("where_clause") or not shows_rows(node):
        return 0
    if len(node["modifiers"]) != 1:
        return 0
    (limit,) = node["modifiers"]
    if limit["type"] != "LIMIT_MODIFIER" or limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
        return 0
    if not {each["class"] for each in expressions_in(node["select_list"])} <= _PLAIN:
        return 0
    return number_of(limit["offset"]) or 0
