"""Statements over the tables of an attached folder read as little as those over paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import connect, needs_install, scanned

import duckdb_adapter
from duckdb_adapter.lake_names import LakeTable, parse_lake_name

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_long")]

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = pa.table(
        {
            "id": range(ROWS),
            "level": [("debug", "info", None)[n % 3] for n in range(ROWS)],
            "host": [f"host-{n % 7:02}" for n in range(ROWS)],
            "message": [f"request {n}" for n in range(ROWS)],
            "req": [{"status": n % 5, "latency": -n} for n in range(ROWS)],
            "at": [
                {"city": f"c{n % 9}", "place": {"x": n, "y": None if n % 4 else "y"}, "n": n % 3}
                if n % 11
                else None
                for n in range(ROWS)
            ],
            "ts": pa.array([n * 7919 % ROWS for n in range(ROWS)], pa.timestamp("us")),
        }
    )
    path = tmp_path_factory.mktemp("lakes") / "logs.lance"
    lance.write_dataset(rows, str(path), data_storage_version="2.1")
    lance.dataset(str(path)).delete("id % 100 = 7")
    return path


@pytest.fixture
def con(table: Path) -> Iterator[Any]:
    connection = connect("install")
    duckdb_adapter.attach(connection, table.parent, as_="lake")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def attached(table: Path) -> Iterator[Any]:
    """A connection for queries only, which tests share."""
    connection = connect("install")
    duckdb_adapter.attach(connection, table.parent, as_="lake")
    yield connection
    connection.close()


STATEMENTS = [
    "SELECT * FROM {t} ORDER BY ts, id LIMIT 3",
    "SELECT count(*) FROM {t} WHERE message LIKE 'request 299%'",
    "SELECT logs.level, count(*) AS n FROM {t} AS logs GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, avg(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT req.status, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT sum(req.status) FROM {t}",
    "SELECT sum(req.latency), max(id) FROM {t} WHERE req.status < 3 AND id > 5",
    "SELECT count(l.at.n), max(l.at.place.x) FROM {t} AS l",
    "SELECT l.at.place, id FROM {t} AS l ORDER BY l.at.city DESC, id LIMIT 4",
    "SELECT count(*) FROM {t} AS l WHERE l.at.place.y IS NULL AND l.at.n = 1",
    "SELECT l.at, sum(l.at.n) OVER (ORDER BY id) FROM {t} AS l ORDER BY id LIMIT 3",
    "SELECT min(ts), max(id), count(*) FROM {t}",
    "SELECT count(*) FROM {t}",
    "SELECT id, level FROM {t} LIMIT 5 OFFSET 2500",
    "SELECT id FROM {t} WHERE id = 77",
    "WITH w AS (FROM {t}) SELECT host, count(*) FROM w WHERE host <> 'host-01' GROUP BY ALL "
    "ORDER BY ALL",
]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("name", ["lake.logs", "LAKE.main.Logs"])
def test_a_statement_reads_what_one_over_the_path_reads(
    attached: Any, native: Any, table: Path, reads: list[dict[str, Any]], statement: str, name: str
) -> None:
    con = attached
    expected = native.execute(statement.format(t="native")).fetchall()
    over_path, over_view = statement.format(t=f"'{table}'"), statement.format(t=name)
    for _ in range(3):
        of_path = scanned(reads, lambda: con.execute(over_path).fetchall())
        assert con.execute(over_view).fetchall() == con.sql(over_view).fetchall() == expected
    assert scanned(reads, lambda: con.execute(over_view).fetchall()) == of_path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT sum(req.latency), count(message) FROM {t}",
        "SELECT count(req.status) FROM {t}",
        "SELECT l.at.place.y, l.at.n, max(host) FROM {t} AS l WHERE l.at.city <> 'c3' GROUP BY ALL "
        "ORDER BY ALL",
    ],
)
def test_a_view_keeps_its_columns(con: Any, native: Any, statement: str) -> None:
    for _ in range(3):
        expected = native.execute(statement.format(t="native")).fetchall()
        assert con.execute(statement.format(t="lake.logs")).fetchall() == expected


def test_views_of_other_rows_are_told_apart(con: Any) -> None:
    con.execute("CREATE VIEW logs AS FROM lake.logs WHERE id < 6")
    con.execute("CREATE MACRO early() AS TABLE FROM lake.logs WHERE id < 9")
    con.execute("CREATE SCHEMA other")
    con.execute("CREATE VIEW other.logs AS FROM lake.logs WHERE id < 3")
    counts = "SELECT count(*), count(level), min(id), max(id) FROM {}"
    for _ in range(3):
        assert con.execute(counts.format("logs")).fetchall() == [(6, 4, 0, 5)]
        assert con.execute(counts.format("early()")).fetchall() == [(8, 5, 0, 8)]
        assert con.execute(counts.format("other.logs")).fetchall() == [(3, 2, 0, 2)]
        assert con.execute(counts.format("lake.logs")).fetchall() == [(2970, 1980, 0, 2999)]
        likes = "SELECT count(*) FROM {} WHERE message LIKE 'request 5%'"
        assert con.execute(likes.format("logs")).fetchall() == [(1,)]
        both = "SELECT count(*) FROM lake.logs a JOIN logs b USING (id) WHERE a.host LIKE 'h%'"
        assert con.execute(both).fetchall() == [(6,)]
    con.execute("USE lake")
    assert con.execute(counts.format("logs")).fetchall() == [(2970, 1980, 0, 2999)]


def test_lakes_of_the_same_name_have_their_own_rows(tmp_path: Path) -> None:
    one, two = connect("install"), connect("install")
    for number, con in enumerate((one, two), 1):
        folder = tmp_path / str(number)
        lance.write_dataset(pa.table({"a": ["x"] * 20 * number}), str(folder / "t.lance"))
        duckdb_adapter.attach(con, folder, as_="the lake")
    for _ in range(3):
        for number, con in enumerate((one, two), 1):
            query = """SELECT a, count(*) FROM "the lake".t GROUP BY ALL"""
            assert con.execute(query).fetchall() == [("x", 20 * number)]


@pytest.mark.parametrize("part", ["orders", 'a "b" of "c": d', "x\ny", "t.lance@v7"])
def test_names_that_views_read_can_be_read(part: str) -> None:
    table = LakeTable(part, part, part)
    assert parse_lake_name(table.name()) == table
    assert parse_lake_name(part) is None
