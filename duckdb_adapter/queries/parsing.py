"""Parsing a statement with DuckDB's own parser: `json_serialize_sql`.

A database of our own in memory does it, since that of the user is in the middle of the query.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from duckdb_adapter.identifiers import literal, quoted
from duckdb_adapter.own_databases import OwnDatabase
from duckdb_adapter.queries.query_texts import query_in
from duckdb_adapter.queries.trees import PARTS, arguments_of, same_expression

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_log = logging.getLogger("duckdb_adapter")

# Longer queries are not parsed a second time, besides their lists of constants (`long_lists`). To
# parse one takes a third of the time in which DuckDB plans it, and a tree has 300 times its length.
MAX_TEXT = 250_000
# Trees of longer texts are not kept for other statements.
_LONG = 10_000
# Trees with more levels are not looked at: functions that do call themselves once or twice for each
# level, and Python allows a thousand calls within each other, those of the user's program included.
_MAX_LEVELS = 200


def _open_database() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={"threads": 1})


_database = OwnDatabase(_open_database)
# Bound once for a connection, which takes as long as to parse.
_PREPARE = "PREPARE serialized AS SELECT json_serialize_sql($1::VARCHAR)"
# A statement that gets what is wanted as a text.
_BEFORE = "SELECT 1 FROM t"
# The name of rows of a sample.
_SAMPLE = "_lancefs_sample"


class _ThreadParser(threading.local):
    """DuckDB's parser, for one thread."""

    def __init__(self) -> None:
        # By process: the connection of a parent cannot be used after a fork, nor closed.
        self._connections: dict[int, duckdb.DuckDBPyConnection] = {}

    def serialize(self, text: str) -> str:
        """Return the tree of a statement as JSON, or what is wrong with it."""
        # A parameter of Python would have older DuckDBs import pandas.
        return str(self._value(f"EXECUTE serialized({literal(text)})"))

    def deserialize(self, tree: str) -> str:
        """Return the statement whose tree is given as JSON."""
        return str(self._value(f"SELECT json_deserialize_sql({literal(tree)}::JSON)"))

    def count(self, rows: pa.Table, query: str) -> int:
        """Return the number that a query of rows, which it names `_SAMPLE`, returns."""
        connection = self._connection()
        connection.register(_SAMPLE, rows)
        try:
            return int(self._value(query))
        finally:
            connection.unregister(_SAMPLE)

    def columns(self, query: str) -> list[str]:
        """Return the names of the columns that a query returns."""
        described = self._connection().execute(query)
        names = [column[0] for column in described.description or ()]
        described.fetchall()
        return names

    def _value(self, query: str) -> Any:
        """Return the value that a query returns."""
        # All rows: until then, other work of the connection is refused.
        return self._connection().execute(query).fetchall()[0][0]

    def _connection(self) -> duckdb.DuckDBPyConnection:
        process = os.getpid()
        if process not in self._connections:
            connection = _database.cursor()
            connection.execute(_PREPARE)
            self._connections[process] = connection
        return self._connections[process]


_parser = _ThreadParser()


def parse_soon() -> None:
    """Get ready to parse, while others go on: a statement is likely to come soon."""
    _database.open_ahead()


def parse(text: str) -> dict[str, Any] | None:
    """Parse the query of a statement.

    Args:
        text: One statement in SQL; see `query_in`.

    Returns:
        The root node: one that selects rows, or joins such nodes. None where the text is no single
        SELECT, has none, is long or deeply nested, or is not understood.
    """
    if len(text) > MAX_TEXT:
        return None
    return _parsed_long(text) if is_long(text) else _parsed(text)


def is_long(text: str) -> bool:
    """Whether what is found out about a statement takes much memory, so that little is kept."""
    return len(text) > _LONG


def _parse(text: str) -> dict[str, Any] | None:
    import duckdb

    try:
        found = json.loads(_parser.serialize(query_in(text)))
    except duckdb.Error as error:  # what is wrong with the query is in the answer
        _say_unparsed(type(error).__name__)  # the message may have secrets that are in the text
        return None
    except RecursionError:  # of Python's parser of JSON
        return None
    statements = found.get("statements", [])
    if found.get("error") is not False or len(statements) != 1:
        return None
    node: dict[str, Any] = statements[0]["node"]
    return node if _has_few_levels(node) else None


