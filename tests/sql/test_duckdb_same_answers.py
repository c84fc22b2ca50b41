"""Statements that look as if they used fewer rows or columns than they do: the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import needs_install

import duckdb_adapter

pytestmark = needs_install

# More rows than any shortcut needs.
COUNT = 200_000
NEWEST = "row_number() OVER (PARTITION BY host ORDER BY us DESC)"
SMALLEST = "row_number() OVER (PARTITION BY host ORDER BY j)"

# A LIMIT, a condition or a number that is not of the rows of the innermost SELECT.
AROUND_ANOTHER = [
    "SELECT * FROM (SELECT count(*) FROM (SELECT id, flag FROM {t} ORDER BY id)) LIMIT 5",
    "SELECT * FROM (SELECT sum(id) FROM (SELECT id FROM {t} ORDER BY id)) LIMIT 5",
    "WITH a AS (SELECT id, host FROM {t} ORDER BY id), "
    "b AS (SELECT host, count(*) FROM a GROUP BY host) FROM b LIMIT 50",
    "SELECT * FROM (SELECT id FROM (SELECT id, flag FROM {t} ORDER BY id DESC) WHERE flag) LIMIT 2",
    "FROM (SELECT id FROM (SELECT id, flag FROM {t}) WHERE NOT flag) LIMIT 2 OFFSET 70000",
    f"WITH a AS (SELECT host, {NEWEST} AS n FROM {{t}}), "
    "b AS (SELECT host, count(*) AS n FROM a GROUP BY host) SELECT * FROM b WHERE n <= 5",
    f"SELECT * FROM (SELECT id AS n, n AS id FROM (SELECT id, {NEWEST} AS n FROM {{t}})) "
    "WHERE n = 1",
    "WITH m AS (SELECT -id AS id FROM (FROM {t}) WHERE x > (SELECT 5)) "
    "SELECT * FROM m ORDER BY id LIMIT 3",
    "WITH m AS (SELECT id, NOT flag AS flag FROM (FROM {t}) WHERE x > (SELECT 5)) "
    "SELECT count(*) FROM m WHERE flag",
    "WITH m AS (SELECT id, reverse(name) AS name FROM (FROM {t}) WHERE x > (SELECT 5)) "
    "SELECT count(*) FROM m WHERE name LIKE '%eman'",
    "WITH m AS (SELECT level || 'x' AS level FROM (FROM {t}) WHERE x > (SELECT 5)) "
    "SELECT level, count(*) FROM m GROUP BY level",
]
# `name.upper()` has no reference to the column in its syntax tree.
BY_DOTS = [
    "SELECT count(x), max(x.abs()) FROM {t}",
    "SELECT count(name), max(name.concat('!')) FROM {t}",
    "SELECT count(name) FROM {t} WHERE name.concat('!') = 'name 7!'",
    "SELECT count(name) FROM {t} WHERE name.length() > 10",
    "SELECT level, count(*) FROM {t} WHERE host.starts_with('h1') GROUP BY level",
    "SELECT min(us), max(name.upper()) FROM {t}",
    "SELECT sum(st.x), max(st.y.abs()) FROM {t}",
    "PIVOT {t} ON level USING max(name.length()) GROUP BY host",
    "SELECT level.upper(), count(*) FROM {t} GROUP BY ALL",
]
# Columns of another table in a subquery that selects from ours alone.
OF_ANOTHER_TABLE = [
    "SELECT count(*) FROM o, LATERAL (SELECT t.id FROM {t} t WHERE o.flag AND t.id = o.id)",
    "SELECT count(*) FROM o, (SELECT t.id FROM {t} t WHERE o.name LIKE 'a1%' AND t.id = o.id)",
    "SELECT count(*) FROM o, "
    "LATERAL (SELECT t.id FROM {t} t WHERE (o.flag OR t.name LIKE 'zz%') AND t.id = o.id)",
]
# Names that mean something else than the one that is looked for.
BY_SAME_NAMES = [
    f"SELECT * FROM (SELECT id AS n, {SMALLEST} AS n FROM {{t}}) WHERE n = 1",
    f"SELECT * FROM (SELECT st.y, {SMALLEST} AS y FROM {{t}}) WHERE y = 1",
    f"SELECT * FROM (SELECT st.*, {SMALLEST} AS y FROM {{t}}) WHERE y = 1",
    f"SELECT {SMALLEST} AS rn, id AS rn FROM {{t}} QUALIFY rn = 1",
    "WITH st AS (FROM {t}) SELECT count(x), max(st.x) FROM st",
    "WITH level AS (FROM {t}) SELECT level.host, count(*) FROM level GROUP BY 1",
    "WITH j AS (FROM {t}) SELECT min(j.x), max(j.x), count(*) FROM j",
    'SELECT count(*) FROM (SELECT NOT flag AS "ö" FROM {t} WHERE "ö")',
    'SELECT count(*) FROM {t} WHERE "Ö"',
    'WITH "{name}" AS (SELECT id, NOT flag AS flag FROM v) '
    'SELECT count(*) FROM "{name}" WHERE flag',
]
# With what a macro of the user says.
WITH_MACROS = [
    ("SELECT count(id) FROM {t}", "typeof(x) AS NULL"),
    ("SELECT min(us), max(us), count(*) FROM {t}", "typeof(x) AS NULL"),
    ("SELECT min(us), max(us) FROM {t}", "list_value(x, y) AS NULL"),
    ("SELECT round(1), min(us) FROM {t}", "round(x) AS sum(x)"),
    ("SELECT lower('A'), max(us) FROM {t}", "lower(x) AS count(x)"),
    ("SELECT 1 + 1, min(us) FROM {t}", '"+"(a, b) AS count(a)'),
]


def _rows() -> pa.Table:
    numbers = np.arange(COUNT)
    return pa.table(
        {
            "id": numbers,
            "x": numbers * 3,
            "host": [f"h{number % 20}" for number in range(COUNT)],
            "level": [f"l{number % 4}" for number in range(COUNT)],
            "name": [f"name {number}" for number in range(COUNT)],
            "flag": numbers % 10 == 0,
            "Ö": numbers % 10 == 0,
            "us": pa.array(numbers, pa.timestamp("us")),
            "j": numbers * 7919 % COUNT,
            "st": pa.array([{"x": number % 5, "y": 1} for number in range(COUNT)]),
        }
    )


class Both:
    """The same rows in a table of DuckDB, and in a Lance table."""

    def __init__(self, path: Path) -> None:
        rows = _rows()
        lance.write_dataset(rows, path, data_storage_version="2.1")
        duckdb_adapter.install()
        self.own, self.ours = duckdb.connect(), duckdb.connect()
        self.own.execute("CREATE TABLE native AS FROM rows")
        self.names = {self.own: "native", self.ours: str(path)}
        self.lake = duckdb.connect()
        duckdb_adapter.attach(self.lake, str(path.parent), as_="lake")
        for connection in (self.own, self.ours, self.lake):
            connection.execute(
                "CREATE TABLE o AS SELECT range AS id, range % 2 = 0 AS flag, 'a' || range AS name "
                "FROM range(100)"
            )
            connection.execute(f"CREATE VIEW v AS FROM {self.place(connection)}")

    def place(self, connection: Any) -> str:
        """Return how a connection names the rows."""
        name = self.names.get(connection)
        return "lake.rows" if name is None else f'"{name}"'

    def answer(self, connection: Any, statement: str) -> list[str]:
        """Return the rows of a statement, in the order of their texts."""
        name = self.names.get(connection, "rows")
        text = statement.replace("{t}", self.place(connection)).replace("{name}", name)
        return sorted(map(repr, connection.execute(text).fetchall()))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    found = Both(tmp_path_factory.mktemp("both") / "rows.lance")
    yield found
    for connection in (found.own, found.ours, found.lake):
        connection.close()


@pytest.mark.parametrize(
    "statement", [*AROUND_ANOTHER, *BY_DOTS, *OF_ANOTHER_TABLE, *BY_SAME_NAMES]
)
def test_what_looks_like_less_is_answered_in_full(both: Both, statement: str) -> None:
    expected = both.answer(both.own, statement)
    assert both.answer(both.ours, statement) == expected
    assert both.answer(both.ours, statement) == expected, "the second time"
    assert both.answer(both.lake, statement) == expected, "of an attached folder"


@pytest.mark.parametrize(("statement", "macro"), WITH_MACROS)
def test_macros_say_what_the_user_says(both: Both, statement: str, macro: str) -> None:
    name = macro.partition("(")[0]
    for connection in (both.own, both.ours):
        connection.execute(f"CREATE MACRO {macro}")
    try:
        assert both.answer(both.ours, statement) == both.answer(both.own, statement)
    finally:
        for connection in (both.own, both.ours):
            connection.execute(f"DROP MACRO {name}")


def test_a_relation_is_limited_around_its_own_statement(both: Both) -> None:
    inner = f"SELECT count(*) FROM (SELECT id, flag FROM {both.place(both.ours)} ORDER BY id)"
    assert both.ours.sql(f"FROM ({inner})").limit(5).fetchall() == [(COUNT,)]
    relation = both.ours.sql(f"FROM {both.place(both.ours)}")
    assert relation.aggregate("count(x), max(x.abs())").fetchall() == [(COUNT, 3 * COUNT - 3)]
    both.ours.execute(f"CREATE TABLE stored AS FROM ({inner}) LIMIT 1")
    assert both.ours.execute("FROM stored").fetchall() == [(COUNT,)]
