"""String patterns in WHERE: `c LIKE 'a%b'`, `ILIKE` and `^@`, as conditions for Arrow.

DuckDB pushes down no conditions on parts of strings. Functions such as `contains` are not analyzed:
a macro of the user may have the same name and another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from duckdb_adapter.queries.trees import NamedColumns, arguments_of, constant_text

# One text of any length, or one letter.
_WILDCARDS = re.compile("[%_]+")
# What a statement has one of that may be found here.
HAS_PATTERNS = re.compile(r"like|~~|\^@", re.IGNORECASE)


class PartOfText(NamedTuple):
    """What a text must hold at one place.

    Attributes:
        column: The column of the text.
        function: The function of Arrow that tells.
        text: What it must hold.
    """

    column: str
    function: str
    text: str

    @property
    def condition(self) -> pc.Expression:
        """The condition for Arrow."""
        test: pc.Expression = getattr(pc, self.function)(pc.field(self.column), self.text)
        return test


def only_part(term: Mapping[str, Any], columns: NamedColumns) -> PartOfText | None:
    """Return what a text must hold for a condition, where that is all that the condition says.

    Args:
        term: The condition.
        columns: The columns of the table, as the query names them.

    Returns:
        None for conditions that say anything else.
    """
    operands = _operands(term, columns)
    if operands is None:
        return None
    column, wanted = operands
    if term["function_name"] == "^@":
        return PartOfText(column, "starts_with", wanted) if wanted else None
    wildcards, parts = _WILDCARDS.findall(wanted), list(filter(None, _WILDCARDS.split(wanted)))
    if term["function_name"] != "~~" or len(parts) != 1 or "_" in "".join(wildcards):
        return None
    (part,) = parts
    ends = wanted.startswith("%"), wanted.endswith("%")
    functions = {
        (False, True): "starts_with",
        (True, False): "ends_with",
        (True, True): "match_substring",
    }
    # A pattern without wildcards is a comparison for DuckDB, and is pushed down.
    return PartOfText(column, functions[ends], part) if any(ends) else None


def pattern_conditions(term: Mapping[str, Any], columns: NamedColumns) -> Iterator[pc.Expression]:
    """Yield what a text must hold for a condition on it; nothing for other conditions."""
    operands = _operands(term, columns)
    if operands is None:
        return
    field, wanted = pc.field(operands[0]), operands[1]
    match term["function_name"]:
        case "~~":
            yield from _parts(field, wanted)
        case "~~*" if wanted.isascii():  # whose small letters are the same everywhere
            yield from _parts(pc.utf8_lower(field), wanted.lower())
        case "^@" if wanted:
            yield pc.starts_with(field, wanted)


def _operands(term: Mapping[str, Any], columns: NamedColumns) -> tuple[str, str] | None:
    """Return the column and the text that an operator stands between; None for anything else."""
    if term["class"] != "FUNCTION" or not term["is_operator"]:
        return None
    arguments = arguments_of(term)
    if len(arguments) != 2:
        return None
    column, wanted = columns.find(arguments[0]), constant_text(arguments[1], "STRING")
    return None if column is None or wanted is None else (column, wanted)


def _parts(text: pc.Expression, pattern: str) -> Iterator[pc.Expression]:
    """Yield what a text must hold to be like a pattern."""
    first, *others = _WILDCARDS.split(pattern)
    if not others:
        return  # DuckDB makes a comparison of it
    *parts, last = others
    if first:
        yield pc.starts_with(text, first)
    if last:
        yield pc.ends_with(text, last)
    for part in filter(None, parts):
        yield pc.match_substring(text, part)
