"""Queries that group by several columns of strings group by numbers for their values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import assert_same_rows, connect, native_rows, needs_install, not_in_2_0_0
from support import examples

import duckdb_adapter
import lancefs
from duckdb_adapter import rewrites
from duckdb_adapter.sources import column_values, groups, value_counter
from duckdb_adapter.sources.groups import GROUP, Combinations, GroupedRows

pytestmark = needs_install

ROWS = 6000
LEVELS = ("debug", "info", "warn", "error", None)


def _rows(count: int, hosts: int, seed: int = 3) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(range(count)),
            "level": pa.array([LEVELS[n] for n in random.integers(0, 5, count)]),
            "host": pa.array([f"host-{n:03d}" for n in random.integers(0, hosts, count)]),
            "Zone": pa.array([("", "ä", "日本")[n] for n in random.integers(0, 3, count)]),
            "latency": pa.array(random.random(count).round(3)),
            "bytes": pa.array(random.integers(0, 1000, count)),
            "price": pa.array(map(Decimal, range(count)), pa.decimal128(15, 2)),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "logs.lance"
    lance.write_dataset(_rows(ROWS, 40), str(path), max_rows_per_file=2500)
    lance.dataset(str(path)).delete("id % 97 = 5")
    assert {"level", "host", "Zone"} <= set(lancefs.open(path).dictionary_columns)
    return path


@pytest.fixture(autouse=True)
def any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any length are long, and so are fragments."""
    monkeypatch.setattr(groups, "_MIN_ROWS", 10)
    monkeypatch.setattr(column_values, "_MIN_FRAGMENT", 1)


def _is_grouped(con: Any, query: str) -> bool:
    return any(GROUP in plan for _, plan in con.execute(f"EXPLAIN {query}").fetchall())


