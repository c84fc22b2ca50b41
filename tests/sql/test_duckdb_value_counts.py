"""Queries that use only which values columns hold, and how often, read them once for a version."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import (
    assert_reads_each_time,
    assert_same_rows,
    connect,
    native_rows,
    needs_install,
)
from support import examples

from duckdb_adapter.sources import column_values, value_counter, value_counts
from duckdb_adapter.sources.groups import Combinations
from lancefs.errors import ReadFailed

pytestmark = needs_install

ROWS = 6000
LEVELS = ("debug", "info", "warn", "error", None)
DAY = datetime.date(2026, 1, 31)


def _rows(count: int = ROWS, seed: int = 3) -> pa.Table:
    random = np.random.default_rng(seed)

    def drawn(values: Any) -> list[Any]:
        return [values[n] for n in random.integers(0, len(values), count)]

    status = drawn([200, 200, 404, 500, None])
    return pa.table(
        {
            "id": pa.array(range(count)),
            "level": pa.array(drawn(LEVELS)),
            "Host": pa.array(drawn([f"host-{n:03d}" for n in range(40)])),
            "code": pa.array(drawn([-128, 0, 127, None]), pa.int8()),
            "big": pa.array(drawn([2**62, 2**62 + 9])),
            "port": pa.array(drawn([0, 65535]), pa.uint16()),
            "day": pa.array(drawn([DAY, datetime.date(1969, 12, 1), None])),
            "price": pa.array(drawn([Decimal("-0.01"), Decimal(655)]), pa.decimal128(15, 2)),
            "req": pa.array(
                [{"Status": s, "try": n % 3, "at": f"u{n}"} for n, s in enumerate(status)]
            ),
            "latency": pa.array(random.random(count)),
            "ok": pa.array(drawn([True, False, None])),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "logs.lance"
    lance.write_dataset(_rows(), str(path), max_rows_per_file=2500)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


@pytest.fixture(autouse=True)
def any_length(monkeypatch: pytest.MonkeyPatch, no_values_are_known: None) -> None:
    """Tables of any length are long, and there are blocks of all lengths."""
    monkeypatch.setattr(column_values, "MIN_ROWS", 10)
    monkeypatch.setattr(value_counts, "_BLOCKS", (16, 2))


# Queries over {t} that use nothing but values and their counts.
COUNTED = [
    "SELECT level, count(*) FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT level, max(code) FROM {t} GROUP BY ALL ORDER BY ALL DESC NULLS LAST",
    "SELECT level, count(level), count(*) FROM {t} GROUP BY 1 HAVING count(*) > 9 ORDER BY ALL",
    "SELECT DISTINCT host FROM {t} ORDER BY host",
    "SELECT DISTINCT upper(t.level) AS u FROM {t} AS t ORDER BY 1",
    "SELECT count(DISTINCT host), max(length(host)), min(host) FROM {t}",
    "SELECT count(*) FROM {t} WHERE host LIKE '%-01%'",
    "SELECT count(*) FROM {t} WHERE level IS NULL OR level = 'info'",
    "SELECT count(*) FROM {t} WHERE level NOT IN ('info', 'warn')",
    "SELECT sum(CASE WHEN level = 'error' THEN 1 ELSE 0 END), count(*) FROM {t}",
    "SELECT count(*) FILTER (level = 'warn'), avg(length(level)) FROM {t}",
    "SELECT histogram(level) FROM {t}",
    "SELECT host, count(*) AS c FROM {t} GROUP BY host ORDER BY c DESC, host LIMIT 5",
    "SELECT level[1] AS l, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, host, count(*) FROM {t} GROUP BY ROLLUP (level, host) ORDER BY ALL",
    "SELECT code, sum(code), count(*) FROM {t} GROUP BY code ORDER BY ALL",
    "SELECT min(big), max(big), sum(big) FROM {t} WHERE big > 9",
    "SELECT sum(port), avg(port) FROM {t}",
    "SELECT year(day), count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT date_trunc('month', day) AS m, max(day) FROM {t} GROUP BY m ORDER BY m",
    "SELECT sum(price), avg(price), min(price) FROM {t}",
    "SELECT level, sum(price), max(code) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, day, port, sum(code + port) FROM {t} WHERE price < 1 GROUP BY ALL ORDER BY ALL",
    "SELECT req.status, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT count(*), sum(req.status) FROM {t} WHERE req.STATUS > 200",
    "SELECT req.status AS s, max(t.req.try), min(level) FROM {t} t GROUP BY s ORDER BY s",
    "SELECT ok, count(*) FROM {t} GROUP BY ok ORDER BY ok",
    "SELECT level, count(*) FROM {t} WHERE ok GROUP BY level ORDER BY ALL",
    "SELECT count(*), count(ok), bool_and(ok), sum(ok::INT) FILTER (level = 'info') FROM {t}",
    "SELECT sum(port) FROM {t} WHERE NOT ok OR level = 'warn'",
    "SELECT level FROM {t} WHERE level < 'a' GROUP BY ALL",
    "SELECT max(level) FROM {t} WHERE level < 'a'",
    "SELECT count(*) FROM {t} WHERE level = $1",
    "WITH w AS (FROM {t}) SELECT level, count(*) FROM w GROUP BY level ORDER BY ALL",
    "SELECT max(n) FROM (SELECT level, count(*) AS n FROM {t} GROUP BY level) AS q WHERE n > 1",
    "PIVOT {t} ON level USING count(*) GROUP BY host ORDER BY host",
    "PIVOT {t} ON LEVEL IN ('info', 'a') USING sum(code) AS s, max(port) GROUP BY day ORDER BY 1",
    "PIVOT {t} ON length(level), code USING count(host) GROUP BY level ORDER BY ALL",
    "SELECT level, count(*) * 100.0 / sum(count(*)) OVER () FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT level, host, rank() OVER (PARTITION BY level ORDER BY count(*), host) AS r FROM {t} "
    "GROUP BY level, host QUALIFY r <= 2 ORDER BY ALL",
    "SELECT host FROM {t} GROUP BY host QUALIFY lag(count(*)) OVER (ORDER BY host) < count(*) "
    "ORDER BY ALL",
    "SELECT host, list(DISTINCT level ORDER BY level) FROM {t} GROUP BY host ORDER BY ALL",
    "SELECT string_agg(DISTINCT level, ',' ORDER BY level) FROM {t}",
    "SELECT host, list_sort(list(DISTINCT level)) FROM {t} GROUP BY host ORDER BY ALL",
    "SELECT array_to_string(list_sort(list(DISTINCT host || '?')), '-') AS hosts FROM {t}",
    "SELECT string_split(level, 'n') AS parts, max(time_bucket(INTERVAL 3 DAY, DATE '2026-01-09')) "
    "FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT level, bool_and(code > -200), bool_or(code = 127), count_if(code = 0) FROM {t} "
    "GROUP BY ALL ORDER BY ALL",
    "SELECT quantile_disc(port, 0.4), bit_xor(port), round(stddev(code), 6), mad(code) FROM {t}",
    "SELECT dayname(day), lpad(host, 9, '*') AS h, max(mod(port, 9)) FROM {t} GROUP BY ALL "
    "ORDER BY ALL",
    "SELECT * FROM {t} AS t PIVOT (avg(code) FOR level IN ('info') GROUP BY Host) ORDER BY host",
]


@pytest.mark.parametrize("query", COUNTED)
def test_answers_are_those_of_all_rows(
    native: Any, table: Path, reads: list[dict[str, Any]], query: str
) -> None:
    con, name = connect("shared"), f"'{table}'"
    given = ["info"] if "$1" in query else None
    expected = native.execute(query.format(t="native"), given).fetchall()
    assert con.execute(query.format(t=name), given).fetchall() == expected
    del reads[:]
    found = con.execute(query.format(t=name), given)
    assert found.fetchall() == expected
    assert [each[:2] for each in found.description] == [
        each[:2] for each in native.execute(query.format(t="native"), given).description
    ]
    assert reads == []


# Queries over {t} that use the order of rows, or other columns, or may do so.
OTHERS = [
    "SELECT level FROM {t}",
    "SELECT level, host FROM {t} WHERE level = 'info'",
    "SELECT level FROM {t} LIMIT 7 OFFSET 3",
    "SELECT first(level) || last(host) > '' OR first(level) IS NULL FROM {t}",
    "SELECT list(level ORDER BY level) FROM {t}",
    "SELECT string_agg(host, ',' ORDER BY host) FROM {t} WHERE level = 'warn'",
    "SELECT count(*), any_value(level ORDER BY host, level) FROM {t}",
    "SELECT mode(host) IS NULL FROM {t}",
    "SELECT level, row_number() OVER () AS n FROM {t} ORDER BY n LIMIT 3",
    "SELECT level, count(*) OVER (PARTITION BY level) AS n FROM {t} ORDER BY ALL",
    "SELECT level, max(id) FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT level, count(*) FROM {t} WHERE latency < 0.5 GROUP BY level ORDER BY ALL",
    "SELECT count(*) FROM {t} WHERE req.at = 'u7'",
    "SELECT DISTINCT level, row_number() OVER () < 3000 AS n FROM {t} ORDER BY ALL",
    "SELECT level, list(host ORDER BY id)[1], count(*) OVER () FROM {t} GROUP BY 1 ORDER BY ALL",
    "SELECT DISTINCT ON (level) level, host FROM {t} ORDER BY level, id",
    "SELECT DISTINCT req FROM {t} ORDER BY req.at LIMIT 3",
    "SELECT count(*) FROM {t} WHERE level IN (SELECT level FROM {t} WHERE id < 5)",
    "SELECT level, (SELECT max(code) FROM {t}) FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT a.level, count(*) FROM {t} a JOIN {t} b USING (id) GROUP BY a.level ORDER BY ALL",
    "SELECT max(level) FROM (SELECT * FROM {t} LIMIT 10)",
    "SELECT max(level) FROM {t} ORDER BY COLUMNS(*)",
    "SELECT level, count(*) FROM {t} AS t(id, host, level) GROUP BY ALL ORDER BY ALL LIMIT 9",
    "SELECT count(*) FROM {t} AS level WHERE level.level = 'info'",
    "SELECT count(DISTINCT level) FROM {t} USING SAMPLE 100 PERCENT",
    "PIVOT (SELECT level, host, code FROM {t}) ON level USING count(*) GROUP BY code ORDER BY code",
    "PIVOT {t} ON level USING list(code ORDER BY id) GROUP BY host ORDER BY host",
    "PIVOT {t} ON level USING sum(latency)::INTEGER GROUP BY host ORDER BY host",
    "PIVOT {t} ON level USING any_value(code ORDER BY id) GROUP BY host ORDER BY host",
    "SELECT count(*) FROM {t} PIVOT (count(*) FOR level IN ('info') GROUP BY host), {t}",
    "SELECT *, (SELECT max(id) FROM {t}) FROM {t} PIVOT (count(*) FOR level IN ('info') GROUP BY "
    "host) ORDER BY host",
    "SELECT count(*) FROM (PIVOT {t} ON level USING count(*))",
    "SELECT count(*) FROM (UNPIVOT {t} ON code, port)",
]


@pytest.mark.parametrize("query", OTHERS)
def test_other_queries_read_rows(
    native: Any, table: Path, reads: list[dict[str, Any]], query: str
) -> None:
    assert_reads_each_time(native, table, reads, query)


def test_columns_of_many_values_are_asked_once(
    native: Any, table: Path, reads: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect("install")
    monkeypatch.setattr(value_counter, "MAX_VALUES", 30)
    lance.dataset(str(table)).delete("false")  # another version, whose values nobody has seen
    for query in ("SELECT sum(id) FROM {t}", "SELECT count(DISTINCT host) FROM {t}"):
        assert_same_rows(con, native, table, query)
        del reads[:]
        assert_same_rows(con, native, table, query)
        assert ["limit" in each for each in reads] == [False]


def test_many_combinations_are_read(
    native: Any, table: Path, reads: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect("install")
    query = "SELECT level, host, day, req.try, sum(code) FROM {t} GROUP BY ALL ORDER BY ALL"
    for _ in range(3):  # there are few rows of each
        del reads[:]
        assert_same_rows(con, native, table, query)
        assert reads != []
    monkeypatch.setattr(value_counter, "MAX_COMBINATIONS", 100)
    lance.dataset(str(table)).delete("false")
    for _ in range(3):
        del reads[:]
        assert_same_rows(con, native, table, query.replace("day, req.try, ", ""))
        assert reads != []


def test_a_macro_that_reads_a_table_that_is_pivoted(table: Path, native: Any) -> None:
    con, name = connect("install"), f"'{table}'"
    pivot = "PIVOT {t} ON level IN ('info', 'warn') USING count(code) GROUP BY host ORDER BY host"
    expected = native.execute(pivot.format(t="native")).fetchall()
    con.execute(f"CREATE MACRO upper(a) AS (SELECT max(id) FROM {name})")
    query = f"SELECT *, upper(host) FROM ({pivot.format(t=name)}) ORDER BY host"
    (last,) = native.execute("SELECT max(id) FROM native").fetchone()
    assert con.execute(query).fetchall() == [(*row, last) for row in expected]
    assert con.execute(pivot.format(t=name)).fetchall() == expected


def test_some_of_the_columns_that_were_counted_are_known(
    native: Any, table: Path, reads: list[dict[str, Any]]
) -> None:
    con = connect("install")
    lance.dataset(str(table)).delete("false")  # another version, whose values nobody has seen
    assert_same_rows(
        con, native, table, "SELECT level, code, day, count(*) FROM {t} GROUP BY ALL ORDER BY ALL"
    )
    assert [each["columns"] for each in reads] == [["level", "code", "day"]] * 2
    del reads[:]
    for columns in ("level", "code, level", "day"):
        query = f"SELECT {columns}, count(*) FROM {{t}} GROUP BY ALL ORDER BY ALL"
        assert_same_rows(con, native, table, query)
    assert reads == []


def test_indices_of_long_tables_tell_rows_before_all_are_counted(
    native: Any, table: Path, reads: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect("install")
    lance.dataset(str(table)).create_scalar_index("code", "BITMAP")
    monkeypatch.setattr(value_counts, "_MAX_COUNTED", 1000)
    for query in (
        "SELECT level, count(*) FROM {t} WHERE code = 3 GROUP BY ALL ORDER BY ALL",
        "SELECT code, port, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
        "SELECT port, count(*) FROM {t} WHERE code = 3 GROUP BY ALL ORDER BY ALL",
    ):
        assert_same_rows(con, native, table, query)
    filters = [str(each["filter"]) for each in reads if each.get("filter") is not None]
    assert filters == ["(code == 3)"]


def test_each_version_has_counts_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"c": ["a", "b", "b"] * 100}), str(path))
    lance.write_dataset(pa.table({"c": ["d"] * 7}), str(path), mode="append")
    con = connect("install")
    query = f"SELECT c, count(*) FROM '{path}{{v}}' GROUP BY c ORDER BY c"
    prepared = f"PREPARE newest AS {query.format(v='')}"
    con.execute(prepared)
    for _ in range(2):
        assert con.execute(query.format(v="@v1")).fetchall() == [("a", 100), ("b", 200)]
        assert con.execute(query.format(v="")).fetchall() == [("a", 100), ("b", 200), ("d", 7)]
    lance.dataset(str(path)).delete("c = 'b'")
    assert con.execute(query.format(v="")).fetchall() == [("a", 100), ("d", 7)]
    assert con.execute("EXECUTE newest").fetchall() == [("a", 100), ("d", 7)]


MACROS = {
    "range": "CREATE MACRO range(a) AS TABLE SELECT 1 AS range",
    "unnest": "CREATE MACRO unnest(a) AS 1",
    "level": "CREATE MACRO level(a) AS a",
}


@pytest.mark.parametrize("macro", MACROS.values(), ids=MACROS)
def test_macros_of_the_user_change_nothing(native: Any, table: Path, macro: str) -> None:
    con = connect("install")
    con.execute(macro)
    assert_same_rows(con, native, table, COUNTED[0])
    assert_same_rows(con, native, table, "SELECT count(*) FROM {t}")


def test_a_macro_that_reads_the_table_once_more(native: Any, table: Path) -> None:
    for con, name in ((connect("install"), f"'{table}'"), (native, "native")):
        con.execute(f"CREATE OR REPLACE MACRO newest() AS (SELECT max(id) FROM {name})")
    query = "SELECT level, count(*), newest() FROM {t} WHERE host < 'host-02' GROUP BY 1 ORDER BY 1"
    con = connect("install")
    con.execute(f"CREATE MACRO newest() AS (SELECT max(id) FROM '{table}')")
    assert_same_rows(con, native, table, query)
    other = "SELECT count(*) FROM {t} WHERE level = 'info' AND newest() > 5"
    assert_same_rows(con, native, table, other)


@pytest.mark.parametrize("name", ["range", "__lance_ticks", "unnest", 'a "b"', "_", "select"])
def test_names_of_columns_may_be_anything(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({name: ["x", "y", None, "y"] * 300}), str(path))
    quoted = '"' + name.replace('"', '""') + '"'
    found = connect("shared").execute(
        f"SELECT {quoted}, count(*) FROM '{path}' GROUP BY 1 ORDER BY 2, 1"
    )
    assert found.fetchall() == [("x", 300), (None, 300), ("y", 600)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT level, count(*) FROM {t} GROUP BY level",
        "SELECT DISTINCT level FROM {t}",
        "SELECT min(level), max(level) FROM {t} WHERE code = 1",
        "SELECT list(DISTINCT level ORDER BY level) FROM {t}",
    ],
)
def test_of_texts_that_a_collation_takes_for_the_same_the_first_is_shown(
    tmp_path: Path, query: str
) -> None:
    path = tmp_path / "cases.lance"
    rows = pa.table({"level": ["Warn"] + ["warn"] * 99, "code": pa.repeat(1, 100)})
    lance.write_dataset(rows, str(path))
    con = connect("install")
    with native_rows(rows) as own:
        for each in (con, own):
            each.execute("SET default_collation = 'nocase'")
        for _ in range(2):
            assert_same_rows(con, own, path, query)


def test_damage_is_reported_as_for_other_queries(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(_rows(), str(path))
    (file,) = (path / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-400] + bytes(400))
    con = connect("install")
    with pytest.raises(duckdb.Error, match=file.name):
        con.execute(f"SELECT level, count(*) FROM '{path}' GROUP BY level").fetchall()


def test_values_that_came_from_nowhere_are_an_error() -> None:
    few = Combinations("logs.lance", {"r": pa.array(["x", "y"]), "s": pa.array(["a"])})
    for first, last in ((["x", "z"], ["a", "a"]), (["x", "y"], ["a", "b"])):
        arrays = [pa.array(words).dictionary_encode() for words in (first, last)]
        with pytest.raises(ReadFailed, match=r"logs\.lance: a column has other values"):
            few.numbers(arrays)


def test_threads_do_not_meet(table: Path, native: Any) -> None:
    con = connect("install")
    columns = ("level", "host", "code", "level, day")
    lance.dataset(str(table)).delete("false")

    def run(number: int) -> bool:
        column = columns[number % 4]
        query = f"SELECT {column}, count(*) FROM {{t}} GROUP BY ALL ORDER BY ALL"
        with con.cursor() as cursor:
            found = cursor.execute(query.format(t=f"'{table}'")).fetchall()
        with native.cursor() as cursor:
            return bool(found == cursor.execute(query.format(t="native")).fetchall())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(40)))


WORDS = st.sampled_from(["", "a", "aa", "ä", "日本", "x" * 40, "\0", "a\0"])
NUMBERS: dict[pa.DataType, Callable[[], st.SearchStrategy[Any]]] = {
    pa.int8(): lambda: st.integers(-128, 127),
    pa.int64(): lambda: st.integers(-(2**63), 2**63 - 1),
    pa.uint32(): lambda: st.integers(0, 2**32 - 1),
    pa.date32(): lambda: st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    pa.decimal128(9, 4): lambda: st.decimals("-9", "9", places=4),
    pa.string(): lambda: WORDS,
}


@pytest.mark.parametrize("later", [[6, 6, None], [6, 6], [0, None], [None], [7, 5]])
@pytest.mark.parametrize("first", [[1, 5, None], [None, None], [3]])
def test_numbers_that_come_later_are_not_taken_for_nulls(
    tmp_path: Path, first: list[int | None], later: list[int | None]
) -> None:
    path = tmp_path / "t.lance"
    parts = [pa.table({"n": pa.array(values * 400, pa.int64())}) for values in (first, later)]
    for part in parts:
        lance.write_dataset(part, str(path), mode="append" if path.exists() else "create")
    query = "SELECT n, count(*), count(n) FROM {t} GROUP BY n ORDER BY ALL"
    with native_rows(pa.concat_tables(parts)) as native:
        assert_same_rows(connect("shared"), native, path, query)


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_random_columns_are_counted_as_duckdb_counts_its_own(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("random") / "t.lance"
    kinds = [data.draw(st.sampled_from(list(NUMBERS))) for _ in range(2)]
    parts = []
    for _ in range(data.draw(st.integers(1, 3))):
        count = data.draw(st.integers(1, 3000))
        columns = {}
        for name, kind in zip("ab", kinds, strict=True):
            value = st.one_of(st.none(), NUMBERS[kind]())
            values = data.draw(st.lists(value, min_size=1, max_size=5))
            repeats = np.random.default_rng(count).integers(0, len(values), count)
            columns[name] = pa.array([values[n] for n in repeats], kind)
        parts.append(pa.table(columns))
    for part in parts:
        mode = "append" if path.exists() else "create"
        version = data.draw(st.sampled_from(["2.0", "2.1", "2.2"])) if mode == "create" else None
        lance.write_dataset(part, str(path), mode=mode, data_storage_version=version)
    con = connect("install")
    with native_rows(pa.concat_tables(parts)) as native:
        for query in (
            "SELECT a, count(*), count(a) FROM {t} GROUP BY a ORDER BY ALL",
            "SELECT a, b, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
            "SELECT max(a), min(b), count(DISTINCT a) FROM {t} WHERE b IS NOT NULL",
        ):
            for _ in range(3):
                assert_same_rows(con, native, path, query)


def test_texts_without_dictionaries_are_counted_for_the_second_query(
    tmp_path: Path, reads: list[dict[str, Any]]
) -> None:
    path = tmp_path / "texts.lance"
    texts = [None if n % 13 == 5 else f"value number {n * 7 % 300}" for n in range(ROWS)]
    members = pa.array([{"kind": text} for text in texts])
    rows = pa.table({"text": texts, "req": members, "code": [n % 3 for n in range(ROWS)]})
    # Data files 2.0 have dictionaries of up to a hundred values.
    lance.write_dataset(rows, str(path), data_storage_version="2.0", max_rows_per_file=2500)
    counted = [
        "SELECT text, count(*) FROM {t} GROUP BY text ORDER BY text",
        "SELECT count(DISTINCT text), max(length(text)) FROM {t}",
        "SELECT count(*) FROM {t} WHERE text LIKE '%9' OR text IS NULL",
    ]
    con = connect("install")
    with native_rows(rows) as native:
        for query in counted[:2]:
            del reads[:]
            assert_same_rows(con, native, path, query)
            assert reads != []
        for query in counted:
            del reads[:]
            assert_same_rows(con, native, path, query)
            assert reads == []
        # Counted at once, since the texts were asked for before.
        by_both = "SELECT code, text, count(*) FROM {t} GROUP BY ALL ORDER BY ALL"
        assert_same_rows(con, native, path, by_both)
        del reads[:]
        assert_same_rows(con, native, path, by_both)
        assert reads == []
        by_member = "SELECT req.kind AS k, count(*) FROM {t} GROUP BY k ORDER BY k"
        assert_reads_each_time(native, path, reads, by_member)
