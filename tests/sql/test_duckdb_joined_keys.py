"""Rows are left out whose keys the other table of a join does not have."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import connect, needs_install, scanned

from duckdb_adapter.sources import joined_keys, kept_rows
from lancefs.scan import selectivity
from lancefs.table.per_version import PerVersion

pytestmark = needs_install

ROWS = 4096
KEYS_ARE = ("scanned", "kept", "many")
DAY = datetime.date(2026, 1, 1)


def _facts() -> pa.Table:
    numbers = np.arange(ROWS)
    odd = np.random.default_rng(3).integers(0, 300, ROWS)
    days = [DAY + datetime.timedelta(days=int(n) // 40) for n in numbers]
    return pa.table(
        {
            "n": numbers,
            "k": pa.array(odd, pa.int32(), mask=odd % 11 == 0),
            "tiny": pa.array(numbers % 200 - 100, pa.int8()),
            "day": pa.array([None if n % 97 == 0 else day for n, day in enumerate(days)]),
            "at": pa.array(
                [None if n % 5 == 0 else int(n) * 10**6 for n in numbers], pa.timestamp("us")
            ),
            "ns": pa.array(numbers * 500, pa.timestamp("ns", "UTC")),
            "code": [None if n % 13 == 0 else f"c{n // 64:03d}" for n in numbers],
            "price": pa.array([Decimal(int(n)) / 4 for n in numbers], pa.decimal128(9, 2)),
            "x": [float("nan") if n % 7 == 0 else -0.0 if n % 7 == 1 else n / 8 for n in numbers],
            "s": pa.array([{"n": int(n) % 50} for n in numbers]),
        }
    )


def _keys() -> pa.Table:
    numbers = np.arange(60)
    return pa.table(
        {
            "id": pa.array(1000 + numbers * 3, mask=numbers % 10 == 9),
            "n": pa.array(numbers, pa.uint16()),
            "k": pa.array(numbers % 20 * 1000 - 9000, pa.int64()),
            "day": pa.array([DAY + datetime.timedelta(days=int(n) // 3 + 20) for n in numbers]),
            "at": pa.array((numbers + 70) * 10**6, pa.timestamp("us")),
            "ns": pa.array(numbers * 1000, pa.timestamp("ns", "UTC")),
            "code": pa.array([f"c{n // 2:03d}" for n in numbers], pa.large_string()),
            "price": pa.array([Decimal(int(n)) for n in numbers], pa.decimal128(9, 2)),
            "x": [float("nan") if n == 3 else 0.0 if n == 4 else float(n) for n in numbers],
            "kind": [("new", "old", None)[n % 3] for n in numbers],
            "is_new": pa.array(numbers % 20 == 0),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("joined")
    tables = {"facts": (_facts(), "2.1"), "keys": (_keys(), "2.2"), "others": (_keys()[:40], "2.0")}
    for name, (rows, version) in tables.items():
        url = str(path / f"{name}.lance")
        lance.write_dataset(rows, url, max_rows_per_file=1500, data_storage_version=version)
    lance.dataset(str(path / "facts.lance")).delete("n % 500 = 3")
    return path


@pytest.fixture(scope="module")
def native(folder: Path) -> Iterator[Any]:
    connection = duckdb.connect()
    for name in ("facts", "keys", "others"):
        rows = lance.dataset(str(folder / f"{name}.lance")).to_table()
        connection.register("rows", rows)
        connection.execute(f"CREATE TABLE {name} AS FROM rows")
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def facts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_keys, "_MIN_ROWS", 1000)
    monkeypatch.setattr(selectivity, "_MIN_ROWS", 1000)
    monkeypatch.setattr(selectivity, "_MIN_FRAGMENT_ROWS", 10)


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
        monkeypatch.setattr(joined_keys, "_MAX_KEYS", 3)


# Those of which rows of `facts` are left out.
NARROWED = [
    "SELECT * FROM {facts} WHERE n IN (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} f WHERE f.n IN (SELECT j.id FROM {keys} j WHERE kind = 'new')",
    "SELECT n, x FROM {facts} WHERE day IN (SELECT day FROM {keys} WHERE is_new) AND x > 3",
    "SELECT f.n, kind FROM {facts} f JOIN {keys} j ON f.n = j.id",
    "SELECT f.n, kind FROM {facts} f, {keys} j WHERE j.id = f.n AND kind IS NOT NULL",
    "SELECT f.n, kind FROM {facts} f JOIN {keys} USING (day) WHERE kind = 'old'",
    "SELECT sum(f.n), kind FROM {facts} f JOIN {keys} j ON f.code = j.code GROUP BY kind",
    "SELECT sum(f.n) FROM {facts} f JOIN {keys} j ON f.price = j.price",
    "SELECT sum(f.n) FROM {facts} f JOIN {keys} j ON f.at = j.at WHERE j.kind = 'new'",
    "SELECT n FROM {facts} f WHERE EXISTS (SELECT 1 FROM {keys} j WHERE j.id = f.n AND kind = "
    "'new')",
    "SELECT n FROM {facts} f WHERE EXISTS (FROM {keys} WHERE id = f.n)",
    "WITH f AS (SELECT * FROM {facts} WHERE n IN (SELECT id FROM {keys})) SELECT count(*) FROM f",
    "SELECT f.n, o.kind FROM {facts} f JOIN {keys} j ON f.n = j.id LEFT JOIN {others} o ON f.n = "
    "o.id",
    "SELECT n FROM {facts} WHERE n IN (SELECT DISTINCT j.id FROM {keys} j JOIN {others} o USING "
    "(k))",
    "SELECT n FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE id > 1100 ORDER BY id LIMIT 5)",
    "SELECT f.n, j.kind FROM {facts} f JOIN (FROM {keys} WHERE kind = 'new') j ON f.n = j.id",
    "SELECT f.n FROM {facts} f JOIN (SELECT id AS n FROM {keys}) USING (n)",
    "WITH j AS (SELECT id, kind FROM {keys} WHERE n < 30) SELECT f.n FROM j, {facts} f WHERE "
    "j.id = f.n",
    "WITH j AS (SELECT id FROM {keys}) SELECT f.n FROM {facts} f WHERE n IN (FROM j)",
    "WITH i AS (FROM {keys}), j AS (SELECT id AS key FROM i) SELECT f.n FROM {facts} f WHERE n "
    "IN (SELECT key FROM j)",
    "SELECT j.id, f.n FROM {keys} j LEFT JOIN {facts} f ON f.n = j.id",
    "SELECT j.id, f.n FROM {facts} f RIGHT JOIN {keys} j ON f.n = j.id AND f.x > 3",
    "SELECT count(f.n), count(*) FROM {keys} j LEFT JOIN {facts} f USING (day)",
]
OTHERS = [
    "SELECT n FROM (SELECT n, x FROM {facts}) WHERE n IN (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} f JOIN (SELECT n + 1 AS n FROM {keys}) j ON f.n = j.n",
    "SELECT count(*) FROM {facts} f JOIN (SELECT max(id) AS n FROM {keys}) j ON f.n = j.n",
    "SELECT count(*) FROM {facts} f JOIN (SELECT n AS m, id AS n FROM {keys}) j ON f.n = j.n",
    "SELECT count(*) FROM {facts} f JOIN (SELECT * REPLACE (id + 7 AS id) FROM {keys}) j ON f.n "
    "= j.id",
    "SELECT count(*) FROM {facts} f JOIN (SELECT * EXCLUDE (n) FROM {keys}) j ON f.n = j.id",
    "SELECT count(*) FROM {facts} f JOIN (SELECT * FROM {keys} JOIN {others} o USING (id)) j ON "
    "f.n = j.id",
    "SELECT count(*) FROM {facts} f JOIN (FROM {keys}) j(a, b) ON f.n = j.a",
    "WITH j(n, id) AS (SELECT id, n FROM {keys}) SELECT count(*) FROM {facts} f JOIN j USING (n)",
    "WITH j(n, id) AS (SELECT id, n FROM {keys}) SELECT count(*), sum(j.n) FROM {facts} f JOIN j "
    "ON f.n = j.id",
    "WITH j(id, n) AS (SELECT n, id FROM {keys}) SELECT count(*) FROM {facts} f WHERE n IN (SELECT "
    "id FROM j WHERE n > 0)",
    "WITH j AS (FROM {keys}) SELECT count(*) FROM {facts} f JOIN j ON f.n = j.id AND j.id > 1100 "
    "JOIN j i ON i.id < 1100",
    "WITH j AS (FROM {keys}) SELECT count(*) FROM {facts} f WHERE n IN (SELECT id FROM j WHERE n "
    "< 9) "
    "AND (SELECT count(*) FROM j WHERE n > 50) > 3",
    "SELECT count(f.n), count(*) FROM {keys} j LEFT JOIN {facts} f ON f.n = j.id OR j.id IS NULL",
    "SELECT count(f.n), count(*) FROM {facts} f LEFT JOIN {keys} j ON f.n = j.id WHERE j.id IS "
    "NULL",
    "SELECT count(f.n), count(*) FROM {others} o FULL JOIN {keys} j USING (n) LEFT JOIN {facts} "
    "f USING (n)",
    "SELECT count(f.n), count(*) FROM {others} o LEFT JOIN ({facts} f FULL JOIN {keys} j USING "
    "(n)) ON o.id = f.n",
    "SELECT n, count(*) OVER (PARTITION BY kind) FROM (SELECT f.n, kind FROM {facts} f JOIN "
    "{keys} j ON f.n = j.id)",
    "SELECT f.n FROM {facts} f JOIN {keys} j ON f.n = j.id QUALIFY count(*) OVER (PARTITION BY "
    "j.kind) > 15",
    "SELECT count(*) FROM {facts} WHERE n NOT IN (SELECT id FROM {keys} WHERE id IS NOT NULL)",
    "SELECT count(*) FROM {facts} WHERE n NOT IN (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT id FROM {keys}) OR n = 7",
    "SELECT count(*) FROM {facts} WHERE (n IN (SELECT id FROM {keys})) IS NULL",
    "SELECT n, n IN (SELECT id FROM {keys}) FROM {facts}",
    "SELECT count(*) FROM {facts} f WHERE NOT EXISTS (FROM {keys} k WHERE k.id = f.n)",
    "SELECT count(*) FROM {facts} f WHERE EXISTS (SELECT count(*) FROM {keys} k WHERE k.id = f.n)",
    "SELECT count(*) FROM {facts} f WHERE EXISTS (FROM {keys} k WHERE k.id = f.n OR k.n = f.n)",
    "SELECT count(*) FROM {facts} f WHERE EXISTS (FROM {keys} k WHERE n = n)",
    "SELECT count(*), count(k.id) FROM {facts} f LEFT JOIN {keys} k ON f.n = k.id",
    "SELECT count(*), count(k.id), count(f.n) FROM {facts} f RIGHT JOIN {keys} k ON f.n = k.id",
    "SELECT count(*), count(k.id), count(f.n) FROM {facts} f FULL JOIN {keys} k ON f.n = k.id",
    "SELECT count(*) FROM {facts} f ANTI JOIN {keys} k ON f.n = k.id",
    "SELECT count(*) FROM {facts} f SEMI JOIN {keys} k ON f.n = k.id",
    "SELECT count(*) FROM {facts} f LEFT JOIN {keys} k USING (n) JOIN {others} o ON n = o.n",
    "SELECT count(*) FROM {others} o JOIN ({facts} f FULL JOIN {keys} k USING (n)) ON o.n = n",
    "SELECT count(*) FROM {keys} k FULL JOIN {others} o USING (n) JOIN {facts} f USING (n)",
    "SELECT count(*) FROM {keys} k FULL JOIN {others} o USING (n) JOIN {facts} f ON f.n = n",
    "SELECT count(*) FROM {facts} f NATURAL JOIN {keys}",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id OR f.n = k.n",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n IS NOT DISTINCT FROM k.id",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n <= k.id",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.x = k.x",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.ns = k.ns",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.price",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.code = k.id::VARCHAR",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.tiny = k.id",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.tiny = k.k",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.k = k.n AND k.id = f.n",
    "SELECT count(*) FROM {facts} s JOIN {keys} k ON s.s.n = k.n",
    "SELECT count(*) FROM {facts} f, {keys} s WHERE s.n = f.n",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT n + 5 FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT x FROM {keys})",
    "SELECT count(*) FROM {facts} f WHERE n IN (SELECT f.n FROM {keys} k)",
    "SELECT count(*) FROM {facts} f WHERE n IN (SELECT price FROM {keys} UNION SELECT 4000)",
    "SELECT count(*) FROM {facts} f WHERE n IN (SELECT id FROM {keys} UNION ALL SELECT 4000)",
    "SELECT count(*) FROM {facts} f WHERE n > ANY (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} f WHERE n = ALL (SELECT id FROM {keys} WHERE id < 0)",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE kind = 'none')",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE id IS NULL)",
    "SELECT count(*), (SELECT count(*) FROM {facts}) FROM {facts} f JOIN {keys} k ON f.n = k.id",
    "SELECT count(*), (SELECT count(*) FROM {keys}) FROM {facts} f JOIN {keys} k ON f.n = k.id "
    "AND k.id = 1003",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id AND k.id < 1030 "
    "UNION ALL SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id AND k.id > 1100",
    "WITH k AS (SELECT * FROM {keys}), a AS (SELECT f.n FROM {facts} f JOIN k ON f.n = k.id AND "
    "k.id < 1030) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM k WHERE id > 1100)",
    "SELECT f.n, sum(k.n) OVER (PARTITION BY k.kind) FROM {facts} f JOIN {keys} k ON f.n = k.id",
    "SELECT f.n FROM {facts} f JOIN {keys} k ON f.n = k.id QUALIFY k.n > avg(k.n) OVER "
    "(PARTITION BY f.k)",
    "SELECT o.n, (SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id WHERE k.n > o.n) "
    "FROM {others} o",
    "WITH RECURSIVE r AS (SELECT 1000::BIGINT AS n UNION ALL SELECT f.n + 1 FROM r JOIN {facts} "
    "f ON f.n = r.n "
    "JOIN {keys} k ON f.n >= k.n AND k.kind IS NULL AND k.id = 1001 + k.n * 3 - 1 WHERE r.n < "
    "1005) FROM r",
    "SELECT n FROM {facts} WHERE n IN (SELECT id FROM {keys}) USING SAMPLE 100 PERCENT (bernoulli)",
    "SELECT count(*) FROM (FROM {facts} USING SAMPLE 100%) f JOIN {keys} k ON f.n = k.id",
    "SELECT f.n, k.id FROM {facts} f POSITIONAL JOIN {keys} k WHERE f.n = k.id",
    "SELECT f.n, k.id FROM {facts} f ASOF JOIN {keys} k ON f.k = k.n AND f.n >= k.id",
    "SELECT l.c, f.n FROM {keys} k, LATERAL (SELECT count(*) c FROM {others} o WHERE o.n < k.n) "
    "l, {facts} f WHERE f.n = k.id AND l.c = f.k",
    "SELECT f.n FROM {facts} f WHERE f.n IN (SELECT id FROM {keys}) ORDER BY f.x DESC NULLS "
    "LAST, n LIMIT 5",
    "SELECT f.n, row_number() OVER () FROM {facts} f WHERE f.n IN (SELECT id FROM {keys} WHERE "
    "kind = 'old')",
]


def _filled(query: str, folder: Path | None) -> str:
    names = ("facts", "keys", "others")
    return query.format(**{n: n if folder is None else f"'{folder / n}.lance'" for n in names})


def _answer(connection: Any, text: str) -> list[str]:
    return sorted(map(repr, connection.execute(text).fetchall()))


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
    con, expected = connect("shared"), _answer(native, _filled(query, None))
    assert _answer(con, _filled(query, folder)) == expected
    assert sorted(map(repr, con.sql(_filled(query, folder)).fetchall())) == expected


@pytest.mark.parametrize("query", NARROWED)
def test_rows_with_keys_that_the_other_table_has_not_are_left_out(
    folder: Path, one_thread: Any, keys_are: None, reads: list[dict[str, Any]], query: str
) -> None:
    text = _filled(query, folder)
    last = scanned(reads, lambda: one_thread.execute(text).fetchall())[-1]
    assert "is_in" in last[1] or "<=" in last[1], last


@pytest.mark.parametrize("keys_are", ["scanned", "kept"], indirect=True)
def test_keys_that_do_not_pass_are_not_looked_for(
    folder: Path, one_thread: Any, keys_are: None, reads: list[dict[str, Any]]
) -> None:
    query = "SELECT f.n FROM {facts} f JOIN {keys} j ON f.n = j.id WHERE j.kind = 'new'"
    text = _filled(query, folder)
    _, filter = scanned(reads, lambda: one_thread.execute(text).fetchall())[-1]
    assert "1000" in filter
    assert "1003" not in filter  # is old


@pytest.mark.parametrize(
    "query",
    [q if n % 4 == 0 else pytest.param(q, marks=pytest.mark.slow) for n, q in enumerate(NARROWED)],
)
def test_many_threads_find_the_same(folder: Path, native: Any, query: str) -> None:
    con, expected = connect("install"), _answer(native, _filled(query, None))
    con.execute("SET threads = 4")
    text = _filled(query, folder)
    with ThreadPoolExecutor(3) as pool:
        found = list(
            pool.map(lambda cursor: _answer(cursor, text), [con.cursor() for _ in range(6)])
        )
    assert found == [expected] * 6


JOIN = "SELECT count(*) FROM {facts} f JOIN {keys} j ON f.n = j.id"


def test_macros_and_views_that_read_a_table_again_see_all_of_it(folder: Path, native: Any) -> None:
    con = connect("install")
    for connection, tables in ((con, folder), (native, None)):
        define = "CREATE OR REPLACE TEMP MACRO all_facts() AS (SELECT count(*) FROM {facts})"
        connection.execute(_filled(define, tables))
        view = "CREATE OR REPLACE TEMP VIEW old_keys AS SELECT id FROM {keys} WHERE id < 1030"
        connection.execute(_filled(view, tables))
    for query in (
        JOIN.replace("count(*)", "count(*), all_facts()"),
        JOIN + " AND f.n IN (FROM old_keys)",
        JOIN + " AND f.n NOT IN (SELECT id FROM old_keys WHERE id IS NOT NULL)",
        "SELECT count(*) FROM old_keys o JOIN {facts} f ON f.n = o.id",
    ):
        assert _answer(con, _filled(query, folder)) == _answer(native, _filled(query, None))


def test_a_prepared_statement_finds_the_keys_of_each_run(folder: Path, native: Any) -> None:
    con = connect("install")
    query = JOIN + " WHERE j.kind = ? AND j.n < ?"
    for connection, tables in ((con, folder), (native, None)):
        prepared = query.replace("?", "$1", 1).replace("?", "$2", 1)
        connection.execute(f"PREPARE found AS {_filled(prepared, tables)}")
    for values in (("new", 50), ("old", 9), ("none", 3), ("new", 2)):
        run = f"EXECUTE found{values!r}"
        assert _answer(con, run) == _answer(native, run)
        found = con.execute(_filled(query, folder), values).fetchall()
        assert found == native.execute(_filled(query, None), values).fetchall()


def test_a_transaction_joins_the_versions_that_it_began_with(tmp_path: Path) -> None:
    facts, keys = str(tmp_path / "facts.lance"), str(tmp_path / "keys.lance")
    lance.write_dataset(_facts(), facts)
    lance.write_dataset(_keys(), keys)
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
    assert con.execute(_filled(text, folder)).fetchone()[0] > 100


def test_an_index_finds_the_rows_with_the_keys(tmp_path: Path, reads: list[dict[str, Any]]) -> None:
    facts, keys = str(tmp_path / "facts.lance"), str(tmp_path / "keys.lance")
    lance.write_dataset(_facts(), facts)
    lance.dataset(facts).create_scalar_index("n", "BTREE")
    lance.write_dataset(_keys(), keys)
    con = connect("install")
    text = f"SELECT f.n, kind FROM '{facts}' f JOIN '{keys}' j ON f.n = j.id ORDER BY ALL"
    last = scanned(reads, lambda: con.execute(text).fetchall())[-1]
    assert "is_in" in last[1]
    own = duckdb.connect()
    own.register("f", _facts())
    own.register("j", _keys())
    expected = own.execute("SELECT f.n, kind FROM f JOIN j ON f.n = j.id ORDER BY ALL").fetchall()
    assert con.execute(text).fetchall() == expected
