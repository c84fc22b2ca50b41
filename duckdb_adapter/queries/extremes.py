"""Of which columns a query uses the least and the greatest value: `SELECT min(ts), max(ts)`.

For such a query a table is a row of the least values, and one of the greatest, as often as there
are rows. A proof needs that the text is all that there is: one table by its path, of which columns
stand in `min`, `max` and `count` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from duckdb_adapter.queries.column_uses import sole_argument
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import OF_VALUES, calls_only, column_of, expressions_in

# A statement without any of these is not parsed.
_MAY_ASK = re.compile(r"\b(min|max)\b", re.IGNORECASE)
_EXTREMES = {"min", "max"}
_COUNTS = {"count", "count_star"}
# Parts of a SELECT that leave rows out, or make several of all.
_OTHERS = ("where_clause", "group_expressions", "having", "sample", "qualify")


class UsedExtremes(NamedTuple):
    """What a query uses of columns.

    Attributes:
        columns: Those of which it uses the least or the greatest value.
        counted: Those of them of which it counts the values that are there.
        functions: The functions that it calls for it, which may also be the names of macros.
    """

    columns: list[str]
    counted: set[str]
    functions: set[str]


def used_extremes(query: TableQuery) -> UsedExtremes | None:
    """Return the columns of which a query uses the extremes; None where it may use more."""
    select = query.select if _MAY_ASK.search(query.text) is not None else None
    if select is None or any(select.node.get(part) for part in _OTHERS) or not query.uses:
        return None
    if any(set(members) != {""} for members in query.uses.values()):
        return None
    return _extremes(select.node, select.columns)


def _extremes(node: Mapping[str, Any], columns: Mapping[str, str]) -> UsedExtremes | None:
    parts = [node["select_list"], node["modifiers"]]
    if not calls_only(parts, _EXTREMES | _COUNTS | OF_VALUES):
        return None
    expressions = list(expressions_in(parts))
    functions = (each for each in expressions if each["class"] == "FUNCTION")
    calls = [each for each in functions if not each["is_operator"]]
    names = {call["function_name"].lower() for call in calls}
    asked: set[int] = set()
    used: dict[str, set[str]] = {}
    for call in calls:
        function, argument = call["function_name"].lower(), sole_argument(call)
        column = None if argument is None else column_of(argument, columns)
        if argument is not None and column is not None and function not in OF_VALUES:
            asked.add(id(argument))
            used.setdefault(function, set()).add(columns[column])
    named = [each for each in expressions if column_of(each, columns) is not None]
    extremes = used.get("min", set()) | used.get("max", set())
    counted = used.get("count", set())
    if not counted <= extremes or not all(id(each) in asked for each in named):
        return None
    ordered = [column for column in columns.values() if column in extremes]
    meant = {name.removesuffix("_star") for name in names - OF_VALUES}
    return UsedExtremes(ordered, counted, meant) if ordered else None
