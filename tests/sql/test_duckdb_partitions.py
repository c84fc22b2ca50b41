"""Queries for the first rows of each partition read the other columns of few rows."""

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
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import EACH_INTERFACE, assert_same_rows, assert_same_rows_under, connect, needs_install
from support import examples

from duckdb_adapter.sources.partition_rows import find_first_of_each

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(11)
    latency = random.integers(0, 900, ROWS) / 8
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "host": pa.array([None if n % 41 == 3 else f"host-{n % 7}" for n in range(ROWS)]),
            "zone": pa.array([n % 3 for n in range(ROWS)], pa.int8()),
            "latency": pa.array([None if n % 301 == 0 else latency[n] for n in range(ROWS)]),
            "ts": pa.array([int(n) for n in random.permutation(ROWS)], pa.timestamp("us")),
            "price": pa.array([Decimal(int(n)) / 100 for n in random.integers(-50, 50, ROWS)]),
            "day": pa.array([n // 500 for n in range(ROWS)], pa.date32()),
            "note": pa.array([f"note {n}" for n in range(ROWS)]),
            "req": pa.array([{"status": n % 5} for n in range(ROWS)]),
        }
    )
    path = tmp_path_factory.mktemp("partitions") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1100)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


NUMBERED = "row_number() OVER (PARTITION BY host ORDER BY ts DESC)"
# Queries over {t}, the columns that tell which rows they use, and what they begin with.
FIRST = {
    f"SELECT * FROM {{t}} QUALIFY {NUMBERED} = 1 ORDER BY id": "host ts",
    f"SELECT id, note FROM {{t}} AS t QUALIFY 2 >= {NUMBERED} AND id > 9 ORDER BY id": "host ts",
    f"SELECT *, {NUMBERED} AS n FROM {{t}} QUALIFY n < 3 ORDER BY id DESC LIMIT 5": "host ts",
    "SELECT * FROM {t} QUALIFY rank() OVER (PARTITION BY zone, day ORDER BY latency, id) = 1 "
    "ORDER BY id": "zone day latency",
    "SELECT * FROM {t} WINDOW w AS (PARTITION BY host ORDER BY ts) QUALIFY rank() OVER w = 3 "
    "ORDER BY id": "host ts",
    "SELECT * FROM {t} QUALIFY dense_rank() OVER (PARTITION BY day ORDER BY ts) = 2 "
    "ORDER BY id": "day ts",
    "SELECT * FROM {t} QUALIFY rank() OVER (PARTITION BY zone ORDER BY price DESC) BETWEEN 1 AND 2 "
    "ORDER BY id": "zone price",
    "SELECT * FROM {t} WHERE zone = 1 QUALIFY row_number() OVER (PARTITION BY host ORDER BY ts) = 1"
    " ORDER BY id": "host ts _rowoffset",
    "SELECT * FROM {t} QUALIFY row_number() OVER (ORDER BY latency DESC, id) <= 9 "
    "ORDER BY id": "latency id",
    "SELECT DISTINCT ON (host) * FROM {t} ORDER BY host, ts DESC": "host ts",
    "SELECT DISTINCT ON (host, zone) id, note FROM {t} ORDER BY zone, host DESC, ts "
    "LIMIT 4": "host zone ts",
}
NESTED = {
    f"SELECT id FROM (SELECT *, {NUMBERED} AS n FROM {{t}}) WHERE n = 1 ORDER BY id": "host ts",
    f"WITH numbered AS (SELECT *, {NUMBERED} AS n FROM {{t}}) "
    "SELECT count(*), max(note) FROM numbered WHERE numbered.n <= 2 AND zone > 0": "host ts",
    "SELECT note FROM (SELECT *, dense_rank() OVER (PARTITION BY host ORDER BY price) n FROM {t}) "
    "WHERE n BETWEEN 2 AND 3 ORDER BY id": "host price",
    f"WITH a AS (SELECT *, {NUMBERED} AS n FROM {{t}}), b AS (FROM a WHERE n = 1) "
    "SELECT zone, max(note), count(*) FROM b GROUP BY zone ORDER BY zone": "host ts",
}


