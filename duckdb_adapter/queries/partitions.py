"""Queries of the first rows of each partition: `row_number() OVER (PARTITION BY …) <= n`.

The newest row of each host, for instance, is queried in these ways:

    SELECT * FROM 't.lance' QUALIFY row_number() OVER (PARTITION BY host ORDER BY ts DESC) = 1
    SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY ts DESC) AS n
                   FROM 't.lance') WHERE n = 1
    SELECT DISTINCT ON (host) * FROM 't.lance' ORDER BY host, ts DESC

`nested` turns the second one into the first. Without PARTITION BY, all rows are one partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.row_tests import tests_of
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.top_n import (
    MAX_FIRST_ROWS,
    TopN,
    calls_in_where,
    orders_of,
)
from duckdb_adapter.queries.trees import (
    changes_columns,
    classes_in,
    expressions_in,
    function_of,
    name_alone,
    ranks_within,
    same_expression,
    shows_rows,
    terms_of,
    windows_by_name,
)

# More rows of a partition than these are not looked for before the others are left out.
_MAX_ROWS = 8
# Windows that number the rows of a partition in their order, by the functions that they call.
_NUMBERS = {
    "WINDOW_ROW_NUMBER": "row_number",
    "WINDOW_RANK": "rank",
    "WINDOW_RANK_DENSE": "dense_rank",
}
# The one of these that gives any number of rows the same number.
_SAME_NUMBERS = "WINDOW_RANK_DENSE"
# Further clauses of windows, which must be empty.
_REST_OF_WINDOW = ("filter_expr", "distinct", "ignore_nulls", "children", "arg_orders")
# Expressions that use nothing but the row, or the columns of the table.
_PLAIN = {
    *("COLUMN_REF", "CONSTANT", "STAR", "CAST", "TYPE", "PARAMETER"),
    *("COMPARISON", "BETWEEN", "CONJUNCTION", "OPERATOR", "FUNCTION"),
}


@kept_by_query
def top_n_of_partitions(query: TableQuery) -> TopN | None:
    """Return the first rows of each partition that a query uses; None where it may use others."""
    lower = query.text.lower()
    if "order" not in lower or not ("over" in lower or "distinct" in lower):
        return None
    node, columns = query.table_select, query.columns
    if node is None or not _uses_plain_rows(node, columns):
        return None
    found = _numbered(node, columns) or _distinct(node, columns)
    if found is None:
        return None
    partitions, keys, rows, shown = found
    orders = orders_of(keys, shown, columns)
    orders = orders[:1] if partitions else orders
    tests = tests_of(node, columns, query.schema)
    most = _MAX_ROWS if partitions else MAX_FIRST_ROWS
    if not orders or tests is None or rows > most:
        return None
    calls = query.is_nested or calls_in_where(node)
    return TopN(orders, rows, tests, calls, partitions)


# The columns of PARTITION BY; what ORDER BY names; how many rows; what ORDER BY may name besides
# columns, the expressions that are shown.
_Found = tuple[tuple[str, ...], Sequence[Mapping[str, Any]], int, Sequence[Mapping[str, Any]]]


def _numbered(node: Mapping[str, Any], columns: Mapping[str, str]) -> _Found | None:
    """Read `QUALIFY row_number() OVER (…) <= n`."""
    if not node["qualify"] or not shows_rows({**node, "qualify": None}):
        return None
    windows = [each for each in expressions_in(node) if each["class"] == "WINDOW"]
    if not windows or not all(same_expression(each, windows[0]) for each in windows):
        return None
    names = windows_by_name(node).keys()
    if not names.isdisjoint(columns):
        return None
    limits = [
        rows
        for term in terms_of(node["qualify"])
        for number, rows in ranks_within(term)
        if number["class"] == "WINDOW" or name_alone(number) in names
    ]
    window = windows[0]
    partitions = _columns_of(window["partitions"], (), columns)
    if not limits or partitions is None or not _numbers_rows(window):
        return None
    if not partitions and window["type"] == _SAME_NUMBERS:
        return None
    return partitions, window["orders"], max(min(limits), 0), ()


def _distinct(node: Mapping[str, Any], columns: Mapping[str, str]) -> _Found | None:
    """Read `SELECT DISTINCT ON (…) … ORDER BY …`."""
    kinds = [modifier["type"] for modifier in node["modifiers"]]
    if kinds[:2] != ["DISTINCT_MODIFIER", "ORDER_MODIFIER"] or not shows_rows(node):
        return None
    shown, keys = node["select_list"], node["modifiers"][1]["orders"]
    partitions = _columns_of(node["modifiers"][0]["distinct_on_targets"], shown, columns)
    if not partitions or "WINDOW" in classes_in(node):
        return None
    orders = orders_of(keys, shown, columns)
    same = list(takewhile(lambda each: each.column in partitions, orders))
    return partitions, keys[len(same) :], 1, shown


def _columns_of(
    expressions: Sequence[Mapping[str, Any]],
    shown: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
) -> tuple[str, ...] | None:
    """Return the columns that expressions are; None where one is none. See `orders_of`."""
    keys = [{"expression": each, "type": "ORDER_DEFAULT"} for each in expressions]
    found = orders_of(keys, shown, columns)
    return tuple(each.column for each in found) if len(found) == len(keys) else None


def _uses_plain_rows(node: Mapping[str, Any], columns: Collection[str]) -> bool:
    """Whether all expressions but windows are of the row alone, and none changes what it shows.

    A function may be a macro, with a window of its own: operators are none, nor are functions in
    WHERE, which windows cannot stand in.
    """
    rest = {key: part for key, part in node.items() if key not in ("where_clause", "from_table")}
    for each in expressions_in(rest):
        if each["class"] not in {*_PLAIN, "WINDOW"}:
            return False
        if function_of(each) is not None:
            return False
        if each["class"] == "STAR" and changes_columns(each):
            return False
        # The members of a struct, which may have the names of windows.
        if each["class"] == "STAR" and fold(each.get("relation_name") or "") in columns:
            return False
    return "SUBQUERY" not in classes_in(node.get("where_clause"))


def _numbers_rows(window: Mapping[str, Any]) -> bool:
    """Whether a window numbers the rows of a partition in the order that it names."""
    is_plain = not any(window.get(part) for part in _REST_OF_WINDOW)
    return is_plain and _NUMBERS.get(window["type"]) == window["function_name"].lower()
