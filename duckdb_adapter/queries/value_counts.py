"""Queries that use only the distinct values of some columns and their counts, in any order.

For `SELECT level, count(*) … GROUP BY level`, the distinct values and their counts may replace the
table. The proof: the text is one SELECT of the table by its path, and either groups its rows or
aggregates them with functions whose result does not depend on their order. A macro with the name of
such a function is taken for the function: it may see the rows in another order, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from duckdb_adapter.queries.column_uses import members_named
from duckdb_adapter.queries.function_names import AGGREGATES, COLLECTING, OF_VALUES
from duckdb_adapter.queries.pivots import pivoted_columns
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import aggregates, expressions_in, function_of

# A statement without any of these is not parsed.
_MAY_GROUP = re.compile(rf"\bgroup\s+by\b|\bdistinct\b|\b({'|'.join(AGGREGATES)})\b", re.IGNORECASE)
_FREE = AGGREGATES | OF_VALUES


@kept_by_query
def value_count_paths(query: TableQuery) -> Sequence[str]:
    """Return the columns of which the values and how often they occur are all that a query uses.

    Args:
        query: The query.

    Returns:
        Columns in the order of the table; of structs, members by their paths, and no other name has
        a dot. An empty list if the query may use more.
    """
    if pivoted := pivoted_columns(query):
        return pivoted
    select = query.table_select if _MAY_GROUP.search(query.text) is not None else None
    if select is None or not query.uses or not _takes_any_order(select):
        return []
    return [
        path
        for key, column in query.columns.items()
        if key in query.uses
        for path in _paths(column, query.structs.get(column), query.uses[key])
    ]


def _paths(column: str, struct: pa.StructType | None, members: Collection[str]) -> list[str]:
    """Return the paths of what is used of a column: the whole where it is not clear."""
    is_member = "" not in members and struct is not None
    named = members_named(struct, members) if is_member else []
    return [f"{column}.{member}" for member in named] or [column]


def _takes_any_order(select: Mapping[str, Any]) -> bool:
    """Whether a SELECT returns the same whichever order the rows are in."""
    modifiers = {each["type"]: each for each in select["modifiers"]}
    distinct = modifiers.get("DISTINCT_MODIFIER")
    if distinct is not None and distinct["distinct_on_targets"]:
        return False
    is_grouped = aggregates(select)
    if select["sample"] or not (distinct or is_grouped):
        return False
    parts = [select[part] for part in ("select_list", "having", "qualify", "modifiers")]
    return all(_is_free(each, is_grouped) for each in expressions_in(parts))


def _is_free(expression: Mapping[str, Any], is_grouped: bool) -> bool:
    """Whether an expression is the same whichever order the rows are in.

    Args:
        expression: Without those that it is made of.
        is_grouped: Whether windows are over groups, and not over rows.
    """
    if expression["class"] == "WINDOW":
        return is_grouped
    name = function_of(expression)
    return name is None or name in _FREE or (name in COLLECTING and bool(expression["distinct"]))
