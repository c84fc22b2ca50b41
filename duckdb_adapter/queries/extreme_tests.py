"""Columns that a query compares with extremes: `WHERE ts = (SELECT max(ts) FROM 't.lance')`.

Also with what lies a number or an interval off, `ts >= (SELECT max(ts) FROM …) - INTERVAL 7 DAY`,
and with what a common table expression, or a subquery beside the table, shows.

DuckDB joins the rows with what the subquery returns. A filter of the join reaches the scan of a
Parquet file, and not that of Arrow data, of which it does not know the extremes beforehand either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import sole_argument
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.table_reads import (
    NamedQuery,
    TableRead,
    count_places,
    plain_name,
    reads_in,
    sources_of,
)
from duckdb_adapter.queries.trees import (
    NamedColumns,
    arguments_of,
    compared_values,
    constant_text,
    expressions_in,
    is_dotted,
    is_scalar,
    shows_rows,
    terms_of,
)

# A statement without any of these is not parsed.
_MAY_COMPARE = re.compile(r"\bselect\b.*\b(?:min|max)\s*\(", re.IGNORECASE | re.DOTALL)
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
# Expressions that are bound with all that they are made of: a macro may drop its arguments.
_BINDING = {"COMPARISON", "BETWEEN", "CONJUNCTION", "OPERATOR", "CAST"}
_EXTREMES = ("min", "max")
# The functions that make intervals, as DuckDB's parser calls them, and their units.
_UNITS = {
    f"to_{unit}s": unit for unit in ("year", "month", "week", "day", "hour", "minute", "second")
}
INTERVAL_FUNCTIONS = frozenset(_UNITS)
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


class Extreme(NamedTuple):
    """The least or the greatest value of a column, of all rows of a table.

    Attributes:
        function: `min` or `max`.
        argument: The expression that is the column.
        source: The node of the table.
    """

    function: str
    argument: Mapping[str, Any]
    source: Mapping[str, Any]

    def column_of(self, query: TableQuery) -> str | None:
        """Return the column; None where it is none of the table of a query."""
        if not query.names(self.source):
            return None
        # A qualifier may be that of the table around it, for each row of which it is computed then.
        return NamedColumns(query.columns, query.table_names(self.source)).find(self.argument)


class ShiftedExtreme(NamedTuple):
    """An extreme, and what is added to it; None for nothing."""

    extreme: Extreme
    shift: Shift | None


class ExtremeTest(NamedTuple):
    """A comparison that is true for all rows that a SELECT uses of a table.

    Attributes:
        column: The column that is compared.
        operator: The comparison, named as Arrow's function.
        extreme: What it is compared with, of all rows of any table.
        shift: What is added to the extreme; None for nothing.
    """

    column: str
    operator: str
    extreme: Extreme
    shift: Shift | None


class ExtremeUses(NamedTuple):
    """What a statement uses of a table, if DuckDB binds its name as often as it stands in the text.

    Attributes:
        tests: What is true of all rows that it uses in the one place that is no extreme.
        extremes: The functions and columns of the extremes that it computes of all rows.
        places: How often the name stands in the text.
        has_rows: Whether one of the places is no extreme.
        is_first: Whether that place is the first one that DuckDB binds.
    """

    tests: Sequence[ExtremeTest]
    extremes: frozenset[tuple[str, str]]
    places: int
    has_rows: bool
    is_first: bool


@kept_by_query
def extreme_uses(query: TableQuery) -> ExtremeUses | None:
    """Return the extremes that a statement computes of a table, or compares its columns with.

    Returns:
        None where it does neither, or where the text does not tell all that it uses of the table.
    """
    may_compare = _WHERE.search(query.text) and _MAY_COMPARE.search(query.text)
    root = query.statement_root if may_compare and query.columns else None
    return None if root is None else _uses(root, query)


def _uses(root: Mapping[str, Any], query: TableQuery) -> ExtremeUses | None:
    # By the node of the table: what is used of it in that place.
    rows = dict[int, TableRead]()
    extremes = dict[int, list[Extreme]]()
    select = query.table_select
    for read in reads_in(root):
        computed = _computed_by(read.select, read.known)
        if query.names(read.source) and not computed:
            place = id(read.source)
            if select is not None:  # with the conditions of those around it
                read = TableRead(select, select["from_table"], read.known)
            rows[place] = read
        for one, _ in (*computed.values(), *_extremes_in(read)):
            if query.names(one.source):
                extremes.setdefault(id(one.source), []).append(one)
    named = {(one.function, one.column_of(query)) for each in extremes.values() for one in each}
    columns = frozenset((name, column) for name, column in named if column is not None)
    places = len(rows) + len(extremes)
    is_clear = len(columns) == len(named) and len(rows) <= 1
    if not is_clear or places != count_places(root, query.names):
        return None
    tests = [test for read in rows.values() for test in _tests(read, query)]
    is_first = bool(rows) and select is not None
    return ExtremeUses(tests, columns, places, bool(rows), is_first) if tests or columns else None


def _tests(read: TableRead, query: TableQuery) -> Iterator[ExtremeTest]:
    """Yield the comparisons with extremes in the WHERE of a SELECT."""
    where = read.select["where_clause"]
    columns = NamedColumns(query.columns, query.table_names(read.source))
    for term in () if not where or read.select["sample"] else terms_of(where):
        for column, operator, other in compared_values(term, columns):
            found = _shifted_extreme(other, read, query)
            if found is not None and operator != "not_equal":
                yield ExtremeTest(column, operator, *found)


def _shifted_extreme(
    expression: Mapping[str, Any], read: TableRead, query: TableQuery
) -> ShiftedExtreme | None:
    """Return the extreme that an expression in WHERE is, which may be what another place shows."""
    if _is_operation(expression):
        inner, shift = _without_shift(expression)
        is_shifted = shift is not None and not _is_operation(inner)
        found = _shifted_extreme(inner, read, query) if is_shifted else None
        return None if found is None or found.shift else found._replace(shift=shift)
    if is_scalar(expression):
        shown = _computed_by(expression["subquery"]["node"], read.known)
        return next(iter(shown.values())) if len(shown) == 1 else None
    if expression["class"] != "COLUMN_REF":
        return None
    *table, column = map(fold, expression["column_names"])
    if len(table) > 1 or any(name in query.columns for name in (*table, column)):
        return None
    for source in sources_of(read.select["from_table"]):
        if source.get("column_name_alias"):
            continue
        name = fold(source["alias"] or source.get("table_name", ""))
        if source["type"] == "SUBQUERY":
            shown = _computed_by(source["subquery"]["node"], read.known)
        else:
            shown = _named(plain_name(source), read.known)
        if column in shown and table in ([], [name]):
            return shown[column]
    return None


def _extremes_in(read: TableRead) -> Iterator[ShiftedExtreme]:
    """Yield the extremes that subqueries in WHERE compute, as far as they are surely bound."""
    for subquery in _scalars_in(read.select["where_clause"]):
        yield from _computed_by(subquery["subquery"]["node"], read.known).values()


def _scalars_in(expression: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the subqueries of one value in an expression, as far as they are surely bound."""
    pending = [expression]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending.extend(reversed(each))
        elif isinstance(each, dict):
            kind = each.get("class")
            if kind is not None and is_scalar(each):
                yield each
            elif kind is None or kind in _BINDING or each.get("is_operator"):
                pending.extend(reversed(each.values()))