# Queries over {t} that group by several columns of strings.
GROUPED = [
    "SELECT level, host, count(*), sum(bytes) FROM {t} GROUP BY level, host ORDER BY ALL",
    "SELECT host AS h, level, max(id) FROM {t} GROUP BY h, level ORDER BY ALL",
    "SELECT level, host, avg(price), sum(price * 2) FROM {t} GROUP BY 1, 2 ORDER BY ALL",
    "SELECT zone, level, list(id).len(), min(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, zone, count(id) FROM {t} WHERE bytes > 500 GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, count(latency), count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT t.host, t.level, bytes, max(id) FROM {t} AS t GROUP BY ALL ORDER BY ALL",
    "FROM {t} SELECT level, host, median(bytes) GROUP BY ALL HAVING count(*) > 30 ORDER BY ALL",
    "SELECT max(n) FROM (SELECT level, host, sum(bytes) AS n FROM {t} GROUP BY ALL)",
    "WITH g AS (SELECT level, host, sum(bytes) AS n FROM {t} GROUP BY ALL) "
    "SELECT level, sum(n) FROM g GROUP BY level ORDER BY ALL",
    "SELECT level, host, zone, avg(id) FROM {t} WHERE level = 'info' GROUP BY ALL ORDER BY ALL",
    "SELECT level, host FROM {t} GROUP BY level, host ORDER BY max(id)",
]
# Those of which a function tests a column.
TESTED = [
    "SELECT count(*), sum(bytes) FROM {t} WHERE starts_with(host, 'host-01')",
    "SELECT max(id) FROM {t} WHERE upper(zone) = 'Ä' AND id > 100",
    "SELECT level, count(*) FROM {t} WHERE upper(host) LIKE '%-01%' GROUP BY level ORDER BY 1",
    "SELECT host, count(*) FROM {t} WHERE replace(host, '-', '+') LIKE '%+01%' GROUP BY 1 "
    "ORDER BY 1",
    "SELECT level, host, avg(id) FROM {t} WHERE length(host) > 3 AND host NOT LIKE '%3' "
    "GROUP BY ALL ORDER BY ALL",
    "SELECT count(*) FROM {t} WHERE coalesce(level, 'none') = 'none' OR level || 'x' = 'infox'",
]
# Those that compute something of a column beside other columns.
COMPUTED = [
    "SELECT upper(level), host, avg(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT upper(host) AS host, max(latency) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT regexp_extract(host, '[0-9]+') AS n, sum(bytes) FROM {t} GROUP BY n ORDER BY n",
    "SELECT sum(length(zone) * bytes), count(DISTINCT reverse(host)), max(level) FROM {t}",
    "SELECT count(*) FILTER (WHERE host LIKE '%-01%'), avg(price) FROM {t} WHERE id > 50",
    "SELECT level, sum(CASE WHEN starts_with(host, 'host-0') THEN bytes END) FROM {t} "
    "GROUP BY level HAVING count(*) > 10 ORDER BY lower(level) DESC",
    "SELECT max(id) FROM {t} GROUP BY split_part(host, '-', 2) ORDER BY ALL",
    "SELECT DISTINCT lower(level), bytes % 3 FROM {t} ORDER BY ALL",
    "SELECT coalesce(level, 'none') || '!' AS l, t.zone, min(id) FROM {t} AS t GROUP BY ALL "
    "ORDER BY ALL",
    "SELECT length(host), max(id) FROM {t} WHERE starts_with(host, 'host-01') AND bytes > 7 "
    "GROUP BY ROLLUP (length(host)) ORDER BY ALL",
    "SELECT * FROM (SELECT ascii(zone) AS a, sum(id) FROM {t} GROUP BY a) ORDER BY ALL",
]
# Those that group by several values, which DuckDB aggregates after a join.
GROUPED_ABOVE = [
    "SELECT zone, level, count(DISTINCT bytes), min(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, min(zone), max(level) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, count(*) FROM {t} WHERE bytes > 500 GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT level, zone FROM {t} WHERE bytes > 500 ORDER BY ALL",
    "SELECT t.host, t.level, bytes % 3 AS b, max(id) FROM {t} AS t GROUP BY ALL ORDER BY ALL",
    "SELECT host, level, bytes, id, max(price) FROM {t} GROUP BY ALL ORDER BY ALL LIMIT 99",
    "SELECT level, host, sum(bytes) FILTER (id % 2 = 0) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, max(id, 2) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, quantile_cont(bytes, 0.9) FROM {t} GROUP BY 1, 2 ORDER BY ALL",
    "SELECT level, host, sum(id) FROM {t} GROUP BY ALL HAVING max(level) > 'e' ORDER BY ALL",
    "SELECT level, bytes % 3, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, count(*) FROM {t} WHERE level = 'info' GROUP BY ALL ORDER BY ALL",
    "SELECT upper(level), host, max(id) FROM {t} WHERE level >= 'e' GROUP BY ALL ORDER BY ALL",
    "SELECT level, zone, round(sum(id) / 7) FROM {t} GROUP BY ROLLUP (level, zone) ORDER BY ALL",
    "SELECT level, count(DISTINCT id) FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT zone, host, avg(id) FROM {t} GROUP BY GROUPING SETS ((zone, host), ()) ORDER BY ALL",
]


