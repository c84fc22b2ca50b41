"""Queries for the first rows in some order read the other columns of few rows."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from roads import EACH_INTERFACE, assert_same_rows, assert_same_rows_under, connect, needs_install
from support import examples

from duckdb_adapter.sources import top_n, top_n_rows
from duckdb_adapter.sources.top_n_rows import find_first
from lancefs.scan.scanner import LanceScanner

ROWS = 3000
KINDS = ((0, pa.float64()), (1, pa.string()))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(7)
    latency = random.integers(0, 900, ROWS) / 8
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "level": pa.array([("debug", "info")[n % 2] for n in range(ROWS)]),
            "req": pa.array([{"status": n % 5, "latency": -n} for n in range(ROWS)]),
            "latency": pa.array([None if n % 301 == 0 else latency[n] for n in range(ROWS)]),
            "price": pa.array([Decimal(int(n)) / 100 for n in random.integers(-500, 500, ROWS)]),
            "many": pa.array([n % 2 for n in range(ROWS)]),
            "flag": pa.array([None if n % 3 == 0 else n % 5 == 1 for n in range(ROWS)]),
            "name": pa.array([f"{'nN'[n % 2]}ame {n * 7919 % ROWS}" for n in range(ROWS)]),
            "ts": pa.array(
                [int(n) * 1_000_000 for n in random.permutation(ROWS)], pa.timestamp("us")
            ),
        }
    )
    path = tmp_path_factory.mktemp("top") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1100)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


def assert_two_phases(read: list[list[str]], query: str) -> None:
    """Check that columns that order rows were read first, and others of few rows at the end."""
    keys = query.partition("ORDER BY ")[2].partition(" LIMIT")[0].split(",")
    order = [key.split()[0].removeprefix("t.") for key in keys]
    *phases, last = [[column for column in columns if column != "_rowoffset"] for columns in read]
    assert phases
    assert all(columns == order[: len(columns)] for columns in phases)
    assert len(last) > len(order)


# Queries over {t} of which the order and the limit tell the rows; each order is total.
FIRST = [
    "SELECT * FROM {t} ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} ORDER BY latency DESC, id LIMIT 10 OFFSET 5",
    "SELECT * FROM {t} ORDER BY latency ASC NULLS FIRST, id LIMIT 20",
    "SELECT * FROM {t} ORDER BY latency DESC NULLS LAST, id DESC LIMIT 20",
    "SELECT id, req.status AS s, level FROM {t} AS t ORDER BY t.latency, id LIMIT 3",
    "SELECT * EXCLUDE (many) FROM {t} ORDER BY price, id LIMIT 7",
    "FROM {t} ORDER BY id DESC LIMIT 1",
    "FROM {t} ORDER BY many, id LIMIT 4",
    "SELECT * FROM {t} ORDER BY many DESC, price, id DESC LIMIT 4",
    "SELECT * FROM {t} ORDER BY ts DESC LIMIT 4",
    "SELECT * FROM {t} ORDER BY flag DESC NULLS LAST, latency, id LIMIT 4",
    "SELECT * FROM {t} ORDER BY flag NULLS FIRST, price DESC, id LIMIT 4",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", FIRST)
def test_first_rows_are_those_of_all_rows(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(con, native, table, query)
    assert_two_phases(read, query)


@EACH_INTERFACE
def test_a_page_far_from_the_first_is_read_alone(
    con: Any, tmp_path: Path, read: list[list[str]]
) -> None:
    ids = np.random.default_rng(3).permutation(40_000)
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": ids, "text": [f"text {n}" for n in ids]}), str(path))
    query = "SELECT * FROM {t} ORDER BY id LIMIT 10 OFFSET 9000"
    found = con.execute(query.format(t=f"'{path}'")).fetchall()
    assert found == [(n, f"text {n}") for n in range(9000, 9010)]
    assert_two_phases(read, query)


# Those by texts, which DuckDB says how to compare only where it is asked.
FIRST_BY_TEXTS = [
    "SELECT * FROM {t} ORDER BY name LIMIT 10",
    "SELECT id, name, price FROM {t} ORDER BY name DESC, id LIMIT 3",
    "SELECT * FROM {t} ORDER BY level, name LIMIT 7",
    "SELECT * FROM {t} ORDER BY level, id DESC LIMIT 7",
]


@needs_install
@pytest.mark.parametrize("query", FIRST_BY_TEXTS)
def test_first_rows_by_texts_are_those_of_all_rows(
    native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert_two_phases(read, query)


@needs_install
def test_texts_that_are_compared_without_case(
    native: Any, table: Path, read: list[list[str]]
) -> None:
    query = "SELECT * FROM {t} ORDER BY name, id LIMIT 5"
    setting = "default_collation = 'NOCASE'"
    assert_same_rows_under(setting, connect("install"), native, table, query)
    assert [len(columns) for columns in read] == [9]


@pytest.mark.parametrize(
    "setting", ["default_order = 'DESC'", "default_null_order = 'NULLS_FIRST'"]
)
def test_first_rows_follow_the_settings(
    con: Any, native: Any, table: Path, read: list[list[str]], setting: str
) -> None:
    query = "SELECT * FROM {t} ORDER BY latency, id LIMIT 15"
    assert_same_rows_under(setting, con, native, table, query)
    assert_two_phases(read, query)


@needs_install
@pytest.mark.parametrize(
    ("query", "last"),
    [
        ("SELECT level FROM {t} ORDER BY level LIMIT 5", 5),
        ("SELECT id, many FROM {t} ORDER BY many DESC LIMIT 7", 7),
        ("SELECT many, level FROM {t} ORDER BY level, many DESC LIMIT 9", 9),
        ("SELECT price FROM {t} ORDER BY price DESC LIMIT 5", 5),
    ],
)
def test_of_many_rows_with_the_same_value_few_are_read(
    table: Path,
    native: Any,
    no_first_rows_are_known: None,
    any_table_is_long: None,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    last: int,
) -> None:
    """And the second time, nothing but these."""
    taken, found = list[int](), list[int]()
    take, find = LanceScanner.take, top_n.find_first

    def count_taken(self: LanceScanner, positions: Any) -> pa.Table:
        taken.append(len(positions))
        return take(self, positions)

    def count_found(*args: Any) -> Any:
        found.append(1)
        return find(*args)

    monkeypatch.setattr(LanceScanner, "take", count_taken)
    monkeypatch.setattr(top_n, "find_first", count_found)
    con = connect("shared")
    ordered = query.partition(" FROM")[0].removeprefix("SELECT id, ")
    for _ in range(2):
        rows = con.execute(query.format(t=f"'{table}'")).fetchall()
        assert len(rows) == last
    expected = native.execute(query.format(t="native")).fetchall()
    columns = -len(ordered.removeprefix("SELECT ").split(","))
    assert [row[columns:] for row in rows] == [row[columns:] for row in expected]
    assert taken == [last, last]
    assert found == [1]
    fewer = query.rpartition(" ")[0] + " 2"
    assert con.execute(fewer.format(t=f"'{table}'")).fetchall() == rows[:2]
    assert found == [1]


# Queries over {t} for the first of the rows that pass comparisons; each order is total.
FIRST_THAT_PASS = [
    "SELECT * FROM {t} WHERE level = 'info' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE level = 'info' AND many = 1 ORDER BY ts DESC LIMIT 10",
    "SELECT * FROM {t} WHERE ts > TIMESTAMP '1970-01-01 00:20:00' ORDER BY ts LIMIT 10 OFFSET 3",
    "SELECT * FROM {t} AS t WHERE 100 < t.id AND latency <= 50 ORDER BY ts LIMIT 10",
    "SELECT * FROM {t} WHERE id BETWEEN 100 AND 300 AND price > -1.5 ORDER BY ts DESC LIMIT 7",
    "SELECT level, price, ts FROM {t} WHERE id < 0 ORDER BY id LIMIT 7",
    "SELECT * FROM {t} WHERE id >= 2995 ORDER BY ts LIMIT 100",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", FIRST_THAT_PASS)
def test_first_rows_are_those_of_the_rows_that_pass(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(con, native, table, query)
    if duckdb.__version__ >= "2":  # older releases ask the scan for fewer conditions
        assert_two_phases(read, query)
        assert any("_rowoffset" in columns for columns in read)


# Those that pass tests that DuckDB asks for in its own words where a connection is wrapped, or of a
# part of a text, which it does not ask for.
FIRST_THAT_PASS_OTHERS = [
    "SELECT * FROM {t} WHERE latency > 5 AND latency <> 7 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE 9 >= latency AND level <> 'info' ORDER BY latency DESC, id LIMIT 10",
    "SELECT * FROM {t} WHERE latency IS NULL ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE latency IS NOT NULL ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id IN (5, 7, 11) ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE level IN ('info', 'debug') ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id < 5 OR many = 1 OR latency >= 90 ORDER BY ts DESC LIMIT 10",
    "SELECT * FROM {t} WHERE latency > 100 OR latency IS NULL ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE name LIKE '%9%' ORDER BY ts LIMIT 10",
    "SELECT * FROM {t} WHERE name LIKE 'name 1%' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE name LIKE '%77' AND many = 1 ORDER BY ts DESC LIMIT 10",
    "SELECT * FROM {t} WHERE name ^@ 'Name 2' AND level LIKE 'i%' ORDER BY ts LIMIT 10",
]


@needs_install
@pytest.mark.parametrize("query", FIRST_THAT_PASS_OTHERS)
def test_first_rows_are_those_that_pass_other_tests(
    native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert_two_phases(read, query)


@needs_install
def test_first_rows_by_the_time_of_day(native: Any, table: Path, read: list[list[str]]) -> None:
    query = "SELECT * FROM {t} WHERE ts < now()::TIMESTAMP - INTERVAL 1 DAY ORDER BY ts LIMIT 5"
    assert_same_rows(connect("install"), native, table, query)
    assert ["ts", "_rowoffset"] in read


@needs_install
def test_a_macro_in_where_has_a_query_of_its_own(
    native: Any, table: Path, read: list[list[str]]
) -> None:
    con = connect("install")
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO half() AS (SELECT avg(id) FROM {name})")
    query = "SELECT * FROM {t} WHERE id >= half() ORDER BY id LIMIT 5"
    assert_same_rows(con, native, table, query)
    assert not any("_rowoffset" in columns for columns in read)


# Queries over {t} of which other rows than the first ones by the column decide.
ALL_ROWS = [
    "SELECT * FROM {t} WHERE id < 5 OR (many = 1 AND id BETWEEN 7 AND 70) ORDER BY ts LIMIT 10",
    "SELECT * FROM {t} WHERE id > 5 AND id % 3 = 1 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE level LIKE 'i%o' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE level NOT LIKE 'i%' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE name LIKE '_ame 1%' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE name ILIKE 'name 1%' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE name LIKE 'name 1%' OR id = 7 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id NOT IN (5, 7, 9) ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id IN (5, 7, many) ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id > 5 OR abs(id) = 3 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE (id = 5 AND many > 0) OR (id = 5 AND many < 1) "
    "ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE NOT id > 5 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id > many AND id > 7 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE req.status > 3 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id > 5 AND id < 20.5 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id BETWEEN 5 AND 20.5 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id > (SELECT avg(id) FROM {t}) ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE latency IS DISTINCT FROM 7 ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE level > 'd' AND level < 'e' ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} WHERE id % 3 = 1 ORDER BY latency, id LIMIT 10",
    "SELECT * REPLACE (-latency AS latency) FROM {t} ORDER BY latency, id LIMIT 10",
    "SELECT id AS latency, price FROM {t} ORDER BY latency LIMIT 10",
    "SELECT -latency AS l, id FROM {t} ORDER BY l, id LIMIT 10",
    "SELECT DISTINCT level, many FROM {t} ORDER BY many LIMIT 1",
    "SELECT level, max(many) FROM {t} GROUP BY level ORDER BY level LIMIT 1",
    "SELECT req.latency, id FROM {t} ORDER BY latency, id LIMIT 5",
    "SELECT id FROM {t} y ORDER BY many, (SELECT count(*) FROM {t} x WHERE x.id < y.id) LIMIT 5",
    "SELECT many, count(*) OVER () AS c FROM {t} ORDER BY many LIMIT 2",
    "SELECT req.status, id FROM {t} ORDER BY req.status, id LIMIT 5",
    "SELECT * FROM {t} ORDER BY abs(price), id LIMIT 5",
    "SELECT * FROM {t} ORDER BY level, id LIMIT 5",
    "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.id = b.id + 1 ORDER BY a.id LIMIT 5",
    "SELECT id, (SELECT count(*) FROM {t}) AS c FROM {t} ORDER BY id LIMIT 2",
    "SELECT * FROM {t} AS t(latency, b, c, id) ORDER BY latency, id LIMIT 5",
    "SELECT * FROM {t} ORDER BY latency, id LIMIT 1%",
    "SELECT id FROM {t} ORDER BY ALL LIMIT 5",
    "SELECT id, price FROM {t} WINDOW w AS (ORDER BY id) QUALIFY rank() OVER w > 9 "
    "ORDER BY price, id LIMIT 3",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", ALL_ROWS)
def test_other_orders_see_all_rows(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(con, native, table, query)


def test_a_macro_has_a_query_of_its_own(con: Any, native: Any, table: Path) -> None:
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO above(x) AS (SELECT count(*) - x FROM {name})")
    query = "SELECT id, above(1) FROM {t} ORDER BY many, id LIMIT 5"
    assert_same_rows(con, native, table, query)


def test_a_view_of_all_rows_beside_the_first_ones(con: Any, native: Any, table: Path) -> None:
    con.execute(f"CREATE VIEW v AS SELECT id, latency FROM '{table}'")
    query = "SELECT * FROM {v} WHERE id < 5 OR latency = 3 ORDER BY latency, id LIMIT 10"
    expected = native.execute(query.format(v="(SELECT id, latency FROM native)")).fetchall()
    assert con.execute(query.format(v="v")).fetchall() == expected


@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(
        st.one_of(st.none(), st.floats(width=16), st.sampled_from([0.0, -0.0, math.nan])),
        max_size=60,
    ),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    rows=st.integers(0, 9),
    descending=st.sampled_from([(False,), (True,), (False, True)]),
)
def test_rows_that_may_be_first_are_found(
    values: list[float | None], cuts: list[int], rows: int, descending: tuple[bool, ...]
) -> None:
    array = pa.array(values, pa.float64())
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    positions = pa.array(range(len(values)), pa.int64())
    parts = [([array[a:b]], positions[a:b]) for a, b in pairwise(edges)]
    found = find_first(parts, rows, [(each,) for each in descending])
    assert found is not None
    expected = {n for n, one in enumerate(values) if one is None or math.isnan(one)}
    numbers = [(one, n) for n, one in enumerate(values) if n not in expected]
    for is_reversed in descending:
        best = sorted((one for one, _ in numbers), reverse=is_reversed)[:rows]
        expected |= {n for one, n in numbers if one in best}
    assert set(found.tolist()) == expected


Row = tuple[float | None, str | None]


def in_order(row: Row, descending: tuple[bool, ...], nulls_first: bool) -> tuple[Any, ...]:
    """Where DuckDB puts a row: nulls where a setting says, and NaN above all numbers."""
    place = list[Any]()
    for value, is_reversed in zip(row, descending, strict=True):
        place.append((value is None) != nulls_first)
        is_nan = isinstance(value, float) and math.isnan(value)
        place.append(is_nan != is_reversed)
        letters = [ord(letter) for letter in value or ""] if isinstance(value, str) else []
        number = 0.0 if value is None or is_nan or letters else float(value or 0)
        place += [-number, [-one for one in letters]] if is_reversed else [number, letters]
    return tuple(place)


@settings(max_examples=examples(300), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([None, math.nan, 0.0, -0.0, 1.5]),
            st.sampled_from([None, "a", "b", "c"]),
        ),
        max_size=24,
    ),
    cuts=st.lists(st.integers(0, 24), max_size=3),
    wanted=st.integers(0, 5),
    columns=st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
    descending=st.sampled_from([[(False, False)], [(True, True)], [(False, True), (True, False)]]),
    is_coded=st.booleans(),
    head=st.sampled_from([1, 5, 100]),
    keeps_ties=st.booleans(),
)
@example([(None, None), (math.nan, None)], [1], 1, (0,), [(True, True)], False, 1, False)
def test_first_rows_by_columns_with_nulls_are_found(
    rows: list[Row],
    cuts: list[int],
    wanted: int,
    columns: tuple[int, ...],
    descending: list[tuple[bool, bool]],
    is_coded: bool,
    head: int,
    keeps_ties: bool,
) -> None:
    directions = [tuple(each[: len(columns)]) for each in descending]
    numbers, texts = (pa.array([row[n] for row in rows], kind) for n, kind in KINDS)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    positions = pa.array(range(len(rows)), pa.int64())
    parts = []
    for start, end in pairwise(edges):
        part = texts[start:end]
        keys = [numbers[start:end], part.dictionary_encode() if is_coded else part]
        parts.append(([keys[column] for column in columns], positions[start:end]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_n_rows, "_HEAD_ROWS", head)
        found = find_first(parts, wanted, directions, keeps_ties)
    assert found is not None
    keyed = [tuple(row[column] for column in columns) for row in rows]
    for direction in directions:
        for nulls_first in (False, True):
            places = [in_order(row, direction, nulls_first) for row in keyed]
            first = sorted(range(len(rows)), key=places.__getitem__)[:wanted]
            if keeps_ties and first:
                last = places[first[-1]]
                first = [n for n, place in enumerate(places) if place <= last]
            assert set(first) <= set(found.tolist())
    if len(columns) == 1 and not keeps_ties:
        assert len(found) <= wanted * (len(directions) + 2)


def test_few_of_many_rows_without_a_value_are_found() -> None:
    rows = 40_000
    first = pa.array([None if n % 2 else math.nan if n % 4 else n / 8 for n in range(rows)])
    second = pa.array([None if n % 8 == 0 else -n for n in range(rows)])
    found = find_first([([first, second], pa.array(range(rows)))], 2, [(False, False)])
    assert found is not None
    without_first, of_nan = [rows - 3, rows - 1], [rows - 6, rows - 2]
    least, without_second = [4, 12], [0, 8]
    assert found.tolist() == sorted([*without_first, *of_nan, *least, *without_second])


def test_too_many_rows_that_may_be_first_are_not_found() -> None:
    for values in (np.zeros(20_000), np.full(20_000, math.nan)):
        positions = pa.array(np.arange(len(values)))
        assert find_first([([pa.array(values)], positions)], 1, [(False,)]) is None
