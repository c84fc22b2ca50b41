"""Folders of tables that are attached as databases of DuckDB.

A lake is a database of views, one a table, in a file that is attached read-only, so that DuckDB
itself refuses to create anything in it. The file is deleted as soon as DuckDB has it open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duckdb_adapter.identifiers import literal, quoted
from duckdb_adapter.lake_names import SCHEMA, LakeTable
from duckdb_adapter.storage import Storage
from lancefs.errors import NotALanceTable
from lancefs.storage import Store
from lancefs.storage.filesystems import open_url
from lancefs.table.not_a_table import enclosing_table
from lancefs.table.versions import VERSIONS

_SUFFIX = ".lance"
# What the comment on each of our views begins with.
_MARK = "Lance table "
# The macro of each lake that reads a table of which it has no view.
_READ = "read_lance_table"


class Lake:
    """A folder of tables.

    Args:
        folder: The URL of the folder.
        name: What it is called in SQL.
        storage: How the folder is listed.
    """

    def __init__(self, folder: str, name: str, storage: Storage) -> None:
        self.folder = folder
        self.name = name
        self.storage = storage
        self._attached: dict[str, str] = {}  # the tables that have views

    def tables(self) -> dict[str, str]:
        """Find the tables directly in the folder: name -> address."""
        fs, path = open_url(self.folder, self.storage(self.folder))
        store = Store(fs, path)
        found = {}
        for name, info in sorted(store.entries()):
            if info.get("type") != "directory":
                continue
            if name.endswith(_SUFFIX) or (
                store.is_local and fs.isdir(store.full(f"{name}/{VERSIONS}"))
            ):
                is_local = store.is_local
                address = store.full(name) if is_local else f"{self.folder.rstrip('/')}/{name}"
                found[name.removesuffix(_SUFFIX)] = address
        return found

    def attach(self, connection: Any) -> list[str]:
        """Attach the folder as it is now, in place of an earlier state of it.

        Args:
            connection: One that knows Lance tables.

        Returns:
            The names of the tables.

        Raises:
            NotALanceTable: There is no table in the folder.
        """
        tables = self.tables()
        if not tables:
            raise self._without_tables()
        self._attach(connection, tables)
        return list(tables)

    def _without_tables(self) -> NotALanceTable:
        """Return the error for a folder in which no table is, or that is one."""
        table = enclosing_table(Store(*open_url(self.folder, self.storage(self.folder))))
        if table is not None:
            text = f"lies in the Lance table {table}; attach the folder in which the table lies"
            return NotALanceTable(f"{self.folder}: {text}, or name the table in FROM")
        text = "there is no Lance table in this folder, or no such folder"
        return NotALanceTable(f"{self.folder}: {text}")

    def refresh(self, connection: Any, has_other_columns: bool = False) -> bool:
        """Attach the folder again if it has other tables now.

        Args:
            connection: One that knows Lance tables.
            has_other_columns: Whether tables have other columns than their views.

        Returns:
            Whether it was attached again.
        """
        tables = self.tables()
        is_same = tables == self._attached and not has_other_columns
        if is_same or not is_lake(connection, self.name):
            return False
        self._attach(connection, tables)
        return True

    def _attach(self, connection: Any, tables: dict[str, str]) -> None:
        again = "OR REPLACE " if is_lake(connection, self.name) else ""
        with tempfile.TemporaryDirectory(prefix="lancefs-", ignore_cleanup_errors=True) as place:
            file = str(Path(place) / "lake.duckdb")
            with connection.cursor() as other:  # the caller may be in a transaction
                _write(other, file, f"{self.name} {Path(place).name}", self.name, tables)
                other.execute(f"ATTACH {again}{literal(file)} AS {quoted(self.name)} (READ_ONLY)")
        self._attached = tables

    def find(self, table: str) -> str | None:
        """Return the query that reads a table of which the lake may have no view."""
        address = self.tables().get(table)
        if address is None:
            return None
        return f"FROM {quoted(self.name)}.main.{_READ}({literal(address)})"


def place_of(parts: Sequence[str]) -> tuple[str, str]:
    """Take apart a qualified name: what may be a lake, or else is empty, and a table in it."""
    is_in_main = len(parts) == 2 or (len(parts) == 3 and parts[1].lower() == SCHEMA)
    return (parts[0] if is_in_main else ""), parts[-1]


def is_lake(connection: Any, name: str) -> bool:
    """Whether a database of this name is attached that `Lake.attach` wrote."""
    query = """
        SELECT count(*) FROM duckdb_databases() JOIN duckdb_functions() USING (database_name)
        WHERE lower(database_name) = lower($name) AND readonly AND function_name = $macro
    """
    with connection.cursor() as other:
        answer = other.execute(query, {"name": name, "macro": _READ}).fetchone()
    return bool(answer[0])


def _write(connection: Any, file: str, name: str, lake: str, tables: dict[str, str]) -> None:
    """Write a database of views.

    Args:
        connection: One that knows Lance tables.
        file: The file of the database.
        name: What to attach it as in the meantime.
        lake: What it will be called.
        tables: Name -> address.
    """
    database = quoted(name)
    connection.execute(f"ATTACH {literal(file)} AS {database}")
    try:
        for table, address in tables.items():
            view = f"{database}.main.{quoted(table)}"
            read = quoted(LakeTable(table, lake, address).name())
            connection.execute(f"CREATE VIEW {view} AS FROM {read}")
            connection.execute(f"COMMENT ON VIEW {view} IS {literal(_MARK + address)}")
        escaped = "'\"' || system.main.replace(address, '\"', '\"\"') || '\"'"
        read = f"{database}.main.{_READ}(address)"
        connection.execute(f"CREATE MACRO {read} AS TABLE FROM system.main.query_table({escaped})")
    finally:
        connection.execute(f"DETACH {database}")
