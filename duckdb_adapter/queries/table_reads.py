"""The one SELECT that reads a table in a text with joins, subqueries or UNION.

Its WHERE holds for all rows of the table that the text uses, wherever they go. DuckDB binds every
table in a FROM clause, except in common table expressions that no query uses; these are ignored.
Expressions are not searched either, because a macro may drop its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.trees import query_of

# Joins that keep each row of a table which WHERE could accept, beside the same rows of the other
# table: not ASOF, POSITIONAL, SEMI and ANTI.
_JOINS = {"INNER", "LEFT", "RIGHT", "FULL"}
_KINDS = {"REGULAR", "CROSS", "NATURAL"}

SyntaxNode: TypeAlias = Mapping[str, Any]


class TableRead(NamedTuple):
    """A SELECT that reads a table, perhaps beside others.

    Attributes:
        select: Its node.
        source: The table in what it selects from.
    """

    select: SyntaxNode
    source: SyntaxNode


class _NamedQuery(NamedTuple):
    """A common table expression.

    Attributes:
        query: Its node.
        known: Those that it may select from, by their names in lower case.
    """

    query: SyntaxNode
    known: Mapping[str, _NamedQuery]


def only_read(root: SyntaxNode, names: Callable[[SyntaxNode], bool]) -> TableRead | None:
    """Return the SELECT of a text that reads a table; None where that is not clear.

    Args:
        root: The root node of the text.
        names: Whether what a SELECT selects from is the table.
    """
    if sum(1 for _ in _tables_in(root, names)) != 1:
        return None
    return next(_reads(root, names, {}), None)


def _tables_in(node: Any, names: Callable[[SyntaxNode], bool]) -> Iterator[SyntaxNode]:
    """Yield all places in a node in which a table stands, also in expressions."""
    if isinstance(node, list):
        for each in node:
            yield from _tables_in(each, names)
    elif isinstance(node, dict):
        if node.get("type") in ("BASE_TABLE", "TABLE_FUNCTION") and names(node):
            yield node
        for each in node.values():
            yield from _tables_in(each, names)


def _reads(
    query: SyntaxNode, names: Callable[[SyntaxNode], bool], known: Mapping[str, _NamedQuery]
) -> Iterator[TableRead]:
    """Yield the SELECTs that read a table in a query.

    Args:
        query: Its node.
        names: As for `only_read`.
        known: The common table expressions around it, by their names in lower case.
    """
    for each in query.get("cte_map", {}).get("map", ()):
        known = {**known, fold(each["key"]): _NamedQuery(query_of(each["value"]), known)}
    if query["type"] == "SET_OPERATION_NODE":
        for child in query["children"]:
            yield from _reads(child, names, known)
    elif query["type"] == "SELECT_NODE":
        for source in _sources(query["from_table"]):
            if (named := known.get(_plain_name(source))) is not None:
                yield from _reads(named.query, names, named.known)
            elif names(source):
                yield TableRead(query, source)
            elif source["type"] == "SUBQUERY":
                yield from _reads(source["subquery"]["node"], names, known)


def _sources(source: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield what a SELECT selects from, beside each other in joins."""
    if source["type"] != "JOIN":
        yield source
    elif source["join_type"] in _JOINS and source["ref_type"] in _KINDS and not source["sample"]:
        yield from _sources(source["left"])
        yield from _sources(source["right"])


def _plain_name(source: SyntaxNode) -> str:
    """Return the name of a table without schema, in lower case; empty for anything else."""
    if source["type"] != "BASE_TABLE" or source.get("schema_name") or source.get("catalog_name"):
        return ""
    name: str = source["table_name"]
    return fold(name)
