"""Filters as trees of conditions on single columns, which need no evaluation by Arrow.

A tree says for which rows a filter is true. Where it is unknown, because a value is missing, the
row does not pass, as in SQL. So AND and OR combine rows that pass; NOT is moved down to the
conditions, each of which says whether its opposite is true for a missing value.
"""

from __future__ import annotations

import re
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from lancefs.scan.expressions import (
    AND,
    DEEPEST,
    Comparison,
    ExpressionNode,
    Membership,
    as_test,
    chain_terms,
    is_null_test,
    pattern_of,
)

T = TypeVar("T")

# Kleene's OR is true where any term is. The other OR of Arrow is unknown where any term is.
_OR = ("or_kleene",)
_TEXT_FUNCTIONS = {"starts_with", "ends_with", "match_substring", "match_like"}
_WILDCARD = re.compile(r"[%_\\]")


class TextMatch(NamedTuple):
    """A column whose strings begin or end with a text, hold it, or are like a pattern.

    Attributes:
        column: The name of the column.
        function: Arrow's function.
        pattern: The text or the pattern.
        ignore_case: Whether capital letters are like small ones.
        in_lower_case: Whether the strings are put into lower case before.
    """

    column: str
    function: str
    pattern: str
    ignore_case: bool
    in_lower_case: bool

    @property
    def start(self) -> str:
        """What all these texts begin with; empty where that is not known."""
        if self.ignore_case or self.in_lower_case:
            return ""
        if self.function == "match_like":
            return literal_start(self.pattern)
        return self.pattern if self.function == "starts_with" else ""

    @property
    def part(self) -> str | None:
        """The text that these texts hold, if nothing else is asked of them."""
        if self.ignore_case or self.in_lower_case:
            return None
        if self.function != "match_like":
            return self.pattern if self.function == "match_substring" else None
        text = self.pattern[1:-1]
        return text if self.pattern == f"%{text}%" and not _WILDCARD.search(text) else None


# What is true or false for each value, and unknown for a missing one; `is_valid` is false for it.
SingleCondition: TypeAlias = Comparison | Membership | TextMatch


class Negation(NamedTuple, Generic[T]):
    """The opposite of a condition on one column.

    Attributes:
        term: The condition.
        of_null: Whether the opposite is true for a missing value, for which else it is unknown.
    """

    term: T
    of_null: bool


class Combination(NamedTuple, Generic[T]):
    """Conditions joined by AND or by OR.

    Attributes:
        is_all: Whether all have to be true.
        terms: The conditions.
    """

    is_all: bool
    terms: tuple[T, ...]


ConditionTree: TypeAlias = (
    "SingleCondition | Negation[SingleCondition] | Combination[ConditionTree]"
)


def literal_start(pattern: str) -> str:
    """Return the characters of a LIKE pattern before its first wildcard."""
    return _WILDCARD.split(pattern, 1)[0]


def text_match(node: ExpressionNode) -> TextMatch | None:
    """Return a call as a condition on what texts hold; None for any other call."""
    if node.function not in _TEXT_FUNCTIONS or node.value is None:
        return None
    (text,) = node.arguments
    in_lower_case = text.function == "utf8_lower"
    if in_lower_case:
        (text,) = text.arguments
    pattern, ignore_case = pattern_of(node), node.value["ignore_case"].as_py()
    if text.kind != "field" or pattern is None:
        return None
    return TextMatch(text.name, node.name, pattern, ignore_case, in_lower_case)


def conditions_of(root: ExpressionNode | None) -> list[ConditionTree] | None:
    """Split a filter into conditions that are all true exactly for the rows that pass.

    Args:
        root: The filter; None if it cannot be analysed.

    Returns:
        None if the filter has any other term.
    """
    if root is None:
        return None
    return _all_known([_tree(term, False, 0) for term in chain_terms(root, AND)])


def _tree(node: ExpressionNode, is_negated: bool, depth: int) -> ConditionTree | None:
    """Return a part of a filter, or the opposite of it, as a tree."""
    if node.kind != "call" or depth > DEEPEST:
        return None
    if node.name == "invert":
        return _tree(node.arguments[0], not is_negated, depth + 1)
    # The opposite of an AND is true where any term is false: of Kleene's AND only.
    for functions, is_all in ((AND[:1] if is_negated else AND, True), (_OR, False)):
        if node.name in functions:
            terms = chain_terms(node, functions)
            known = _all_known([_tree(term, is_negated, depth + 1) for term in terms])
            return None if known is None else Combination(is_all != is_negated, tuple(known))
    return _leaf(node, is_negated)


def _all_known(terms: list[ConditionTree | None]) -> list[ConditionTree] | None:
    known = [term for term in terms if term is not None]
    return known if len(known) == len(terms) else None


def _leaf(node: ExpressionNode, is_negated: bool) -> ConditionTree | None:
    if node.name == "not_equal":
        return _unlike(node, is_negated)
    if is_null_test(node) and node.arguments[0].kind == "field":
        there = Comparison(node.arguments[0].name, "is_valid")
        return there if is_negated else Negation(there, of_null=True)
    test: SingleCondition | None = as_test(node) or text_match(node)
    if node.name == "is_nan" and node.arguments[0].kind == "field":
        test = Comparison(node.arguments[0].name, "is_nan")
    if test is None or not is_negated:
        return test
    # Arrow's `is_in` and `is_valid` are false for a missing value, not unknown.
    return Negation(test, of_null=node.name in ("is_in", "is_valid"))


def _unlike(node: ExpressionNode, is_negated: bool) -> ConditionTree | None:
    left, right = node.arguments
    if left == right and left.kind == "field":  # DuckDB asks so whether a number is NaN
        test: SingleCondition | None = Comparison(left.name, "is_nan")
        is_negated = not is_negated
    else:
        test = as_test(ExpressionNode("call", "equal", node.arguments))
    return test if is_negated or test is None else Negation(test, of_null=False)
