"""A path in quotes is a table, in DuckDB: which names are, and which version they mean."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pytest
from roads import EACH_ROAD, ORDERS_ROWS, connect, needs_install, run_python
from support import NOT_INTERACTIVE, ORDERS

import duckdb_adapter
from duckdb_adapter.paths import TableName, options_for, parse_name


def count(con: Any, name: str) -> int:
    return int(con.execute(f"SELECT count(*) FROM '{name}'").fetchone()[0])


@pytest.fixture
def remote() -> str:
    """The table of the demo in another store."""
    url = "memory://bucket/orders.lance"
    memory = fsspec.filesystem("memory")
    if not memory.exists(url):
        memory.put(ORDERS, url, recursive=True)
    return url


def test_a_path_is_the_newest_version(con: Any) -> None:
    assert count(con, ORDERS) == ORDERS_ROWS[4]
    assert count(con, ORDERS + "/") == ORDERS_ROWS[4]


@pytest.mark.parametrize("ref", ["v1", "2", "prod", "tags/prod", "latest"])
def test_a_ref_after_the_at_sign_is_that_version(con: Any, ref: str) -> None:
    rows = {"v1": 1, "2": 2, "prod": 3, "tags/prod": 3, "latest": 4}
    assert count(con, f"{ORDERS}@{ref}") == ORDERS_ROWS[rows[ref]]
    assert count(con, f"{ORDERS}/@{ref}") == ORDERS_ROWS[rows[ref]]


def test_a_relative_path_works(con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(ORDERS).parent)
    assert count(con, "orders.lance") == ORDERS_ROWS[4]
    assert count(con, "./orders.lance@v1") == ORDERS_ROWS[1]


def test_a_url_of_any_store_works(con: Any, remote: str) -> None:
    assert count(con, remote) == ORDERS_ROWS[4]
    assert count(con, f"{remote}@v1") == ORDERS_ROWS[1]
    assert count(con, f"file://{ORDERS}@v2") == ORDERS_ROWS[2]


@pytest.mark.parametrize(
    ("view", "version"),
    [
        ("latest.arrow", 4),
        ("versions/1.arrow", 1),
        ("versions/2.arrows", 2),
        ("tags/prod.arrow", 3),
    ],
)
def test_a_view_of_the_filesystem_is_that_version(
    con: Any, remote: str, view: str, version: int
) -> None:
    assert count(con, f"lance://{view}::{remote}") == ORDERS_ROWS[version]
    assert count(con, f"lance://{ORDERS}/{view}") == ORDERS_ROWS[version]


def test_a_branch_can_be_named(con: Any, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    lance.write_dataset(duckdb.sql("SELECT 1 AS a").to_arrow_table(), table)
    branch = lance.dataset(table).create_branch("exp/b")
    branch.delete("true")
    assert count(con, f"{table}@exp/b:latest") == 0
    assert count(con, f"{table}@exp/b:1") == 1
    assert count(con, table) == 1


def test_a_table_in_a_directory_with_another_name_is_one(con: Any, tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders")
    assert count(con, str(tmp_path / "orders")) == ORDERS_ROWS[4]
    assert count(con, str(tmp_path / "orders@v1")) == ORDERS_ROWS[1]


def test_a_name_that_is_no_table_is_left_to_others(con: Any, tmp_path: Path) -> None:
    parquet = tmp_path / "some.parquet"
    con.execute(f"COPY (SELECT 42 AS a) TO '{parquet}'")
    assert count(con, str(parquet)) == 1
    some_variable = con.sql("SELECT 1 AS a UNION ALL SELECT 2")
    assert con.execute("SELECT count(*) FROM some_variable").fetchone() == (2,)
    del some_variable
    for name in (str(tmp_path / "none"), "nothing", "memory://x/y"):
        with pytest.raises(duckdb.CatalogException, match="does not exist"):
            count(con, name)


@pytest.mark.parametrize("name", ["order.lance", "order.lance@v1", "empty.lance"])
def test_a_path_without_a_table_says_so_and_what_is_beside_it(
    con: Any, name: str, tmp_path: Path
) -> None:
    (tmp_path / "empty.lance").mkdir()
    shutil.copytree(ORDERS, tmp_path / "orders.lance")
    with pytest.raises(duckdb.Error, match="there is no Lance table of this name") as error:
        count(con, str(tmp_path / name))
    assert ("did you mean orders.lance?" in str(error.value)) == ("order.lance" in name)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive with the table `orders.lance` in a folder of it."""
    folder = tmp_path_factory.mktemp("archive")
    (folder / "lake").mkdir()
    shutil.copytree(ORDERS, folder / "lake" / "orders.lance")
    return shutil.make_archive(str(folder / "an archive"), "zip", folder)


