"""Queries that pass over many rows read no values of them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import assert_same_rows, connect, needs_install, note_scans
from support import examples

from duckdb_adapter.sources import limits as limit_source

pytestmark = needs_install

ROWS = 4000


def _rows() -> pa.Table:
    numbers = range(ROWS)
    vectors = pa.array(np.arange(ROWS * 4, dtype=np.float32))
    return pa.table(
        {
            "id": pa.array(numbers),
            "level": pa.array([("info", "warn", None)[n % 3] for n in numbers]),
            "text": pa.array([f"text {n}" for n in numbers]),
            "price": pa.array([n / 4 for n in numbers]).cast(pa.decimal128(9, 2)),
            "day": pa.array([date.fromordinal(700_000 + n) for n in numbers]),
            "tags": pa.array([["a"] * (n % 3) for n in numbers]),
            "req": pa.array([{"a": n, "b": str(n)} for n in numbers]),
            "flag": pa.array([n % 2 == 0 for n in numbers]),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 4),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("offsets") / "logs.lance"
    lance.write_dataset(_rows(), str(path), max_rows_per_file=1500)
    lance.dataset(str(path)).delete("id % 50 = 3")
    return path


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are many."""
    monkeypatch.setattr(limit_source, "_MIN_SKIPPED", 100)
    monkeypatch.setattr(limit_source, "LONG_ROWS", 700)


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offset of each scan, in order."""
    seen: list[int] = []
    note_scans(monkeypatch, lambda options: seen.append(options.get("offset") or 0))
    return seen


# Queries over {t} that use no row before one.
PASSING = [
    ("SELECT id, level FROM {t} LIMIT 10 OFFSET 3000", 3000),
    ("SELECT id, level, text, price, day, tags, req, flag FROM {t} LIMIT 7 OFFSET 1496", 1496),
    ("SELECT t.level AS id, 'x' AS x, req.a FROM {t} AS t OFFSET 3900", 3900),
    ("SELECT * EXCLUDE (vector) FROM {t} LIMIT 3 OFFSET 100", 100),
    ("SELECT id FROM {t} LIMIT 5 OFFSET 9999", 3920),
    ("SELECT id, vector FROM {t} LIMIT 3 OFFSET 2000", 2000),
    ("SELECT * FROM {t} LIMIT 3 OFFSET 2000", 2000),
    ("SELECT 1 AS one, id FROM {t} OFFSET 3915", 3915),
    ("FROM {t} SELECT price OFFSET 101", 101),
    ("SELECT id FROM (FROM {t} LIMIT 5 OFFSET 2000) LIMIT 2 OFFSET 1", 2000),
    ("WITH w AS (FROM {t}) SELECT id FROM w LIMIT 3 OFFSET 2000", 2000),
]


@pytest.mark.parametrize(("query", "offset"), PASSING)
def test_values_that_are_passed_over_are_not_read(
    native: Any, table: Path, offsets: list[int], query: str, offset: int
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert offsets == [offset]


# Queries over {t} that use other rows too, or in another order.
OTHERS = [
    "SELECT id FROM {t} LIMIT 10 OFFSET 99",
    "SELECT id FROM {t} LIMIT 10",
    "SELECT id FROM {t} WHERE id > 10 LIMIT 3 OFFSET 2000",
    "SELECT id FROM {t} ORDER BY id DESC LIMIT 3 OFFSET 2000",
    "SELECT DISTINCT id FROM {t} ORDER BY id LIMIT 3 OFFSET 2000",
    "SELECT row_number() OVER () AS n, id FROM {t} LIMIT 3 OFFSET 2000",
    "SELECT sum(id) OVER (ORDER BY id) AS n FROM {t} LIMIT 3 OFFSET 2000",
    "SELECT id + 1 FROM {t} LIMIT 3 OFFSET 2000",
    "SELECT level, count(*) FROM {t} GROUP BY level ORDER BY 1 LIMIT 2 OFFSET 1",
    "SELECT id FROM {t} LIMIT 10 % OFFSET 2000",
    "SELECT id, (SELECT max(id) FROM {t}) FROM {t} LIMIT 3 OFFSET 2000",
    "SELECT a.id FROM {t} AS a JOIN {t} AS b USING (id) ORDER BY 1 LIMIT 3 OFFSET 2000",
    "SELECT id FROM {t} UNION ALL SELECT id FROM {t} LIMIT 3 OFFSET 2000",
    "SELECT id FROM {t} QUALIFY row_number() OVER (ORDER BY id) > 5 ORDER BY id LIMIT 3 OFFSET 200",
    "SELECT unnest(tags) FROM {t} LIMIT 3 OFFSET 2000",
    # The text does not tell how many rows are passed over.
    "SELECT id FROM {t} LIMIT 3 OFFSET 1000 + 1000",
    "SELECT id FROM {t} LIMIT 3 OFFSET 2000::BIGINT",
    "SELECT id FROM {t} LIMIT 3 OFFSET 2e3",
    "SELECT id FROM {t} LIMIT 3 OFFSET (SELECT 2000)",
]


@pytest.mark.parametrize("query", OTHERS)
def test_other_queries_read_all_rows(
    native: Any, table: Path, offsets: list[int], query: str
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert 2000 not in offsets


def test_parameters_say_how_many_rows_are_passed_over(native: Any, table: Path) -> None:
    con = connect("install")
    for query in ("SELECT id FROM {t} LIMIT 3 OFFSET ?", "SELECT id FROM {t} LIMIT 3 OFFSET $1"):
        expected = native.execute(query.format(t="native"), [2000]).fetchall()
        assert con.execute(query.format(t=f"'{table}'"), [2000]).fetchall() == expected


def test_a_macro_may_use_the_rows_that_a_query_passes_over(native: Any, table: Path) -> None:
    con = connect("install")
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO least() AS TABLE SELECT min(id) FROM {name}")
    query = "SELECT id FROM {t} LIMIT 1 OFFSET 2000"
    assert_same_rows(con, native, table, f"SELECT * FROM ({query}), least()")
    assert_same_rows(con, native, table, query)


def test_rows_in_any_order_are_read_with_values(table: Path, offsets: list[int]) -> None:
    con = connect("install")
    con.execute("SET preserve_insertion_order = false")
    found = con.execute(f"SELECT id FROM '{table}' LIMIT 3000 OFFSET 900").fetchall()
    assert len(found) == 3000
    assert None not in {number for (number,) in found}
    assert 900 not in offsets


def test_a_table_may_be_made_of_the_rest(native: Any, table: Path) -> None:
    con = connect("install")
    con.execute(f"CREATE TABLE rest AS SELECT id, text FROM '{table}' OFFSET 3000")
    expected = native.execute("SELECT id, text FROM native OFFSET 3000").fetchall()
    assert con.execute("FROM rest").fetchall() == expected
    relation = con.sql(f"SELECT id FROM '{table}' OFFSET 3000")
    assert relation.limit(2, 5).fetchall() == [(row[0],) for row in expected[5:7]]
    assert relation.order("id DESC").limit(1).fetchall() == [(expected[-1][0],)]


@settings(max_examples=examples(30), deadline=None)
@given(
    offset=st.integers(0, ROWS + 5),
    limit=st.none() | st.integers(0, 500),
    threads=st.sampled_from([1, 2, 8]),
)
def test_any_offset_finds_what_duckdbs_own_table_holds(
    native: Any, table: Path, offset: int, limit: int | None, threads: int
) -> None:
    con = connect("install")
    con.execute(f"SET threads = {threads}")
    limited = "" if limit is None else f"LIMIT {limit} "
    assert_same_rows(
        con, native, table, f"SELECT id, req, level FROM {{t}} {limited}OFFSET {offset}"
    )
