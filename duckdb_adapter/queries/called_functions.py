"""What the functions that a statement calls prove of its use of a table.

A function that is not listed here may be a macro or a view of the user, which may read the table
again, or call what the text does not name. So each proof needs a text that is one SELECT of the
table and calls nothing but the functions that the proof lists.

- Sole use: DuckDB 2.0 tells our extension how often a statement binds a name. Nothing tells a
  wrapped connection, so the text must prove that the table is used once.
- Encoded lists: `list_has_any` and `list_has_all` of DuckDB 2.0.1, and the operators for them,
  compare the wrong strings of lists whose strings are dictionary-encoded.
"""

from __future__ import annotations

from typing import NamedTuple

from duckdb_adapter.queries.function_names import AGGREGATES, MAKING_ONE_VALUE, OF_VALUES
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import expressions_in, function_of, is_dotted

# Functions that are called otherwise than with one number: see `builtins_test`.
_WITH_OTHER_ARGUMENTS = {
    *("count_star", "count_if", "countif", "bool_and", "bool_or"),
    *("quantile", "quantile_cont", "quantile_disc"),
}
_TESTABLE = AGGREGATES - _WITH_OTHER_ARGUMENTS
# What DuckDB's parser calls `count(*)`.
_COUNT_STAR = "count_star"
# Expressions that may read a table.
_READING = {"SUBQUERY", "WINDOW"}
# Functions of lists that were compared with what they are of plain strings.
_OF_LISTS = {
    *("unnest", "array_length", "list_contains", "array_contains", "list_position"),
    *("array_position", "array_to_string", "list_aggregate", "list_distinct", "list_unique"),
    *("list_sort", "list_reverse", "list_extract", "array_extract", "list_slice", "array_slice"),
    *("list_max", "list_min", "list_first", "list_last", "struct_extract", "coalesce"),
}
_OPERATORS = {"+", "-", "*", "/", "//", "%", "||", "~~", "!~~", "~~*", "!~~*"}
_WITH_ENCODED_LISTS = _OF_LISTS | _OPERATORS | OF_VALUES | MAKING_ONE_VALUE


class CalledFunctions(NamedTuple):
    """The functions that a statement calls.

    Attributes:
        aggregates: Names that `builtins_test` takes.
        operators: Names of operators, which are functions, too.
    """

    aggregates: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()


@kept_by_query
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
    names = {"count" if name == _COUNT_STAR else str(name) for name in called}
    may_read = any(each["class"] in _READING for each in expressions)
    if may_read or not names <= _TESTABLE:
        return None
    calls = (each for each in expressions if each["class"] == "FUNCTION")
    operators = (call["function_name"] for call in calls if call["is_operator"])
    return CalledFunctions(frozenset(names), frozenset(operators))


@kept_by_query
def takes_encoded_lists(query: TableQuery) -> bool:
    """Whether a statement calls no function that could take encoded lists wrong.

    Args:
        query: The statement with the table.
    """
    root = query.statement_root
    if root is None or query.table_select is None:
        return False
    calls = [each for each in expressions_in(root) if each["class"] == "FUNCTION"]
    return all(
        call["function_name"].lower() in _WITH_ENCODED_LISTS and not is_dotted(call)
        for call in calls
    )
