"""The one SELECT that reads a table in a text with joins, subqueries or UNION.

Its WHERE holds for all rows of the table that the text uses, wherever they go. DuckDB binds every
table in a FROM clause, except in common table expressions that no query uses; these are ignored.
Expressions are not searched either, because a macro may drop its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.parsing import parse
from duckdb_adapter.queries.trees import nodes_in, query_of

# Joins that keep each row of a table which WHERE could accept, beside the same rows of the other
# table: not ASOF and POSITIONAL. Of SEMI and ANTI, the left side has rows in the result.
_JOINS = {"INNER", "LEFT", "RIGHT", "FULL"}
_FILTERING = {"SEMI", "ANTI"}
_TABLES = ("BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY")
_SUBQUERY = "SELECT 1 FROM (SELECT 1)"
_KINDS = {"REGULAR", "CROSS", "NATURAL"}

SyntaxNode: TypeAlias = Mapping[str, Any]


class TableRead(NamedTuple):
    """A SELECT that reads a table, perhaps beside others.

    Attributes:
        select: Its node.
        source: The table in what it selects from.
        known: The common table expressions that it may select from, by their names in lower case.
    """

    select: SyntaxNode
    source: SyntaxNode
    known: Mapping[str, NamedQuery] = MappingProxyType({})


class NamedQuery(NamedTuple):
    """A common table expression.

    Attributes:
        query: Its node.
        known: Those that it may select from, by their names in lower case.
        aliases: Other names that it gives to its columns, `WITH t(a, b) AS (…)`.
    """

    query: SyntaxNode
    known: Mapping[str, NamedQuery]
    aliases: Sequence[str]

    @property
    def renames(self) -> bool:
        """Whether it gives the columns other names."""
        return bool(self.aliases)


def only_read(root: SyntaxNode, names: Callable[[SyntaxNode], bool]) -> TableRead | None:
    """Return the SELECT of a text that reads a table; None where that is not clear.

    Args:
        root: The root node of the text.
        names: Whether what a SELECT selects from is the table.
    """
    if count_places(root, names) != 1:
        return None
    return next((read for read in reads_in(root) if names(read.source)), None)


def count_places(root: SyntaxNode, names: Callable[[SyntaxNode], bool]) -> int:
    """Return in how many places of a text a table stands, also in expressions.

    Args:
        root: The root node of the text.
        names: Whether what a SELECT selects from is the table.
    """
    tables = (each for each in nodes_in(root) if each.get("type") in _TABLES)
    return sum(map(names, tables))


def reads_in(root: SyntaxNode) -> Iterator[TableRead]:
    """Yield the SELECTs that read tables, views and functions: all that DuckDB surely binds.

    A SELECT comes once for each of its tables.

    Args:
        root: The root node of the text.
    """
    yield from _reads(root, {}, set())


def _reads(
    query: SyntaxNode, known: Mapping[str, NamedQuery], searched: set[int]
) -> Iterator[TableRead]:
    """Yield the SELECTs that read tables in a query.

    Args:
        query: Its node.
        known: The common table expressions around it, by their names in lower case.
        searched: Those that were searched before, by the identity of their nodes: each of twenty
            may select from the one before twice, which would be a million ways to the first one.
    """
    known = with_named(known, query)
    if query["type"] == "SET_OPERATION_NODE":
        for child in query["children"]:
            yield from _reads(child, known, searched)
    elif query["type"] == "SELECT_NODE":
        for source in sources_of(query["from_table"]):
            if (named := known.get(plain_name(source))) is not None:
                if id(named.query) not in searched:
                    searched.add(id(named.query))
                    yield from _reads(named.query, named.known, searched)
            elif source["type"] == "SUBQUERY":
                yield from _reads(source["subquery"]["node"], known, searched)
            else:
                yield TableRead(query, source, known)


def with_named(known: Mapping[str, NamedQuery], query: SyntaxNode) -> Mapping[str, NamedQuery]:
    """Return the common table expressions that a query may select from, by their names.

    Args:
        known: Those around it.
        query: Its node.
    """
    for each in query.get("cte_map", {}).get("map", ()):
        value = each["value"]
        named = NamedQuery(query_of(value), known, value["aliases"])
        known = {**known, fold(each["key"]): named}
    return known


def sources_of(source: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield what a SELECT selects from, beside each other in joins that keep what WHERE accepts.

    Args:
        source: The FROM clause of the SELECT.
    """
    if source["type"] != "JOIN":
        yield source
        return
    kind, is_plain = source["join_type"], source["ref_type"] in _KINDS and not source["sample"]
    if is_plain and kind in _JOINS | _FILTERING:
        yield from sources_of(source["left"])
    if is_plain and kind in _JOINS:
        yield from sources_of(source["right"])


def as_subquery(source: SyntaxNode, read: TableRead, root: SyntaxNode | None) -> SyntaxNode | None:
    """Return a subquery beside a table, or one in the place of a common table expression.

    None for anything else, and for a common table expression that is used more than once.

    Args:
        source: A part of a FROM clause.
        read: The SELECT with it.
        root: The root node of the text.
    """
    if source["type"] == "SUBQUERY":
        return source
    name = plain_name(source)
    named = read.known.get(name)
    if named is None or root is None:
        return None
    if count_places(root, lambda node: plain_name(node) == name) != 1:
        return None
    names = source["column_name_alias"] or named.aliases
    return subquery_of(named.query, source["alias"] or name, names)


def subquery_of(query: SyntaxNode, alias: str, names: Sequence[str]) -> SyntaxNode | None:
    """Return a query as a part of a FROM clause; None where the parser makes no such part.

    Args:
        query: Its node.
        alias: What its columns are qualified with.
        names: Names of the columns, the first ones; none for their own.
    """
    template = parse(_SUBQUERY)
    if template is None:
        return None
    inner = template["from_table"]
    subquery = {**inner["subquery"], "node": query}
    return {**inner, "alias": alias, "column_name_alias": list(names), "subquery": subquery}


def shown_columns(subquery: SyntaxNode) -> Mapping[str, int]:
    """Return the places of what a subquery shows, by the names in lower case that only one has.

    Args:
        subquery: A part of a FROM clause.
    """
    given = subquery.get("column_name_alias") or []
    shown = subquery["subquery"]["node"].get("select_list", ())
    own = [each["alias"] or each.get("column_names", ("",))[-1] for each in shown]
    names = list(map(fold, [*given, *own[len(given) :]]))
    return {name: n for n, name in enumerate(names) if name and names.count(name) == 1}


def plain_name(source: SyntaxNode) -> str:
    """Return the name of a table without schema, in lower case; empty for anything else.

    Args:
        source: What a SELECT selects from.
    """
    if source["type"] != "BASE_TABLE" or source.get("schema_name") or source.get("catalog_name"):
        return ""
    name: str = source["table_name"]
    return fold(name)