# Those that group by the columns that a PIVOT names.
PIVOTS = [
    "SELECT * FROM {t} PIVOT (min(latency) FOR level IN ('info', 'warn') GROUP BY host) "
    "ORDER BY ALL",
    "SELECT * FROM (SELECT host, level, latency, id FROM {t}) PIVOT (sum(id), max(latency) "
    "FOR level IN ('info', 'error') GROUP BY host) ORDER BY ALL",
    "SELECT * FROM {t} PIVOT (max(latency) FOR level IN ('info') zone IN ('', 'ä') GROUP BY bytes) "
    "ORDER BY ALL",
]
# Those that may take rows in order, or do not say by what they group, or of other rows.
OTHER_PIVOTS = [
    "SELECT * FROM {t} PIVOT (arg_max(id, id) FOR level IN ('info', 'warn') GROUP BY host) "
    "ORDER BY ALL",
    "SELECT * FROM {t} PIVOT (max(latency) FOR level IN ('info', 'warn')) ORDER BY id LIMIT 20",
    "SELECT * FROM (SELECT host AS level, level AS host, latency FROM {t}) PIVOT (max(latency) "
    "FOR level IN ('host-001') GROUP BY host) ORDER BY ALL",
    "SELECT * FROM (SELECT host, level, latency FROM {t} ORDER BY id LIMIT 9) PIVOT (max(latency) "
    "FOR level IN ('info') GROUP BY host) ORDER BY ALL",
]


@pytest.mark.parametrize("query", GROUPED)
def test_groups_are_the_same(native: Any, table: Path, query: str) -> None:
    con = connect("shared")
    assert_same_rows(con, native, table, query)
    plans = con.execute("EXPLAIN " + query.format(t=f"'{table}'")).fetchall()
    assert any("EXPORT_STATE" in plan for _, plan in plans)  # below the join


@pytest.mark.parametrize("query", TESTED + COMPUTED + GROUPED_ABOVE + PIVOTS)
def test_values_are_hashed_and_computed_once(native: Any, table: Path, query: str) -> None:
    """DuckDB does so, and hashes each once, for what a join by an array adds: an inner join."""
    con = connect("shared")
    assert_same_rows(con, native, table, query)
    assert _is_grouped(con, query.format(t=f"'{table}'"))
    ((_, plan),) = con.execute("EXPLAIN " + query.format(t=f"'{table}'")).fetchall()
    assert query in TESTED or "INNER" in plan


def test_a_pivot_finds_the_values_of_its_columns(native: Any, table: Path) -> None:
    query = "PIVOT {t} ON level, zone USING min(latency), sum(id) GROUP BY host ORDER BY host"
    assert_same_rows(connect("install"), native, table, query)


def test_functions_fail_for_values_of_rows_that_are_left(native: Any, table: Path) -> None:
    """Not for those that only other rows have."""
    con = connect("install")
    query = "SELECT strptime(zone, '%Y') AS y, max(id) FROM {t} WHERE id < 0 GROUP BY y"
    assert_same_rows(con, native, table, query)
    assert _is_grouped(con, query.format(t=f"'{table}'"))
    failing = query.replace("id < 0", "id > 0").format(t=f"'{table}'")
    with pytest.raises(duckdb.InvalidInputException, match="Could not parse string"):
        con.execute(failing).fetchall()


