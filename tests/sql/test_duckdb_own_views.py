"""Statements over a view of the user's own leave out what they leave out of the table itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from joined_tables import facts_rows, make_long
from roads import connect, native_rows, needs_install, scanned

pytestmark = needs_install

# What views select of a table, where that is all of it, and where it is not.
WHOLE = ["SELECT * FROM {t}", "FROM {t}", "(SELECT * FROM {t})", "SELECT * FROM lance_scan({t})"]
PARTS = [
    "SELECT * FROM {t} WHERE n > 3000",
    "SELECT n, x, code, k, day, s, price FROM {t}",
    "SELECT * REPLACE (n % 100 AS n) FROM {t}",
    "SELECT * EXCLUDE (n), -n AS n FROM {t}",
    "SELECT DISTINCT * FROM {t} WHERE n % 2 = 0",
    "SELECT * FROM {t} LIMIT 50",
    "SELECT * FROM {t} ORDER BY n, price LIMIT 50 OFFSET 7",
    "SELECT * FROM {t} JOIN (VALUES (1, 2), (2, 3)) AS v(tiny, z) USING (tiny)",
    "SELECT * FROM {t} UNION ALL SELECT * FROM {t} WHERE n < 9",
    "WITH f AS (SELECT * FROM {t} WHERE n > 100) SELECT * FROM f",
    "SELECT * FROM (SELECT * FROM {t} WHERE n > 100)",
    "SELECT * FROM {t} USING SAMPLE 100% (bernoulli)",
    "SELECT * FROM {t} QUALIFY row_number() OVER (PARTITION BY k ORDER BY n) = 1",
]
STATEMENTS = [
    "SELECT n, code FROM {v} ORDER BY n DESC, price LIMIT 5",
    "SELECT n, code, s FROM {v} WHERE k < 200 ORDER BY n, price LIMIT 5",
    "SELECT n, s FROM {v} AS a ORDER BY a.n + 1 DESC, price LIMIT 5",
    "SELECT n, code FROM {v} ORDER BY n * -1, price LIMIT 5",
    "SELECT n, code FROM {v} QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, price) = 1",
    "SELECT n, code, x FROM {v} WHERE lower(code) = 'c007'",
    "SELECT n, code FROM {v} WHERE hash(n) % 50 = 3",
    "SELECT n, code FROM {v} WHERE code LIKE '%07'",
    "SELECT n, code FROM {v} WHERE n > (SELECT max(n) FROM {v}) - 10",
    "SELECT n, code FROM {v} WHERE day = (SELECT max(day) FROM {v})",
    "SELECT n, code FROM {v} WHERE day > (SELECT max(day) FROM {v}) - to_days(2)",
    "WITH f AS (FROM {v}) SELECT n, code FROM f ORDER BY n DESC, price LIMIT 3",
    "SELECT count(*), sum(n) FROM (SELECT * FROM {v} ORDER BY n DESC, price LIMIT 9)",
    "SELECT count(*), sum(n) FROM {v} a JOIN {v} b USING (n) WHERE lower(a.code) = 'c007'",
    "SELECT (SELECT max(n) FROM {v}), n FROM {v} ORDER BY n LIMIT 3",
    "SELECT count(*) FROM {v} USING SAMPLE 20",
]
# Those of which rows are left out, if the view is all of a table.
NARROWED = STATEMENTS[:12]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("views") / "facts.lance"
    lance.write_dataset(facts_rows(), str(path), max_rows_per_file=1500)
    return path


@pytest.fixture(scope="module")
def native() -> Iterator[Any]:
    """A database whose own table tells the right answers."""
    with native_rows(facts_rows()) as connection:
        yield connection


@pytest.fixture(autouse=True)
def facts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    make_long(monkeypatch, 1000)


def _rows(connection: Any, text: str, method: str = "execute") -> list[str]:
    return sorted(map(repr, getattr(connection, method)(text).fetchall()))


def _create(con: Any, native: Any, table: Path, view: str, select: str) -> None:
    quoted = f"'{table}'"
    con.execute(f"CREATE OR REPLACE {view} AS {select.format(t=quoted)}")
    select = select.replace("lance_scan({t})", "{t}")
    native.execute(f"CREATE OR REPLACE {view} AS {select.format(t='native')}")


@pytest.mark.parametrize("select", WHOLE + PARTS)
@pytest.mark.parametrize("view", ["VIEW v", "TEMP VIEW v", 'VIEW "a view"'])
def test_statements_over_views_have_the_rows_of_duckdbs_own(
    table: Path, native: Any, select: str, view: str
) -> None:
    con = connect("install")
    _create(con, native, table, view, select)
    name = view.removeprefix("TEMP ").removeprefix("VIEW ")
    for statement in STATEMENTS:
        text = statement.format(v=name)
        for method in ("execute", "sql"):
            assert _rows(con, text, method) == _rows(native, text), text
    native.execute(f"DROP VIEW {name}")


@pytest.mark.parametrize("statement", NARROWED)
@pytest.mark.parametrize("select", WHOLE)
def test_rows_are_left_out_of_a_view_that_is_all_of_a_table(
    table: Path, select: str, statement: str, reads: list[dict[str, Any]]
) -> None:
    con = connect("install")
    name = f"'{table}'"
    con.execute(f"CREATE VIEW v AS {select.format(t=name)}")
    direct = scanned(reads, lambda: con.execute(statement.format(v=name)).fetchall())
    through = scanned(reads, lambda: con.execute(statement.format(v="v")).fetchall())
    assert through == direct


@pytest.mark.parametrize("statement", NARROWED)
def test_a_view_that_is_replaced_is_another_one(table: Path, native: Any, statement: str) -> None:
    con, text = connect("install"), statement.format(v="v")
    for select in (WHOLE[0], PARTS[0], WHOLE[1], PARTS[2], WHOLE[0]):
        _create(con, native, table, "VIEW v", select)
        assert _rows(con, text) == _rows(native, text)
    for database in (con, native):
        database.execute("BEGIN")
    _create(con, native, table, "VIEW v", PARTS[0])
    assert _rows(con, text) == _rows(native, text)
    for database in (con, native):
        database.execute("ROLLBACK")
    assert _rows(con, text) == _rows(native, text)
    _create(con, native, table, "VIEW w", PARTS[0])
    for database in (con, native):
        database.execute("DROP VIEW v")
        database.execute("ALTER VIEW w RENAME TO v")
    assert _rows(con, text) == _rows(native, text)
    native.execute("DROP VIEW v")


@pytest.mark.parametrize("statement", NARROWED)
def test_a_view_of_a_view_is_read_with_all_rows(table: Path, native: Any, statement: str) -> None:
    con, text = connect("install"), statement.format(v="w")
    for select in (WHOLE[0], PARTS[0]):
        _create(con, native, table, "VIEW v", select)
        for outer in ("FROM v", "SELECT * FROM v WHERE n < 2000"):
            for database in (con, native):
                database.execute(f"CREATE OR REPLACE VIEW w AS {outer}")
            assert _rows(con, text) == _rows(native, text)


@pytest.mark.parametrize("statement", NARROWED)
def test_names_that_mean_something_else(table: Path, statement: str) -> None:
    text = statement.format(v="v")
    steps = [
        "CREATE SCHEMA s",
        "CREATE VIEW v AS SELECT * FROM {t}",
        "CREATE VIEW s.v AS SELECT * FROM {t} WHERE n < 900",
        "USE s",
        "CREATE TEMP TABLE v AS SELECT * FROM {t} WHERE n < 500",
        "DROP TABLE v",
        "CREATE TEMP VIEW v AS SELECT * FROM {t} WHERE n < 400",
        "DROP VIEW v",
        "CREATE MACRO s.lower(x) AS 'c007'",
        "CREATE MACRO s.max(x) AS system.main.min(x) + 20",
        "CREATE MACRO s.hash(x) AS 3",
        "CREATE TEMP MACRO To_Days(x) AS CAST('9 days' AS INTERVAL)",
        "USE main",
        "DROP VIEW s.v",
        "CREATE MACRO main.lower(x) AS upper(x)",
        "USE s",
    ]
    con = connect("install")
    with native_rows(facts_rows()) as own:
        for step in steps:
            con.execute(step.format(t=f"'{table}'"))
            own.execute(step.format(t="memory.main.native"))
            if "SCHEMA" not in step:
                assert _rows(con, text) == _rows(own, text), step


def test_a_macro_that_reads_the_table_beside_a_table_by_the_name_of_a_view(
    table: Path, native: Any
) -> None:
    con = connect("install")
    for database, name in ((con, f"'{table}'"), (native, "native")):
        database.execute(f"CREATE OR REPLACE VIEW v AS SELECT * FROM {name}")
        database.execute(f"CREATE OR REPLACE MACRO least() AS (SELECT min(n) FROM {name})")
        database.execute("CREATE OR REPLACE TEMP TABLE v AS SELECT 5 AS n UNION ALL SELECT 9")
    text = "SELECT n, least() FROM v ORDER BY n DESC LIMIT 1"
    assert _rows(con, text) == _rows(native, text) == ["(9, 0)"]
    for step in ("DROP TABLE v", "DROP VIEW v", "DROP MACRO least"):
        native.execute(step)


def test_a_prepared_statement_meets_a_view_that_was_replaced(table: Path, native: Any) -> None:
    con = connect("install")
    _create(con, native, table, "VIEW v", WHOLE[0])
    for database in (con, native):
        database.execute("PREPARE p AS SELECT n, code FROM v ORDER BY n LIMIT 3")
    assert _rows(con, "EXECUTE p") == _rows(native, "EXECUTE p")
    _create(con, native, table, "VIEW v", PARTS[0])
    assert _rows(con, "EXECUTE p") == _rows(native, "EXECUTE p")
    native.execute("DROP VIEW v")


def test_relations_of_a_view(table: Path, native: Any) -> None:
    con = connect("install")
    _create(con, native, table, "VIEW v", WHOLE[0])
    found, wanted = (
        [
            database.view("v").order("n DESC").limit(3).fetchall(),
            database.sql("FROM v").filter("lower(code) = 'c007'").order("n").limit(4).fetchall(),
            database.table("v").aggregate("max(n), count(*)").fetchall(),
        ]
        for database in (con, native)
    )
    assert repr(found) == repr(wanted)
    native.execute("DROP VIEW v")
