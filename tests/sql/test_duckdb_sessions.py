"""`lancefs.sql`: SQL without a connection."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import lance
import pyarrow as pa
import pytest
from roads import ORDERS_ROWS, ROADS, needs_install, run_python, scanned
from support import ORDERS

import lancefs
from duckdb_adapter.sources import unpushed_filters


def test_a_path_in_a_query_is_a_table() -> None:
    query = f"select count(*) from '{ORDERS}@v1'"
    relation = lancefs.sql(query)
    assert isinstance(relation, duckdb.DuckDBPyRelation)
    assert relation.fetchall() == [(ORDERS_ROWS[1],)]
    assert lancefs.sql(f"select city from '{ORDERS}' where city = $1", params=["Gent"]).columns


def test_parameters_are_those_of_functions_too() -> None:
    query = "select count(*) from lance_scan($path, version := $version)"
    found = lancefs.sql(query, params={"path": ORDERS, "version": 1})
    assert found.fetchall() == [(ORDERS_ROWS[1],)]
    query = "select count(*) from lance_scan(?) where city = ?"
    expected = lancefs.open(ORDERS).count_rows(filter="city = 'Gent'")
    assert lancefs.sql(query, params=[ORDERS, "Gent"]).fetchall() == [(expected,)]


def test_variables_of_the_caller_are_tables() -> None:
    cities = pa.table({"city": ["Gent"]})
    query = f"select count(*) from '{ORDERS}' join cities using (city)"
    expected = lancefs.open(ORDERS).count_rows(filter="city = 'Gent'")
    assert lancefs.sql(query).fetchall() == [(expected,)]
    del cities


def test_relations_of_a_thread_can_be_joined_and_other_threads_have_their_own() -> None:
    one = lancefs.sql(f"from '{ORDERS}'")
    two = lancefs.sql("select 7 as seven")
    assert one.join(two, "true").aggregate("sum(seven)").fetchall() == [(7 * ORDERS_ROWS[4],)]
    lancefs.sql("create or replace table shared_by_threads as select 1 as a")
    found = []

    def count() -> None:
        for _ in range(5):
            query = f"select count(*) from '{ORDERS}', shared_by_threads"
            found.append(lancefs.sql(query).fetchall())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(ORDERS_ROWS[4],)]] * 20
    lancefs.sql("drop table shared_by_threads")


def test_each_query_reads_the_newest_version(tmp_path: Path) -> None:
    table = str(tmp_path / "t.lance")
    for number in range(3):
        lance.write_dataset(pa.table({"a": [number]}), table, mode="append" if number else "create")
        assert lancefs.sql(f"select count(*) from '{table}'").fetchall() == [(number + 1,)]


def test_storage_options_are_those_of_the_call() -> None:
    memory = fsspec.filesystem("memory")
    memory.put(ORDERS, "memory://sessions/orders.lance", recursive=True)
    options = {"memory": {}, "s3": {"anon": True}}
    query = "select count(*) from 'memory://sessions/orders.lance'"
    assert lancefs.sql(query, storage_options=options).fetchall() == [(ORDERS_ROWS[4],)]
    with pytest.raises(duckdb.Error, match="no version 9"):
        lancefs.sql("from 'memory://sessions/orders.lance@v9'")


def test_relations_keep_the_options_that_they_were_made_with(tmp_path: Path) -> None:
    for name in ("one", "two"):
        kept = fsspec.filesystem("dir", path=str(tmp_path / name), fs=fsspec.filesystem("file"))
        kept.mkdir("")
        rows = ORDERS_ROWS[1] if name == "one" else ORDERS_ROWS[4]
        lance.write_dataset(pa.table({"a": range(rows)}), str(tmp_path / name / "t.lance"))
    where = [{"path": str(tmp_path / name), "target_protocol": "file"} for name in ("one", "two")]
    relations = [
        lancefs.sql("select a from 'dir://t.lance'", storage_options=options) for options in where
    ]
    for _ in range(2):
        counts = [relation.aggregate("count(*)").fetchall() for relation in relations]
        assert counts == [[(ORDERS_ROWS[1],)], [(ORDERS_ROWS[4],)]]
    with pytest.raises(duckdb.Error):
        lancefs.sql("select a from 'dir://t.lance'")


@needs_install
def test_no_more_is_read_than_the_query_uses(
    tmp_path: Path, reads: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpushed_filters, "_MIN_ROWS", 10)
    rows = pa.table({"id": range(90), "kind": ["a", "b", "c"] * 30})
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    query = f"select id from '{tmp_path}/t.lance' where id < 5 and kind like 'a%'"
    read = scanned(reads, lambda: lancefs.sql(query).fetchall())
    assert any("starts_with" in filter for _, filter in read)


@needs_install
def test_other_databases_do_not_know_lance_tables() -> None:
    printed = run_python(
        """
import lancefs
other = duckdb.connect()
query = f"select count(*) from '{ORDERS}'"
print(lancefs.sql(query).fetchall(), duckdb_adapter.connect().execute(query).fetchall())
for connection in (other, duckdb.connect(), duckdb):
    try:
        connection.execute(query)
    except duckdb.CatalogException:
        print("unknown")
duckdb_adapter.install()
print(duckdb.connect().execute(query).fetchall())
"""
    )
    assert printed.split("\n") == ["[(1191,)] [(1191,)]", *["unknown"] * 3, "[(1191,)]"]


def test_a_forked_child_has_a_database_of_its_own() -> None:
    printed = run_python(
        """
import os, lancefs, warnings
warnings.simplefilter("ignore")
query = f"select count(*) from '{ORDERS}'"
assert lancefs.sql(query).fetchall() == [(1191,)]
child = os.fork()
if child == 0:
    os._exit(0 if lancefs.sql(query).fetchall() == [(1191,)] else 1)
print(os.waitpid(child, 0)[1])
"""
    )
    assert printed == "0"


def test_queries_with_parameters_do_not_wait_for_threads_that_drop_rows() -> None:
    # DuckDB before 2.0 binds a relation of the values with the interpreter locked.
    program = (
        "import faulthandler, lancefs\n"
        "faulthandler.dump_traceback_later(240, exit=True)\n"
        f"query = \"select city from '{ORDERS}' where city = $1\"\n"
        "for _ in range(500):\n"
        "    lancefs.sql(query, params=['Gent'])\n"
        "print('done')\n"
    )
    assert run_python(program).strip() == "done"


@pytest.mark.parametrize("con", ROADS, indirect=True)
def test_several_queries_in_one_text_run_to_their_ends(con: Any) -> None:
    con.execute("create sequence numbers")
    first = f"select nextval('numbers') from '{ORDERS}@v1'"
    for run in (con.execute, con.sql):
        assert run(f"{first}; select count(*) from '{ORDERS}'").fetchall() == [(ORDERS_ROWS[4],)]
    assert con.execute("select nextval('numbers')").fetchall() == [(2 * ORDERS_ROWS[1] + 1,)]
    with pytest.raises(duckdb.Error, match="too late"):
        con.execute(f"select error('too late') from '{ORDERS}'; select 1")
    assert con.execute("select 1").fetchall() == [(1,)]


def test_several_queries_in_one_text_leave_the_session_usable() -> None:
    assert lancefs.sql(f"from '{ORDERS}'; select 1").fetchall() == [(1,)]
    assert lancefs.sql("select 2").fetchall() == [(2,)]
