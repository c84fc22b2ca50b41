"""Filters that keep most rows stay with DuckDB; the rows are the same either way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roads import assert_same_rows, connect, needs_install, note_scans
from support import examples

from duckdb_adapter.planned_scans import noting_scans
from duckdb_adapter.sources import rows as scanned_rows
from duckdb_adapter.sources import top_n, unpushed_filters
from lancefs.scan import selectivity

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_large")]

ROWS = 4000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(3)
    percent = random.integers(0, 100, ROWS).tolist()
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "percent": pa.array([None if n % 50 == 0 else v for n, v in enumerate(percent)]),
            "ratio": pa.array([math.nan if v < 5 else v / 100 for v in percent]),
            "level": pa.array([("info", "error")[v > 95] for v in percent]),
            "text": pa.array([f"text {v * 7919} of {n}" for n, v in enumerate(percent)]),
            "day": pa.array([v * 3 for v in percent], pa.int32()).cast(pa.date32()),
            "flag": pa.array([None if v == 1 else v < 90 for v in percent]),
            "same": pa.array([5] * ROWS),
            "st": pa.array([{"x": v, "y": "y"} for v in percent]),
        }
    )
    path = tmp_path_factory.mktemp("kept") / "t.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1500)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The filter of each scan, in order."""
    seen: list[str | None] = []

    def note(options: dict[str, Any]) -> None:
        filter = options.get("filter")
        seen.append(None if filter is None else str(filter))

    note_scans(monkeypatch, note)
    return seen


def is_tested_by_scan(
    table: Path, condition: str, query: str = "SELECT sum(id) FROM {t} WHERE {c}"
) -> bool:
    """Whether the plan of a query shows a condition in the scan, and no operator above it."""
    query = query.format(t=f"'{table}'", c=condition)
    plan = connect("install").execute(f"EXPLAIN {query}").fetchall()[0][1]
    in_scan, above = "Filters:" in plan, "─ Filter ─" in plan
    assert in_scan != above, plan
    return in_scan


MOST = [
    "percent >= 5",
    "percent <> 7",
    "percent NOT IN (3, 5)",
    "ratio > 0.1",
    "level = 'info'",
    "level IN ('info', 'warn')",
    "same < 6",
    "text >= 'text 1'",
    "day >= DATE '1970-02-01'",
    "st.x > 5",
    "flag",
    "percent > 5 OR level = 'error'",
    "NOT (percent < 5)",
]
FEW = [
    "percent < 70",
    "level <> 'info'",
    "id < 3600",  # whole pages are left out
    "percent IS NOT NULL",  # needs no values
    "id = 7",
    "percent BETWEEN 1 AND 98",  # is not estimated: few rows pass mostly
    "percent > 1 AND percent < 98",
    "same = 5",
    "same IN (5, 6)",
    "percent BETWEEN 10 AND 20 AND level = 'error'",
    "text < 'text 2'",
]


@pytest.mark.parametrize("condition", MOST + FEW)
def test_duckdb_tests_what_keeps_most_rows_and_the_scan_what_does_not(
    native: Any, table: Path, filters: list[str | None], condition: str
) -> None:
    shown = "SELECT id, percent, level, text FROM {t} WHERE {c}"
    assert is_tested_by_scan(table, condition, shown) == (condition in FEW)
    query = shown.format(t="{t}", c=condition) + " ORDER BY id"
    assert_same_rows(connect("shared"), native, table, query)
    assert (filters != [None]) == (condition in FEW)


@pytest.mark.parametrize("condition", ["text >= 'text 1'", "percent > 5 OR level = 'error'"])
def test_the_scan_tests_texts_that_nothing_else_needs(table: Path, condition: str) -> None:
    assert is_tested_by_scan(table, condition)
    assert is_tested_by_scan(table, condition, "SELECT max(id) FROM {t} WHERE {c} GROUP BY percent")
    shown = "SELECT length(max(text)), count(level) FROM {t} WHERE {c} GROUP BY percent"
    assert not is_tested_by_scan(table, condition, shown)


def test_the_scan_tests_one_of_two_conditions(
    native: Any, table: Path, filters: list[str | None]
) -> None:
    query = "SELECT * FROM {t} WHERE percent >= 5 AND day < DATE '1970-02-01' ORDER BY id"
    assert_same_rows(connect("install"), native, table, query)
    assert len(filters) == 1
    assert "day" in str(filters[0])
    assert "percent" not in str(filters[0])


@pytest.mark.parametrize(
    "query",
    [
        "FROM {t} WHERE {c}",
        "SELECT a.text FROM {t} AS a WHERE {c} LIMIT 3",
        "SELECT level, count(*) FROM {t} WHERE {c} GROUP BY ALL ORDER BY ALL",
        "SELECT count(id) FROM {t} WHERE {c}",
    ],
)
def test_conditions_are_left_where_the_table_is_read_alone(table: Path, query: str) -> None:
    assert not is_tested_by_scan(table, "percent >= 5", query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM {t} WHERE {c}",  # needs no more than the condition does
        "SELECT 1 FROM {t} WHERE {c}",
        # DuckDB would guess how many rows are left, and put joins in order by it.
        "SELECT a.id FROM {t} AS a, range(10) AS b WHERE {c} AND a.id = b.range",
        "SELECT a.id FROM {t} AS a JOIN {t} AS b USING (id) WHERE a.{c}",
        "SELECT id FROM {t} WHERE {c} AND id IN (SELECT i * 2 FROM range(9) AS r(i))",
        "SELECT (SELECT max(i + id) FROM range(9) AS r(i)) FROM {t} WHERE {c}",
        "FROM {t} WHERE {c} UNION ALL FROM {t} WHERE {c}",
        "WITH c AS (SELECT 1 AS one) SELECT sum(id) FROM {t} WHERE {c}",
    ],
)
def test_other_queries_give_the_scan_all_conditions(table: Path, query: str) -> None:
    assert is_tested_by_scan(table, "percent >= 5", query)


