"""The joins of a statement: their keys, and whether comparisons filter the joined table.

DuckDB joins by an array in place of a hash table if it knows that both keys are integers within a
small range (its `perfect_hash_join_executor.cpp`), from the statistics that sources give. The Arrow
scan gives none, and DuckDB does not find the range of dense keys itself.

DuckDB estimates that a scan with any comparison with a constant returns a fifth of its rows, but
not for the Arrow scan, which it asks for its number of rows first. By these estimates it chooses
the sides of joins. `tests_constants` says whether to estimate so: a wrong answer costs time only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import (
    NamedColumns,
    classes_in,
    comparison_in,
    expressions_in,
    terms_of,
)

# A statement without any of these is not parsed.
_JOINS = re.compile(
    r"\bjoin\b|\bfrom\b(?:(?!\b(?:where|group|having|order|limit)\b).)*,", re.IGNORECASE | re.DOTALL
)
# Classes of expressions that compare values.
_COMPARING = ("COMPARISON", "BETWEEN", "OPERATOR")
# A statement without any of these reads one table alone, and compares nothing with a list.
_SEVERAL = re.compile(
    r"\bjoin\b|\bfrom\b.*\bfrom\b|\bfrom\b[^()]*,|\b(?:any|unnest)\s*\(", re.IGNORECASE | re.DOTALL
)
# `tests_constants` looks at no statement without this.
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_OR = "CONJUNCTION_OR"
# The sides of joins of which each row that comes out has one.
_SIDES_OF_ALL = {"INNER": ("left", "right"), "LEFT": ("left",), "RIGHT": ("right",)}
_CONSTANTS = {"CONSTANT", "PARAMETER", "CAST", "TYPE", "FUNCTION"}


@kept_by_query
def join_keys(query: TableQuery) -> frozenset[str]:
    """Return the columns of a table that a statement compares with one of another table.

    Not those that it compares with anything else, nor those that are equal to such columns: what
    follows for the table is a filter, which the scan has to see.
    """
    read = query.table_read if _JOINS.search(query.text) is not None and query.columns else None
    if read is None or read.source is read.select["from_table"]:
        return frozenset()
    columns = NamedColumns(query.columns, query.table_names(read.source))
    keys = set[str]()
    for term in join_conditions(read.select):
        found = [columns.find(side) for side in equal_columns(term)]
        ours = [column for column in found if column is not None]
        keys.update(ours if len(ours) == 1 else ())
    for name in _using(read.select["from_table"]):
        if name in query.columns:
            keys.add(query.columns[name])
    asked = _filtered_columns(query.statement_root)
    return frozenset(key for key in keys if fold(key) not in asked)


def join_conditions(select: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions that are true for all rows that a SELECT joins.

    Args:
        select: Its node.
    """
    if select.get("where_clause"):
        yield from terms_of(select["where_clause"])
    for join in inner_joins(select["from_table"]):
        if join.get("condition"):
            yield from terms_of(join["condition"])


def _using(source: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns that joins say are equal in both tables, in lower case."""
    for join in inner_joins(source):
        yield from (fold(name) for name in join.get("using_columns") or ())


def inner_joins(source: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the joins whose conditions are true for all rows that a SELECT joins.

    Args:
        source: Its FROM clause.
    """
    if source["type"] != "JOIN":
        return
    if source["join_type"] == "INNER":
        yield source
    for side in _SIDES_OF_ALL.get(source["join_type"], ()):
        yield from inner_joins(source[side])


def equal_columns(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the two columns that a condition says are equal; none for other conditions.

    Args:
        term: The condition.
    """
    if term["type"] != "COMPARE_EQUAL":
        return []
    sides = [term["left"], term["right"]]
    return sides if all(side["class"] == "COLUMN_REF" for side in sides) else []


def _names_in(node: Any) -> set[str]:
    """Return the last names of columns in expressions, in lower case."""
    columns = (each for each in expressions_in(node) if each["class"] == "COLUMN_REF")
    return {fold(column["column_names"][-1]) for column in columns}


def _filtered_columns(root: Any) -> set[str]:
    """Return the columns that conditions anywhere compare with anything but a column.

    Also those that are equal to these by any number of steps.
    """
    asked, pairs = set[str](), list[set[str]]()
    for each in expressions_in(root):
        if equal_columns(each):
            pairs.append(_names_in(each))
        elif each["class"] in _COMPARING:
            asked |= _names_in(each)
    while more := [pair for pair in pairs if pair & asked and not pair <= asked]:
        asked = asked.union(*more)
    return asked


@kept_by_query
def may_join(query: TableQuery) -> bool:
    """Whether it is worthwhile to look at how a statement joins tables.

    Args:
        query: The statement with a table.
    """
    return _SEVERAL.search(query.text) is not None


@kept_by_query
def tests_constants(query: TableQuery) -> bool:
    """Whether a statement joins rows of the table for which a comparison with constants is true.

    Args:
        query: The statement with the table.
    """
    if not query.columns or not _WHERE.search(query.text) or not may_join(query):
        return False
    read = query.table_read
    where = None if read is None else read.select.get("where_clause")
    if read is None or where is None:
        return False
    columns = NamedColumns(query.columns, query.table_names(read.source))
    return any(_is_constant_test(term, columns) for term in terms_of(where))


def _is_constant_test(term: Mapping[str, Any], columns: NamedColumns) -> bool:
    if term["type"] == _OR:
        return all(
            any(_is_constant_test(each, columns) for each in terms_of(part))
            for part in terms_of(term, _OR)
        )
    if term["type"] == "COMPARE_IN":
        column, *others = term["children"]
    elif (compared := comparison_in(term, columns.by_name)) is not None:
        column, others = compared.column, list(compared.others)
    else:
        return False
    return columns.find(column) is not None and all(
        classes_in(other) <= _CONSTANTS for other in others
    )