def _is_operation(expression: Mapping[str, Any]) -> bool:
    return bool(expression["class"] == "FUNCTION" and expression["is_operator"])


def _computed_by(
    node: Mapping[str, Any], known: Mapping[str, NamedQuery]
) -> Mapping[str, ShiftedExtreme]:
    """Return the extremes of all rows of a table that a SELECT shows, by the names that they get.

    Nothing where it shows anything else. In place of the table there may be a common table
    expression of such extremes.
    """
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"] or node["modifiers"]:
        return {}
    left_out = any(node[part] for part in ("where_clause", "group_expressions", "sample"))
    source = node["from_table"]
    if left_out or not shows_rows(node) or source["type"] in ("JOIN", "SUBQUERY"):
        return {}
    named = _named(plain_name(source), known)
    if plain_name(source) in known:
        return {} if source.get("column_name_alias") else _selected(node, named)
    found = [_computed(each, source) for each in node["select_list"]]
    extremes = [each for each in found if each is not None]
    if len(extremes) < len(found):
        return {}
    names = [fold(each["alias"]) or str(n) for n, each in enumerate(node["select_list"])]
    return dict(zip(names, extremes, strict=True)) if len({*names}) == len(names) else {}


def _named(name: str, known: Mapping[str, NamedQuery]) -> Mapping[str, ShiftedExtreme]:
    """Return the extremes that a common table expression shows."""
    named = known.get(name)
    if named is None or named.renames:
        return {}
    return _computed_by(named.query, named.known)


def _selected(
    node: Mapping[str, Any], shown: Mapping[str, ShiftedExtreme]
) -> Mapping[str, ShiftedExtreme]:
    """Return those of some extremes that a SELECT of these shows, if it shows nothing else."""
    found = dict[str, ShiftedExtreme]()
    for each in node["select_list"]:
        name = fold(each["column_names"][-1]) if each["class"] == "COLUMN_REF" else ""
        if name not in shown or len(each["column_names"]) > 1:
            return {}
        found[fold(each["alias"]) or name] = shown[name]
    return found


def _computed(expression: Mapping[str, Any], source: Mapping[str, Any]) -> ShiftedExtreme | None:
    """Return the extreme that an expression is of all rows of a table, and what is added to it."""
    call, shift = expression, None
    if _is_operation(call):
        call, shift = _without_shift(call)
        if shift is None:
            return None
    if call["class"] != "FUNCTION" or call["filter"] or is_dotted(call):
        return None
    argument = sole_argument(call) if call["function_name"].lower() in _EXTREMES else None
    if argument is None or argument["class"] != "COLUMN_REF":
        return None
    return ShiftedExtreme(Extreme(call["function_name"].lower(), argument, source), shift)


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
