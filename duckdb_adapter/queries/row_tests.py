"""The conditions in WHERE on single columns, to check whether DuckDB pushed all of them down.

DuckDB pushes down no conditions on parts of strings and on timestamps in nanoseconds: these become
Arrow expressions here. Every other condition becomes a text of its operators and columns. Constants
are left out, because DuckDB converts them; so the text is the same for the condition in the query
and for the one that DuckDB pushes down (`sources.row_tests`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.likes import PartOfText, only_part
from duckdb_adapter.queries.times import TimeTest, time_test
from duckdb_adapter.queries.trees import (
    ComparedColumn,
    NamedColumns,
    classes_in,
    column_of,
    comparison_in,
    terms_of,
)

_OR = "CONJUNCTION_OR"
_NULL_TESTS = {"OPERATOR_IS_NULL": "is_null", "OPERATOR_IS_NOT_NULL": "is_valid"}
# Expressions that are the same for all rows, if those that they are made of are. A function may be
# a macro, which is looked at elsewhere.
_SAME = {"CONSTANT", "PARAMETER", "CAST", "TYPE", "FUNCTION"}


class RowTests(NamedTuple):
    """Tests that must all be true of a row.

    Attributes:
        pushed: Those that DuckDB pushes down to the scan, or not.
        parts: What strings must contain, which is never pushed down.
        times: What times of nanoseconds must be, which some versions of DuckDB do not push down.
    """

    pushed: tuple[str, ...] = ()
    parts: tuple[PartOfText, ...] = ()
    times: tuple[TimeTest, ...] = ()

    @property
    def unpushed(self) -> list[pc.Expression]:
        """The conditions that are tested besides those that DuckDB pushes down."""
        parts = [part.condition for part in self.parts]
        return parts + [time.condition for time in self.times]

    def are_pushed(self, tests: Sequence[str]) -> bool:
        """Whether the tests that are pushed down equal WHERE, with or without those of times."""
        of_times = [
            test_of(operator, time.column) for time in self.times for operator, _ in time.operators
        ]
        return any(
            Counter(tests) == Counter(each) for each in (self.pushed, [*self.pushed, *of_times])
        )


def tests_of(
    node: Mapping[str, Any], columns: Mapping[str, str], schema: pa.Schema
) -> RowTests | None:
    """Return the tests of columns that WHERE is made of.

    Args:
        node: A SELECT.
        columns: The columns of its table by their names in lower case.
        schema: Their types.

    Returns:
        None where there are conditions of another kind.
    """
    where = node.get("where_clause")
    if where is None:
        return RowTests()
    pushed, parts, times = list[str](), list[PartOfText](), list[TimeTest]()
    named = NamedColumns(columns, None)
    for term in terms_of(where):
        part, time = only_part(term, named), time_test(term, named, schema)
        tests = tests_of_term(term, columns)
        if part is not None:
            parts.append(part)
        elif time is not None and time.is_exact:
            times.append(time)
        elif tests is not None:
            pushed.extend(tests)
        else:
            return None
    return RowTests(tuple(pushed), tuple(parts), tuple(times))


def test_of(operator: str, column: str) -> str:
    """Return the test of a column as a text."""
    return f"{operator} {column}"


def any_of(parts: Sequence[Sequence[str]]) -> str:
    """Return as a text that the tests of one part, at least, must all be true."""
    return f"({' or '.join(sorted(' and '.join(sorted(part)) for part in parts))})"


def _all_of(condition: Mapping[str, Any], columns: Mapping[str, str]) -> list[str] | None:
    found = list[str]()
    for term in terms_of(condition):
        tests = tests_of_term(term, columns)
        if tests is None:
            return None
        found.extend(tests)
    return found


def tests_of_term(term: Mapping[str, Any], columns: Mapping[str, str]) -> list[str] | None:
    """Return the tests that a condition is made of; None where DuckDB pushes down no such one.

    Args:
        term: The condition.
        columns: The columns of the table by their names in lower case.
    """
    if term["type"] == _OR:
        parts = [_all_of(part, columns) for part in terms_of(term, _OR)]
        known = [part for part in parts if part is not None]
        return [any_of(known)] if len(known) == len(parts) else None
    compared = _compared(term, columns)
    column = None if compared is None else column_of(compared.column, columns)
    if compared is None or column is None:
        return None
    is_same = all(classes_in(other) <= _SAME for other in compared.others)
    return [test_of(each, columns[column]) for each in compared.operators] if is_same else None


def _compared(term: Mapping[str, Any], columns: Mapping[str, str]) -> ComparedColumn | None:
    kind = term["type"]
    if kind == "COMPARE_IN":
        compared, *others = term["children"]
        return ComparedColumn(compared, ["is_in" if len(others) > 1 else "equal"], others)
    if kind in _NULL_TESTS:
        return ComparedColumn(term["children"][0], [_NULL_TESTS[kind]], [])
    return comparison_in(term, columns)
