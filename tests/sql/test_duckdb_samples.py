"""Queries that draw some rows of a table at random read those rows alone."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import connect, needs_install

from duckdb_adapter.sources.limits import SampledRows

pytestmark = needs_install

ROWS = 4000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = pa.table(
        {
            "id": range(ROWS),
            "level": [("info", "warn", None)[number % 3] for number in range(ROWS)],
            "text": [f"text {number}" for number in range(ROWS)],
            "price": pa.array(map(Decimal, range(ROWS)), pa.decimal128(9, 2)),
            "req": [{"a": number, "b": str(number)} for number in range(ROWS)],
        }
    )
    path = tmp_path_factory.mktemp("samples") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1500)
    lance.dataset(str(path)).delete("id % 50 = 3")
    return path


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each scan of a sample gave DuckDB, in order."""
    seen: list[int] = []
    read = SampledRows.batches

    def noted(self: SampledRows, *arguments: Any) -> Any:
        batches = list(read(self, *arguments))
        seen.append(sum(batch.num_rows for batch in batches))
        return iter(batches)

    monkeypatch.setattr(SampledRows, "batches", noted)
    return seen


def _run(query: str, table: Path) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = (
        connect("install").execute(query.format(t=f"'{table}'")).fetchall()
    )
    return rows


# Queries over {t} that draw rows, and how many of them they show.
DRAWING = [
    ("SELECT * FROM {t} USING SAMPLE 10", 10, 10),
    ("FROM {t} USING SAMPLE 7 ROWS", 7, 7),
    ("SELECT id, text, level, price, req FROM {t} USING SAMPLE reservoir(20 ROWS)", 20, 20),
    ("FROM {t} TABLESAMPLE reservoir(20 ROWS)", 20, 20),
    ("SELECT t.id, t.req FROM {t} AS t TABLESAMPLE 5 ROWS", 5, 5),
    ("SELECT id, id FROM (FROM {t} USING SAMPLE 12) ORDER BY id", 12, 12),
    ("WITH s AS (FROM {t} USING SAMPLE 12) SELECT id, text FROM s", 12, 12),
    ("SELECT id FROM lance_scan({t}) USING SAMPLE 9", 9, 9),
    ("SELECT sum(id), count(*), max(text) FROM {t} USING SAMPLE 30", 30, 1),
]


@pytest.mark.parametrize(("query", "drawn_rows", "shown"), DRAWING)
def test_rows_that_are_not_drawn_are_not_read(
    table: Path, drawn: list[int], query: str, drawn_rows: int, shown: int
) -> None:
    found = _run(query, table)
    assert len(found) == shown
    assert drawn == [drawn_rows]


def test_drawn_rows_are_rows_of_the_table_each_once(table: Path) -> None:
    query = "SELECT id, level, text, price, req FROM {t} USING SAMPLE 60"
    found = _run(query, table)
    assert len({row[0] for row in found}) == 60
    for number, level, text, price, req in found:
        assert number % 50 != 3
        assert level == ("info", "warn", None)[number % 3]
        assert (text, price) == (f"text {number}", number)
        assert req == {"a": number, "b": str(number)}


def test_all_rows_are_as_likely(table: Path) -> None:
    con = connect("install")
    query = f"SELECT id FROM '{table}' USING SAMPLE 60"
    tenths = Counter(
        number * 10 // ROWS for _ in range(40) for (number,) in con.execute(query).fetchall()
    )
    # 240 each; nine standard deviations away once in 10^18 runs.
    assert all(100 < tenths[tenth] < 380 for tenth in range(10)), tenths


def test_conditions_are_tested_after_rows_are_drawn(table: Path, drawn: list[int]) -> None:
    for query in (
        "SELECT id FROM {t} WHERE level = 'info' USING SAMPLE 30",
        "SELECT id FROM {t} TABLESAMPLE reservoir(30 ROWS) WHERE id % 2 = 0",
    ):
        assert len(_run(query, table)) < 30
    assert drawn == [30, 30]


def test_each_run_draws_other_rows(table: Path) -> None:
    con = connect("install")
    con.execute(f"PREPARE draw AS SELECT list(id ORDER BY id) FROM '{table}' USING SAMPLE 30")
    first, second = (con.execute("EXECUTE draw").fetchall() for _ in range(2))
    assert first != second


def test_rows_that_are_stored_are_drawn_once(table: Path, drawn: list[int]) -> None:
    con = connect("install")
    con.execute(f"CREATE TABLE few AS SELECT * FROM '{table}' USING SAMPLE 25")
    assert con.execute("SELECT count(DISTINCT id) FROM few").fetchall() == [(25,)]
    assert drawn == [25]


# Queries over {t} of which DuckDB draws the rows, or that use others too.
OTHERS = [
    ("SELECT count(*) FROM {t} USING SAMPLE 10", [(10,)]),
    ("SELECT count(id) FROM {t} USING SAMPLE 3000 ROWS", [(3000,)]),
    ("SELECT count(id) FROM {t} USING SAMPLE 9999 ROWS", [(3920,)]),
    ("SELECT count(id) FROM {t} USING SAMPLE reservoir(50%)", [(1960,)]),
    ("SELECT count(id) FROM {t} USING SAMPLE 100%", [(3920,)]),
    (
        "SELECT count(a.id), (SELECT count(id) FROM {t}) FROM {t} AS a USING SAMPLE 10",
        [(10, 3920)],
    ),
    (
        "SELECT count(*) FROM (FROM {t} USING SAMPLE 10) AS a JOIN {t} AS b USING (id)",
        [(10,)],
    ),
    (
        "SELECT count(*) FROM {t} AS a JOIN {t} AS b USING (id) USING SAMPLE 50",
        [(50,)],
    ),
]


@pytest.mark.parametrize(("query", "expected"), OTHERS)
def test_other_queries_find_all_rows(
    table: Path, query: str, expected: list[tuple[int, ...]]
) -> None:
    assert _run(query, table) == expected


def test_what_is_drawn_again_with_a_seed_is_the_same(table: Path, drawn: list[int]) -> None:
    con = connect("install")
    con.execute("SET threads = 1")
    query = f"SELECT id FROM '{table}' USING SAMPLE reservoir(20 ROWS) REPEATABLE (42)"
    first, second = (con.execute(query).fetchall() for _ in range(2))
    assert first == second
    assert len(first) == 20
    assert drawn == []


def test_a_sample_is_of_the_version_that_is_named(table: Path) -> None:
    found = {number for _ in range(40) for (number,) in _run("SELECT id FROM {t} USING SAMPLE 60",
             Path(f"{table}@v1"))}  # fmt: skip
    assert any(number % 50 == 3 for number in found)  # rows that are deleted later


def test_an_empty_table_has_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "none.lance"
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), str(path))
    assert _run("SELECT * FROM {t} USING SAMPLE 10", path) == []
