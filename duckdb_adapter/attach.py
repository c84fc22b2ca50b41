"""All tables of a folder under one name: `SELECT … FROM lake.orders`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duckdb_adapter.extension import installed_storage, remember_lake
from duckdb_adapter.lakes import Lake
from duckdb_adapter.releases import UnsupportedDuckDB
from duckdb_adapter.storage import Storage
from duckdb_adapter.wrap import LanceConnection
from lancefs.arguments import options_of

if TYPE_CHECKING:
    import duckdb


def attach(
    connection: duckdb.DuckDBPyConnection | LanceConnection,
    folder: str | os.PathLike[str],
    as_: str = "lake",
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Make every table of a folder a view, `lake.orders` for `orders.lance`.

    The views are in a database that is attached read-only, so that nothing is written to the
    database of the connection, nor created in the lake; `DETACH lake` takes them away. They show
    the newest version whenever they are read. Tables and columns that are added later are found by
    their names.

    Args:
        connection: One of a database that was opened after `install`, or a wrapped one.
        folder: A directory, or the URL of one.
        as_: What to call it in SQL. What `attach` gave this name before is replaced.
        storage_options: To list the folder with, by default those that `install` or `wrap` were
            given. The views use the latter.

    Returns:
        The names of the tables.

    Raises:
        NotALanceTable: There is no table in the folder.
        TypeError: `storage_options` is no mapping.
        UnsupportedDuckDB: The connection knows nothing of Lance tables.
    """
    import duckdb

    if storage_options is not None:
        storage: Storage = Storage(options_of(storage_options))
    elif isinstance(connection, LanceConnection):
        storage = connection.storage()
    else:
        storage = installed_storage()
    lake = Lake(os.fspath(folder), as_, storage)
    try:
        names = lake.attach(connection)
    except duckdb.CatalogException as error:
        raise UnsupportedDuckDB(
            "this connection does not know Lance tables; call duckdb_adapter.install() before the "
            f"database is opened, or attach to duckdb_adapter.wrap(connection) ({error})"
        ) from error
    if isinstance(connection, LanceConnection):
        connection.lakes[as_.lower()] = lake
    else:
        remember_lake(connection, lake)
    return names
