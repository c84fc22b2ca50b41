"""Rows are left out that are compared with an extreme of their table, and do not have it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import assert_same_rows, connect, needs_install, scanned

from duckdb_adapter.queries.parsing import parse
from duckdb_adapter.queries.table_reads import reads_in

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_long")]

ROWS = 4000
START = datetime.datetime(2026, 1, 1)
LAST = "(ts == 2026-01-01 22:09:00.000000)"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extremes") / "logs.lance"
    numbers = np.random.default_rng(11).permutation(ROWS)
    rows = {
        "id": numbers,
        "ts": pa.array([START + datetime.timedelta(minutes=int(n) // 3) for n in numbers]),
        "day": pa.array([(START + datetime.timedelta(days=int(n) % 90)).date() for n in numbers]),
        "host": pa.array([f"host {n % 40}" if n % 9 else None for n in numbers]),
        "cost": pa.array(numbers % 1000 / 8),
        "price": pa.array([n % 700 / 4 for n in numbers]).cast(pa.decimal128(12, 2)),
        "odd": pa.array([float("nan") if n % 50 == 0 else n / 4 for n in numbers]),
        "high": pa.array(numbers / 4.04),
        "none": pa.nulls(ROWS, pa.int32()),
        "small": pa.array(numbers % 100, pa.uint8()),
        "zoned": pa.array(numbers * 600, pa.timestamp("s", "Europe/Berlin")),
    }
    lance.write_dataset(pa.table(rows), str(path), max_rows_per_file=1500)
    lance.dataset(str(path)).delete("id >= 3990")
    return path


EXTREMES = [
    "SELECT * FROM {t} WHERE ts = (SELECT max(ts) FROM {t}) ORDER BY id",
    "SELECT id FROM {t} AS l WHERE (SELECT min(a.day) FROM {t} AS a) = l.day ORDER BY id",
    "SELECT id FROM {t} WHERE host >= (SELECT max(host) FROM {t}) AND id > 7 ORDER BY id",
    "SELECT sum(id) FROM {t} WHERE cost = (SELECT MAX(cost) FROM {t})",
    "SELECT id, price FROM {t} WHERE price = (SELECT max(price) FROM {t}) ORDER BY id",
    "SELECT count(*) FROM {t} WHERE id BETWEEN (SELECT min(id) FROM {t}) AND 5",
    "SELECT count(*) FROM {t} WHERE odd > (SELECT min(odd) FROM {t})",
    "SELECT count(*) FROM {t} WHERE odd = (SELECT max(odd) FROM {t})",
    "SELECT count(*), sum(id) FROM {t} WHERE odd > (SELECT max(high) FROM {t})",
    "SELECT count(*), sum(id) FROM {t} WHERE (SELECT max(high) FROM {t}) <= odd AND id > 7",
    "SELECT count(*), sum(id) FROM {t} WHERE high < (SELECT min(odd) FROM {t})",
]
# The same of another table, in other places, and with what is added outside of the subquery.
BESIDE = [
    "SELECT count(*), sum(id) FROM {t} WHERE ts > (SELECT max(ts) FROM {t}) - INTERVAL 7 HOUR",
    "SELECT count(*), sum(id) FROM {t} WHERE id < (SELECT min(n) FROM {o}) + 10",
    "SELECT count(*), sum(id) FROM {t} WHERE ts >= (SELECT max(seen) FROM {o})",
    "SELECT count(*), sum(id) FROM {t} WHERE host = (SELECT max(name) FROM {o})",
    "SELECT count(*) FROM {t} WHERE small > (SELECT min(n) FROM {o})",
    "SELECT count(*) FROM {t} WHERE small < (SELECT max(n) FROM {o})",
    "SELECT count(*) FROM {t} WHERE ts > (SELECT max(seen) FROM {o} WHERE n < 11)",
    "WITH m AS (SELECT max(ts) AS t FROM {t}) SELECT sum(id) FROM {t}, m WHERE ts > m.t - "
    "INTERVAL 1 DAY",
    "WITH m AS (SELECT min(ts) AS s, max(ts) AS t FROM {t}) SELECT sum(id) FROM {t} WHERE ts > "
    "(SELECT t FROM m)",
    "WITH m(t, s) AS (SELECT min(ts) AS s, max(ts) AS t FROM {t}) SELECT sum(id) FROM {t}, m "
    "WHERE ts <= m.t",
    "WITH r AS (FROM {t} WHERE ts > (SELECT max(ts) FROM {t}) - INTERVAL 1 DAY) SELECT count(*) "
    "FROM r a JOIN r b ON a.id = b.id + 1",
    "SELECT count(*) FROM {t} l, (SELECT max(id) AS top FROM {t}) WHERE l.id > top - 9",
    "SELECT count(*), max(o.n) FROM {t} l LEFT JOIN {o} o ON o.n = l.id WHERE l.ts = (SELECT "
    "max(ts) FROM {t})",
    "SELECT max(id) FROM {t} WHERE ts < (SELECT max(ts) FROM {t})",
    "SELECT sum(id) FROM {t} WHERE ts = (SELECT max(ts) FROM {t}) UNION ALL SELECT sum(id) FROM "
    "{t} WHERE ts = (SELECT min(ts) FROM {t})",
    "SELECT sum(id), (SELECT count(*) FROM {t}) FROM {t} WHERE ts = (SELECT max(ts) FROM {t})",
    "SELECT count(*) FROM {t} WHERE ts = (SELECT max(ts) FROM {t}) AND all_rows() > 3",
    "SELECT all_rows() FROM {t} WHERE ts = (SELECT max(ts) FROM {t}) AND id > 3900 LIMIT 1",
]
# Columns, and what is a little different from their extremes: those near which the scan looks.
SHIFTS = [
    ("ts", "max(ts) - INTERVAL 7 HOUR"),
    ("ts", "max(ts) - INTERVAL '90 minutes'"),
    ("ts", "min(ts) + INTERVAL 1 DAY"),
    ("ts", "max(ts) - to_seconds(1200)"),
    ("zoned", "max(zoned) - INTERVAL 9 DAY"),
    ("day", "max(day) - 7"),
    ("day", "min(day) + INTERVAL 1 MONTH"),
    ("day", "max(day) - INTERVAL 2 MONTHS"),
    ("day", "max(day) - INTERVAL 1 YEAR"),
    ("day", "max(day) - INTERVAL '36 hours'"),
    ("id", "max(id) - 100"),
    ("id", "min(id) + -100"),
    ("id", "max(id) + 9000000000"),
    ("small", "max(small) + 20"),
    ("small", "max(small) - 9"),
]
# And those for which it reads all of them.
OTHER_SHIFTS = [
    ("id", "100 - min(id)"),
    ("cost", "max(cost) - 1"),
    ("price", "max(price) - 1"),
    ("id", "max(id) * 2"),
    ("none", "max(none) - 1"),
]
OTHERS = [
    "SELECT count(*), sum(id) FROM {t} WHERE day > (SELECT max(day) - INTERVAL 1.5 DAY FROM {t})",
    "SELECT id FROM {t} WHERE odd = (SELECT max(odd) FROM {t}) ORDER BY id",
    "SELECT id FROM {t} WHERE none = (SELECT max(none) FROM {t})",
    "SELECT id FROM {t} WHERE ts = (SELECT max(ts) FROM {t} WHERE id < 9) ORDER BY id",
    "SELECT id FROM {t} WHERE ts = (SELECT max(ts) FROM {t} HAVING count(*) < 0)",
    "SELECT id FROM {t} WHERE ts = (SELECT max(ts) FILTER (WHERE id < 9) FROM {t}) ORDER BY id",
    "SELECT id FROM {t} AS o WHERE ts = (SELECT max(ts) FROM {t} AS i WHERE i.host = o.host) "
    "ORDER BY id",
    "SELECT id FROM {t} WHERE ts = (SELECT max(ts) + INTERVAL 1 MINUTE FROM {t})",
    "SELECT id FROM {t} WHERE ts <> (SELECT max(ts) FROM {t}) AND id < 4 ORDER BY id",
    "SELECT id FROM {t} WHERE ts = (SELECT max(ts) FROM {t}) OR id = 4 ORDER BY id",
    "SELECT id FROM {t} WHERE id = (SELECT max(cost) FROM {t}) OR id = 2",
    "SELECT id FROM {t} WHERE ts = (SELECT max(ts) FROM (FROM {t} LIMIT 1)) AND false",
]


@pytest.mark.parametrize("query", EXTREMES + OTHERS)
def test_rows_are_those_of_duckdbs_own_table(
    native: Any, table: Path, reads: list[dict[str, Any]], query: str
) -> None:
    con = connect("shared")
    for _ in range(2):
        found = scanned(reads, lambda: assert_same_rows(con, native, table, query))
    if query in OTHERS:
        assert not any("ts ==" in filter for columns, filter in found if "id" in columns)


@pytest.mark.parametrize(("column", "shift"), SHIFTS + OTHER_SHIFTS)
def test_rows_near_an_extreme_are_those_of_duckdbs_own_table(
    native: Any, table: Path, reads: list[dict[str, Any]], column: str, shift: str
) -> None:
    con = connect("shared")
    for operator in (">=", ">=", ">", "=", "<", "<=", "<>"):  # the extreme is known from the second
        condition = f"{column} {operator} (SELECT {shift} FROM {{t}})"
        query = f"SELECT count(*), sum(id) FROM {{t}} WHERE {condition}"
        assert_same_rows(con, native, table, query)
        ((passing, _),) = native.execute(query.format(t="native")).fetchall()
        # A scan is asked for what at most half of the rows are; the subquery for the extreme alone.
        is_near = (column, shift) in SHIFTS and operator != "<>" and passing <= ROWS // 2
        filters = [str(read.get("filter")) for read in reads]
        assert any(f"({column} {sign}= " in one for one in filters for sign in "<>") == is_near
        del reads[:]


@pytest.fixture(scope="module")
def other(table: Path, native: Any) -> Path:
    path = table.parent / "other.lance"
    times = [START + datetime.timedelta(minutes=n * 100) for n in range(12)]
    rows = pa.table({"n": range(9, 21), "seen": times, "name": [f"host {n}" for n in range(12)]})
    lance.write_dataset(rows, str(path))
    native.register("rows", rows)
    native.execute("CREATE TABLE other AS FROM rows")
    return path


@pytest.mark.parametrize("query", BESIDE)
def test_rows_beside_other_tables_are_those_of_duckdbs_own(
    native: Any, table: Path, other: Path, query: str
) -> None:
    con = connect("install")
    con.execute(f"CREATE TEMP MACRO all_rows() AS (SELECT count(*) FROM '{table}')")
    native.execute("CREATE OR REPLACE TEMP MACRO all_rows() AS (SELECT count(*) FROM native)")
    expected = native.execute(query.format(t="native", o="other")).fetchall()
    for _ in range(2):
        assert con.execute(query.format(t=f"'{table}'", o=f"'{other}'")).fetchall() == expected


# Statements, and what the scan is asked for from the first time on.
LEAVING_ROWS_OUT = [
    ("SELECT id FROM {t} WHERE ts >= (SELECT max(seen) FROM {o})", "(ts >= 2026-01-01 18:20:0"),
    ("SELECT id FROM {t} WHERE id < (SELECT min(n) FROM {o})", "(id < 9)"),
    ("SELECT host FROM {t} WHERE id > (SELECT max(id) FROM {t}) - 10", "(id >= 3979)"),
    ("WITH m AS (SELECT max(id) AS n FROM {t}) SELECT host FROM {t}, m WHERE id > n - 10",
     "(id >= 3979)"),
    ("SELECT id FROM {t} l JOIN {o} ON n = id WHERE l.cost = (SELECT max(cost) FROM {t})",
     "(cost == 124.875)"),
]  # fmt: skip
# And from the second time on, when the extreme is known.
LEAVING_ROWS_OUT_AGAIN = [
    ("SELECT id, host FROM {t} WHERE ts = (SELECT max(ts) FROM {t})", LAST),
    # Of the extreme itself, too, only rows that have it are read.
    ("SELECT host FROM {t} WHERE ts > (SELECT max(ts) FROM {t}) - INTERVAL 7 HOUR", LAST),
    ("SELECT id, host FROM {t} WHERE id > (SELECT max(id) - 10 FROM {t})", "(id >= 3979)"),
    ("SELECT id, host FROM {t} WHERE id > (SELECT max(id) + -10 FROM {t})", "(id >= 3979)"),
]


@pytest.mark.parametrize(("query", "filter"), LEAVING_ROWS_OUT + LEAVING_ROWS_OUT_AGAIN)
def test_the_scan_leaves_out_other_rows(
    table: Path, other: Path, reads: list[dict[str, Any]], query: str, filter: str
) -> None:
    con, text = connect("install"), query.format(t=f"'{table}'", o=f"'{other}'")
    if (query, filter) in LEAVING_ROWS_OUT_AGAIN:
        con.execute(text).fetchall()
    found = scanned(reads, lambda: con.execute(text).fetchall())
    assert any(filter in each for _, each in found)


def test_a_function_of_a_schema_is_no_extreme(native: Any, table: Path) -> None:
    con = connect("install")
    query = "SELECT sum(id) FROM {t} WHERE id <= (SELECT own.max(id) FROM {t})"
    for each in (con, native):
        each.execute("CREATE SCHEMA own; CREATE MACRO own.max(n) AS system.main.max(n + 0) - 9")
    assert_same_rows(con, native, table, query)


def test_a_macro_that_makes_another_interval_is_refused(table: Path) -> None:
    con = connect("install")
    latest = f"SELECT max(ts) - INTERVAL 1 DAY FROM '{table}'"
    text = f"SELECT count(*) FROM '{table}' WHERE ts > ({latest})"
    con.execute("CREATE TEMP MACRO to_days(n) AS system.main.to_hours(n)")
    with pytest.raises(duckdb.InvalidInputException, match="INTERVAL 1 day is made by a macro"):
        con.execute(text).fetchall()


def test_each_query_is_searched_once_however_many_select_from_it(table: Path) -> None:
    joined = [f"q{n} AS (FROM q{n - 1} AS a JOIN q{n - 1} AS b USING (id))" for n in range(1, 41)]
    query = f"WITH q0 AS (SELECT id FROM '{table}' WHERE id = (SELECT max(id) FROM '{table}')), "
    query += f"{', '.join(joined)} SELECT count(*) FROM q40"
    root = parse(query)
    assert root is not None
    assert [read.source["table_name"] for read in reads_in(root)] == [str(table)]
    assert connect("install").execute(query).fetchall() == [(1,)]


def test_a_macro_by_the_name_of_an_extreme_is_refused(table: Path) -> None:
    con = connect("install")
    con.execute("CREATE TEMP MACRO max(x) AS min(x)")
    with pytest.raises(duckdb.InvalidInputException, match="max"):
        con.execute(f"FROM '{table}' WHERE ts = (SELECT max(ts) FROM '{table}')")


def test_a_prepared_statement_follows_the_newest_version(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(50)}), str(path))
    con = connect("install")
    con.execute(f"PREPARE last AS SELECT a FROM '{path}' WHERE a = (SELECT max(a) FROM '{path}')")
    assert con.execute("EXECUTE last").fetchall() == [(49,)]
    lance.write_dataset(pa.table({"a": [50, 50]}), str(path), mode="append")
    assert con.execute("EXECUTE last").fetchall() == [(50,), (50,)]
    lance.dataset(str(path)).delete("a > 10")
    assert con.execute("EXECUTE last").fetchall() == [(10,)]
