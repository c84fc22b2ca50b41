"""Queries that may stop early begin with short batches; those that need all rows do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import connect, needs_install, note_scans

from duckdb_adapter.sources import rows

pytestmark = needs_install

ROWS = 140_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "t.lance"
    halves = pa.array(range(ROWS), pa.float64())
    rows = pa.table({"id": range(ROWS), "half": halves, "level": ["a", "b"] * (ROWS // 2)})
    lance.write_dataset(rows, str(path))
    return path


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The limit of each scan, in order."""
    seen: list[int | None] = []
    note_scans(monkeypatch, lambda options: seen.append(options.get("limit")))
    return seen


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT sum(half) FROM {t}", [(ROWS * (ROWS - 1) / 2,)]),
        (
            "SELECT level, max(half) FROM {t} GROUP BY level ORDER BY 1",
            [("a", 139_998), ("b", 139_999)],
        ),
        ("SELECT level, max(half) FROM {t} GROUP BY 1 ORDER BY 2 LIMIT 1", [("a", 139_998)]),
        ("SELECT sum(half) FROM {t} GROUP BY level ORDER BY 1 DESC LIMIT 1;", [(4_900_000_000,)]),
        ("CREATE TABLE copied AS FROM {t}", [(ROWS,)]),
    ],
)
def test_queries_that_need_all_rows_read_them_at_once(
    table: Path, limits: list[int | None], query: str, expected: list[Any]
) -> None:
    assert connect("shared").execute(query.format(t=f"'{table}'")).fetchall() == expected
    assert limits == [None]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("FROM {t}", 2048),
        ("SELECT sum(half) FROM {t} LIMIT 1", 2048),
        ("SELECT id + 1 FROM {t} LIMIT 3", 2048),
        ("SELECT id FROM {t} LIMIT 3", 3),
        ("SELECT max(id) FROM (SELECT id, half FROM {t} LIMIT 5) GROUP BY half LIMIT 2", 5),
        ("WITH a AS (SELECT level FROM {t} LIMIT 5) SELECT level, count(*) FROM a GROUP BY 1", 5),
    ],
)
def test_other_queries_read_a_few_rows_first(
    table: Path, limits: list[int | None], query: str, rows: int
) -> None:
    assert connect("shared").execute(query.format(t=f"'{table}'")).fetchone() is not None
    assert limits[0] == rows


@pytest.mark.parametrize(
    ("query", "is_long"),
    [
        ("SELECT sum(half) FROM {t} WHERE id % 3 < 2", True),
        ("SELECT level, sum(half) FROM {t} WHERE half > 9 GROUP BY 1 ORDER BY 2 LIMIT 1", True),
        ("FROM {t} WHERE half > 9", False),
        ("SELECT level FROM {t} WHERE half > 9 LIMIT 2", False),
    ],
)
def test_filtered_batches_are_long_where_all_rows_are_needed(
    table: Path, monkeypatch: pytest.MonkeyPatch, query: str, is_long: bool
) -> None:
    sizes: list[int | None] = []
    note_scans(monkeypatch, lambda options: sizes.append(options.get("batch_size")))
    monkeypatch.setattr(rows, "_MIN_SHARE", 0)  # any table is long
    assert connect("shared").execute(query.format(t=f"'{table}'")).fetchone() is not None
    assert sizes == [rows.LONG_ROWS if is_long else None]


@pytest.mark.parametrize(
    ("rows_of_table", "threads", "length"),
    [
        (2_097_152, 2, 256 * 1024),
        (2_097_151, 2, 192 * 1024),
        (1_100_000, 2, 128 * 1024),
        (1_000_000, 2, None),
        (1_000_000, 1, 192 * 1024),
        (8_000_000, 8, 192 * 1024),
    ],
)
def test_batches_are_as_long_as_each_thread_gets_four(
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows_of_table: int,
    threads: int,
    length: int | None,
) -> None:
    sizes: list[int | None] = []
    note_scans(monkeypatch, lambda options: sizes.append(options.get("batch_size")))
    monkeypatch.setattr(rows.Rows, "known_count", lambda _: rows_of_table)
    monkeypatch.setattr(rows.os, "cpu_count", lambda: threads)
    query = f"SELECT sum(half) FROM '{table}'"
    assert connect("install").execute(query).fetchone() == (ROWS * (ROWS - 1) / 2,)
    assert sizes == [length]