_parsed = lru_cache(maxsize=16)(_parse)
_parsed_long = lru_cache(maxsize=1)(_parse)


def count_passing(rows: pa.Table, alias: str, tail: str) -> int | None:
    """Return how many rows pass a condition; None where our own database cannot compute it.

    Args:
        rows: The rows.
        alias: What the condition may qualify columns with.
        tail: What follows the FROM clause in SQL.
    """
    import duckdb

    query = f"SELECT count(*) FROM {_SAMPLE} AS {quoted(alias)}{tail}"
    try:
        return _parser.count(rows, query)
    except duckdb.Error as error:  # a function or setting of the user's own, or a value it refuses
        _log.debug("a condition is not estimated: DuckDB raised %s", type(error).__name__)
        return None


@lru_cache(maxsize=64)
def columns_matching(pattern: str, names: tuple[str, ...]) -> Sequence[str]:
    """Return the columns that `COLUMNS('pattern')` stands for; none where DuckDB refuses it.

    Args:
        pattern: A regular expression.
        names: The columns that there are.
    """
    import duckdb

    columns = ", ".join(f"1 AS {quoted(name)}" for name in names)
    try:
        return _parser.columns(f"SELECT COLUMNS({literal(pattern)}) FROM (SELECT {columns})")
    except duckdb.Error as error:  # the statement has the same error
        _log.debug("COLUMNS has no columns: DuckDB raised %s", type(error).__name__)
        return []


def tail_to_sql(where: Mapping[str, Any] | None, modifiers: Sequence[Any]) -> str | None:
    """Return what follows the FROM clause of a SELECT in SQL; None where DuckDB cannot.

    Args:
        where: The node of the condition, as the tree of a statement has it; None for none.
        modifiers: Such as that of ORDER BY.
    """
    return _to_sql({"where_clause": where, "modifiers": modifiers}, _BEFORE)


def expression_to_sql(expression: Mapping[str, Any]) -> str | None:
    """Return an expression in SQL; None where DuckDB cannot.

    Args:
        expression: Its node, as the tree of a statement has it.
    """
    text = tail_to_sql(expression, [])
    return None if text is None else text.removeprefix(" WHERE ")


def rows_to_sql(source: Mapping[str, Any], where: Mapping[str, Any] | None) -> str | None:
    """Return a FROM clause with a condition in SQL; None where DuckDB cannot.

    Args:
        source: The node of what is selected from, as the tree of a statement has it.
        where: That of the condition; None for none.
    """
    return _to_sql({"from_table": source, "where_clause": where}, _BEFORE.partition(" FROM")[0])


def _to_sql(wanted: Mapping[str, Any], before: str) -> str | None:
    """Return a SELECT with some nodes in SQL, without what it begins with."""
    import duckdb

    try:
        found = json.loads(_parser.serialize(_BEFORE))
        found["statements"][0]["node"] |= wanted
        text = _parser.deserialize(json.dumps(found))
    except (duckdb.Error, RecursionError) as error:  # a tree of many levels
        _log.debug("a condition has no text: %s", type(error).__name__)
        return None
    # DuckDB's text of a tree may mean another one. It is not kept with those of statements.
    node = _parse(text) if text.startswith(before) else None
    is_same = node is not None and same_expression({one: node[one] for one in wanted}, wanted)
    return text.removeprefix(before) if is_same else None


def _has_few_levels(node: dict[str, Any]) -> bool:
    """Whether functions may call themselves for each level of a tree.

    Operators in operators, `a + b + c`, are no levels: no function calls itself for these. Of
    common table expressions, each may select from the one before.
    """
    level: list[Any] = [node]
    named = 0
    for _ in range(_MAX_LEVELS):
        inner = list[Any]()
        for each in level:
            parts: Any = each
            if isinstance(parts, dict):
                named += len(parts["cte_map"]["map"]) if "cte_map" in parts else 0
                if parts.get("is_operator"):
                    level += arguments_of(parts)
                    parts = {**parts, "arguments": None, "children": None}
                parts = parts.values()
            inner += [part for part in parts if part and part.__class__ in PARTS]
        if not inner or named > _MAX_LEVELS:
            return named <= _MAX_LEVELS
        level = inner
    return False


@cache
def _say_unparsed(error: str) -> None:
    _log.warning("statements are not parsed, so that all rows are read: DuckDB raised %s", error)
