"""A folder of tables under one name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import lance
import pyarrow as pa
import pytest
from roads import HAS_EXTENSIONS, ORDERS_ROWS, connect, needs_install, run_python
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


@pytest.mark.parametrize("below", ["", "/_versions"])
def test_a_table_is_no_folder_of_tables(con: Any, below: str) -> None:
    with pytest.raises(NotALanceTable, match=r"orders\.lance; attach the folder in which"):
        duckdb_adapter.attach(con, f"{ORDERS}{below}")


@needs_install
def test_a_folder_is_listed_with_the_options_that_install_was_given() -> None:
    printed = run_python(
        """
from pathlib import Path
from duckdb_adapter import lakes

def open_url(url, options, seen=lakes.open_url):
    print(dict(options))
    return seen(url, options)

lakes.open_url = open_url
duckdb_adapter.install(storage_options={"file": {"auto_mkdir": False}})
duckdb_adapter.attach(duckdb.connect(), f"file://{Path(ORDERS).parent}")
"""
    )
    assert printed == "{'auto_mkdir': False}"


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


def test_tables_and_columns_that_are_added_later_are_there(con: Any, folder: Path) -> None:
    duckdb_adapter.attach(con, folder)
    assert con.execute("SELECT count(*) FROM lake.orders").fetchone() == (1191,)
    lance.write_dataset(pa.table({"a": [1, 2]}), str(folder / "later.lance"))
    assert con.execute("SELECT sum(a) FROM lake.later").fetchone() == (3,)
    assert con.execute("SELECT sum(a) FROM lake.main.later AS l").fetchone() == (3,)
    lance.dataset(str(folder / "orders.lance")).add_columns({"more": "1"})
    assert con.execute("SELECT sum(more) FROM lake.orders").fetchone() == (1191,)
    lance.dataset(str(folder / "later.lance")).add_columns({"b": "a * 10"})
    assert con.execute("FROM lake.later ORDER BY a").fetchall() == [(1, 10), (2, 20)]
    with pytest.raises(duckdb.Error, match="nothing does not exist"):
        con.execute("FROM lake.nothing")


def test_each_database_has_lakes_of_its_own(con: Any, folder: Path, tmp_path: Path) -> None:
    other = con.cursor() if isinstance(con, duckdb_adapter.LanceConnection) else con
    duckdb_adapter.attach(other, folder)
    far = connect("install" if HAS_EXTENSIONS else "wrap")
    lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "far" / "t.lance"))
    duckdb_adapter.attach(far, tmp_path / "far")
    lance.write_dataset(pa.table({"a": [2]}), str(tmp_path / "far" / "later.lance"))
    with pytest.raises(duckdb.Error, match="later does not exist"):
        con.execute("FROM lake.later")
    lance.write_dataset(pa.table({"a": [3]}), str(folder / "later.lance"))
    assert con.execute("FROM lake.later").fetchall() == [(3,)]
    assert far.execute("FROM lake.later").fetchall() == [(2,)]


def test_what_is_attached_is_listed(con: Any, folder: Path) -> None:
    duckdb_adapter.attach(con, folder)
    names = [("orders",), ("plain",), ('we"ird',)]
    assert con.execute("SHOW TABLES FROM lake").fetchall() == names
    con.execute("USE lake")
    assert con.execute("SHOW TABLES").fetchall() == names
    assert con.execute("SELECT count(*) FROM plain").fetchone() == (1191,)
    described = con.execute("DESCRIBE lake.orders").fetchall()
    found = con.execute("FROM lake.orders").description
    assert [row[0] for row in described] == [column[0] for column in found]


def test_a_wrapped_connection_says_that_relations_read_no_views(folder: Path) -> None:
    con = connect("wrap")
    duckdb_adapter.attach(con, folder)
    con.execute(f"CREATE VIEW newest AS FROM '{folder}/orders.lance'")
    con.execute(
        f"CREATE MACRO above(least) AS TABLE FROM '{folder}/orders.lance' WHERE price > least"
    )
    for relation in ("lake.orders", "newest", "newest JOIN lake.plain USING (order_id)"):
        query = f"SELECT count(*) FROM {relation}"
        with pytest.raises(duckdb.InvalidInputException, match=r"execute.* in place of sql"):
            con.sql(query)
        assert con.execute(query).fetchall() == [(1191,)]
    # What a macro reads is part of the relation, and what a table is made of is read at once.
    assert con.sql("FROM above(-1)").count("order_id").fetchall() == [(1191,)]
    con.sql("CREATE TABLE copied AS FROM newest")
    assert con.sql("SELECT count(*) FROM copied").fetchall() == [(1191,)]


def test_a_wrapped_connection_lists_tables_that_came_and_went(folder: Path) -> None:
    con = connect("wrap")
    duckdb_adapter.attach(con, folder)
    shutil.copytree(ORDERS, folder / "another.lance")
    shutil.rmtree(folder / "plain")
    for one in (con, con.cursor()):
        listed = one.execute("SHOW TABLES FROM lake").fetchall()
        assert listed == [("another",), ("orders",), ('we"ird',)]
    for name in ("another", "orders", 'we"ird'):
        shutil.rmtree(folder / f"{name}.lance")
    assert con.execute("SHOW TABLES FROM lake").fetchall() == []
    shutil.copytree(ORDERS, folder / "again.lance")
    assert con.execute("SELECT count(*) FROM lake.again").fetchone() == (1191,)


def test_nothing_is_created_in_a_lake(con: Any, folder: Path) -> None:
    duckdb_adapter.attach(con, folder)
    for change in (
        "CREATE TABLE lake.x (a INT)",
        "CREATE TABLE lake.main.x AS SELECT 1 AS a",
        "CREATE VIEW lake.x AS SELECT 1 AS a",
        "DROP VIEW lake.orders",
        "INSERT INTO lake.orders SELECT * FROM lake.orders",
        "DELETE FROM lake.orders",
        "UPDATE lake.orders SET quantity = 1",
    ):
        with pytest.raises(duckdb.Error) as error:
            con.execute(change)
        if isinstance(con, duckdb_adapter.LanceConnection):
            assert "lancefs only reads Lance tables" in str(error.value), change
    assert con.execute("SHOW TABLES FROM lake").fetchall()[0] == ("orders",)
    assert con.execute("SELECT count(*) FROM lake.orders").fetchone() == (1191,)


def test_a_lake_that_is_detached_finds_no_tables(con: Any, folder: Path) -> None:
    duckdb_adapter.attach(con, folder, as_="gone")
    con.execute("DETACH gone")
    shutil.copytree(ORDERS, folder / "later.lance")
    with pytest.raises(duckdb.Error, match="does not exist"):
        con.execute("FROM gone.later")
    con.execute("ATTACH ':memory:' AS gone")
    with pytest.raises(duckdb.Error, match="does not exist"):
        con.execute("FROM gone.later")


def test_attaching_works_in_a_transaction(con: Any, folder: Path) -> None:
    con.execute("BEGIN")
    duckdb_adapter.attach(con, folder)
    assert con.execute("SELECT count(*) FROM lake.orders").fetchone() == (1191,)
    con.execute("COMMIT")
