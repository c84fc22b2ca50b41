"""Nested SELECTs and common table expressions, each of which selects from the next one alone.

People write `WITH logs AS (FROM 't.lance') SELECT …`; programs wrap a statement into one of their
own; and DuckDB does so for a Python relation, such as `con.sql("SELECT …").limit(10)`:

    WITH "__duckdb_s0" AS NOT MATERIALIZED (
      WITH "t.lance (reader 1)" AS NOT MATERIALIZED (SELECT * FROM "__duckdb_source_1")
      SELECT * FROM (the statement) AS "unnamed_relation_1"
    )
    SELECT * FROM "__duckdb_s0" AS "unnamed_relation_2" LIMIT 10

The innermost common table expressions here are the Python variables that the statement uses.

The innermost SELECT uses the same rows of a table wherever its result goes. Texts that select from
several places are not analyzed: DuckDB resolves the FROM clause first, so that only the first use
of a name is known to be that of the innermost SELECT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.trees import (
    classes_in,
    is_table,
    query_of,
    ranks_within,
    shows_rows,
    terms_of,
    windows_by_name,
)

_SOURCE = "__duckdb_source_"
_CAPTURES = " AS NOT MATERIALIZED"
_LIMITS = [[], ["LIMIT_MODIFIER"]]
# Texts and names between quotes: those that DuckDB gives to relations and variables are other ones
# each time.
_QUOTED = re.compile(r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"")
_GENERATED = re.compile(rf'"(?P<kind>{_SOURCE}|unnamed_relation_)[0-9a-f_]+"')


def count_captured(name: str, text: str) -> int:
    """Return how many times a text captures what a name stood for when a relation was made.

    Args:
        name: The name of a table, as it stands in the statement.
        text: The whole text.
    """
    if _CAPTURES not in text:
        return 0
    quoted = re.escape(name.replace('"', '""'))
    return len(re.findall(rf'"{quoted} \(reader \d+\)"{_CAPTURES}', text))


def with_stable_names(text: str) -> str:
    """Return the text of a relation with names that are the same whenever it is made.

    Args:
        text: The whole text; of a statement that is no relation, it is returned as it is.
    """
    if _CAPTURES not in text:
        return text
    names: dict[str, str] = {}

    def stable(quoted: re.Match[str]) -> str:
        found = _GENERATED.fullmatch(quoted[0])
        if found is None:
            return quoted[0]
        return names.setdefault(quoted[0], f'"{found["kind"]}{len(names)}"')

    return _QUOTED.sub(stable, text)


def statement_in(root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the innermost statement, with what the others tell of the rows that they use of it.

    Args:
        root: The root node of a text.

    Returns:
        The node itself where it selects from a table, or from several places.
    """
    return _innermost(root).statement


class _Innermost(NamedTuple):
    """The innermost statement of a text.

    Attributes:
        statement: Its node, with what statements around it tell of its rows.
        is_whole: Whether it returns what the text does. What is around the text tells something of
            its rows only then, and not if another statement is in between.
    """

    statement: Mapping[str, Any]
    is_whole: bool


def _innermost(root: Mapping[str, Any]) -> _Innermost:
    summarized = _summarized(root)
    if summarized is not None:
        return _Innermost(_innermost(summarized).statement, False)
    inner = _inner(root) if root["type"] == "SELECT_NODE" else None
    if inner is None:
        return _Innermost(root, True)
    found = _innermost(inner)
    if not found.is_whole:
        return found
    if _is_all(root):
        return _limited(found.statement, root["modifiers"])
    statement = found.statement
    reads_table = statement["type"] == "SELECT_NODE" and _reads_a_table(statement)
    if not reads_table or statement["modifiers"] or _has_subqueries(root):
        return _Innermost(statement, False)
    if not _is_all(statement):
        return _Innermost(_qualified(statement, root), False)
    named = root["from_table"]
    # `WITH logs AS (FROM 't.lance') SELECT logs.id FROM logs`: columns are qualified with the name.
    source = {**statement["from_table"], "alias": named["alias"] or named.get("table_name", "")}
    return _Innermost({**root, "from_table": source, "cte_map": {"map": []}}, True)


