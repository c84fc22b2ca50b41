"""The rows of small tables stay decoded for the statements that follow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, assert_same_rows, connect, needs_install

from duckdb_adapter.sources import kept_rows
from lancefs.storage import SharedBudget
from lancefs.table.per_version import PerVersion

ROWS = 60


def _rows(first: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": range(first, first + ROWS),
            "name": [None if n % 7 == 0 else f"n{n % 5}" for n in range(ROWS)],
            "price": pa.array([Decimal(n) / 4 for n in range(ROWS)], pa.decimal128(9, 2)),
            "half": pa.array([n / 8 for n in range(ROWS)], pa.float16()),
            "since": pa.array([n * 10**6 for n in range(ROWS)], pa.timestamp("us", "UTC")),
            "is_new": [n % 3 == 0 for n in range(ROWS)],
            "tags": [[f"t{k}" for k in range(n % 4)] for n in range(ROWS)],
            "req": [None if n % 11 == 0 else {"a": n, "b": f"b{n}"} for n in range(ROWS)],
            "nothing": pa.nulls(ROWS),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "small.lance"
    lance.write_dataset(_rows(), str(path), max_rows_per_file=25)
    lance.dataset(str(path)).delete("id % 9 = 5")
    return path


@pytest.fixture(autouse=True)
def rows_are_kept(no_rows_are_kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of small tables are kept, those of other tests excepted."""
    monkeypatch.setattr(kept_rows, "MAX_ROWS", 1000)
    monkeypatch.setattr(kept_rows, "_KEPT", PerVersion(kept_rows._Kept))


QUERIES = [
    "SELECT * FROM {t} ORDER BY id",
    "SELECT count(*) FROM {t}",
    "SELECT count(name), count(nothing), min(id), max(name), sum(price) FROM {t}",
    "SELECT name, count(*), avg(id) FROM {t} GROUP BY name ORDER BY ALL",
    "SELECT id FROM {t} WHERE price BETWEEN 7 AND 20.5 AND name IN ('n1', 'n2') ORDER BY id",
    "SELECT id FROM {t} WHERE half > 3 AND is_new ORDER BY id",
    "SELECT id, name FROM {t} WHERE name LIKE '%3' ORDER BY id DESC LIMIT 4",
    "SELECT id FROM {t} WHERE since >= '1970-01-01 00:00:30+00' ORDER BY since LIMIT 3 OFFSET 2",
    "SELECT req.a, req.b IS NULL FROM {t} WHERE req.a > 40 OR req IS NULL ORDER BY id",
    "SELECT count(req.b), count(req) FROM {t}",
    "SELECT x, count(*) FROM (SELECT unnest(tags) AS x FROM {t}) GROUP BY x ORDER BY x",
    "SELECT a.id, b.name FROM {t} a JOIN {t} b ON a.id = b.id + 1 ORDER BY a.id",
    "SELECT id FROM {t} t WHERE EXISTS (FROM {t} u WHERE u.id = t.id AND u.is_new) ORDER BY id",
    "SELECT t FROM {t} AS t WHERE id = 3",
    "SELECT id FROM {t} LIMIT 0",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", QUERIES)
def test_queries_find_the_same_again_and_again(
    con: Any, native: Any, table: Path, query: str
) -> None:
    for _ in range(5):
        assert_same_rows(con, native, table, query)


@needs_install
@pytest.mark.parametrize("query", QUERIES)
def test_each_query_finds_rows_that_others_had_kept(native: Any, table: Path, query: str) -> None:
    con = connect("shared")
    for other in QUERIES[:4]:
        con.execute(other.format(t=f"'{table}'")).fetchall()
    assert_same_rows(con, native, table, query)


@needs_install
def test_a_table_that_is_named_again_is_read_once(table: Path, reads: list[Any]) -> None:
    con = connect("install")
    query = f"SELECT name, count(*) FROM '{table}' WHERE id > 3 GROUP BY name ORDER BY ALL"
    for _ in range(2):
        con.execute(query).fetchall()  # by a question or two, nothing is kept
        assert reads != []
        del reads[:]
    con.execute(query).fetchall()
    del reads[:]
    con.execute(query).fetchall()
    con.execute(query.replace("> 3", "= 7")).fetchall()
    assert reads == []
    con.execute(query.replace("> 3", "= 7 OR is_new")).fetchall()
    assert [each["columns"] for each in reads] == [["is_new"]]


@needs_install
def test_columns_that_were_let_go_are_read_again(
    native: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "_SHARED", SharedBudget(lambda: 1 << 30, 1))
    con = connect("install")
    for _ in range(2):
        for query in QUERIES[:6]:
            assert_same_rows(con, native, table, query)
        kept_rows._SHARED.let_go_all()


@needs_install
def test_threads_find_the_same(native: Any, table: Path) -> None:
    con = connect("install")
    queries = [query for query in QUERIES for _ in range(4)]
    expected = [native.execute(query.format(t="native")).fetchall() for query in queries]

    def run(query: str) -> list[Any]:
        rows: list[Any] = con.cursor().execute(query.format(t=f"'{table}'")).fetchall()
        return rows

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, queries)) == expected


