"""`lancefs.sql`: queries without a connection, as `duckdb.sql` runs them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duckdb_adapter.own_databases import OwnDatabase
from duckdb_adapter.wrap import LanceConnection, open_known

if TYPE_CHECKING:
    import duckdb

    from lancefs.table.base_paths import BaseRules


class _Session(threading.local):
    """The connection of this thread; all of a process are to one database in memory."""

    connection: LanceConnection | None = None
    process = 0


_session = _Session()
_database = OwnDatabase(open_known)
# Connections of a parent process, which cannot be closed after a fork.
_left: list[LanceConnection] = []


def sql(
    query: str,
    *,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | Mapping[str, Any] | None = None,
    use_index: bool = True,
) -> duckdb.DuckDBPyRelation:
    """Run a query in DuckDB, in which a table is the path of a Lance table.

    Variables of the caller, such as data frames, are tables as well. All calls of a thread use one
    connection, so that their relations can be joined; tables that a query creates are in memory.

    Args:
        query: SQL, such as `select city, count(*) from 'orders.lance@v7' group by all`.
        params: Values of the parameters in the query.
        storage_options: For fsspec; or one such mapping for each protocol.
        base_rules: Which base paths of manifests are followed: `lancefs.BaseRules`, or its fields.
        use_index: Whether filters may be looked up in the indices of tables.

    Returns:
        A relation of DuckDB, which is computed when it is used; None for statements without rows.

    Raises:
        duckdb.Error: DuckDB refused the query, or a table cannot be read.
    """
    wrapped = _connection().reaching(storage_options, base_rules, use_index)
    given = {} if params is None else {"params": params}
    relation: duckdb.DuckDBPyRelation = wrapped.run("sql", query, (), given, sys._getframe(1))
    return relation


def _connection() -> LanceConnection:
    """Return the connection of this thread."""
    process = os.getpid()
    if _session.connection is None or _session.process != process:
        if _session.connection is not None:
            _left.append(_session.connection)
        _session.connection = LanceConnection(_database.cursor())
        _session.process = process
    return _session.connection
