"""Conditions on times of nanoseconds and on flags, for which DuckDB does not ask the scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import (
    EACH_INTERFACE,
    assert_same_rows,
    assert_same_rows_under,
    connect,
    needs_install,
    not_in_2_0_0,
    note_scans,
)
from support import examples

ROWS = 4000
# Times around 2026-01-01 12:00, some of which lie between two microseconds.
NOON = 1_767_268_800 * 10**9
STEPS = (0, 1, 999, 1000, 1001, -1, -999, 10**9, -(10**9), 3600 * 10**9, 86_400 * 10**9)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(17)
    times = NOON + random.choice(STEPS, ROWS) + random.integers(-3, 3, ROWS) * 86_400 * 10**9
    missing = random.random(ROWS) < 0.05
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "ts": pa.array(times, pa.timestamp("ns"), mask=missing),
            "zoned": pa.array(times, pa.timestamp("ns", "UTC"), mask=missing[::-1]),
            "us": pa.array(times // 1000, pa.timestamp("us")),
            "flag": pa.array(random.random(ROWS) < 0.1, mask=missing),
            "req": pa.array([{"flag": n % 9 == 0} for n in range(ROWS)]),
            "note": pa.array([f"note {n}" for n in range(ROWS)]),
        }
    )
    path = tmp_path_factory.mktemp("unasked") / "t.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1500)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


@pytest.fixture(autouse=True)
def any_length(any_table_is_long: None, no_first_rows_are_known: None) -> None:
    """Tables of any length are long."""


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The filter of each scan, in order."""
    seen: list[str] = []
    note_scans(monkeypatch, lambda options: seen.append(str(options.get("filter"))))
    return seen


# Queries over {t} that use few rows, and what the scan is asked for.
_COMPARES_ZONED = not_in_2_0_0("does not compare TIMESTAMPTZ_NS with TIMESTAMPTZ")
LEAVING_ROWS_OUT = [
    (
        "FROM {t} WHERE ts >= '2026-01-03 12:00:00' ORDER BY id",
        ["ts >= 2026-01-03 12:00:00.000000000"],
    ),
    (
        "FROM {t} WHERE ts < TIMESTAMP '2025-12-30' ORDER BY id",
        ["ts < 2025-12-30 00:00:00.000000000"],
    ),
    ("FROM {t} WHERE DATE '2026-01-03' < ts ORDER BY id", ["ts > 2026-01-03 00:00:00.000000000"]),
    ("FROM {t} WHERE ts = '2026-01-01 12:00:00.000000999' ORDER BY id", ["ts == ", "0.000000999"]),
    (
        "FROM {t} WHERE ts = '2026-01-01T12:00:00'::TIMESTAMP_NS AND id > 9 ORDER BY id",
        ["ts == ", "id > 9"],
    ),
    (
        "SELECT count(*) FROM {t} WHERE ts BETWEEN '2026-01-01 11:59' AND '2026-01-01 12:00'",
        ["ts >= ", "ts <= "],
    ),
    (
        "FROM {t} WHERE ts > '2026-01-04' OR (ts < '2025-12-30' AND note LIKE '%7') ORDER BY id",
        ["ts > ", " or ", "ts < ", "ends_with(note"],
    ),
    (
        "FROM {t} WHERE zoned >= '2026-01-03 12:00:00+00' ORDER BY id",
        ["zoned >= 2026-01-03 11:59:59.999999"],
    ),
    pytest.param(
        "FROM {t} WHERE zoned >= TIMESTAMPTZ '2026-01-04 12:00:00' ORDER BY id",
        ["zoned >= 2026-01-03 12:00"],
        marks=_COMPARES_ZONED,
    ),
    ("FROM {t} WHERE flag ORDER BY id", ["flag"]),
    ("SELECT count(*) FROM {t} WHERE flag AND us > TIMESTAMP '2026-01-01'", ["flag", "us > "]),
    ("SELECT id FROM {t} AS t WHERE t.flag OR t.ts > '2026-01-04' ORDER BY id", ["flag or "]),
    (
        "SELECT n, id FROM {t} AS a JOIN range(9) AS r(n) ON a.id = n WHERE a.flag ORDER BY ALL",
        ["flag"],
    ),
]


