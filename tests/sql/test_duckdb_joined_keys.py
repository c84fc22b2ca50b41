"""Rows are left out whose keys the other table of a join does not have."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from joined_tables import (
    NARROWED,
    OTHERS,
    answer_of,
    facts_rows,
    filled,
    keys_rows,
    make_long,
    own_tables,
)
from roads import connect, needs_install, scanned

from duckdb_adapter.sources import found_keys, kept_rows
from lancefs.table.per_version import PerVersion

pytestmark = needs_install

KEYS_ARE = ("scanned", "kept", "many")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("joined")
    tables = {
        "facts": (facts_rows(), "2.1"),
        "keys": (keys_rows(), "2.2"),
        "others": (keys_rows()[:40], "2.0"),
    }
    for name, (rows, version) in tables.items():
        url = str(path / f"{name}.lance")
        lance.write_dataset(rows, url, max_rows_per_file=1500, data_storage_version=version)
    lance.dataset(str(path / "facts.lance")).delete("n % 500 = 3")
    return path


@pytest.fixture(scope="module")
def native(folder: Path) -> Iterator[Any]:
    with own_tables(folder) as connection:
        yield connection


@pytest.fixture(autouse=True)
def facts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    make_long(monkeypatch, 1000)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[Any]:
    """A connection whose scans begin in their order."""
    connection = connect("install")
    connection.execute("SET threads = 1")
    yield connection
    connection.close()


@pytest.fixture(params=KEYS_ARE)
def keys_are(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys are read, kept in memory, or more than are looked for one by one."""
    if request.param == "kept":
        monkeypatch.setattr(kept_rows, "MAX_ROWS", 1000)
        monkeypatch.setattr(kept_rows, "_MIN_NAMED", 0)
        monkeypatch.setattr(kept_rows, "_KEPT", PerVersion(kept_rows._Kept))
    if request.param == "many":
        monkeypatch.setattr(found_keys, "MAX_KEYS", 3)


@pytest.mark.parametrize("query", NARROWED)
def test_joins_of_fewer_rows_have_the_answers_of_duckdbs_own_tables(
    folder: Path, native: Any, keys_are: None, query: str
) -> None:
    assert_same_answers(folder, native, query)


@pytest.mark.parametrize(
    "keys_are",
    [KEYS_ARE[0], *(pytest.param(each, marks=pytest.mark.slow) for each in KEYS_ARE[1:])],
    indirect=True,
)
@pytest.mark.parametrize("query", OTHERS)
def test_other_joins_have_the_answers_of_duckdbs_own_tables(
    folder: Path, native: Any, keys_are: None, query: str
) -> None:
    assert_same_answers(folder, native, query)


def assert_same_answers(folder: Path, native: Any, query: str) -> None:
    con, expected = connect("shared"), answer_of(native, filled(query, None))
    assert answer_of(con, filled(query, folder)) == expected
    assert sorted(map(repr, con.sql(filled(query, folder)).fetchall())) == expected


@pytest.mark.parametrize("query", NARROWED)
def test_rows_with_keys_that_the_other_table_has_not_are_left_out(
    folder: Path, one_thread: Any, keys_are: None, reads: list[dict[str, Any]], query: str
) -> None:
    text = filled(query, folder)
    last = scanned(reads, lambda: one_thread.execute(text).fetchall())[-1]
    assert "is_in" in last[1] or "<=" in last[1], last


@pytest.mark.parametrize("keys_are", ["scanned", "kept"], indirect=True)
def test_keys_that_do_not_pass_are_not_looked_for(
    folder: Path, one_thread: Any, keys_are: None, reads: list[dict[str, Any]]
) -> None:
    query = "SELECT f.n FROM {facts} f JOIN {keys} j ON f.n = j.id WHERE j.kind = 'new'"
    text = filled(query, folder)
    _, filter = scanned(reads, lambda: one_thread.execute(text).fetchall())[-1]
    assert "1000" in filter
    assert "1003" not in filter  # is old


@pytest.mark.parametrize(
    "query",
    [q if n % 4 == 0 else pytest.param(q, marks=pytest.mark.slow) for n, q in enumerate(NARROWED)],
)
def test_many_threads_find_the_same(folder: Path, native: Any, query: str) -> None:
    con, expected = connect("install"), answer_of(native, filled(query, None))
    con.execute("SET threads = 4")
    text = filled(query, folder)
    with ThreadPoolExecutor(3) as pool:
        found = list(
            pool.map(lambda cursor: answer_of(cursor, text), [con.cursor() for _ in range(6)])
        )
    assert found == [expected] * 6


