"""What WHERE tests of single rows, so that it can be told whether a scan is asked for all of it.

DuckDB asks the scan for no tests of parts of texts: those are found here. Any other test is written
as a text that is the same for the condition in a query and for the one that DuckDB asks the scan
for (`sources.row_tests`): operators and columns, without the constants, which DuckDB has converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb_adapter.queries.likes import PartOfText, only_part
from duckdb_adapter.queries.trees import classes_in, column_of, terms_of

# Comparisons by the names of Arrow's functions, also for the sides the other way round.
_COMPARISONS = {
    "COMPARE_EQUAL": ("equal", "equal"),
    "COMPARE_NOTEQUAL": ("not_equal", "not_equal"),
    "COMPARE_LESSTHAN": ("less", "greater"),
    "COMPARE_GREATERTHAN": ("greater", "less"),
    "COMPARE_LESSTHANOREQUALTO": ("less_equal", "greater_equal"),
    "COMPARE_GREATERTHANOREQUALTO": ("greater_equal", "less_equal"),
}
_OR = "CONJUNCTION_OR"
_NULL_TESTS = {"OPERATOR_IS_NULL": "is_null", "OPERATOR_IS_NOT_NULL": "is_valid"}
# Expressions that are the same for all rows, if those that they are made of are. A function may be
# a macro, which is looked at elsewhere.
_SAME = {"CONSTANT", "PARAMETER", "CAST", "TYPE", "FUNCTION"}

# A column, the names of the tests of it, and what it is compared with.
_Tested = tuple[Mapping[str, Any], Sequence[str], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class RowTests:
    """Tests that must all be true of a row.

    Attributes:
        asked: Those that DuckDB asks the scan for, or not.
        parts: What texts must hold.
    """

    asked: tuple[str, ...] = ()
    parts: tuple[PartOfText, ...] = ()


def tests_of(node: Mapping[str, Any], columns: Mapping[str, str]) -> RowTests | None:
    """Return the tests of columns that WHERE is made of.

    Args:
        node: A SELECT.
        columns: The columns of its table by their names in small letters.

    Returns:
        None where there are conditions of another kind.
    """
    where = node.get("where_clause")
    if where is None:
        return RowTests()
    asked, parts = list[str](), list[PartOfText]()
    for term in terms_of(where):
        part, tests = only_part(term, columns), _tests(term, columns)
        if part is None and tests is None:
            return None
        parts.extend([] if part is None else [part])
        asked.extend(tests or [])
    return RowTests(tuple(asked), tuple(parts))


def test_of(operator: str, column: str) -> str:
    """Return the test of a column as a text."""
    return f"{operator} {column}"


def any_of(parts: Sequence[Sequence[str]]) -> str:
    """Return as a text that the tests of one part, at least, must all be true."""
    return f"({' or '.join(sorted(' and '.join(sorted(part)) for part in parts))})"


def _all_of(condition: Mapping[str, Any], columns: Mapping[str, str]) -> list[str] | None:
    found = list[str]()
    for term in terms_of(condition):
        tests = _tests(term, columns)
        if tests is None:
            return None
        found.extend(tests)
    return found


def _tests(term: Mapping[str, Any], columns: Mapping[str, str]) -> list[str] | None:
    if term["type"] == _OR:
        parts = [_all_of(part, columns) for part in terms_of(term, _OR)]
        known = [part for part in parts if part is not None]
        return [any_of(known)] if len(known) == len(parts) else None
    tested = _tested(term, columns)
    if tested is None:
        return None
    compared, operators, others = tested
    column = column_of(compared, columns)
    if column is None or not all(classes_in(other) <= _SAME for other in others):
        return None
    return [test_of(operator, columns[column]) for operator in operators]


def _tested(term: Mapping[str, Any], columns: Mapping[str, str]) -> _Tested | None:
    kind = term["type"]
    if kind in _COMPARISONS:
        left, right = term["left"], term["right"]
        operator, mirrored = _COMPARISONS[kind]
        if column_of(left, columns) is None:
            return right, [mirrored], [left]
        return left, [operator], [right]
    if kind == "COMPARE_BETWEEN":
        return term["input"], ["greater_equal", "less_equal"], [term["lower"], term["upper"]]
    if kind == "COMPARE_IN":
        compared, *others = term["children"]
        return compared, ["is_in" if len(others) > 1 else "equal"], others
    if kind in _NULL_TESTS:
        return term["children"][0], [_NULL_TESTS[kind]], []
    return None