@needs_install
@pytest.mark.parametrize(("query", "asked"), LEAVING_ROWS_OUT)
def test_rows_that_do_not_pass_are_left_out(
    native: Any, table: Path, filters: list[str], query: str, asked: list[str]
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert all(part in filters[-1] for part in asked)


# Queries over {t} that use other rows, or say what is not known here.
ALL_ROWS = [
    "SELECT count(*) FROM {t} WHERE ts <> '2026-01-01 12:00:00'",
    "SELECT count(*) FROM {t} WHERE NOT ts > '2026-01-01 12:00:00'",
    "SELECT count(*) FROM {t} WHERE ts > '2026-01-01 12:00:00' OR id < 10",
    "SELECT count(*) FROM {t} WHERE ts > '2026-01-04' OR flag IS NULL",
    "SELECT count(*) FROM {t} WHERE ts::DATE > '2026-01-03'",
    "SELECT count(*) FROM {t} WHERE ts::VARCHAR > '2026-01-03'",
    "SELECT count(*) FROM {t} WHERE ts > TRY_CAST('2026-01-03 00:00:00' AS TIMESTAMP)",
    "SELECT count(*) FROM {t} WHERE ts > TIMESTAMP 'epoch'",
    "SELECT count(*) FROM {t} WHERE ts < 'infinity'",
    "SELECT count(*), (SELECT count(*) FROM {t}) FROM {t} WHERE ts > '2026-01-04'",
    "SELECT count(*) FROM {t} WHERE flag IS NOT TRUE",
    "SELECT count(*) FROM {t} WHERE req.flag",
    "SELECT count(*) FROM (SELECT note AS ts, id FROM {t}) WHERE ts > '2026-01-01 12:00:00'",
    "SELECT count(*) FROM {t} AS t(ts, id) WHERE ts > 5",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", ALL_ROWS)
def test_rows_that_may_pass_are_read(con: Any, native: Any, table: Path, query: str) -> None:
    assert_same_rows(con, native, table, query)


@needs_install
@pytest.mark.parametrize("query", ALL_ROWS)
def test_rows_that_may_pass_are_left_to_duckdb(table: Path, filters: list[str], query: str) -> None:
    connect("shared").execute(query.format(t=f"'{table}'"))
    assert not any("ts " in each or "flag" in each for each in filters)


@pytest.mark.parametrize(
    "order", ["ts DESC LIMIT 3", "id LIMIT 5", "note DESC, id LIMIT 7", "us, id LIMIT 5 OFFSET 2"]
)
def test_first_rows_pass_conditions_on_times(
    con: Any, native: Any, table: Path, order: str
) -> None:
    where = "ts >= '2025-12-31 12:00:00' AND ts < TIMESTAMP '2026-01-02 12:00:00.000001'"
    shown = "ts" if order.startswith("ts") else "*"  # which of rows at one time come is not said
    assert_same_rows(
        con, native, table, f"SELECT {shown} FROM {{t}} WHERE {where} ORDER BY {order}"
    )


@needs_install
def test_first_rows_pass_conditions_on_times_without_reading_others(
    native: Any, table: Path, filters: list[str]
) -> None:
    query = "SELECT * FROM {t} WHERE ts >= '2026-01-03' AND id < 3000 ORDER BY note LIMIT 3"
    assert_same_rows(connect("install"), native, table, query)
    assert any("ts >= " in each and "id < 3000" in each for each in filters)


@_COMPARES_ZONED
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "Pacific/Kiritimati", "America/St_Johns"])
def test_times_of_a_session_are_in_its_zone(con: Any, native: Any, table: Path, zone: str) -> None:
    for text in ("'2026-01-02 01:00:00'", "TIMESTAMPTZ '2026-01-01'", "DATE '2026-01-01'"):
        for operator in ("<", "<=", "=", ">=", ">"):
            query = f"SELECT count(*), sum(id) FROM {{t}} WHERE zoned {operator} {text}"
            assert_same_rows_under(f"TimeZone = '{zone}'", con, native, table, query)


def test_times_that_duckdb_refuses_are_refused(con: Any, table: Path) -> None:
    import duckdb

    for text in ("2026-02-30", "2026-01-01 25:00:00", "2500-01-01", "yesterday"):
        with pytest.raises(duckdb.Error, match=r"onver|out of range|date field"):
            con.execute(f"SELECT count(*) FROM '{table}' WHERE ts > '{text}'")


moments = st.tuples(st.sampled_from(STEPS), st.integers(-2, 2)).map(sum)
operators = st.sampled_from(["<", "<=", "=", ">=", ">", "<>"])
kinds = st.sampled_from(["{}", "TIMESTAMP {}", "TIMESTAMP_NS {}", "{}::TIMESTAMP_NS", "{}::DATE"])


@needs_install
def test_any_comparison_finds_what_duckdb_finds(native: Any, table: Path) -> None:
    con = connect("install")

    @settings(max_examples=examples(150))
    @given(moment=moments, operator=operators, kind=kinds, other=moments, digits=st.integers(0, 9))
    def check(moment: int, operator: str, kind: str, other: int, digits: int) -> None:
        first, last = (_text(NOON + each, digits) for each in (moment, other))
        compared = f"ts {operator} {kind.format(first)}"
        query = f"SELECT count(*), sum(id) FROM {{t}} WHERE {compared}"
        assert_same_rows(con, native, table, query)
        assert_same_rows(con, native, table, f"{query} OR ts BETWEEN {first} AND {last}")
        assert_same_rows(con, native, table, f"{query} AND NOT (ts > {last} OR flag)")
        top = f"SELECT id FROM {{t}} WHERE {compared} AND flag IS NOT NULL ORDER BY id DESC LIMIT 9"
        assert_same_rows(con, native, table, top)

    check()


def _text(nanoseconds: int, digits: int) -> str:
    """Return a time in quotes, with some digits of a second."""
    whole, rest = divmod(nanoseconds, 10**9)
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    return f"'{np.datetime64(whole, 's')}{fraction}'".replace("T", " ")
