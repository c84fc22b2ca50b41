"""Which rows of a table a query takes by their positions, as its text tells: `LIMIT 10 OFFSET 100`.

DuckDB asks the Arrow scan for all rows, also for those that it passes over, and stops to ask when
it has enough. Where the text of the query proves that it uses no values of other rows, these need
not be read. A proof needs that the text is all that there is: one table by its path, and columns.
"""

from __future__ import annotations

from typing import NamedTuple

from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import expressions_in, number_of, shows_rows

# Expressions that use nothing but the row.
_PLAIN = {"COLUMN_REF", "CONSTANT", "STAR"}


class LimitedRange(NamedTuple):
    """The rows that a query takes.

    Attributes:
        skipped: How many rows come before them.
        limit: How many they are at most; None for all that follow.
    """

    skipped: int
    limit: int | None


def limited_range(query: TableQuery) -> LimitedRange | None:
    """Return which rows of a table a query takes by their positions; None where it may use all."""
    text = query.text.lower()
    node = query.table_select if "offset" in text or "limit" in text else None
    if node is None or node.get("where_clause") or not shows_rows(node):
        return None
    if len(node["modifiers"]) != 1:
        return None
    (limit,) = node["modifiers"]
    if limit["type"] != "LIMIT_MODIFIER" or limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
        return None
    if not {each["class"] for each in expressions_in(node["select_list"])} <= _PLAIN:
        return None
    skipped, most = number_of(limit["offset"] or 0), number_of(limit["limit"])
    if skipped is None or (skipped, most) == (0, None):
        return None
    return LimitedRange(skipped, most)