@needs_install
def test_a_new_version_is_read(tmp_path: Path) -> None:
    con, path = connect("install"), tmp_path / "growing.lance"
    lance.write_dataset(_rows(), str(path))
    query = f"SELECT count(*), max(id) FROM '{path}' WHERE id >= 0"
    for _ in range(4):
        assert con.execute(query).fetchall() == [(ROWS, ROWS - 1)]
    lance.write_dataset(_rows(first=1000), str(path), mode="append")
    for _ in range(4):
        assert con.execute(query).fetchall() == [(2 * ROWS, 1000 + ROWS - 1)]


@needs_install
def test_a_relation_finds_the_version_that_it_was_made_of(tmp_path: Path) -> None:
    con, path = connect("install"), tmp_path / "growing.lance"
    lance.write_dataset(_rows(), str(path))
    for _ in range(4):
        relation = con.sql(f"SELECT count(*) FROM '{path}' WHERE id >= 0")
    lance.write_dataset(_rows(first=1000), str(path), mode="append")
    assert relation.fetchall() == [(ROWS,)]


@needs_install
def test_a_column_that_is_broken_is_reported_each_time(tmp_path: Path) -> None:
    con, path = connect("install"), tmp_path / "broken.lance"
    lance.write_dataset(_rows(), str(path))
    (file,) = (path / "data").iterdir()
    damaged = bytearray(file.read_bytes())
    damaged[:400] = b"\xff" * 400
    file.write_bytes(damaged)
    for _ in range(4):
        query = f"SELECT count(is_new) FROM '{path}' WHERE is_new IS NOT NULL"
        assert con.execute(query).fetchall() == [(ROWS,)]
        with pytest.raises(duckdb.Error, match="data/"):
            con.execute(f"SELECT max(id), max(name) FROM '{path}' WHERE id >= 0").fetchall()


@needs_install
def test_a_table_with_long_values_is_not_kept(
    table: Path, reads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    con, query = connect("install"), f"SELECT max(name), max(id) FROM '{table}' WHERE id > 3"
    for _ in range(2):
        con.execute(query).fetchall()
    monkeypatch.setattr(kept_rows, "_MAX_BYTES", 100)
    for _ in range(3):
        del reads[:]
        assert con.execute(query).fetchall() == [("n4", ROWS - 2)]
        assert reads != []


@needs_install
def test_columns_out_of_duckdbs_range_are_errors_as_before(tmp_path: Path) -> None:
    con, path = connect("install"), tmp_path / "late.lance"
    late = pa.array([2**62], pa.timestamp("s"))
    lance.write_dataset(pa.table({"id": [1], "at": late}), str(path))
    for _ in range(4):
        assert con.execute(f"SELECT id FROM '{path}' WHERE id > 0").fetchall() == [(1,)]
    for _ in range(2):
        with pytest.raises(duckdb.Error, match="at"):
            con.execute(f"SELECT at FROM '{path}' WHERE id > 0").fetchall()