@pytest.mark.parametrize("cache", ["", "simplecache::"])
def test_a_table_in_an_archive_is_named_by_a_chain(con: Any, archive: str, cache: str) -> None:
    name = f"zip://lake/orders.lance::{cache}file://{archive}"
    assert count(con, name) == ORDERS_ROWS[4]
    assert count(con, f"{name}@v1") == ORDERS_ROWS[1]
    assert count(con, f"{name}@prod") == ORDERS_ROWS[3]
    with pytest.raises(duckdb.Error, match="there is no version 9; the table has 1, 2, 3, 4"):
        count(con, f"{name}@9")


def test_an_archive_without_the_table_says_so(con: Any, archive: str) -> None:
    for name in (f"zip://order.lance::{archive}", f"zip://orders.lance::{archive}.no"):
        with pytest.raises(duckdb.Error, match="there is no Lance table of this name: zip:"):
            count(con, name)


def test_a_path_without_a_table_may_mean_something_else(con: Any) -> None:
    con.execute('DROP TABLE IF EXISTS "own.lance"')
    query = """WITH "own.lance" AS (SELECT 42 AS a) SELECT count(*) FROM 'own.lance'"""
    assert con.execute(query).fetchone() == (1,)


@pytest.mark.parametrize("name", ["memory://x/y.lance", "memory://x/y.lance@v7"])
def test_a_url_without_a_table_says_so(con: Any, name: str) -> None:
    with pytest.raises(duckdb.Error, match=r"there is no Lance table of this name: memory:.*/x/y"):
        count(con, name)


@pytest.mark.parametrize("road", EACH_ROAD)
def test_s3_needs_no_extension_of_duckdb(road: str) -> None:
    """Neither for tables that are there, nor to say that there is none."""
    connected = "duckdb_adapter.connect()"
    if road == "install":
        connected = "(duckdb_adapter.install(), duckdb.connect())[1]"
    printed = run_python(
        f"""
import fsspec
from fsspec.implementations.memory import MemoryFileSystem
class Store(MemoryFileSystem):
    protocol = "s3"
    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.replace("s3://", "memory://"))
fsspec.register_implementation("s3", Store, clobber=True)
Store().put(ORDERS, "s3://bucket/orders.lance", recursive=True)
con = {connected}
for name in ("orders.lance", "orders.lance@v1", "other.lance"):
    try:
        print(con.execute(f"SELECT count(*) FROM 's3://bucket/{{name}}'").fetchone()[0])
    except duckdb.InvalidInputException as error:
        print(error)
"""
    )
    found = printed.splitlines()
    assert found[:2] == [str(ORDERS_ROWS[4]), str(ORDERS_ROWS[1])]
    assert "there is no Lance table of this name" in found[2]


def test_a_version_that_is_not_there_says_which_are(con: Any) -> None:
    with pytest.raises(duckdb.Error, match="no version 9; the table has 1, 2, 3, 4"):
        count(con, f"{ORDERS}@v9")
    with pytest.raises(duckdb.Error, match="no tag 'nightly'; the table has the tags prod"):
        count(con, f"{ORDERS}@nightly")
    with pytest.raises(duckdb.Error, match="is not a ref"):
        count(con, f"{ORDERS}@what is this")