def test_explaining_tells_which_conditions_are_left_to_duckdb(table: Path) -> None:
    with noting_scans() as scans:
        is_tested_by_scan(table, "percent >= 5")
        is_tested_by_scan(table, "percent < 70")
    assert [scan.explain().splitlines()[1:] for scan in scans] == [
        ["DuckDB tests (percent >= 5), which keeps most rows"],
        ["scan of 3 fragments; no index limits the rows"],
    ]


def test_filters_over_small_tables_leave_the_plan(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectivity, "_MIN_ROWS", 512 * 1024)
    assert is_tested_by_scan(table, "percent >= 5")


def test_a_table_that_is_used_twice_is_filtered_where_it_should_be(
    native: Any, table: Path
) -> None:
    con = connect("install")
    for query in (
        "SELECT (SELECT count(*) FROM {t} WHERE percent >= 5), (SELECT count(*) FROM {t})",
        "WITH c AS (FROM {t} WHERE level = 'info') SELECT count(*), sum(a.id) FROM c AS a "
        "JOIN c AS b USING (id) WHERE a.percent > 3 AND b.percent < 20",
        "SELECT count(*) FROM {t} AS a JOIN {t} AS b ON a.id = b.percent WHERE a.percent >= 2 "
        "AND b.level = 'info'",
        "FROM {t} WHERE percent >= 5 EXCEPT FROM {t} WHERE ratio > 0.2 ORDER BY id",
    ):
        assert_same_rows(con, native, table, query)


def test_the_first_rows_are_found_among_those_that_pass(
    native: Any, table: Path, filters: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a filter keeps most rows: others columns are read of the first ones alone."""
    monkeypatch.setattr(top_n, "_MIN_ROWS", 10)
    query = "SELECT * FROM {t} WHERE percent >= 5 ORDER BY id DESC LIMIT 10"
    assert_same_rows(connect("install"), native, table, query)
    tested = ["percent" in str(filter) for filter in filters]
    assert tested.count(True) == 1
    assert not tested[-1]


def test_texts_are_looked_for_beside_a_filter_that_keeps_most_rows(
    native: Any, table: Path, filters: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpushed_filters, "_MIN_ROWS", 10)
    query = "SELECT * FROM {t} WHERE text LIKE '%99 of%' AND percent >= 5 ORDER BY id"
    assert_same_rows(connect("install"), native, table, query)
    assert ["match_substring(text" in str(filter) for filter in filters] == [True]
    assert "percent" not in str(filters[-1])


def test_a_new_version_is_estimated_anew(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(ROWS), "n": [1] * ROWS}), str(table))
    assert not is_tested_by_scan(table, "n > 0")
    lance.write_dataset(
        pa.table({"id": range(ROWS), "n": [0] * ROWS}), str(table), mode="overwrite"
    )
    assert is_tested_by_scan(table, "n > 0")


def test_a_table_that_cannot_be_read_says_so_when_it_is_read(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(ROWS), "n": [1] * ROWS}), str(table))
    (file,) = (table / "data").iterdir()
    file.unlink()
    assert is_tested_by_scan(table, "n > 0")
    with pytest.raises(duckdb.Error, match=file.name):
        connect("install").execute(f"SELECT sum(id) FROM '{table}' WHERE n > 0").fetchall()


_NUMBER = st.integers(-3, 103)
_TERMS = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["percent", "id", "st.x"]),
              st.sampled_from(["<", "<=", "=", "<>", ">=", ">"]), _NUMBER),
    st.builds("ratio {} {}::DOUBLE".format, st.sampled_from(["<", "=", "<>", ">="]),
              st.sampled_from(["0.05", "0.5", "'NaN'", "'-Infinity'"])),
    st.builds("level {} '{}'".format, st.sampled_from(["=", "<>", "<", ">="]),
              st.sampled_from(["info", "error", ""])),
    st.builds("text {} 'text {}'".format, st.sampled_from(["<", ">="]), _NUMBER),
    st.builds("day BETWEEN DATE '1970-01-01' AND DATE '1970-01-01' + {}".format, _NUMBER),
    st.builds("percent {} ({}, {}, NULL)".format, st.sampled_from(["IN", "NOT IN"]), _NUMBER,
              _NUMBER),
    st.sampled_from(["flag", "NOT flag", "flag IS NULL", "percent IS NOT NULL",
                     "percent IS DISTINCT FROM 5"]),
)  # fmt: skip
_CONDITIONS = st.recursive(
    _TERMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(condition=_CONDITIONS, least=st.sampled_from([0.0, 0.5, 2.0]))
def test_rows_are_the_same_whoever_tests_them(
    native: Any, table: Path, monkeypatch: pytest.MonkeyPatch, condition: str, least: float
) -> None:
    monkeypatch.setattr(scanned_rows, "_MAX_KEPT", least)
    monkeypatch.setattr(scanned_rows, "_MAX_KEPT_BY_TEXTS", least)
    query = f"SELECT id, level FROM {{t}} WHERE {condition} ORDER BY id"
    assert_same_rows(connect("install"), native, table, query)
