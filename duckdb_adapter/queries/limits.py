"""Queries of some rows of a table only: LIMIT, OFFSET and USING SAMPLE.

DuckDB reads all rows before an OFFSET from the Arrow scan, and all columns of all rows for a
sample. Rows need not be read if the text proves that the query uses none of their values. For a
proof, the text must be a SELECT of one table by its path, and of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
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


@kept_by_query
def limited_range(query: TableQuery) -> LimitedRange | None:
    """Return the rows that LIMIT and OFFSET leave of a table; None if a query may use others."""
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


@kept_by_query
def sampled_rows(query: TableQuery) -> int:
    """Return how many rows of a table a query draws with `USING SAMPLE`; 0 if it uses others, too.

    DuckDB draws before it tests conditions, groups or orders. A share of the rows (`10%`), and a
    sample that can be repeated (`REPEATABLE`), are left to DuckDB.
    """
    node = query.plain_select if "sample" in query.text.lower() else None
    if node is None:
        return 0
    source = node["from_table"]
    samples = [each for each in (node.get("sample"), source.get("sample")) if each]
    if len(samples) != 1 or not query.names({**source, "sample": None}):
        return 0
    return _rows(samples[0])


def _rows(sample: Mapping[str, Any]) -> int:
    """Return how many rows a sample has; 0 for a share, or one that is drawn again."""
    is_again = sample.get("repeatable") or sample["seed"] != -1
    if sample["is_percentage"] or sample["method"] != "Reservoir" or is_again:
        return 0
    size = sample["sample_size"]["value"]
    return size if isinstance(size, int) and size > 0 else 0
