"""Columns that are compared with what a statement computes of the same table, or lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joined_tables import answer_of, filled, make_long, own_tables, write_facts
from roads import connect, needs_install, scanned

from lancefs.scan import selectivity

pytestmark = needs_install

# Those of which rows are left out of the scan of all columns.
NARROWED = [
    "SELECT * FROM {facts} WHERE n > (SELECT avg(n) + 1500 FROM {facts})",
    "SELECT * FROM {facts} WHERE n > 1.8 * (SELECT avg(n) FROM {facts})",
    "SELECT f.n, f.code FROM {facts} f WHERE (SELECT avg(g.n) FROM {facts} g) * 1.8 < f.n",
    "SELECT * FROM {facts} WHERE x > (SELECT avg(x) FROM {facts} WHERE NOT isnan(x)) * 1.9",
    "SELECT * FROM {facts} WHERE price > (SELECT quantile_disc(price, 0.9) FROM {facts})",
    "SELECT * FROM {facts} WHERE n BETWEEN (SELECT median(n) FROM {facts}) AND "
    "(SELECT median(n) + 5 FROM {facts})",
    "SELECT * FROM {facts} WHERE code = (SELECT lower(min(code)) FROM {facts} WHERE k = 7)",
    "SELECT * FROM {facts} WHERE day = (SELECT max(day) - 3 FROM {facts} WHERE k < 100)",
    "SELECT * FROM {facts} f WHERE f.at > (SELECT median(f.at) FROM {facts} f WHERE f.n > 3500)",
    "SELECT * FROM {facts} f WHERE ns <= (SELECT max(g.ns) FROM {facts} g WHERE k = 3 AND n < 99)",
    "SELECT * FROM {facts} WHERE n = (SELECT max(n) FROM {facts} WHERE code = 'none')",
    "SELECT k, count(code) FROM {facts} WHERE n < (SELECT avg(n) FROM {facts}) / 10 GROUP BY k",
    "WITH m AS (SELECT avg(n) AS a, stddev(n) AS d FROM {facts}) SELECT f.* FROM {facts} f, m "
    "WHERE f.n > m.a + 1.5 * m.d",
    "WITH m AS (SELECT avg(n) AS a FROM {facts}) SELECT f.* FROM {facts} f JOIN m ON n > a * 1.8",
    "SELECT f.* FROM {facts} f CROSS JOIN (SELECT avg(n) AS a FROM {facts}) AS m WHERE n > a * 1.8",
    "SELECT * FROM {facts} WHERE n IN (SELECT min(n) FROM {facts} GROUP BY k)",
    "SELECT * FROM {facts} WHERE (k, n) IN (SELECT k, max(n) FROM {facts} GROUP BY k)",
    "SELECT * FROM {facts} f WHERE (k, f.at) IN (SELECT k, max(f.at) FROM {facts} f WHERE n < 300 "
    "GROUP BY k HAVING count(*) > 1 ORDER BY 2 LIMIT 3)",
    "SELECT f.* FROM {facts} f JOIN (SELECT k, max(n) AS n FROM {facts} GROUP BY k) m USING (k, n)",
    "SELECT f.n, f.code FROM {facts} f JOIN (SELECT k, min(day) FROM {facts} WHERE n > 3500 "
    "GROUP BY k) AS m(k, d) ON f.k = m.k AND f.day = m.d",
    "WITH m AS (SELECT k, max(n) AS top FROM {facts} GROUP BY k) SELECT f.* FROM {facts} f, m "
    "WHERE f.k = m.k AND f.n = m.top",
    "SELECT f.n, f.code, v.x FROM {facts} f JOIN (VALUES (7, 'a'), (900, 'b')) v(n, x) USING (n)",
    "SELECT f.n, f.code FROM {facts} f, (VALUES ('c007', 1), ('c003', 2)) v(c, x) WHERE f.code = c",
    "WITH v(day, a) AS (VALUES (DATE '2026-01-05', 1), (DATE '2026-01-09', 2)) "
    "SELECT f.n, f.code, a FROM {facts} f JOIN v USING (day)",
    "SELECT * FROM {facts} WHERE n IN (VALUES (7), (900), (NULL))",
    "SELECT * FROM {facts} WHERE (n, k) IN (VALUES (7, 3), (900, 4))",
    "SELECT n, code FROM {facts} WHERE n IN (SELECT unnest([7, 900]))",
]
OTHERS = [
    "SELECT * FROM (SELECT n, code FROM {facts}) WHERE n < (SELECT avg(n) FROM {facts}) / 10",
    "WITH s AS (SELECT avg(n) AS a FROM {facts}) SELECT f.* FROM {facts} f, s WHERE n > s.a * 1.8",
    "SELECT * FROM {facts} f WHERE n > (SELECT avg(n) * 1.8 FROM {facts} g WHERE g.k = f.k)",
    "SELECT * FROM {facts} f WHERE n = (SELECT max(n) FROM {facts} g WHERE g.k = f.k)",
    "SELECT * FROM {facts} WHERE n > (SELECT avg(n) FROM {facts}) OR k = 3",
    "SELECT * FROM {facts} WHERE NOT n > (SELECT avg(n) FROM {facts})",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT avg(n) FROM {facts})",
    "SELECT *, (SELECT max(n) FROM {facts}) FROM {facts} WHERE n > (SELECT avg(n) FROM {facts})",
    "SELECT * FROM {facts} WHERE n > (SELECT avg(n) FROM {facts} WHERE n > (SELECT avg(n) FROM "
    "{facts}))",
    "SELECT * FROM {facts} WHERE n > ALL (SELECT avg(n) FROM {facts})",
    "SELECT * FROM {facts} WHERE x > (SELECT max(x) FROM {facts} WHERE isnan(x)) OR x = 3",
    "SELECT * FROM {facts} WHERE x >= (SELECT max(x) FROM {facts} WHERE x > 3)",
    "SELECT * FROM {facts} WHERE x <= (SELECT min(x) + 1 FROM {facts})",
    "SELECT * FROM {facts} WHERE x = (SELECT min(x) FROM {facts})",
    "SELECT * FROM {facts} WHERE tiny < (SELECT avg(n) FROM {facts})",
    "SELECT * FROM {facts} WHERE tiny > (SELECT avg(n) FROM {facts})",
    "SELECT * FROM {facts} WHERE tiny = (SELECT max(k) FROM {facts})",
    "SELECT * FROM {facts} WHERE k < (SELECT sum(n) * 100000000000 FROM {facts})",
    "SELECT * FROM {facts} WHERE price < (SELECT avg(n) * 1e300 FROM {facts})",
    "SELECT * FROM {facts} WHERE price >= (SELECT avg(price) FROM {facts})",
    "SELECT * FROM {facts} WHERE n < (SELECT avg(n) FROM {facts} GROUP BY ALL HAVING false)",
    "SELECT * FROM {facts} WHERE n < (SELECT avg(n) OVER () FROM {facts} LIMIT 1)",
    "SELECT * FROM {facts} WHERE s.n > (SELECT avg(n) FROM {facts}) / 50",
    "SELECT * FROM {facts} WHERE n > (SELECT avg(s.n) FROM {facts}) * 150",
    "SELECT * FROM {facts} WHERE n IN (SELECT min(n) FROM {facts})",
    "SELECT * FROM {facts} WHERE n IN (SELECT min(n) FROM {facts} GROUP BY k) OR k = 4",
    "SELECT * FROM {facts} WHERE n NOT IN (SELECT min(n) FROM {facts} GROUP BY k)",
    "SELECT * FROM {facts} f WHERE n IN (SELECT min(g.n) FROM {facts} g WHERE g.k > f.k GROUP BY "
    "k)",
    "SELECT * FROM {facts} WHERE n IN (SELECT min(n + 1) FROM {facts} GROUP BY ROLLUP (k))",
    "SELECT f.n, m.n FROM {facts} f LEFT JOIN (SELECT k, max(n) AS n FROM {facts} GROUP BY k) m "
    "USING (k, n)",
    "SELECT f.n, m.n FROM (SELECT k, max(n) AS n FROM {facts} GROUP BY k) m LEFT JOIN {facts} f "
    "USING (k, n)",
    "SELECT f.n, m.t FROM (SELECT k, max(n) AS t FROM {facts} GROUP BY k) m JOIN {facts} f ON "
    "f.n = m.t",
    "WITH m AS (SELECT k, max(n) AS n FROM {facts} GROUP BY k) SELECT f.n FROM {facts} f JOIN m "
    "USING (n) JOIN m o ON o.k = m.k",
    "WITH m AS (SELECT k, max(n) AS n FROM {facts} GROUP BY k) FROM m",
    "WITH m AS (SELECT avg(n) AS a FROM {facts}), f AS (FROM {facts}) FROM f, m WHERE f.n > 1.9 * "
    "a",
    "WITH f AS (FROM {facts}) SELECT * FROM f WHERE n > 1.9 * (SELECT avg(n) FROM f)",
    "SELECT f.n FROM {facts} f LEFT JOIN (VALUES (7, 'a')) v(n, x) USING (n)",
    "SELECT f.n FROM {facts} f ANTI JOIN (VALUES (7, 'a')) v(n, x) USING (n)",
    "SELECT f.n FROM {facts} f JOIN (VALUES (7.0, 'a'), (9.5, 'b')) v(n, x) USING (n)",
    "SELECT f.n FROM {facts} f JOIN (VALUES (7), (9)) v ON f.n = v.col0",
    "SELECT f.n FROM {facts} f, LATERAL (VALUES (f.k), (9)) v(a) WHERE f.n = a",
    "SELECT n FROM {facts} f WHERE n IN (VALUES (k), (9))",
    "SELECT n FROM {facts} WHERE k NOT IN (VALUES (7), (9))",
    "SELECT * FROM {facts} WHERE n > (SELECT avg(n) FROM {facts}) UNION ALL FROM {facts}",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("computed")
    write_facts(path)
    return path


@pytest.fixture(scope="module")
def native(folder: Path) -> Iterator[Any]:
    """A database whose own tables tell the right answers."""
    with own_tables(folder) as connection:
        yield connection


@pytest.fixture(autouse=True)
def facts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    make_long(monkeypatch, 1000)
    # As many as the table has in a run, so that a value comes more than once.
    monkeypatch.setattr(selectivity, "_RUN_ROWS", 300)


@pytest.mark.parametrize("method", ["execute", "sql"])
@pytest.mark.parametrize("threads", [1, 4])
def test_statements_have_the_answers_of_duckdbs_own_table(
    folder: Path, native: Any, method: str, threads: int
) -> None:
    con = connect("install")
    con.execute(f"SET threads = {threads}")
    for query in [*NARROWED, *OTHERS]:
        found = getattr(con, method)(filled(query, folder)).fetchall()
        assert sorted(map(repr, found)) == answer_of(native, filled(query, None)), query


@pytest.mark.parametrize("query", NARROWED)
def test_rows_are_left_out(folder: Path, query: str, reads: list[dict[str, Any]]) -> None:
    con = connect("install")
    found = scanned(reads, lambda: con.execute(filled(query, folder)).fetchall())
    # Of rows, and not of values; all columns have no names.
    _, filter = max(found, key=lambda read: len(read[0]) or 99)
    assert "is_in" in filter or ">" in filter or "<" in filter


@pytest.mark.parametrize("name", ["avg", "max", "min"])
def test_macros_by_the_names_of_aggregates(folder: Path, native: Any, name: str) -> None:
    con = connect("install")
    texts = [
        f"SELECT * FROM {{facts}} WHERE n > 1.5 * (SELECT {name}(n) FROM {{facts}})",
        f"SELECT * FROM {{facts}} WHERE n IN (SELECT {name}(n) FROM {{facts}} GROUP BY k)",
    ]
    for database in (con, native):
        database.execute(f"CREATE MACRO {name}(x) AS system.main.median(x) + 7")
    try:
        for text in texts:
            found = sorted(map(repr, con.execute(filled(text, folder)).fetchall()))
            assert found == answer_of(native, filled(text, None))
    finally:
        native.execute(f"DROP MACRO {name}")


def test_a_view_that_reads_the_table_sees_all_rows(folder: Path, native: Any) -> None:
    con = connect("install")
    texts = [
        "SELECT * FROM {facts} WHERE n > 1.9 * (SELECT avg(n) FROM {facts}) AND k IN (SELECT k "
        "FROM seen)",
        "SELECT f.*, seen.k FROM {facts} f JOIN seen ON f.k = seen.k WHERE f.n IN (SELECT max(n) "
        "FROM {facts} GROUP BY k)",
    ]
    con.execute(f"CREATE VIEW seen AS SELECT k FROM '{folder}/facts.lance' WHERE n < 50")
    native.execute("CREATE VIEW seen AS SELECT k FROM facts WHERE n < 50")
    try:
        for text in texts:
            found = sorted(map(repr, con.execute(filled(text, folder)).fetchall()))
            assert found == answer_of(native, filled(text, None))
    finally:
        native.execute("DROP VIEW seen")


def test_collations_compare_strings_in_their_own_way(folder: Path, native: Any) -> None:
    con = connect("install")
    text = "SELECT * FROM {facts} WHERE code = (SELECT upper(min(code)) FROM {facts} WHERE k = 7)"
    for database in (con, native):
        database.execute("SET default_collation = 'nocase'")
    try:
        found = sorted(map(repr, con.execute(filled(text, folder)).fetchall()))
        assert found == answer_of(native, filled(text, None))
        assert found
    finally:
        native.execute("RESET default_collation")


def test_prepared_statements_and_parameters(folder: Path, native: Any) -> None:
    con = connect("install")
    text = "SELECT * FROM {facts} WHERE n > $1 * (SELECT avg(n) FROM {facts} WHERE k > $2)"
    for given in ([1.9, 3], [0.1, 200], [1.0, 5000], [None, 3]):
        found = con.execute(filled(text, folder), given).fetchall()
        wanted = native.execute(filled(text, None), given).fetchall()
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