def _summarized(root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the query that `SUMMARIZE` reads; None for any other statement."""
    source = root["from_table"] if root["type"] == "SELECT_NODE" else {}
    if source.get("show_type") != "SUMMARY" or root["cte_map"]["map"]:
        return None
    query: Mapping[str, Any] | None = source["query"]
    return query


def _inner(root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the query that another one selects from alone; None where it is none.

    Of several common table expressions, each of which selects from the one before it, the last one
    is returned with the others.
    """
    source, tables = root["from_table"], root["cte_map"]["map"]
    others = [each for each in tables if not _is_variable(query_of(each["value"]))]
    if source["type"] == "SUBQUERY" and not (others or source["column_name_alias"]):
        inner: Mapping[str, Any] = source["subquery"]["node"]
        return None if source["sample"] else inner
    if not others or not is_table(source, others[-1]["key"]):
        return None
    *before, last = others
    if any(each["value"]["aliases"] for each in others):
        return None
    query = query_of(last["value"])
    if not before:
        return query
    if query["type"] != "SELECT_NODE" or query["cte_map"]["map"] or _has_subqueries(root):
        return None
    return {**query, "cte_map": {"map": before}}


def _is_variable(query: Mapping[str, Any]) -> bool:
    """Whether a common table expression is a variable of Python."""
    if query["type"] != "SELECT_NODE" or not (_reads_a_table(query) and _is_all(query)):
        return False
    name: str = query["from_table"].get("table_name", "")
    return name.startswith(_SOURCE)


def _reads_a_table(select: Mapping[str, Any]) -> bool:
    kinds = ("BASE_TABLE", "TABLE_FUNCTION")
    return select["from_table"]["type"] in kinds and not select["cte_map"]["map"]


def _is_all(select: Mapping[str, Any]) -> bool:
    """Whether a SELECT returns all that it selects from, or the first rows."""
    return selects_all(select) and [each["type"] for each in select["modifiers"]] in _LIMITS


def selects_all(select: Mapping[str, Any]) -> bool:
    """Whether a SELECT shows all columns of all rows that it selects from, before its modifiers.

    Args:
        select: Its node.
    """
    shown = select["select_list"]
    if [each["class"] for each in shown] != ["STAR"] or select["where_clause"]:
        return False
    changes = ("exclude_list", "replace_list", "rename_list", "qualified_exclude_list")
    if any(shown[0].get(part) for part in (*changes, "columns", "expr", "relation_name")):
        return False
    return shows_rows(select)


def _qualified(select: Mapping[str, Any], outer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a SELECT with what another one, which selects from it alone, says of its windows.

    `SELECT … FROM (SELECT *, row_number() OVER (…) AS n FROM …) WHERE n = 1` uses the rows of the
    inner SELECT that `QUALIFY row_number() OVER (…) = 1` leaves.
    """
    shown = windows_by_name(select)
    where, source = outer["where_clause"], outer["from_table"]
    if not (where and shown) or select["qualify"]:
        return select
    tables = {fold(source.get(part) or "") for part in ("alias", "table_name")}
    for term in terms_of(where):
        for number, _ in ranks_within(term):
            *table, name = [fold(part) for part in number.get("column_names", [""])]
            if name in shown and (not table or {*table} <= tables - {""}):
                side = next(key for key, part in term.items() if part is number)
                return {**select, "qualify": {**term, side: shown[name]}}
    return select


def _has_subqueries(select: Mapping[str, Any]) -> bool:
    """Whether expressions of a SELECT may read the table once more."""
    parts = {name: part for name, part in select.items() if name != "cte_map"}
    return "SUBQUERY" in classes_in(parts)


def _limited(statement: Mapping[str, Any], limits: list[Any]) -> _Innermost:
    """Return a statement of which only the first rows are wanted."""
    if not limits:
        return _Innermost(statement, True)
    kinds = [each["type"] for each in statement["modifiers"]]
    if kinds not in ([], ["ORDER_MODIFIER"]):
        return _Innermost(statement, False)  # whose own limit is enough to know
    return _Innermost({**statement, "modifiers": [*statement["modifiers"], *limits]}, True)
