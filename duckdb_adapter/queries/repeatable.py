"""Expressions that have the same value whenever they are computed in a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duckdb_adapter.queries.computed_filters import is_of_row
from duckdb_adapter.queries.long_lists import is_long_list


def is_repeatable(expression: Mapping[str, Any]) -> bool:
    """Whether an expression uses nothing but the row and parameters; not what it is made of."""
    if expression["class"] == "PARAMETER":  # which DuckDB knows in a query of ours, too
        return not is_long_list(expression["identifier"])
    return is_of_row(expression)


def is_constant(expression: Mapping[str, Any]) -> bool:
    """Whether an expression uses no column besides; not what it is made of."""
    return expression["class"] != "COLUMN_REF" and is_repeatable(expression)
