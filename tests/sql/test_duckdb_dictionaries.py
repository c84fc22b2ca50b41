"""Columns that data files store with dictionaries reach DuckDB encoded; answers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import (
    EACH_DATABASE,
    EACH_INTERFACE,
    assert_same_rows,
    connect,
    needs_install,
    not_in_2_0_0,
    note_scans,
)

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
    # Of lists with dictionaries, DuckDB 2.0.1 compares the wrong strings in these.
    "SELECT count(*) FROM {t} WHERE list_has_any(tags, ['free on board'])",
    "SELECT count(*), min(id) FROM {t} WHERE list_has_all(tags, ['by air', 'free on board'])",
    "SELECT id FROM {t} WHERE tags && ['by registered mail', 'by air'] AND id < 900 ORDER BY id",
    "SELECT count(*) FROM {t} WHERE tags @> ['free on board'] OR ['by air'] <@ tags",
    "SELECT count(*) FROM {t} WHERE list_has_any(place.more, ['free on board'])",
    "SELECT count(*) FROM (SELECT tags FROM {t}) WHERE list_has_any(tags, ['free on board'])",
    "WITH a AS (SELECT id, tags AS x FROM {t}) SELECT sum(id) FROM a WHERE x && ['by air']",
    "SELECT sum(len(tags)), count(*) FILTER (WHERE list_has_any(tags, ['by air'])) FROM {t}",
    "SELECT count(*) FROM {t} a JOIN {t} b USING (id) WHERE array_has_any(b.tags, ['by air'])",
]


def _place(n: int, may_be_null: bool) -> dict[str, Any] | None:
    if may_be_null and n % 9 == 0:
        return None
    return {"mode": MODES[n % 4] or None, "more": MODES[: n % 3], "n": n}


@pytest.fixture(scope="module", params=[(40_000, None), (700, None), (40_000, "2.0")], ids=str)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of fragments of so many rows, with deleted rows."""
    fragment_rows, version = request.param
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
            "place": [_place(n, version != "2.0") for n in range(ROWS)],
        }
    )
    where = str(tmp_path_factory.mktemp("tables") / "t.lance")
    lance.write_dataset(rows, where, max_rows_per_file=fragment_rows, data_storage_version=version)
    lance.dataset(where).delete("id % 10 = 3")
    return where


@EACH_INTERFACE
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_plain_strings(con: Any, native: Any, table: str, query: str) -> None:
    schema = Rows(lancefs.open(table)).with_encoded_lists().for_scan(True).schema
    assert schema.field("mode").type == schema.field("tags").type.value_type == ENCODED
    assert_same_rows(con, native, Path(table), query)


@EACH_DATABASE
def test_lists_are_right_where_a_view_or_a_macro_compares_them(con: Any, table: str) -> None:
    con.execute("CREATE MACRO has_tag(tags, tag) AS list_has_any(tags, [tag])")
    direct = "list_contains(tags, 'by air')"
    ((expected,),) = con.execute(f"SELECT count(*) FROM '{table}' WHERE {direct}").fetchall()
    assert expected
    calls = f"SELECT count(*) FROM '{table}' WHERE has_tag(tags, 'by air')"
    assert con.execute(calls).fetchall() == [(expected,)]
    tagged = f"(SELECT count(*) FROM '{table}' WHERE has_tag(tags, 'by air'))"
    both = con.execute(f"SELECT sum(len(tags)), {tagged} FROM '{table}'").fetchall()
    assert both[0][1] == expected


@needs_install
def test_lists_are_right_in_views_and_relations(table: str) -> None:
    con = connect("install")
    con.execute(f"CREATE VIEW tagged AS SELECT list_has_any(tags, ['by air']) AS x FROM '{table}'")
    direct = "list_contains(tags, 'by air')"
    expected = con.execute(f"SELECT count(*) FROM '{table}' WHERE {direct}").fetchall()
    assert expected != [(0,)]
    assert con.execute("SELECT count(*) FROM tagged WHERE x").fetchall() == expected
    both = f"SELECT (SELECT count(*) FROM tagged WHERE x) FROM '{table}' WHERE len(tags) > 0"
    assert con.execute(f"{both} LIMIT 1").fetchall() == expected
    relation = con.sql(f"SELECT tags FROM '{table}'").filter("list_has_any(tags, ['by air'])")
    assert relation.aggregate("count(*)").fetchall() == expected


@needs_install
@not_in_2_0_0("cannot read batches of empty lists with dictionaries, so that it gets plain ones")
@pytest.mark.parametrize(
    ("query", "is_encoded"),
    [
        ("SELECT sum(len(tags)) FROM {t}", True),
        ("SELECT tag, count(*) FROM (SELECT unnest(tags) AS tag FROM {t}) GROUP BY 1", True),
        ("SELECT count(*) FROM {t} WHERE list_contains(tags, 'by air')", True),
        ("SELECT count(*) FROM {t} WHERE list_has_any(tags, ['by air'])", False),
        ("SELECT count(*) FROM {t} WHERE tags && ['by air']", False),
    ],
)
def test_lists_have_dictionaries_where_functions_take_them_right(
    table: str, monkeypatch: pytest.MonkeyPatch, query: str, is_encoded: bool
) -> None:
    asked: list[bool] = []
    note_scans(
        monkeypatch,
        lambda options: asked.append("tags" in options.get("dictionary_columns", ())),
    )
    assert connect("shared").execute(query.format(t=f"'{table}'")).fetchall()
    assert asked[-1] == is_encoded


@EACH_INTERFACE
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


def test_dictionary_columns_of_any_values_may_be_missing_in_all_rows(
    con: Any, tmp_path: Path
) -> None:
    kinds = [pa.int64(), pa.float64(), pa.uint8(), pa.binary(), pa.string(), pa.large_string()]
    missing = pa.array([None] * 20, pa.int8())
    columns = {
        f"c{index}": pa.DictionaryArray.from_arrays(missing, pa.array([], kind))
        for index, kind in enumerate(kinds)
    }
    lance.write_dataset(pa.table(columns | {"id": range(20)}), tmp_path / "t.lance")
    path = f"'{tmp_path / 't.lance'}'"
    assert con.execute(f"FROM {path} WHERE id = 19").fetchall() == [(*[None] * len(kinds), 19)]
    for name in columns:
        query = f"SELECT {name}, count(*), max({name}) FROM {path} GROUP BY 1"
        assert con.execute(query).fetchall() == [(None, 20, None)]
