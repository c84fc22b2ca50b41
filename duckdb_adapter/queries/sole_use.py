"""Whether a statement uses a table in one place only, as its text alone tells.

DuckDB 2.0 tells our extension how often a statement binds a name. Nothing tells a wrapped
connection, so the text must: it is one SELECT of the table, without subqueries, and calls functions
that DuckDB can be asked about. Any other function may be a macro, which may read the table again.
"""

from __future__ import annotations

from typing import NamedTuple

from duckdb_adapter.queries.function_names import AGGREGATES
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import expressions_in, function_of

# Functions that are called otherwise than with one number: see `builtins_test`.
_OTHERWISE = {
    *("count_star", "count_if", "countif", "bool_and", "bool_or"),
    *("quantile", "quantile_cont", "quantile_disc"),
}
_TESTABLE = AGGREGATES - _OTHERWISE
# What DuckDB's parser calls `count(*)`.
_STAR = "count_star"
# Expressions that may read a table.
_READING = {"SUBQUERY", "WINDOW"}


class CalledFunctions(NamedTuple):
    """The functions that a statement calls.

    Attributes:
        aggregates: Names that `builtins_test` takes.
        operators: Names of operators, which are functions, too.
    """

    aggregates: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()


def functions_of_sole_use(query: TableQuery) -> CalledFunctions | None:
    """Return the functions that have to be DuckDB's own if the statement uses the table once.

    Returns:
        None where the statement may use it again all the same.
    """
    node = None if query.is_nested else query.table_select
    if node is None:
        return None
    expressions = list(expressions_in(node))
    called = {function_of(each) for each in expressions} - {None}
    names = {"count" if name == _STAR else str(name) for name in called}
    may_read = any(each["class"] in _READING for each in expressions)
    if may_read or not names <= _TESTABLE:
        return None
    calls = (each for each in expressions if each["class"] == "FUNCTION")
    operators = (call["function_name"] for call in calls if call["is_operator"])
    return CalledFunctions(frozenset(names), frozenset(operators))
