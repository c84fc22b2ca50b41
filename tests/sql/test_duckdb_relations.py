"""Relations of Python, `con.sql(…)`, read no more of a table than statements, of one version."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import lance
import pytest
from roads import connect, needs_install, run_python, scanned, write_logs

import lancefs
from duckdb_adapter.queries.parsing import _parsed
from duckdb_adapter.replacement_scan import BoundVersions
from duckdb_adapter.resolved_names import ResolvedName
from duckdb_adapter.sources.rows import Rows

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_long")]

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("relations") / "logs.lance"
    write_logs(path, ROWS)
    return path


@pytest.fixture(params=["install", "connect"])
def con(request: pytest.FixtureRequest) -> Any:
    return connect(request.param)


STATEMENTS = [
    "SELECT * FROM {t} ORDER BY ts, id LIMIT 3",
    "SELECT count(*) FROM {t} WHERE message LIKE 'request 299%'",
    "SELECT level, count(*) AS n FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, req.status, sum(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT min(ts), max(ts) FROM {t}",
    "SELECT sum(req.status) FROM {t}",
    "SELECT count(message) FROM {t}",
    "SELECT id FROM {t} LIMIT 5 OFFSET 2500",
    "SELECT a.level FROM {t} AS a WHERE a.id = 77",
    "FROM {t} WHERE id < 3",
    "SELECT DISTINCT level FROM {t} ORDER BY level",
    "WITH l AS (FROM {t}) SELECT count(*) FROM l WHERE level = 'info'",
    "SELECT count(*) FROM {t} AS a JOIN {t} AS b USING (id) WHERE a.level = 'info'",
    "FROM (FROM {t} ORDER BY ts LIMIT 4) SELECT sum(id)",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_relation_reads_what_the_statement_reads(
    con: Any, native: Any, table: Path, reads: list[dict[str, Any]], statement: str
) -> None:
    expected = native.execute(statement.format(t="native")).fetchall()
    query = statement.format(t=f"'{table}'")
    for _ in range(3):
        of_statement = scanned(reads, lambda: con.execute(query).fetchall())
    assert scanned(reads, lambda: con.sql(query).fetchall()) == of_statement
    relation = con.sql(query)
    assert relation.fetchall() == relation.fetchall() == expected
    assert relation.df().shape[0] == relation.to_arrow_table().num_rows == len(expected)
    assert con.execute(f"SELECT * FROM ({query})").fetchall() == expected


def test_a_relation_that_is_made_again_is_not_parsed_again(con: Any, table: Path) -> None:
    query = f"SELECT level, count(*) FROM '{table}' WHERE id > 5 GROUP BY level ORDER BY ALL"
    first = con.sql(query).fetchall()
    parsed = _parsed.cache_info().misses
    assert con.sql(query).fetchall() == first
    assert _parsed.cache_info().misses == parsed


def test_what_is_done_to_a_relation_counts(
    con: Any, table: Path, reads: list[dict[str, Any]], no_first_rows_are_known: None
) -> None:
    logs = con.sql(f"FROM '{table}'")
    first = logs.order("ts DESC").limit(3)
    of_first = scanned(reads, first.fetchall)
    assert of_first[0][0] == ["ts"]
    assert first.fetchall() == con.execute(f"FROM '{table}' ORDER BY ts DESC LIMIT 3").fetchall()
    of_members = scanned(reads, logs.aggregate("sum(req.latency)").fetchall)
    assert {column for columns, _ in of_members for column in columns} == {"req.latency"}
    assert logs.filter("level = 'info'").aggregate("count(*)").fetchall() == [(1000,)]
    late = logs.filter("level = 'info'").filter("id > 2990").aggregate("id").order("id")
    assert late.fetchall() == [(2992,), (2995,), (2998,)]
    assert logs.limit(2, offset=2000).project("id").fetchall() == [(2000,), (2001,)]
    assert logs.filter(f"id = (SELECT max(id) FROM '{table}')").fetchall()[0][0] == 2999
    assert logs.project("id * 2 AS twice").aggregate("max(twice)").fetchall() == [(5998,)]
    assert logs.join(logs.set_alias("more"), "id").aggregate("count(*)").fetchall() == [(ROWS,)]
    assert logs.union(logs).aggregate("count(*)").fetchall() == [(2 * ROWS,)]
    assert con.sql("SELECT count(*) FROM first").fetchall() == [(3,)]
    assert "request 0" in str(con.sql(f"SELECT * FROM '{table}' ORDER BY id"))


VERSIONED = [
    "SELECT level, count(*) FROM '{}' GROUP BY ALL ORDER BY ALL",
    "SELECT level, req.status, count(*) FROM '{}' GROUP BY ALL ORDER BY ALL",
    "SELECT min(id), max(id), count(*) FROM '{}'",
    "SELECT count(*) FROM '{}'",
    "SELECT count(*) FROM '{}' WHERE message LIKE 'request 2%'",
    "SELECT id, level FROM '{}' ORDER BY id DESC LIMIT 2",
    "SELECT count(*), sum(id) FROM '{0}' AS a JOIN '{0}' AS b USING (id)",
]


@pytest.mark.parametrize("query", VERSIONED)
def test_a_relation_keeps_the_version_of_its_creation(con: Any, tmp_path: Path, query: str) -> None:
    path = tmp_path / "t.lance"
    write_logs(path, 1000)
    query = query.format(path)
    old = con.sql(query)
    before = con.execute(query).fetchall()
    write_logs(path, 1100, mode="append")
    after = con.execute(query).fetchall()
    assert before != after
    assert old.fetchall() == before
    new = con.sql(query)
    for _ in range(2):
        assert (old.fetchall(), new.fetchall()) == (before, after)
    other = connect("shared").sql(query)
    del new
    assert (old.fetchall(), other.fetchall()) == (before, after)
    # Columns that are added, and rows that a table of the same name has.
    lance.dataset(str(path)).add_columns({"more": "id + 1"})
    assert old.fetchall() == before
    write_logs(path, 1000, mode="overwrite")
    assert (con.sql(query).fetchall(), old.fetchall()) == (before, before)


def test_relations_of_two_versions_are_joined(con: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    write_logs(path, 1000)
    old = con.sql(f"SELECT id, level FROM '{path}'").set_alias("old")
    write_logs(path, 10, mode="append")
    new = con.sql(f"SELECT level, count(*) AS n FROM '{path}' GROUP BY ALL").set_alias("new")
    joined = old.join(new, "level").aggregate("count(*), sum(n)")
    counts = {"debug": 338, "info": 336, "error": 336}
    counted = dict(con.execute(f"SELECT level, count(*) FROM '{path}' GROUP BY ALL").fetchall())
    assert counted == counts
    expected = sum(counts[("debug", "info", "error")[n % 3]] for n in range(1000))
    assert joined.fetchall() == [(1000, expected)]


def test_a_relation_runs_in_another_thread(con: Any, table: Path) -> None:
    relation = con.sql(f"SELECT count(*) FROM '{table}' WHERE message LIKE 'request 299%'")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(relation.fetchall()))
    thread.start()
    thread.join()
    assert found == [(11,)]


# Queries in which the table, or a macro that reads it, stands more than once.
AGAIN = [
    "SELECT sum(s), (SELECT max(req.latency) FROM {t}) FROM (SELECT req.status AS s FROM {t})",
    "SELECT sum(s), least() FROM (SELECT req.status AS s FROM {t})",
    "SELECT level, n, least() FROM (SELECT level, count(*) AS n FROM {t} GROUP BY 1) ORDER BY ALL",
    """WITH w AS (SELECT level, count(*) AS n FROM {t} GROUP BY level)
        SELECT a.level, b.n FROM w AS a JOIN w AS b USING (level) ORDER BY ALL""",
    """WITH w AS (SELECT level, least() AS n FROM {t})
        SELECT level, sum(n) FROM w GROUP BY ALL ORDER BY ALL""",
    "WITH w AS (SELECT req.status AS s FROM {t}) SELECT sum(s), (SELECT max(s) FROM w) FROM w",
    "FROM (FROM {t} ORDER BY ts LIMIT 5) SELECT sum(id), least()",
    "SELECT level, count(*), least() FROM (FROM {t}) WHERE level LIKE '%b%' GROUP BY ALL",
]


@pytest.mark.parametrize("query", AGAIN)
def test_what_else_a_text_reads_is_read(con: Any, native: Any, table: Path, query: str) -> None:
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(
            f"CREATE OR REPLACE MACRO least() AS (SELECT min(req.latency) FROM {name})"
        )
    expected = native.execute(query.format(t="native")).fetchall()
    for _ in range(3):
        assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected
        assert con.sql(query.format(t=f"'{table}'")).fetchall() == expected


def test_relations_of_duckdbs_default_connection() -> None:
    """It may be open before `install` in a process that has done other things."""
    code = """
duckdb_adapter.install()
query = f"SELECT city, count(*) FROM '{ORDERS}' GROUP BY ALL ORDER BY city"
print(duckdb.sql(query).fetchall() == duckdb.execute(query).fetchall() != [])
    """
    assert run_python(code) == "True"


def test_a_relation_is_run_while_threads_make_others(table: Path) -> None:
    dataset, versions = lancefs.open(table), BoundVersions()
    resolved = ResolvedName(str(table), Rows(dataset), "logs")
    versions.note(1, resolved)

    def make_another(*_: object) -> None:
        versions.note(1, resolved)

    sys.setprofile(make_another)  # at each call, as if another thread had its turn
    try:
        found = versions.find(1, resolved)
    finally:
        sys.setprofile(None)
    assert found is not None
    assert found.rows.table is dataset  # type: ignore[attr-defined]