def test_of_columns_with_many_combinations_some_are_numbered(
    native: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_COMBINATIONS", 30)
    con = connect("install")
    for computed, is_grouped in (("upper(level), upper(host), lower(zone)", True), ("host", False)):
        query = f"SELECT {computed}, upper(host), avg(id) FROM {{t}} GROUP BY ALL ORDER BY ALL"
        assert_same_rows(con, native, table, query)
        assert _is_grouped(con, query.format(t=f"'{table}'")) == is_grouped


@pytest.mark.parametrize("value", ["bytes", "price * 2", "price * (1 - price)", "id + bytes"])
def test_aggregates_are_computed_by_numbers(native: Any, table: Path, value: str) -> None:
    """Also those that DuckDB would not compute for rows that a join might remove, as they fail."""
    con = connect("shared")
    query = f"SELECT level, host, sum({value}) FROM {{t}} WHERE id > 7 GROUP BY ALL ORDER BY ALL"
    assert_same_rows(con, native, table, query)
    ((_, plan),) = con.execute("EXPLAIN " + query.format(t=f"'{table}'")).fetchall()
    assert "EXPORT_STATE" in plan


# Queries over {t} that do not, or by one value only, or test one of two columns, or may read other
# rows.
OTHERS = [
    "SELECT level, host, arg_max(id, bytes + id / 1e6) FROM {t} GROUP BY 1, 2 ORDER BY ALL",
    "SELECT level, quantile_cont(bytes, 0.9) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, list(id ORDER BY id)[:3] FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, count(*) FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT level, host, avg(id) FROM {t} GROUP BY GROUPING SETS (level, host) ORDER BY ALL",
    "SELECT upper(level) AS l, arg_max(bytes, id), min(id) FROM {t} GROUP BY l ORDER BY ALL",
    "SELECT level || host AS l, max(id) FROM {t} GROUP BY l ORDER BY ALL",
    "SELECT upper(level) AS l, id FROM {t} ORDER BY id LIMIT 5",
    "SELECT DISTINCT upper(level), row_number() OVER (ORDER BY id) FROM {t} ORDER BY ALL",
    "SELECT DISTINCT ON (level) upper(host), id FROM {t} ORDER BY level, id",
    "SELECT upper(left(host, 4)), max(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT host, max(id) FROM {t} WHERE regexp_matches(host, '-0[13]') GROUP BY 1 ORDER BY 1",
    "SELECT level, host FROM {t} ORDER BY id LIMIT 5",
    "SELECT id, host FROM {t} WHERE starts_with(host, 'host-01')",
    "SELECT id FROM {t} WHERE upper(host) LIKE '%-01%' LIMIT 9",
    "SELECT count(*) FROM {t} WHERE starts_with(host, level)",
    "SELECT count(*) FROM {t} WHERE starts_with(host, 'host-0') AND host > 'host-02'",
    "SELECT sum(id) OVER (ORDER BY id) FROM {t} WHERE starts_with(host, 'host-01') ORDER BY 1",
    "SELECT count(*) FROM {t} WHERE length(host || bytes) > 10",
    "SELECT count(*) FROM {t} WHERE lower(host) IN (SELECT 'host-001')",
    "SELECT DISTINCT ON (level) level, host, id FROM {t} ORDER BY level, id",
    "SELECT level, host, count(*) FROM {t} AS t(id, level, host) GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, (SELECT count(*) FROM {t}) FROM {t} GROUP BY level, host ORDER BY ALL",
    "SELECT a.level, a.host, count(*) FROM {t} AS a JOIN {t} AS b USING (id) "
    "GROUP BY a.level, a.host ORDER BY ALL",
    "SELECT count(*) FROM {t} GROUP BY 7",
]


@pytest.mark.parametrize("query", OTHERS + OTHER_PIVOTS)
def test_other_queries_are_answered_as_before(native: Any, table: Path, query: str) -> None:
    con = connect("shared")
    if "BY 7" in query:
        with pytest.raises(duckdb.BinderException, match="GROUP BY term out of range"):
            con.execute(query.format(t=f"'{table}'"))
        return
    assert_same_rows(con, native, table, query)
    assert not _is_grouped(con, query.format(t=f"'{table}'"))


def test_views_and_attached_folders_are_grouped_alike(native: Any, table: Path) -> None:
    con = connect("install")
    con.execute(f"CREATE VIEW logs AS SELECT *, bytes + 1 AS more FROM '{table}' WHERE id > 9")
    duckdb_adapter.attach(con, str(table.parent), "lake")
    query = "SELECT level, host, count(*), sum(bytes) FROM {} GROUP BY ALL ORDER BY ALL"
    for name, own in (("logs", "native WHERE id > 9"), ("lake.main.logs", "native")):
        expected = native.execute(query.format(own)).fetchall()
        assert con.execute(query.format(name)).fetchall() == expected
        assert _is_grouped(con, query.format(name))


def test_a_macro_may_be_called_count(table: Path) -> None:
    con = connect("install")
    con.execute("CREATE MACRO count(x) AS max(x)")
    with pytest.raises(duckdb.Error, match="is a Macro Function"):
        con.execute(f"SELECT level, host, count(latency) FROM '{table}' GROUP BY ALL")


def test_the_table_is_the_same_for_what_the_text_does_not_tell(native: Any, table: Path) -> None:
    query = "SELECT level, host, count(COLUMNS(* EXCLUDE (level, host))) FROM {t} GROUP BY 1, 2"
    assert_same_rows(connect("install"), native, table, query + " ORDER BY ALL")


def test_a_relation_groups_as_a_statement_does(native: Any, table: Path) -> None:
    con = connect("install")
    query = "SELECT level, host, count(*) AS n FROM {t} GROUP BY ALL"
    relation = con.sql(query.format(t=f"'{table}'"))
    expected = native.execute(query.format(t="native") + " ORDER BY ALL").fetchall()
    assert relation.order("level, host").fetchall() == expected
    assert relation.filter("n > 30").aggregate("count(*)").fetchall() == [
        (sum(n > 30 for *_, n in expected),)
    ]


def test_prepared_statements_and_transactions_see_their_versions(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(_rows(300, 3), str(path))
    con = connect("install")
    query = f"SELECT level, host, count(*) FROM '{path}' WHERE bytes >= ? GROUP BY ALL ORDER BY ALL"
    con.execute(f"PREPARE p AS {query}")
    before = con.execute(query, [0]).fetchall()
    con.execute("BEGIN")
    assert con.execute(query, [0]).fetchall() == before
    more = pa.table({"level": ["new"], "host": ["host-new"], "bytes": [5]})
    lance.write_dataset(more, str(path), mode="append")
    assert con.execute(query, [0]).fetchall() == before
    con.execute("COMMIT")
    after = sorted([*before, ("new", "host-new", 1)], key=lambda row: (row[0] or "~", row[1]))
    assert con.execute(query, [0]).fetchall() == after
    assert con.execute("EXECUTE p(0)").fetchall() == after


def test_a_statement_may_be_run_again_in_a_transaction(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect("install")
    found: list[bool] = []
    group = rewrites.group_by_codes

    def noted(*arguments: Any) -> Any:
        rows = group(*arguments)
        found.append(isinstance(rows, GroupedRows))
        return rows

    monkeypatch.setattr(rewrites, "group_by_codes", noted)
    query = f"SELECT level, host, sum(id) FROM '{table}' GROUP BY ALL ORDER BY ALL"
    con.execute("BEGIN")
    expected = con.execute(query).fetchall()
    assert con.execute(query).fetchall() == expected
    other = query.replace("sum(id)", f"sum(id) + (SELECT count(*) FROM '{table}')")
    con.execute(other).fetchall()
    con.execute("COMMIT")
    # A statement that names the table twice is grouped by nothing but strings.
    assert found == [True, True, False]


def test_columns_with_many_values_are_not_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    few, many = _rows(1000, 5), _rows(1000, 900, seed=4)
    lance.write_dataset(few, str(path))
    lance.write_dataset(many, str(path), mode="append")
    con = connect("install")
    query = f"SELECT level, host, zone, sum(id) FROM '{path}' GROUP BY ALL ORDER BY ALL"
    with native_rows(pa.concat_tables([few, many])) as native:
        expected = native.execute(query.replace(f"'{path}'", "native")).fetchall()
    assert _is_grouped(con, query)
    assert con.execute(query).fetchall() == expected
    monkeypatch.setattr(groups, "MAX_COMBINATIONS", 1000)  # one number for each column
    assert _is_grouped(con, query)
    assert con.execute(query).fetchall() == expected
    monkeypatch.setattr(groups, "MAX_COMBINATIONS", 3)
    assert not _is_grouped(con, query)
    monkeypatch.undo()
    monkeypatch.setattr(groups, "_MIN_ROWS", 10)
    monkeypatch.setattr(value_counter, "MAX_VALUES", 2)
    lance.dataset(str(path)).delete("id = 7")  # another version, whose values nobody has seen
    assert not _is_grouped(con, query)


# Queries over {t} that hash the strings of one column only, and of several by themselves.
BY_ONE = [
    "SELECT host, sum(bytes), avg(price) FROM {t} GROUP BY host ORDER BY ALL",
    "SELECT host AS h, count(*), min(level) FROM {t} WHERE id % 3 = 1 GROUP BY h ORDER BY ALL",
    "SELECT host, max(id) FROM {t} GROUP BY 1 HAVING count(*) > 3 AND host > 'host-1' ORDER BY 2",
    "SELECT host, count(DISTINCT zone), count(DISTINCT host) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT host, level, sum(id) FROM {t} GROUP BY GROUPING SETS (host, level) ORDER BY ALL",
    "SELECT bytes % 9, count(DISTINCT host), sum(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT count(DISTINCT host), count(DISTINCT other), max(price) FROM {t}",
    "SELECT approx_count_distinct(host), sum(id) FROM {t}",
    "SELECT host, other, zone, sum(bytes) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT other, host, level FROM {t} ORDER BY ALL",
    "SELECT upper(host), upper(other), max(id) FROM {t} GROUP BY ALL ORDER BY ALL",
]


@pytest.mark.parametrize("query", BY_ONE)
def test_columns_with_many_values_have_numbers_of_their_own(tmp_path: Path, query: str) -> None:
    path = tmp_path / "t.lance"
    rows = _rows(ROWS, 300)
    others = [None if n % 7 == 0 else f"{n % 400:064d}" for n in range(0, ROWS * 3, 3)]
    rows = rows.append_column("other", pa.array(others))
    lance.write_dataset(rows, str(path), max_rows_per_file=2500)
    assert {"host", "other"} <= set(lancefs.open(path).dictionary_columns)
    con = connect("shared")
    with native_rows(rows) as native:
        for _ in range(3):  # the values of one column are found when they are asked for again
            assert_same_rows(con, native, path, query)
    assert _is_grouped(con, query.format(t=f"'{path}'"))


@pytest.mark.parametrize("values", [254, 255, 256])  # and null: as many as a byte has, or so
def test_numbers_may_be_as_many_as_a_byte_has(tmp_path: Path, values: int) -> None:
    path = tmp_path / "t.lance"
    rows = _rows(ROWS, values)
    lance.write_dataset(rows, str(path))
    query = "SELECT count(DISTINCT host), upper(host) AS h, sum(id) FROM {t} GROUP BY h ORDER BY h"
    con = connect("install")
    with native_rows(rows) as native:
        assert_same_rows(con, native, path, query)
    assert _is_grouped(con, query.format(t=f"'{path}'"))


@not_in_2_0_0("computes what HAVING compares before it joins")
def test_values_of_deleted_rows_fail_for_no_function(tmp_path: Path) -> None:
    """Also where DuckDB tests the values that numbers stand for before it joins them."""
    path = tmp_path / "t.lance"
    years = ["no year" if n == 7 else str(1000 + n % 400) for n in range(ROWS)]
    rows = pa.table({"id": pa.array(range(ROWS)), "year": pa.array(years)})
    lance.write_dataset(rows, str(path))
    lance.dataset(str(path)).delete("id = 7")
    con = connect("install")
    query = (
        "SELECT year, sum(id) FROM {t} GROUP BY year HAVING CAST(year AS INTEGER) > 1390 "
        "ORDER BY CAST(year AS INTEGER)"
    )
    with native_rows(rows.filter(pc.field("id") != 7)) as native:
        for _ in range(3):
            assert_same_rows(con, native, path, query)
    assert _is_grouped(con, query.format(t=f"'{path}'"))


def test_columns_whose_names_differ_in_case_only_are_left_alone(tmp_path: Path) -> None:
    rows = _rows(300, 3)
    rows = rows.append_column("HOST", rows["host"])
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    con = connect("install")
    found = con.execute(f"SELECT level, zone, count(*) FROM '{tmp_path}/t.lance' GROUP BY ALL")
    assert len(found.fetchall()) == 15


def test_a_column_that_is_called_as_the_numbers_of_groups_is_a_column(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.lance", _rows(300, 3)
    rows = rows.append_column(f"{GROUP}1", rows["bytes"])
    lance.write_dataset(rows, str(path))
    query = f"SELECT level, zone, sum({GROUP}1) FROM {{t}} GROUP BY ALL ORDER BY ALL"
    with native_rows(rows) as native:
        assert_same_rows(connect("install"), native, path, query)


def test_names_of_columns_may_be_anything(tmp_path: Path) -> None:
    names = ['a "b"', "select", "it's"]
    random = np.random.default_rng(1)
    columns = {name: [f"v{n}" for n in random.integers(0, 4, 500)] for name in names}
    rows = pa.table({**columns, "n": range(500)})
    path = tmp_path / "t'.lance"
    lance.write_dataset(rows, str(path))
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    query = f"SELECT {quoted}, sum(n) FROM {{t}} GROUP BY ALL ORDER BY ALL"
    con = connect("install")
    found = con.execute(query.format(t="'" + str(path).replace("'", "''") + "'")).fetchall()
    with native_rows(rows) as native:
        assert found == native.execute(query.format(t="native")).fetchall()


def test_values_that_came_from_nowhere_are_an_error(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Combinations("logs.lance", {"level": pa.array(["info"]), "host": pa.array(["h"])})
    monkeypatch.setattr(groups, "few_combinations", lambda *_: few)
    query = f"SELECT level, host, sum(id) FROM '{table}' GROUP BY ALL"
    with pytest.raises(duckdb.Error, match=r"logs\.lance: a column has other values"):
        connect("install").execute(query).fetchall()


def test_threads_do_not_meet(table: Path, native: Any) -> None:
    con = connect("install")
    query = "SELECT level, {c}, count(*) FROM {t} GROUP BY ALL ORDER BY ALL"

    def run(number: int) -> bool:
        column = ("host", "zone")[number % 2]
        with con.cursor() as cursor:
            found = cursor.execute(query.format(c=column, t=f"'{table}'")).fetchall()
        with native.cursor() as cursor:
            return found == cursor.execute(query.format(c=column, t="native")).fetchall()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(40)))


WORDS = st.one_of(st.none(), st.sampled_from(["", "a", "aa", "ä", "日本", "x" * 40, "\0", "a\0"]))


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_random_tables_are_grouped_as_duckdb_groups_its_own(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("random") / "t.lance"
    parts = []
    for _ in range(data.draw(st.integers(1, 3))):
        words = st.lists(WORDS, min_size=1, max_size=6)
        choices = [data.draw(words) for _ in range(2)]
        seed = data.draw(st.integers(0, 99))
        drawn = np.random.default_rng(seed).integers(0, 720720, (2, 400))
        a, b = (
            [each[n % len(each)] for n in row] for each, row in zip(choices, drawn, strict=True)
        )
        parts.append(pa.table({"a": pa.array(a, pa.string()), "b": pa.array(b, pa.string())}))
        parts[-1] = parts[-1].append_column("n", pa.array(range(400)))
        lance.write_dataset(parts[-1], str(path), mode="append" if len(parts) > 1 else "create")
    query = data.draw(
        st.sampled_from(
            [
                "SELECT a, b, count(*), sum(n) FROM {t} GROUP BY ALL ORDER BY ALL",
                "SELECT DISTINCT b, a FROM {t} WHERE n > 200 ORDER BY ALL",
                "SELECT a, b, count(DISTINCT n % 7), max(a) FROM {t} GROUP BY a, b ORDER BY ALL",
            ]
        )
    )
    with native_rows(pa.concat_tables(parts)) as native:
        assert_same_rows(connect("install"), native, path, query)
