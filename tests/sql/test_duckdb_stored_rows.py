"""Statements that store the rows of a query read what the query reads, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import lance
import pytest
from roads import EACH_DATABASE, connect, needs_install, write_logs
from support import ORDERS, REPOSITORY

from duckdb_adapter.queries import query_texts
from duckdb_adapter.queries.parsing import parse
from duckdb_adapter.queries.query_texts import query_in
from duckdb_adapter.statements import begins_transaction, target_of, versioned_names

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "logs.lance"
    write_logs(path, ROWS)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


# Statements, and the queries in them.
WITH_QUERIES = {
    "EXPLAIN SELECT 1": "SELECT 1",
    "explain analyze (FORMAT json) FROM t": "FROM t",
    "EXPLAIN CREATE TABLE x AS SELECT 1": "SELECT 1",
    "CREATE TABLE x AS FROM t": "FROM t",
    'create or replace temp table "a as b".x (c, "d") as (SELECT 1, 2)': "(SELECT 1, 2)",
    "-- a table\n CREATE TABLE IF NOT EXISTS /* AS */ x AS WITH a AS (SELECT 1) FROM a": (
        "WITH a AS (SELECT 1) FROM a"
    ),
    "INSERT INTO x SELECT 1;": "SELECT 1;",
    "INSERT OR REPLACE INTO main.x(a, b) SELECT 1, 2": "SELECT 1, 2",
    "INSERT INTO x BY NAME FROM t": "FROM t",
    "INSERT INTO x (SELECT a FROM t)": "(SELECT a FROM t)",
    "COPY (SELECT ') TO ' FROM t) TO 'x.csv' (FORMAT csv)": "SELECT ') TO ' FROM t",
    "COPY(FROM t)TO 'x.parquet'": "FROM t",
    'CREATE TEMP TYPE "x y" AS ENUM (SELECT DISTINCT a FROM t ORDER BY 1);': (
        "SELECT DISTINCT a FROM t ORDER BY 1"
    ),
}


def test_a_plain_query_compiles_no_pattern_of_other_statements() -> None:
    """Each takes a millisecond, which the first query of a process would wait for."""
    query_texts._pattern.cache_clear()
    for text in ("SELECT 1", "/* EXPLAIN */ FROM t", "-- COPY\n(SELECT 2)", ""):
        assert query_in(text) == text
        assert not query_texts.fires_triggers(text)
    assert query_texts._pattern.cache_info().currsize == 0


@pytest.mark.parametrize("text", WITH_QUERIES)
def test_the_query_in_a_statement_is_found(text: str) -> None:
    assert query_in(text).strip() == WITH_QUERIES[text]
    assert parse(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v AS FROM t",
        "CREATE MACRO m() AS TABLE FROM t",
        "CREATE TABLE x (a INTEGER)",
        "CREATE TABLE x AS FROM t WITH NO DATA",
        "CREATE TABLE x AS FROM t; FROM u",
        "CREATE TYPE x AS ENUM ('a', 'b')",
        "INSERT INTO x DEFAULT VALUES",
        "INSERT INTO x FROM t ON CONFLICT DO NOTHING",
        "INSERT INTO x FROM t RETURNING a",
        "COPY t TO 'x.csv'",
        "COPY (FROM t) TO 'a) TO b'",
        "COPY (FROM t) TO 'x'; COPY (FROM u) TO 'y'",
        "PREPARE p AS FROM t",
        "EXPLAIN",
    ],
)
def test_other_statements_have_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE x" + "/* a */" * 1400 + "(",
        "CREATE TABLE x " + "-- a\n" * 1900 + "ASK",
        "CREATE" + " " * 9900 + "TABLE",
        "/*" * 4900,
        "COPY (" + ") TO " * 1900,
        "CREATE TYPE x AS ENUM (" + ") /**/ ; " * 1000,
        "INSERT INTO x(" + "a ," * 3000,
        'CREATE TABLE "' + '""' * 4900,
        "EXPLAIN " * 1200,
    ],
)
def test_no_text_takes_long_to_be_read(text: str) -> None:
    """Patterns that try all ways to divide what is between words would not come to an end."""
    statement = SimpleNamespace(query=text, type=SimpleNamespace(name="CREATE"))
    assert query_in(text) in text
    assert not begins_transaction(statement)
    assert versioned_names(statement, "Catalog type does not support time travel") == {}
    assert all(part in text for part in target_of(statement))


# Queries over {t} for the first rows.
STORED = [
    "SELECT * FROM {t} ORDER BY ts DESC LIMIT 10",
    "SELECT id, req.status AS s FROM {t} WHERE id > 100 ORDER BY ts LIMIT 5 OFFSET 3",
]
# How rows are stored.
STORE = {
    "create": "CREATE TABLE stored AS {}",
    "insert": "CREATE TABLE stored AS {}; TRUNCATE stored; INSERT INTO stored {}",
    "copy": "COPY ({}) TO '{file}' (FORMAT csv)",
}


def stored_rows(con: Any, how: str, query: str, file: Path) -> list[Any]:
    """Store the rows of a query, and return what was stored."""
    for statement in STORE[how].split("; "):
        con.execute(statement.replace("{file}", str(file)).replace("{}", query))
    if how == "copy":
        return file.read_text("utf-8").splitlines()
    rows: list[Any] = con.execute("FROM stored").fetchall()
    return rows


@pytest.fixture
def own(native: Any) -> Any:
    """A connection to DuckDB's own table that has stored nothing."""
    connection = native.cursor()
    connection.execute("DROP TABLE IF EXISTS stored")
    return connection


