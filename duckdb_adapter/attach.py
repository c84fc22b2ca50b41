"""All tables of a folder under one name: `SELECT … FROM lake.orders`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import fsspec

from duckdb_adapter.errors import UnsupportedDuckDB
from duckdb_adapter.open_names import GivenStorage, Storage
from duckdb_adapter.paths import quoted
from duckdb_adapter.wrap import LanceConnection
from lancefs.errors import NotALanceTable
from lancefs.storage import Store
from lancefs.table.versions import VERSIONS

if TYPE_CHECKING:
    import duckdb

_SUFFIX = ".lance"
# What the comment on each of our views begins with.
_MARK = "Lance table "


def attach(
    connection: duckdb.DuckDBPyConnection | LanceConnection,
    folder: str | os.PathLike[str],
    as_: str = "lake",
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Make every table of a folder a view, `lake.orders` for `orders.lance`.

    The views live in a database in memory that is attached for them, so that nothing is written to
    the database of the connection; `DETACH lake` takes them away. They show the newest version
    whenever they are read. A view keeps the columns that the table had, as DuckDB's views do:
    attach again when columns were added.

    Args:
        connection: One of a database that was opened after `install`, or a wrapped one.
        folder: A directory, or the URL of one.
        as_: What to call it in SQL. What `attach` gave this name before is replaced.
        storage_options: To list the folder with, as `install` takes them. The views use those that
            `install` or `wrap` were given.

    Returns:
        The names of the tables.

    Raises:
        NotALanceTable: There is no table in the folder.
        UnsupportedDuckDB: The connection knows nothing of Lance tables.
    """
    import duckdb

    url = os.fspath(folder)
    if storage_options is None and isinstance(connection, LanceConnection):
        storage: Storage = connection.storage()
    else:
        storage = GivenStorage(storage_options)
    tables = _tables(url, storage)
    if not tables:
        raise NotALanceTable(f"{url}: there is no Lance table in this folder, or no such folder")
    schema = quoted(as_)
    if _is_ours(connection, as_):
        connection.execute(f"DETACH {schema}")
    connection.execute(f"ATTACH ':memory:' AS {schema}")
    try:
        for name, address in tables.items():
            view = f"{schema}.main.{quoted(name)}"
            connection.execute(f"CREATE VIEW {view} AS FROM {quoted(address)}")
            connection.execute(f"COMMENT ON VIEW {view} IS {_text(_MARK + address)}")
    except duckdb.CatalogException as error:
        connection.execute(f"DETACH {schema}")
        raise UnsupportedDuckDB(
            "this connection does not know Lance tables; call duckdb_adapter.install() before the "
            f"database is opened, or attach to duckdb_adapter.wrap(connection) ({error})"
        ) from error
    except BaseException:
        connection.execute(f"DETACH {schema}")
        raise
    return list(tables)


def _is_ours(connection: Any, name: str) -> bool:
    """Whether a database of this name is attached, and has nothing in it but our views."""
    query = """
        SELECT coalesce(bool_and(mine), false)
        FROM (
            SELECT database_name, coalesce(starts_with(comment, $mark), false) AS mine
            FROM duckdb_views() WHERE NOT internal
            UNION ALL SELECT database_name, false FROM duckdb_tables()
        )
        WHERE database_name = $name
    """
    answer = connection.execute(query, {"name": name, "mark": _MARK}).fetchone()
    return bool(answer[0])


def _tables(folder: str, storage: Storage) -> dict[str, str]:
    """Find the tables directly in a folder: name -> address."""
    fs, path = fsspec.core.url_to_fs(folder, **storage(folder))
    store = Store(fs, path)
    found = {}
    for name, info in sorted(store.entries()):
        if info.get("type") != "directory":
            continue
        if name.endswith(_SUFFIX) or (
            store.is_local and fs.isdir(store.full(f"{name}/{VERSIONS}"))
        ):
            address = store.full(name) if store.is_local else f"{folder.rstrip('/')}/{name}"
            found[name.removesuffix(_SUFFIX)] = address
    return found


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
