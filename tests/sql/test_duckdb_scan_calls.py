"""Statements over `lance_scan(…)` read no more of a table than those over its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import lance
import pytest
from roads import connect, needs_install, scanned, write_logs

from duckdb_adapter.queries.parsing import parse
from duckdb_adapter.queries.scan_calls import call_of

pytestmark = pytest.mark.usefixtures("any_table_is_long")

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "logs.lance"
    write_logs(path, ROWS)
    lance.write_dataset(lance.dataset(str(path)).to_table(limit=100), str(path), mode="append")
    return path


STATEMENTS = [
    "SELECT * FROM {t} ORDER BY ts, id LIMIT 3",
    "SELECT count(*), max(id) FROM {t} WHERE message LIKE 'request 299%'",
    "SELECT level, count(*) AS n FROM {t} AS logs GROUP BY ALL ORDER BY ALL",
    "SELECT level, req.status, sum(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT sum(req.status), min(id) FROM {t} logs WHERE logs.id > 7",
    "SELECT id, level FROM {t} QUALIFY rank() OVER (PARTITION BY level ORDER BY id) = 1 "
    "ORDER BY id",
    "WITH a AS (FROM {t}) SELECT * FROM a WHERE message LIKE '%300%' ORDER BY id",
]
CALLS = [
    "lance_scan('{t}')",
    "lance_scan(path := '{t}')",
    "lance_scan('{t}', version := 2)",
    "LANCE_SCAN('{t}', 2, use_index := false)",
]


@needs_install
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_call_is_read_as_the_path_is(
    table: Path, reads: list[dict[str, Any]], statement: str, call: str
) -> None:
    con = connect("shared")
    by_path = statement.format(t=f"'{table}'")
    by_call = statement.format(t=call.format(t=table))
    expected = con.execute(by_path).fetchall()
    for _ in range(3):
        assert con.execute(by_path).fetchall() == con.execute(by_call).fetchall() == expected
    for run in (con.execute, con.sql):
        again = scanned(reads, lambda run=run: run(by_path).fetchall())
        assert scanned(reads, lambda run=run: run(by_call).fetchall()) == again


# What stands for the rows of calls in a database that has the versions of the table as its own.
OWN = {
    "lance_scan('{t}', version := 1)": "version_1",
    "lance_scan('{t}', version := 2)": "version_2",
    "lance_scan('{t}', version := 1 + 1)": "version_2",
    "lance_scan('{t}', as_of := now())": "version_2",
    "lance_scan('{t}', filter := 'id > 2900')": "(FROM version_2 WHERE id > 2900)",
    "lance_scan('{t}')": "version_2",
    "'{t}'": "version_2",
    "FROM part": "FROM (FROM version_2 WHERE id % 7 = 2)",
}
# Statements that read the table in several ways.
OTHERS = [
    "SELECT id FROM lance_scan('{t}', version := 1) WHERE message LIKE '%99%' AND id IN "
    "(SELECT id FROM lance_scan('{t}', version := 2) WHERE id > 2500) ORDER BY id",
    "SELECT id FROM lance_scan('{t}') WHERE message LIKE '%9' AND id < (SELECT avg(id) FROM '{t}') "
    "ORDER BY id",
    "SELECT id FROM lance_scan('{t}', filter := 'id > 2900') WHERE message LIKE '%9' ORDER BY id",
    "SELECT a FROM lance_scan('{t}') AS x(a) ORDER BY a DESC LIMIT 3",
    "SELECT count(*) FROM lance_scan('{t}', as_of := now()) WHERE message LIKE '%99%'",
    "SELECT count(*) FROM lance_scan('{t}', version := 1 + 1) WHERE message LIKE '%99%'",
    "SELECT a.id FROM lance_scan('{t}') a, lance_scan('{t}') b WHERE a.id = b.id + 2990 ORDER BY 1",
    "SELECT count(*) FROM part WHERE message LIKE '%99%'",
    "SELECT count(*) FROM lance_scan('{t}') WHERE message LIKE '%99%' AND id < "
    "(SELECT max(id) FROM part)",
]


@needs_install
@pytest.mark.parametrize("statement", OTHERS)
def test_other_calls_have_their_own_rows(table: Path, statement: str) -> None:
    con, known = connect("install"), duckdb.connect()
    con.execute(f"CREATE VIEW part AS FROM lance_scan('{table}') WHERE id % 7 = 2")
    for version in (1, 2):
        known.register("rows", lance.dataset(str(table), version=version).to_table())
        known.execute(f"CREATE TABLE version_{version} AS FROM rows")
    expected = statement
    for call, rows in OWN.items():
        expected = expected.replace(call, rows)
    found = con.execute(statement.format(t=table)).fetchall()
    assert found == known.execute(expected).fetchall()


def test_a_call_in_a_text_is_told_by_its_arguments() -> None:
    parameters = ("path", "version", "tag", "use_index", "filter")
    call = call_of({"path": "t.lance", "version": 7, "tag": None, "filter": None}, parameters)
    assert call is not None
    same = ["lance_scan('t.lance', 7)", "Lance_Scan(path := 't.lance', version := 7) AS x"]
    others = [
        *("lance_scan('t.lance')", "lance_scan('u.lance', 7)", "lance_scan('t.lance', 8)"),
        *("lance_scan('t.lance', 7, 'a')", "lance_scan('t.lance', 6 + 1)", "range(7)", "t"),
        *("lance_scan('t.lance', 7) AS x(a)", "other.lance_scan('t.lance', 7)", "lance_scan(7)"),
        "lance_scan('t.lance', 7) TABLESAMPLE 5%",
    ]
    for text in [*same, *others]:
        root = parse(f"FROM {text}")
        assert root is not None
        has_texts = "literal" in str(root)  # from DuckDB 2.0 on
        assert call.is_made_by(root["from_table"]) == (text in same and has_texts), text
    for more in ({"filter": "a"}, {"path": ["t.lance"]}, {"row_ids": [1]}):
        assert call_of({"path": "t.lance", **more}, parameters) is None