@EACH_DATABASE
@pytest.mark.parametrize("how", STORE)
@pytest.mark.parametrize("query", STORED)
def test_first_rows_are_stored(
    con: Any, own: Any, table: Path, read: list[list[str]], tmp_path: Path, how: str, query: str
) -> None:
    found = stored_rows(con, how, query.format(t=f"'{table}'"), tmp_path / "found.csv")
    assert found == stored_rows(own, how, query.format(t="native"), tmp_path / "expected.csv")
    assert found
    phases = [len([name for name in columns if name != "_rowoffset"]) for columns in read]
    assert min(phases) < max(phases)  # the other columns of few rows at the end


# Queries over {t} of which each kind of source answers one.
OTHERS = [
    "SELECT count(*) AS n FROM {t}",
    "SELECT level, count(*) AS n, min(level) AS low FROM {t} GROUP BY level ORDER BY level",
    "SELECT max(id) AS last, min(ts) AS first FROM {t}",
    "SELECT sum(req.status) AS s, count(req.latency) AS n FROM {t}",
    "SELECT id, message FROM {t} WHERE message LIKE 'request 1%' ORDER BY id",
    "SELECT id, level FROM {t} LIMIT 7 OFFSET 1500",
    "SELECT level, req.status AS s, count(*) AS n FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT level FROM {t} ORDER BY 1",
    "SELECT id FROM {t} QUALIFY row_number() OVER (PARTITION BY level ORDER BY ts DESC) = 1 "
    "ORDER BY id",
    "WITH a AS (SELECT * FROM {t} WHERE message LIKE '%9') SELECT level, count(*) AS n FROM a "
    "GROUP BY 1 ORDER BY 1",
]


@EACH_DATABASE
@pytest.mark.usefixtures("any_table_is_long")
@pytest.mark.parametrize("how", STORE)
@pytest.mark.parametrize("query", OTHERS)
def test_rows_of_any_query_are_stored(
    con: Any, own: Any, table: Path, tmp_path: Path, how: str, query: str
) -> None:
    found = stored_rows(con, how, query.format(t=f"'{table}'"), tmp_path / "found.csv")
    assert found == stored_rows(own, how, query.format(t="native"), tmp_path / "expected.csv")
    if how == "create":
        described = "SELECT column_name, column_type FROM (DESCRIBE stored)"
        assert con.execute(described).fetchall() == own.execute(described).fetchall()


@EACH_DATABASE
@needs_install
@pytest.mark.usefixtures("any_table_is_long")
@pytest.mark.parametrize("query", [*STORED, *OTHERS])
def test_triggers_that_read_the_table_get_all_rows(con: Any, table: Path, query: str) -> None:
    query = query.format(t=f"'{table}'")
    rows = lance.dataset(str(table)).to_table()["message"]
    con.execute(f"CREATE TABLE stored AS FROM ({query}) LIMIT 0")
    con.execute("CREATE TABLE seen (messages BIGINT, last VARCHAR)")
    con.execute(
        "CREATE TRIGGER look AFTER INSERT ON stored "
        f"INSERT INTO seen SELECT count(message), max(message) FROM '{table}'"
    )
    con.execute(f"INSERT INTO stored {query}")
    assert con.execute("FROM seen").fetchall() == [(len(rows), max(rows.to_pylist()))]


@needs_install
@pytest.mark.usefixtures("any_table_is_long")
def test_relations_are_stored(native: Any, table: Path, tmp_path: Path) -> None:
    con = connect("install")
    for number, query in enumerate([*STORED, *OTHERS]):
        relation = con.sql(query.format(t=f"'{table}'"))
        expected = native.execute(query.format(t="native")).fetchall()
        relation.to_table(f"stored_{number}")
        assert con.execute(f"FROM stored_{number}").fetchall() == expected
        relation.insert_into(f"stored_{number}")
        assert con.execute(f"FROM stored_{number}").fetchall() == expected * 2
        relation.write_parquet(str(tmp_path / "rows.parquet"))
        file = f"FROM '{tmp_path / 'rows.parquet'}'"
        assert duckdb.execute(file).fetchall() == expected


@needs_install
@pytest.mark.usefixtures("any_table_is_long")
def test_a_pivot_reads_what_it_needs(native: Any, table: Path, reads: list[dict[str, Any]]) -> None:
    query = "PIVOT {t} ON level USING count(*), max(id) GROUP BY level ORDER BY level"
    expected = native.execute(query.format(t="native")).fetchall()
    con = connect("install")
    for _ in range(2):
        reads.clear()
        assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected
    # The values of `level` are known by now.
    assert [list(one["columns"]) for one in reads] == [["id", "level"]]


def test_the_command_line_stores_rows_in_a_file(tmp_path: Path) -> None:
    query = f"COPY (SELECT city FROM '{ORDERS}') TO '{tmp_path}/cities.csv'"
    done = subprocess.run(
        [sys.executable, "-m", "lancefs", "sql", query],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len((tmp_path / "cities.csv").read_text().splitlines()) == 1192