def test_a_table_that_cannot_be_read_says_why(con: Any, tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    shutil.copytree(ORDERS, table)
    newest = max((table / "data").iterdir(), key=lambda file: file.stat().st_size)
    newest.unlink()
    with pytest.raises(duckdb.Error, match=rf"{newest.name}: the file is gone"):
        con.execute(f"SELECT sum(quantity) FROM '{table}'").fetchall()
    manifest = min((table / "_versions").glob("*.manifest"))
    os.truncate(manifest, 100)
    with pytest.raises(duckdb.Error, match=rf"{manifest.name}.*cut short"):
        count(con, str(table))


def test_a_quoted_path_may_hold_quotes(con: Any, tmp_path: Path) -> None:
    table = tmp_path / 'it\'s "the" `one` {x}.lance'
    shutil.copytree(ORDERS, table)
    name = str(table).replace("'", "''")
    assert count(con, name) == ORDERS_ROWS[4]
    found = con.execute("SELECT count(*) FROM lance_scan(?)", [str(table)]).fetchone()
    assert found == (ORDERS_ROWS[4],)


@needs_install
def test_a_table_without_alias_goes_by_its_file_name() -> None:
    con = connect("install")
    query = f"SELECT orders.city FROM '{ORDERS}@v1' LIMIT 1"
    assert len(con.execute(query).fetchall()) == 1
    assert len(con.execute(f"SELECT o.city FROM '{ORDERS}' AS o LIMIT 1").fetchall()) == 1


def test_a_wrapped_connection_says_how_a_table_gets_a_short_name() -> None:
    con = connect("wrap")
    for run in (con.execute, con.sql):
        with pytest.raises(duckdb.Error, match=f"write FROM '{ORDERS}@v1' AS \"Orders\""):
            run(f"SELECT Orders.city FROM '{ORDERS}@v1'")
        for table in (f"'{ORDERS}'", f"lance_scan('{ORDERS}')"):
            with pytest.raises(duckdb.BinderException, match='Referenced table "other" not found'):
                run(f"SELECT other.city FROM {table}")
    assert len(con.execute(f"SELECT o.city FROM '{ORDERS}' AS o LIMIT 1").fetchall()) == 1


@needs_install
def test_the_default_connection_and_cursors_know_tables_too() -> None:
    # In a process of its own: other tests may have opened the default connection before.
    code = f"""
import duckdb, duckdb_adapter
duckdb_adapter.install()
query = "SELECT count(*) FROM '{ORDERS}'"
for ask in (duckdb.connect(":default:").execute, duckdb.sql, duckdb.connect().cursor().execute):
    print(ask(query).fetchall()[0][0])
"""
    command = [sys.executable, "-c", NOT_INTERACTIVE + code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stdout.split(), ran.stderr) == ([str(ORDERS_ROWS[4])] * 3, "")


def test_storage_options_reach_the_store(remote: str) -> None:
    """The options of an unknown protocol are passed over, those of a chain go to its parts."""
    con = duckdb_adapter.connect(storage_options={"s3": {"anon": True}})
    assert count(con, f"simplecache::{remote}") == ORDERS_ROWS[4]
    assert count(con, remote) == ORDERS_ROWS[4]


@pytest.mark.parametrize(
    ("name", "url", "ref"),
    [
        ("t.lance", "t.lance", None),
        ("a@b/t.lance", "a@b/t.lance", None),
        ("s3://key@bucket/t.lance@exp/x:3", "s3://key@bucket/t.lance", "exp/x:3"),
        ("s3://b/t.lance/@tags/12", "s3://b/t.lance", "tags/12"),
        ("lance:///data/t.lance/branches/a/b/versions/3.arrow", "/data/t.lance", "a/b:3"),
        ("lance:///data/t.lance/tags/12.arrow", "/data/t.lance", "tags/12"),
        ("lance://branches/x/latest.arrow::s3://b/t.lance", "s3://b/t.lance", "x:latest"),
        ("lance:///data/t.lance@v7", "/data/t.lance", "v7"),
        ("s3+ddb://b/t.lance?ddbTableName=c", "s3+ddb://b/t.lance?ddbTableName=c", None),
        ("s3+ddb://b/t.lance?ddbTableName=c@v7", "s3+ddb://b/t.lance?ddbTableName=c", "v7"),
    ],
)
def test_names_are_taken_apart(name: str, url: str, ref: str | None) -> None:
    assert parse_name(name)[0] == TableName(url, ref, lacks_suffix=False)


@pytest.mark.parametrize("name", ["", "lance://history.arrow::s3://b/t.lance", "a\0b"])
def test_what_cannot_be_a_table_is_not_looked_for(name: str) -> None:
    assert parse_name(name) == []


def test_files_of_other_readers_are_not_looked_for_in_remote_stores() -> None:
    assert not parse_name("s3://bucket/data.parquet")[0].may_be_table()
    assert parse_name("s3://bucket/t.lance")[0].may_be_table()
    assert parse_name("s3://bucket/t")[0].may_be_table()


def test_options_are_flat_or_keyed_by_protocol() -> None:
    keyed = {"s3": {"anon": True}, "simplecache": {"cache_storage": "/x"}}
    assert options_for("s3://b/t.lance", {"anon": True}) == {"anon": True}
    assert options_for("s3://b/t.lance", keyed) == {"anon": True}
    assert options_for("simplecache::s3://b/t.lance", keyed) == keyed
    assert options_for("/b/t.lance", keyed) == {}
    assert options_for("/b/t.lance", None) == {}
