"""Queries of the first rows in some order: `ORDER BY … LIMIT n`.

DuckDB reads all rows of all columns from the Arrow scan before it knows which come first. The proof
that fewer rows are enough: the text is one SELECT of the table by its path, of columns and
constants. Functions are allowed in WHERE only: whether a macro uses the table again is known when
its rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.row_tests import RowTests, tests_of
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import (
    changes_columns,
    classes_in,
    column_of,
    number_of,
    shows_rows,
)

# Directions of ORDER BY: whether they are descending. A setting decides where none is given.
_DESCENDING = {"ASCENDING": False, "DESCENDING": True, "ORDER_DEFAULT": None}
# Expressions that use nothing but the row.
_PLAIN = ("COLUMN_REF", "CONSTANT")
# More rows than these are not looked for before the others are left out.
MAX_FIRST_ROWS = 16 * 1024


class SortKey(NamedTuple):
    """A column by which rows are put in order.

    Attributes:
        column: Its name.
        descending: Whether the greatest value comes first; None where a setting decides.
    """

    column: str
    descending: bool | None


class TopN(NamedTuple):
    """The first rows of a table in some order, which are all that a query uses.

    Attributes:
        orders: The columns by which rows are ordered, the first ones of those that the query names.
        rows: How many there are, of each partition.
        tests: What WHERE tests. The first rows are those of the rows that pass, if DuckDB pushes
            all tests down that it can push down.
        calls: Whether there are functions in WHERE, which may be macros that use other rows, or
            other SELECTs around this one, or triggers that fire when its rows are inserted.
        partitions: The columns of PARTITION BY, if the first rows of each partition are used; empty
            for the first rows of all.
        are_all_orders: Whether the query puts rows in order by nothing else, so that of rows with
            the same values any may come first.
    """

    orders: tuple[SortKey, ...]
    rows: int
    tests: RowTests = RowTests()
    calls: bool = False
    partitions: tuple[str, ...] = ()
    are_all_orders: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell which rows are the first ones."""
        return (*self.partitions, *(order.column for order in self.orders))

    def with_default(self, find_default: Callable[[], bool]) -> TopN:
        """Return the same with the direction that a setting gives, which is asked for if needed."""
        if all(order.descending is not None for order in self.orders):
            return self
        default = find_default()
        orders = (
            order if order.descending is not None else order._replace(descending=default)
            for order in self.orders
        )
        return self._replace(orders=tuple(orders))

    @property
    def directions(self) -> list[tuple[bool, ...]]:
        """Which of the columns are descending, once for each setting that makes a difference."""
        given = [order.descending for order in self.orders]
        settings = (False, True) if None in given else (False,)
        return [tuple(each if each is not None else one for each in given) for one in settings]


@kept_by_query
def top_n_of(query: TableQuery) -> TopN | None:
    """Return the first rows that a query uses of a table; None where it may use all."""
    lower = query.text.lower()
    if "order" not in lower or "limit" not in lower:
        return None
    node, columns = query.table_select, query.columns
    rows = None if node is None else count_first_rows(node)
    if node is None or rows is None:
        return None
    keys = node["modifiers"][0]["orders"]
    if not all(each["expression"]["class"] in _PLAIN for each in keys):
        return None
    orders = orders_of(keys, node["select_list"], columns)
    tests = tests_of(node, columns, query.schema)
    if not orders or tests is None:
        return None
    calls = query.is_nested or calls_in_where(node)
    are_all = len(orders) == len(keys)
    return TopN(orders, rows, tests, calls, are_all_orders=are_all)


def count_first_rows(node: Mapping[str, Any]) -> int | None:
    """Return how many first rows in some order a SELECT uses, with those that OFFSET skips.

    None unless it is `SELECT … ORDER BY … LIMIT n` of rows one by one, and they are few.
    """
    kinds = [modifier["type"] for modifier in node["modifiers"]]
    if kinds != ["ORDER_MODIFIER", "LIMIT_MODIFIER"] or not shows_rows(node):
        return None
    limit = node["modifiers"][1]
    rows, offset = number_of(limit["limit"]), number_of(limit["offset"] or 0)
    is_count = limit.get("limit_type", "ROW_COUNT") == "ROW_COUNT"
    if rows is None or offset is None or not is_count or rows + offset > MAX_FIRST_ROWS:
        return None
    return rows + offset


def orders_of(
    keys: Iterable[Mapping[str, Any]],
    shown: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
) -> tuple[SortKey, ...]:
    """Return the columns by which rows are put in order first.

    Args:
        keys: What ORDER BY names.
        shown: What the SELECT shows, where ORDER BY may name that; empty where it may not.
        columns: The columns of the table by their names in lower case.

    Returns:
        Those before the first that is no column, or is shown as another one.
    """
    found = list[SortKey]()
    for key in keys:
        column = column_of(key["expression"], columns)
        if column is None or not all(_is_shown(each, column, columns) for each in shown):
            break
        found.append(SortKey(columns[column], _DESCENDING[key["type"]]))
    return tuple(found)


def calls_in_where(node: Mapping[str, Any]) -> bool:
    """Whether there are functions in WHERE."""
    where = node.get("where_clause")
    return where is not None and "FUNCTION" in classes_in(where)


def _is_shown(expression: Mapping[str, Any], column: str, columns: Mapping[str, str]) -> bool:
    """Whether an expression shows columns, no other one under the name of the one that orders."""
    if expression["class"] == "STAR":
        return not changes_columns(expression)
    if expression["class"] not in _PLAIN or fold(expression["alias"]) == column:
        return False
    # A member of a struct may have the name of the column.
    is_named_so = column in map(fold, expression.get("column_names", [])[-1:])
    return not is_named_so or column_of(expression, columns) == column
