"""Views of the user's own through which a statement may read a table: `FROM logs ORDER BY …`.

`CREATE VIEW logs AS FROM 'logs.lance'` is how people name a table once. When DuckDB binds the name
of the table in the view, the statement names the view, and what the view selects is not known. So
it is guessed that it is the whole table, and DuckDB tells before the scan begins whether that is so
(`told_views`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.nested import selects_all, with_stable_names
from duckdb_adapter.queries.parsing import parse
from duckdb_adapter.queries.query_texts import query_of_view
from duckdb_adapter.queries.scan_calls import SCAN, ScanCall
from duckdb_adapter.queries.trees import is_table, is_unmodified_table, nodes_in

# Statements without any of these read all rows of a view anyway.
_MAY_LEAVE_OUT = re.compile(
    r"\b(?:limit|where|qualify|distinct\s+on|sample|row_number|rank)\b", re.IGNORECASE
)


class GuessedView(NamedTuple):
    """A view that may be all of a table.

    Attributes:
        path: Its name as it stands in the statement, with database and schema, in lower case; these
            are empty where they are not named.
    """

    path: tuple[str, str, str]

    @property
    def name(self) -> str:
        """Its name alone."""
        return self.path[-1]

    def is_read_by(self, node: Mapping[str, Any]) -> bool:
        """Whether a node of a syntax tree is the view.

        Args:
            node: What a SELECT selects from, with its own names of columns.
        """
        return _path_of(node) == self.path


def guessed_view(text: str, name: str) -> GuessedView | None:
    """Return the view through which a statement may read all of a table.

    Args:
        text: The statement.
        name: The table, which stands in the view.

    Returns:
        None where the statement names several tables, or the table itself. To parse it takes as
        long as to look up a row.
    """
    is_named = name in text or SCAN in text.lower()
    if is_named or _MAY_LEAVE_OUT.search(text) is None:
        return None
    root = parse(with_stable_names(text))
    if root is None:
        return None
    nodes = list(nodes_in(root))
    named = {fold(each["key"]) for node in nodes for each in node.get("cte_map", {}).get("map", ())}
    tables = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    paths = {_path_of(node) for node in tables}
    others = {path for path in paths if path[:2] != ("", "") or path[-1] not in named}
    if len(others) != 1 or not all(map(is_unmodified_table, tables)):
        return None
    (path,) = others
    return GuessedView(path)


def is_whole_table(view: str, name: str, call: ScanCall | None) -> bool:
    """Whether a view is all rows of a table, with their columns and the names of these.

    Args:
        view: The statement that creates it, as DuckDB writes it.
        name: The table, as it stands in a statement.
        call: The arguments of `lance_scan`, if the name stands for a call of it.
    """
    query = query_of_view(view)
    root = None if query is None else parse(query)
    if root is None or root["type"] != "SELECT_NODE" or root["cte_map"]["map"]:
        return False
    if root["modifiers"] or not selects_all(root):
        return False
    source = root["from_table"]
    return is_table(source, name) if call is None else call.is_made_by(source)


def _path_of(node: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the name of a table with database and schema, in lower case."""
    catalog, schema = node.get("catalog_name") or "", node.get("schema_name") or ""
    return fold(catalog), fold(schema), fold(node.get("table_name") or "")
