"""Columns that data files store with dictionaries reach DuckDB encoded; answers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, assert_same_rows

import lancefs
from duckdb_adapter.sources.rows import Rows
from lancefs.table.dictionary_columns import ENCODED

ROWS = 50_000
MODES = ["by air", "free on board", "by registered mail", "by rail", "", "by truck"]

QUERIES = [
    "SELECT mode, count(*), sum(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT maybe, mode, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT count(*), count(maybe), count(DISTINCT maybe) FROM {t}",
    "SELECT id, maybe FROM {t} WHERE mode = 'by rail' AND maybe IS NULL ORDER BY id LIMIT 50",
    "SELECT count(*) FROM {t} WHERE mode IN ('by air', '') AND id > 3000",
    "SELECT count(*) FROM {t} WHERE mode LIKE 'by %' OR maybe IS NOT NULL",
    "SELECT max(mode || '/' || maybe), min(maybe) FROM {t} WHERE half < 0.25",
    "SELECT mode, half FROM {t} WHERE half > 0.9 AND mode > 'by r' ORDER BY id",
    "SELECT a.mode, count(*) FROM {t} a JOIN {t} b USING (id) GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT typeof(mode), typeof(maybe) FROM {t}",
    "SELECT mode FROM {t} ORDER BY id DESC LIMIT 3",
    "SELECT tag, count(*) FROM (SELECT unnest(tags) AS tag FROM {t}) GROUP BY ALL ORDER BY ALL",
    "SELECT sum(len(tags)), count(tags), max(tags[2]) FROM {t}",
    "SELECT count(*) FROM {t} WHERE list_contains(tags, 'by rail') AND mode <> ''",
    "SELECT id, tags FROM {t} WHERE tags IS NOT NULL AND id % 1000 < 3 ORDER BY id",
    "SELECT tags, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT id, tags FROM {t} WHERE id = 777",
    "SELECT * FROM {t} ORDER BY id DESC LIMIT 3",
    "SELECT place.mode, count(*), sum(id), avg(half) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT place.mode || '/' || mode, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT max(place.mode), count(place.more) FROM {t} WHERE place.mode > 'by r' OR id < 90",
    "SELECT one, count(*) FROM (SELECT unnest(place.more) AS one FROM {t}) GROUP BY ALL ORDER BY 1",
    "SELECT DISTINCT typeof(tags), typeof(place) FROM {t}",
]


def _place(n: int) -> dict[str, Any] | None:
    return None if n % 9 == 0 else {"mode": MODES[n % 4] or None, "more": MODES[: n % 3], "n": n}


@pytest.fixture(scope="module", params=[40_000, 700], ids=["two", "many"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of fragments of so many rows, with deleted rows."""
    source = np.random.default_rng(5)
    modes = pa.array(MODES)
    rows = pa.table(
        {
            "id": np.arange(ROWS),
            "mode": modes.take(pa.array(source.integers(0, len(MODES), ROWS))),
            "maybe": modes.take(
                pa.array(source.integers(0, 3, ROWS), mask=source.random(ROWS) < 0.2)
            ),
            "half": source.random(ROWS).astype(np.float16),
            "tags": [None if n % 7 == 0 else [None, *MODES][n % 3 : n % 5] for n in range(ROWS)],
            "place": [_place(n) for n in range(ROWS)],
        }
    )
    where = str(tmp_path_factory.mktemp("tables") / "t.lance")
    lance.write_dataset(rows, where, max_rows_per_file=request.param)
    lance.dataset(where).delete("id % 10 = 3")
    return where


@EACH_INTERFACE
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_plain_strings(con: Any, native: Any, table: str, query: str) -> None:
    schema = Rows(lancefs.open(table)).for_scan(True).schema
    assert schema.field("mode").type == schema.field("tags").type.value_type == ENCODED
    assert_same_rows(con, native, Path(table), query)


def test_a_column_that_cannot_be_read_is_nobody_elses_trouble(con: Any, tmp_path: Path) -> None:
    where = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"mode": MODES * 1000}), str(where))
    (data_file,) = (where / "data").iterdir()
    data_file.unlink()
    assert con.sql(f"SELECT count(*) FROM '{where}'").fetchall() == [(len(MODES) * 1000,)]
    with pytest.raises(Exception, match=data_file.name):
        con.sql(f"SELECT max(mode) FROM '{where}'").fetchall()


def test_wide_tables_are_not_asked_for_dictionaries(con: Any, tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({f"c{n}": MODES * 500 for n in range(300)}), where)
    dataset = lancefs.open(where)
    assert Rows(dataset).schema.field("c0").type == pa.string()
    found = con.sql(f"SELECT c7, count(*) FROM '{where}' GROUP BY ALL ORDER BY ALL").fetchall()
    assert found == [(mode, 500) for mode in sorted(MODES)]
