"""Rows are left out whose days are not those that a condition asks for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import assert_same_rows, connect, needs_install, scanned

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_long")]

ROWS = 3000
DAY = 86_400
# Seconds from 1970 of the first day of the table, and of one before that year.
FIRST, OLD = 20_454 * DAY, -3 * DAY
EDGES = (-1, 0, 1, DAY - 1, DAY, DAY + 1, DAY // 2)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = np.random.default_rng(5)
    first = numbers.choice([FIRST, FIRST, FIRST, OLD], ROWS)
    seconds = first + numbers.choice(EDGES, ROWS) + numbers.integers(0, 40, ROWS) * DAY
    missing = numbers.random(ROWS) < 0.05
    tiny = numbers.choice([0, 1, -1], ROWS)
    rows = {
        "id": pa.array(range(ROWS)),
        "s": pa.array(seconds, pa.timestamp("s"), mask=missing),
        "ms": pa.array(seconds * 1000 + tiny, pa.timestamp("ms"), mask=missing[::-1]),
        "us": pa.array(seconds * 10**6 + tiny, pa.timestamp("us")),
        "ns": pa.array(seconds * 10**9 + tiny, pa.timestamp("ns")),
        "zoned": pa.array(seconds * 10**6, pa.timestamp("us", "UTC")),
        "day": pa.array(seconds // DAY, pa.int32()).view(pa.date32()),
        "note": [f"2026-01-{n % 28 + 1:02d}" for n in range(ROWS)],
    }
    path = tmp_path_factory.mktemp("days") / "t.lance"
    lance.write_dataset(pa.table(rows), str(path), max_rows_per_file=1100)
    lance.dataset(str(path)).delete("id % 83 = 5")
    return path


LEAVING_ROWS_OUT = [
    ("us::DATE BETWEEN '2026-01-03' AND '2026-01-05'", ("us >= 2026-01-03", "us < 2026-01-06")),
    ("CAST(s AS DATE) >= DATE '2026-02-05'", ("s >= 2026-02-05",)),
    ("ms::DATE < '1970-01-01'", ("ms < 1970-01-01",)),
    ("'2026-01-02' > us::date AND us::date > '2026-01-01'::DATE", ("us < 2026-01-02",)),
    ("us::DATE IN ('2026-01-07', DATE '2026-01-03')", ("us >= 2026-01-03", "us < 2026-01-08")),
    ("us::DATE >= '2026-02-05' OR us::DATE < '1969-12-30'", ("us >= 2026-02-05", " or ")),
]


@pytest.mark.parametrize(("where", "asked"), LEAVING_ROWS_OUT)
def test_times_of_other_days_are_left_out(
    native: Any, table: Path, reads: list[dict[str, Any]], where: str, asked: tuple[str, ...]
) -> None:
    con = connect("install")
    query = f"SELECT count(*), sum(id) FROM {{t}} WHERE {where}"
    assert_same_rows(con, native, table, query)
    found = scanned(reads, lambda: con.execute(query.format(t=f"'{table}'")).fetchall())
    assert all(part in found[-1][1] for part in asked)


OTHERS = [
    "us::DATE <> '2026-01-03'",
    "NOT us::DATE > '2026-01-03'",
    "us::DATE NOT BETWEEN '2026-01-03' AND '2026-01-05'",
    "us::DATE > TIMESTAMP '2026-01-03 12:00:00'",
    "us::DATE = ms::DATE",
    "us::DATE >= day",
    "TRY_CAST(us AS DATE) >= '2026-02-05'",
    "ns::DATE < '1970-01-01'",
    "zoned::DATE >= '2026-02-05'",
    "note::DATE >= '2026-01-20'",
    "us::DATE >= '9999-12-31'",
    "us::DATE > '0001-01-01'",
    "us::DATE IN ('2026-01-07', NULL)",
    "us::DATE IN ('2026-01-07', day)",
    "us::DATE BETWEEN '2026-01-03' AND day",
    "us::DATE >= '2026-01-03' OR id < 10",
    "(us::DATE >= '2026-01-20') IS NOT TRUE",
]


@pytest.mark.parametrize("where", OTHERS)
def test_other_conditions_are_left_to_duckdb(native: Any, table: Path, where: str) -> None:
    query = f"SELECT count(*), sum(id) FROM {{t}} WHERE {where}"
    assert_same_rows(connect("install"), native, table, query)


def test_a_table_that_a_macro_reads_too_is_read_whole(native: Any, table: Path) -> None:
    con = connect("install")
    query = "SELECT count(*), sum(n_all()) FROM {t} WHERE us::DATE >= '2026-02-05'"
    con.execute(f"CREATE TEMP MACRO n_all() AS (SELECT count(*) FROM '{table}')")
    native.execute("CREATE TEMP MACRO n_all() AS (SELECT count(*) FROM native)")
    assert_same_rows(con, native, table, query)


def test_random_conditions_find_what_duckdbs_own_table_has(native: Any, table: Path) -> None:
    con, draw = connect("install"), random.Random(8)
    for _ in range(60):
        column, operator = draw.choice(["s", "ms", "us", "ns"]), draw.choice(["<", "<=", ">", ">="])
        days = [draw.choice(["1969-12-2", "1970-01-0", "2026-01-0"]) + str(n) for n in (7, 8, 9)]
        operator = draw.choice([operator, "=", "<>"])
        where = draw.choice(
            [
                f"{column}::DATE {operator} '{days[0]}'",
                f"DATE '{days[1]}' {operator} {column}::DATE",
                f"{column}::DATE BETWEEN '{days[0]}' AND '{days[1]}'",
                f"{column}::DATE IN ('{days[0]}', '{days[1]}', '{days[2]}')",
            ]
        )
        query = (
            f"SELECT count(*), sum(id) FROM {{t}} WHERE {where} {draw.choice(['', 'AND id > 9'])}"
        )
        assert_same_rows(con, native, table, query)
