"""A folder of tables under one name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pytest
from roads import ORDERS_ROWS, needs_install, run_python
from support import ORDERS

import duckdb_adapter
from lancefs.errors import NotALanceTable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables, one in a directory with another kind of name, and what is none."""
    for name in ("orders.lance", "plain", 'we"ird.lance'):
        shutil.copytree(ORDERS, tmp_path / "tables" / name)
    (tmp_path / "tables" / "other").mkdir()
    (tmp_path / "tables" / "notes.txt").write_text("nothing")
    return tmp_path / "tables"


def test_every_table_of_a_folder_becomes_a_view(con: Any, folder: Path) -> None:
    assert duckdb_adapter.attach(con, folder) == ["orders", "plain", 'we"ird']
    query = "SELECT count(*) FROM lake.orders JOIN lake.plain USING (order_id)"
    assert con.execute(query).fetchone() == (ORDERS_ROWS[4],)
    assert con.cursor().execute('SELECT count(*) FROM lake."we""ird"').fetchone() == (1191,)


def test_attaching_again_brings_it_up_to_date(con: Any, folder: Path) -> None:
    duckdb_adapter.attach(con, folder, as_="shop")
    shutil.rmtree(folder / "plain")
    assert duckdb_adapter.attach(con, f"file://{folder}", as_="shop") == ["orders", 'we"ird']
    con.execute("DETACH shop")
    assert con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


def test_a_database_of_the_user_is_not_replaced(con: Any, folder: Path) -> None:
    con.execute("ATTACH ':memory:' AS lake; CREATE TABLE lake.mine AS SELECT 1 AS a")
    with pytest.raises(duckdb.Error, match="lake"):
        duckdb_adapter.attach(con, folder)
    assert con.execute("SELECT count(*) FROM lake.mine").fetchone() == (1,)


def test_a_folder_may_be_in_any_store(con: Any) -> None:
    memory = fsspec.filesystem("memory")
    if not memory.exists("memory://lake/orders.lance"):
        memory.put(ORDERS, "memory://lake/orders.lance", recursive=True)
    assert duckdb_adapter.attach(con, "memory://lake") == ["orders"]
    assert con.execute("SELECT count(*) FROM lake.orders").fetchone() == (ORDERS_ROWS[4],)


def test_a_folder_without_tables_is_an_error(con: Any, tmp_path: Path) -> None:
    with pytest.raises(NotALanceTable, match="no Lance table in this folder"):
        duckdb_adapter.attach(con, tmp_path)
    assert con.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchone() == (
        1,
    )


@needs_install
def test_a_connection_that_knows_no_tables_says_what_to_do() -> None:
    printed = run_python(
        """
from pathlib import Path
con = duckdb.connect()
try:
    duckdb_adapter.attach(con, Path(ORDERS).parent)
except duckdb_adapter.UnsupportedDuckDB as error:
    print(error)
print(con.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall())
"""
    )
    assert "duckdb_adapter.wrap(connection)" in printed
    assert printed.endswith("[('memory',)]")
