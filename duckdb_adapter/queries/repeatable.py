"""Expressions that have the same value whenever they are computed in a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duckdb_adapter.queries.function_names import REPEATABLE
from duckdb_adapter.queries.long_lists import is_long_list
from duckdb_adapter.queries.trees import is_dotted

# Expressions that use nothing but the row. A subquery may read tables, and a parameter has no value
# in the text.
_OF_ROWS = {
    *("COLUMN_REF", "CONSTANT", "CAST", "TYPE", "CASE", "COMPARISON", "BETWEEN", "CONJUNCTION"),
    *("OPERATOR", "FUNCTION"),
}


def is_of_row(expression: Mapping[str, Any]) -> bool:
    """Whether an expression uses nothing but the row, the same whenever it is computed.

    Args:
        expression: Its node; not what it is made of.
    """
    if expression["class"] != "FUNCTION":
        return expression["class"] in _OF_ROWS
    return expression["function_name"].lower() in REPEATABLE and not is_dotted(expression)


def is_repeatable(expression: Mapping[str, Any]) -> bool:
    """Whether an expression uses nothing but the row and parameters; not what it is made of."""
    if expression["class"] == "PARAMETER":  # which DuckDB knows in a query of ours, too
        return not is_long_list(expression["identifier"])
    return is_of_row(expression)


def is_constant(expression: Mapping[str, Any]) -> bool:
    """Whether an expression uses no column besides; not what it is made of."""
    return expression["class"] != "COLUMN_REF" and is_repeatable(expression)