JOIN = "SELECT count(*) FROM {facts} f JOIN {keys} j ON f.n = j.id"


def test_macros_and_views_that_read_a_table_again_see_all_of_it(folder: Path, native: Any) -> None:
    con = connect("install")
    for connection, tables in ((con, folder), (native, None)):
        define = "CREATE OR REPLACE TEMP MACRO all_facts() AS (SELECT count(*) FROM {facts})"
        connection.execute(filled(define, tables))
        view = "CREATE OR REPLACE TEMP VIEW old_keys AS SELECT id FROM {keys} WHERE id < 1030"
        connection.execute(filled(view, tables))
    for query in (
        JOIN.replace("count(*)", "count(*), all_facts()"),
        JOIN + " AND f.n IN (FROM old_keys)",
        JOIN + " AND f.n NOT IN (SELECT id FROM old_keys WHERE id IS NOT NULL)",
        "SELECT count(*) FROM old_keys o JOIN {facts} f ON f.n = o.id",
    ):
        assert answer_of(con, filled(query, folder)) == answer_of(native, filled(query, None))


def test_a_prepared_statement_finds_the_keys_of_each_run(folder: Path, native: Any) -> None:
    con = connect("install")
    query = JOIN + " WHERE j.kind = ? AND j.n < ?"
    for connection, tables in ((con, folder), (native, None)):
        prepared = query.replace("?", "$1", 1).replace("?", "$2", 1)
        connection.execute(f"PREPARE found AS {filled(prepared, tables)}")
    for values in (("new", 50), ("old", 9), ("none", 3), ("new", 2)):
        run = f"EXECUTE found{values!r}"
        assert answer_of(con, run) == answer_of(native, run)
        found = con.execute(filled(query, folder), values).fetchall()
        assert found == native.execute(filled(query, None), values).fetchall()


def test_a_transaction_joins_the_versions_that_it_began_with(tmp_path: Path) -> None:
    facts, keys = str(tmp_path / "facts.lance"), str(tmp_path / "keys.lance")
    lance.write_dataset(facts_rows(), facts)
    lance.write_dataset(keys_rows(), keys)
    con = connect("install")
    text = f"SELECT count(*) FROM '{facts}' f JOIN '{keys}' j ON f.n = j.id"
    con.execute("BEGIN")
    before = con.execute(text).fetchall()
    lance.write_dataset(pa.table({"id": [5, 6]}), keys, mode="overwrite")
    assert con.execute(text).fetchall() == before
    con.execute("COMMIT")
    assert con.execute(text).fetchall() == [(2,)]


def test_strings_of_another_collation_are_all_read(folder: Path, tmp_path: Path) -> None:
    keys = str(tmp_path / "keys.lance")
    lance.write_dataset(pa.table({"code": ["C001", "C002"]}), keys)
    con = connect("install")
    con.execute("SET default_collation = 'NOCASE'")
    text = f"SELECT count(*) FROM {{facts}} f JOIN '{keys}' j ON f.code = j.code"
    assert con.execute(filled(text, folder)).fetchone()[0] > 100


def test_an_index_finds_the_rows_with_the_keys(tmp_path: Path, reads: list[dict[str, Any]]) -> None:
    facts, keys = str(tmp_path / "facts.lance"), str(tmp_path / "keys.lance")
    lance.write_dataset(facts_rows(), facts)
    lance.dataset(facts).create_scalar_index("n", "BTREE")
    lance.write_dataset(keys_rows(), keys)
    con = connect("install")
    text = f"SELECT f.n, kind FROM '{facts}' f JOIN '{keys}' j ON f.n = j.id ORDER BY ALL"
    last = scanned(reads, lambda: con.execute(text).fetchall())[-1]
    assert "is_in" in last[1]
    own = duckdb.connect()
    own.register("f", facts_rows())
    own.register("j", keys_rows())
    expected = own.execute("SELECT f.n, kind FROM f JOIN j ON f.n = j.id ORDER BY ALL").fetchall()
    assert con.execute(text).fetchall() == expected