@EACH_INTERFACE
@pytest.mark.parametrize("query", FIRST)
def test_first_rows_of_partitions_are_those_of_all_rows(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(con, native, table, query)
    if duckdb.__version__ >= "2" or "WHERE" not in query:
        assert read[0] == FIRST[query].split()
        assert len(read) == 2


@needs_install
@pytest.mark.parametrize("query", NESTED)
def test_a_number_may_be_compared_by_another_query(
    native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert read[0] == NESTED[query].split()
    assert len(read) == 2


# Queries over {t} that use other rows than the first ones of each partition.
ALL_ROWS = [
    f"SELECT id, {NUMBERED} AS n, count(*) OVER (PARTITION BY host) FROM {{t}} QUALIFY n = 1 "
    "ORDER BY id",
    f"SELECT id, {NUMBERED} AS n FROM {{t}} QUALIFY n = 1 OR id = 8 ORDER BY id",
    f"SELECT id, {NUMBERED} AS n FROM {{t}} QUALIFY n >= 2 AND n > 400 ORDER BY id",
    f"SELECT id FROM {{t}} QUALIFY {NUMBERED} = zone ORDER BY id",
    f"SELECT id, {NUMBERED} AS zone FROM {{t}} QUALIFY zone = 1 ORDER BY id",
    "SELECT id FROM {t} QUALIFY row_number() OVER (PARTITION BY host ORDER BY -id) = 1 ORDER BY id",
    "SELECT id FROM {t} QUALIFY rank() OVER (PARTITION BY id % 3 ORDER BY ts) = 1 ORDER BY id",
    "SELECT id FROM {t} WHERE id % 2 = 1 QUALIFY row_number() OVER (PARTITION BY zone ORDER BY ts) "
    "= 1 ORDER BY id",
    "SELECT id FROM {t} QUALIFY ntile(2) OVER (PARTITION BY zone ORDER BY ts) = 1 ORDER BY id",
    "SELECT id FROM {t} QUALIFY max(ts) OVER (PARTITION BY zone ORDER BY id) = ts ORDER BY id",
    "SELECT zone, count(*) FROM {t} GROUP BY zone "
    "QUALIFY row_number() OVER (PARTITION BY zone ORDER BY zone) = 1 ORDER BY zone",
    "SELECT * FROM {t} QUALIFY dense_rank() OVER (ORDER BY zone) <= 2 ORDER BY id",
    "SELECT DISTINCT ON (host) upper(host) AS host, id FROM {t} ORDER BY host, ts",
    "SELECT DISTINCT ON (zone) id % 2 AS zone, note FROM {t} ORDER BY zone, ts",
    f"SELECT * FROM (SELECT id, {NUMBERED} AS n FROM {{t}} ORDER BY id LIMIT 200) WHERE n = 1 "
    "ORDER BY id",
    f"SELECT id FROM (SELECT id, {NUMBERED} AS n FROM {{t}}) WHERE n = 1 AND id > "
    "(SELECT avg(id) FROM {t}) ORDER BY id",
    f"WITH w AS (SELECT id, zone, {NUMBERED} AS n FROM {{t}}) SELECT id FROM w WHERE n = 1 AND "
    "id > (SELECT avg(id) FROM w) ORDER BY id",
    f"WITH w AS (SELECT id, zone, {NUMBERED} AS n FROM {{t}}), f AS (SELECT * FROM w WHERE n = 1) "
    "SELECT id, (SELECT count(*) FROM w) FROM f ORDER BY id",
    f"WITH w AS (SELECT id, zone, {NUMBERED} AS n FROM {{t}}), f AS (SELECT * FROM w WHERE n = 1) "
    "SELECT f.id, count(*) FROM f JOIN w ON w.n = f.n GROUP BY ALL ORDER BY ALL",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", ALL_ROWS)
def test_other_queries_see_all_rows(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    assert_same_rows(con, native, table, query)


@needs_install
def test_a_macro_beside_a_number_has_a_query_of_its_own(
    native: Any, table: Path, read: list[list[str]]
) -> None:
    con = connect("install")
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO share(x) AS x / (SELECT sum(id) FROM {name})")
        connection.execute("CREATE OR REPLACE MACRO all_rows(x) AS x + count(*) OVER ()")
    query = f"SELECT share(id) FROM (SELECT *, {NUMBERED} AS n FROM {{t}}) WHERE n = 1 ORDER BY id"
    assert_same_rows(con, native, table, query)
    query = f"SELECT all_rows(id) FROM {{t}} QUALIFY {NUMBERED} = 1 ORDER BY id"
    assert_same_rows(con, native, table, query)


@pytest.mark.parametrize("setting", ["default_order = 'DESC'", "default_collation = 'NOCASE'"])
def test_partitions_follow_the_settings(
    con: Any, native: Any, table: Path, read: list[list[str]], setting: str
) -> None:
    query = f"SELECT * FROM {{t}} QUALIFY {NUMBERED.replace(' DESC', '')} = 1 ORDER BY id"
    assert_same_rows_under(setting, con, native, table, query)
    assert read[0] == ["host", "ts"]


@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", None]),
            st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.0, -0.0, math.nan])),
        ),
        max_size=60,
    ),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    rows=st.integers(0, 4),
    descending=st.sampled_from([(False,), (True,), (False, True)]),
    is_encoded=st.booleans(),
)
def test_rows_that_may_be_first_of_their_partitions_are_found(
    values: list[tuple[str | None, float | None]],
    cuts: list[int],
    rows: int,
    descending: tuple[bool, ...],
    is_encoded: bool,
) -> None:
    keys = pa.array([key for key, _ in values], pa.string())
    keys = keys.dictionary_encode() if is_encoded else keys
    numbers = pa.array([number for _, number in values], pa.float64(), from_pandas=False)
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    positions = pa.array(range(len(values)), pa.int64())
    parts = [([keys[a:b], numbers[a:b]], positions[a:b]) for a, b in pairwise(edges)]
    directions = [(each,) for each in descending]
    found = find_first_of_each(parts, rows, directions, len(values))
    assert found is not None
    expected = {n for n, (_, one) in enumerate(values) if one is None or math.isnan(one)}
    for is_reversed in descending:
        for key in {key for key, _ in values}:
            mine = [
                (n, one)
                for n, (other, one) in enumerate(values)
                if other == key and one is not None and not math.isnan(one)
            ]
            best = sorted({one for _, one in mine}, reverse=is_reversed)[:rows]
            expected |= {n for n, one in mine if one in best}
    assert set(found.tolist()) == expected


def test_too_many_rows_of_partitions_are_not_found() -> None:
    many = pa.array(np.arange(40_000))
    assert find_first_of_each([([many, many], many)], 1, [(False,)], 40_000) is None
    same = pa.array(np.zeros(40_000, np.int64))
    assert find_first_of_each([([same, same], many)], 1, [(False,)], 40_000) is None
