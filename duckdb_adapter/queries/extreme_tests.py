"""Columns that a query compares with their extremes: `WHERE ts = (SELECT max(ts) FROM 't.lance')`.

Also with what lies a number or an interval off: `ts >= (SELECT max(ts) - INTERVAL 7 DAY …)`.

DuckDB joins the rows with what the subquery returns. A filter of the join reaches the scan of a
Parquet file, and not that of Arrow data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duckdb_adapter.queries.column_uses import sole_argument
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import (
    NamedColumns,
    arguments_of,
    comparison_in,
    constant_text,
    expressions_in,
    shows_rows,
    terms_of,
)

_EXTREMES = ("min", "max")
# The functions that make intervals, as DuckDB's parser calls them, and their units.
_UNITS = {
    f"to_{unit}s": unit for unit in ("year", "month", "week", "day", "hour", "minute", "second")
}
_INTERVAL = re.compile(r"\s*(\d{1,6})\s+([a-z]+?)s?\s*", re.IGNORECASE)
_AMOUNT, _NUMBER = re.compile(r"\d{1,6}"), re.compile(r"-?\d{1,18}")
# What the parser makes of `INTERVAL 7 DAY` beside them.
_OF_AMOUNTS = {"FUNCTION", "CAST", "TYPE", "CONSTANT"}
_SIGNS = {"+": 1, "-": -1}
_NUMBERS = {"DOUBLE", "INTEGER", "BIGINT"}


class Shift(NamedTuple):
    """What is added to an extreme.

    Attributes:
        amount: How many units, negative for less than the extreme.
        unit: `year` to `second`; empty for a number.
        is_called: Whether functions make the interval, which users may have macros in place of.
    """

    amount: int
    unit: str = ""
    is_called: bool = False


class ExtremeTest(NamedTuple):
    """A comparison that is true for all rows that a query uses.

    Attributes:
        column: The column that is compared.
        operator: The comparison, named as Arrow's function.
        function: `min` or `max`.
        of: The column of all rows of the same version whose extreme it is compared with.
        shift: What is added to the extreme; None for nothing.
    """

    column: str
    operator: str
    function: str
    of: str
    shift: Shift | None = None


def extreme_tests(query: TableQuery) -> list[ExtremeTest]:
    """Return the comparisons of columns with extremes, of a query of one table and its subqueries.

    They are true of the rows of the table that the query selects from, which is bound first.
    """
    lower = query.text.lower()
    may_have_some = "where" in lower and any(function in lower for function in _EXTREMES)
    select = query.table_select if may_have_some else None
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


def _extreme(
    expression: Mapping[str, Any], query: TableQuery
) -> tuple[str, str, Shift | None] | None:
    """Return the function, the column and the shift of a subquery: an extreme of all rows."""
    if expression["class"] != "SUBQUERY" or expression["subquery_type"] != "SCALAR":
        return None
    node = expression["subquery"]["node"]
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"] or node["modifiers"]:
        return None
    left_out = any(node[part] for part in ("where_clause", "group_expressions", "sample"))
    if left_out or not shows_rows(node) or not query.names(node["from_table"]):
        return None
    (call, *others) = node["select_list"]
    shift = None
    if call["class"] == "FUNCTION" and call["is_operator"]:
        call, shift = _without_shift(call)
        if shift is None:
            return None
    if others or call["class"] != "FUNCTION" or call["filter"]:
        return None
    if call["function_name"].lower() not in _EXTREMES:
        return None
    # A qualifier may be that of the table around it, for each row of which it is computed then.
    columns = NamedColumns(query.columns, query.table_names(node["from_table"]))
    argument = sole_argument(call)
    column = None if argument is None else columns.find(argument)
    return None if column is None else (call["function_name"].lower(), column, shift)


def _without_shift(
    operation: Mapping[str, Any],
) -> tuple[Mapping[str, Any], Shift | None]:
    """Return what a constant is added to or subtracted from, and the constant; None for others."""
    sides, sign = arguments_of(operation), _SIGNS.get(operation["function_name"], 0)
    shift = _shift(sides[1]) if len(sides) == 2 and sign else None
    if shift is None:
        return operation, None
    return sides[0], shift._replace(amount=sign * shift.amount)


def _shift(constant: Mapping[str, Any]) -> Shift | None:
    """Return a number or an interval; None for anything else."""
    number = constant_text(constant, "INTEGER")
    if number is not None:
        return Shift(int(number)) if _NUMBER.fullmatch(number) else None
    if constant["class"] == "CAST":
        text = constant_text(constant["child"], "STRING")
        found = None if text is None else _INTERVAL.fullmatch(text)
        if found is None or _type_name(constant) != "INTERVAL" or constant.get("try_cast"):
            return None
        unit = found[2].lower()
        return Shift(int(found[1]), unit) if unit in _UNITS.values() else None
    unit = _UNITS.get(constant["function_name"]) if constant["class"] == "FUNCTION" else None
    parts = list(expressions_in(constant))
    calls = {part["function_name"] for part in parts if part["class"] == "FUNCTION"}
    types = {_type_name(part) for part in parts if part["class"] == "CAST"}
    numbers = [constant_text(part, "INTEGER") for part in parts if part["class"] == "CONSTANT"]
    is_plain = {part["class"] for part in parts} <= _OF_AMOUNTS and types <= _NUMBERS
    if unit is None or not is_plain or len(numbers) != 1 or len(calls - {"trunc"}) != 1:
        return None
    (amount,) = numbers
    if amount is None or not _AMOUNT.fullmatch(amount):
        return None
    return Shift(int(amount), unit, is_called=True)


def _type_name(cast: Mapping[str, Any]) -> str:
    """Return the type that a constant is cast to, as DuckDB 2.0 names it; empty for others."""
    named = cast.get("type_expr") or {}
    return "" if named.get("children") else str(named.get("type_name", ""))
