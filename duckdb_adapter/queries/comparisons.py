"""Comparisons in the syntax tree of a query, by the names that Arrow's functions have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.queries.trees import column_of

# By the names of Arrow's functions, also for the sides the other way round.
_COMPARISONS = {
    "COMPARE_EQUAL": ("equal", "equal"),
    "COMPARE_NOTEQUAL": ("not_equal", "not_equal"),
    "COMPARE_LESSTHAN": ("less", "greater"),
    "COMPARE_GREATERTHAN": ("greater", "less"),
    "COMPARE_LESSTHANOREQUALTO": ("less_equal", "greater_equal"),
    "COMPARE_GREATERTHANOREQUALTO": ("greater_equal", "less_equal"),
}


class ComparedColumn(NamedTuple):
    """A column and what it is compared with.

    Attributes:
        column: The expression that may be the column.
        operators: The functions of Arrow that must all be true.
        others: What each of them compares the column with.
    """

    column: Mapping[str, Any]
    operators: Sequence[str]
    others: Sequence[Mapping[str, Any]]


def comparison_in(term: Mapping[str, Any], columns: Mapping[str, str]) -> ComparedColumn | None:
    """Return the comparison that a condition is; None for any other condition.

    Args:
        term: The condition; `BETWEEN` is two comparisons.
        columns: The columns of the table by their names in lower case.
    """
    kind = term["type"]
    if kind == "COMPARE_BETWEEN":
        ends = [term["lower"], term["upper"]]
        return ComparedColumn(term["input"], ["greater_equal", "less_equal"], ends)
    if kind not in _COMPARISONS:
        return None
    operator, mirrored = _COMPARISONS[kind]
    if column_of(term["left"], columns) is None:
        return ComparedColumn(term["right"], [mirrored], [term["left"]])
    return ComparedColumn(term["left"], [operator], [term["right"]])
