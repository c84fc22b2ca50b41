"""The syntax tree of a query, as DuckDB itself parses it: `json_serialize_sql`.

A database of our own in memory does it, since that of the user is in the middle of the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from duckdb_adapter.own_databases import OwnDatabase

# Longer queries are not parsed a second time. They are written by programs, with long lists.
MOST_TEXT = 10_000

_database = OwnDatabase({"threads": 1})


@lru_cache(maxsize=16)
def parse(text: str) -> dict[str, Any] | None:
    """Parse a query.

    Args:
        text: One statement in SQL.

    Returns:
        The root node: one that selects rows, or joins such nodes. None where the text is no single
        SELECT, is long, or is not understood.
    """
    import duckdb

    if len(text) > MOST_TEXT:
        return None
    try:
        with _database.cursor() as cursor:
            answer = cursor.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    except duckdb.Error:  # the user's database says what is wrong with the query
        return None
    found = json.loads(answer[0]) if answer else {}
    statements = found.get("statements", [])
    if found.get("error") is not False or len(statements) != 1:
        return None
    node: dict[str, Any] = statements[0]["node"]
    return node


def column_names(schema: pa.Schema) -> dict[str, str] | None:
    """Return columns by their names in small letters; None where two have the same."""
    columns = {name.lower(): name for name in schema.names}
    return columns if len(columns) == len(schema) else None


def is_table(node: Any, name: str) -> bool:
    """Whether a node is the table, with its own names, and without a version or sample."""
    is_plain = node["type"] == "BASE_TABLE" and node["table_name"] == name
    others = ("schema_name", "catalog_name", "at_clause", "column_name_alias", "sample")
    return is_plain and not any(node.get(key) for key in others)


def column_of(expression: Mapping[str, Any], columns: Mapping[str, str]) -> str | None:
    """Return the column that an expression is, in lower case; None where it is another one."""
    if expression["class"] != "COLUMN_REF":
        return None
    *table, last = [part.lower() for part in expression["column_names"]]
    # In front of the column there can be the name of the table only, which is no struct.
    is_column = len(table) <= 1 and not any(part in columns for part in table)
    return last if is_column and last in columns else None


def terms_of(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions that must all be true."""
    if node["type"] != "CONJUNCTION_AND":
        yield node
        return
    for child in node["children"]:
        yield from terms_of(child)
