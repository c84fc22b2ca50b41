"""Queries that use only the minimum and maximum of columns: `SELECT min(ts), max(ts)`.

A row of minima and as many rows of maxima as are left may then replace the table. The proof: the
text is one SELECT of the table by its path, and its columns occur only as arguments of `min`, `max`
and `count`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import (
    columns_of_star,
    members_named,
    path_from_column,
    sole_argument,
)
from duckdb_adapter.queries.function_names import OF_VALUES
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import calls_only, expressions_in, function_of

# A statement without any of these is not parsed.
_MAY_ASK = re.compile(r"\b(min|max)\b", re.IGNORECASE)
_EXTREMES = {"min", "max"}
_COUNTS = {"count", "count_star"}
# Parts of a SELECT that leave rows out, or make several of all.
_OTHERS = ("where_clause", "group_expressions", "having", "sample", "qualify")


class UsedExtremes(NamedTuple):
    """What a query uses of columns.

    Attributes:
        columns: Those of which it uses the least or the greatest value; of structs, members by
            their paths.
        counted: Those of them of which it counts the values that are there.
        functions: The functions that it calls for it, which may also be the names of macros.
        uses_count: Whether it may use how many rows there are.
        calls_others: Whether it calls other functions, or operators, which may be macros that use
            values of all rows.
    """

    columns: list[str]
    counted: set[str]
    functions: set[str]
    uses_count: bool
    calls_others: bool


@kept_by_query
def used_extremes(query: TableQuery) -> UsedExtremes | None:
    """Return the columns of which a query uses the extremes; None where it may use more."""
    node = query.table_select if _MAY_ASK.search(query.text) is not None else None
    if node is None or any(node.get(part) for part in _OTHERS) or not query.uses:
        return None
    return _extremes(node, query)


def _extremes(node: Mapping[str, Any], query: TableQuery) -> UsedExtremes | None:
    parts = [node["select_list"], node["modifiers"]]
    if not calls_only(parts, _EXTREMES | _COUNTS | OF_VALUES):
        return None
    expressions = list(expressions_in(parts))
    calls = [each for each in expressions if function_of(each) is not None]
    names = {call["function_name"].lower() for call in calls}
    asked: set[int] = set()
    used: dict[str, set[str]] = {}
    for call in calls:
        function, argument = call["function_name"].lower(), sole_argument(call)
        paths = [] if argument is None else _paths_of(argument, query)
        if paths and function not in OF_VALUES:
            asked.add(id(argument))
            used.setdefault(function, set()).update(paths)
    named = [each for each in expressions if _may_name(each, query.columns)]
    extremes = used.get("min", set()) | used.get("max", set())
    counted = used.get("count", set())
    if not counted <= extremes or not all(id(each) in asked for each in named):
        return None
    meant = {name.removesuffix("_star") for name in names - OF_VALUES}
    # Other functions, and operators, may be macros that aggregate.
    others = {each["function_name"].lower() for each in expressions if each["class"] == "FUNCTION"}
    uses = not others <= _EXTREMES, not others <= _EXTREMES | _COUNTS
    return UsedExtremes(_in_order(extremes, query), counted, meant, *uses) if extremes else None


def _in_order(paths: Iterable[str], query: TableQuery) -> list[str]:
    """Return columns, and members by their paths, in the order of the table: `COLUMNS` shows it."""
    places = {column: place for place, column in enumerate(query.columns.values())}
    return sorted(paths, key=lambda path: (places[path.partition(".")[0]], path))


def _may_name(expression: Mapping[str, Any], columns: Mapping[str, str]) -> bool:
    """Whether an expression is a column, a member of one, or stands for several."""
    return expression["class"] == "STAR" or _names(expression, columns) is not None


def _names(expression: Mapping[str, Any], columns: Mapping[str, str]) -> Sequence[str] | None:
    """Return the names of a column, and of a member of it, in lower case; None for others."""
    if expression["class"] != "COLUMN_REF":
        return None
    return path_from_column([fold(name) for name in expression["column_names"]], columns)


def _paths_of(expression: Mapping[str, Any], query: TableQuery) -> Sequence[str]:
    """Return the paths of columns, or of a member of a struct; none for anything else."""
    if expression["class"] == "STAR":
        return columns_of_star(expression, query.columns)
    names = _names(expression, query.columns)
    if names is None:
        return []
    column, members = query.columns[names[0]], names[1:]
    if not members:
        return [column]
    struct = query.structs.get(column)
    is_clear = struct is not None and not any("." in member for member in members)
    named = members_named(struct, [".".join(members)]) if is_clear else []
    is_member = bool(named) and fold(named[0]) == ".".join(members)
    return [f"{column}.{named[0]}"] if is_member else []
