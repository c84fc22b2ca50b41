"""Pushed-down Arrow conditions in the notation of `queries.row_tests`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from duckdb_adapter.queries.row_tests import any_of, test_of
from lancefs.scan.expressions import (
    AND,
    OR,
    ExpressionNode,
    as_comparison,
    as_membership,
    chain_terms,
    clear_tree,
    is_null_test,
)


def tests_in(terms: Sequence[pc.Expression]) -> list[str] | None:
    """Return the tests of columns that conditions are made of.

    Args:
        terms: Conditions that must all be true, as DuckDB asks for them.

    Returns:
        None where one is made of anything else.
    """
    found = list[str]()
    for term in terms:
        tree = clear_tree(term)
        tests = None if tree is None else _all_of(tree)
        if tests is None:
            return None
        found.extend(tests)
    return found


def _all_of(node: ExpressionNode) -> list[str] | None:
    tests = [_test(term) for term in chain_terms(node, AND)]
    known = [test for test in tests if test is not None]
    return known if len(known) == len(tests) else None


def _test(node: ExpressionNode) -> str | None:
    if node.kind != "call":
        return None
    if node.name not in OR:
        return _test_of_column(node)
    without_nan = _without_nan(node)
    if without_nan is not None:
        return _test_of_column(without_nan)
    parts = [_all_of(part) for part in _alternatives(node)]
    known = [part for part in parts if part is not None]
    return any_of(known) if len(known) == len(parts) else None


def _alternatives(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield the conditions of which one must be true."""
    if node.name not in OR or _without_nan(node) is not None:
        yield node
        return
    for argument in node.arguments:
        yield from _alternatives(argument)


def _without_nan(node: ExpressionNode) -> ExpressionNode | None:
    """Return the comparison in one that is also true of NaN, as of what DuckDB puts last."""
    comparison, other = node.arguments
    if other.name != "not_equal" or other.arguments[0] != other.arguments[1]:
        return None
    is_above = comparison.name in ("greater", "greater_equal")
    return comparison if is_above and comparison.arguments[0] == other.arguments[0] else None


def _test_of_column(node: ExpressionNode) -> str | None:
    """Return the test of a column that a call is; None for any other call."""
    membership = as_membership(node)
    if membership is not None:
        return test_of("is_in" if len(membership.values) > 1 else "equal", membership.column)
    comparison = as_comparison(node)
    if comparison is not None:
        return test_of(comparison.operator, comparison.column)
    arguments = {argument.kind: argument for argument in node.arguments}
    is_unequal = node.name == "not_equal" and arguments.keys() == {"field", "literal"}
    is_test = is_unequal or (is_null_test(node) and arguments.keys() == {"field"})
    return test_of(node.name, arguments["field"].name) if is_test else None
