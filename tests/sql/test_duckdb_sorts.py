"""Whole numbers that a statement sorts come with what tells DuckDB their ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import assert_same_rows, connect, needs_install, not_in_2_0_0

from duckdb_adapter.sources import number_ranges

pytestmark = needs_install

ROWS = 5000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sorts") / "orders.lance"
    numbers = np.random.default_rng(7).permutation(ROWS)
    rows = {
        "id": numbers,
        "tea": pa.array(numbers % 300, pa.int64(), mask=numbers % 50 == 3),
        "town": pa.array(numbers % 11, pa.uint16()),
        "below": pa.array(numbers % 11 - 3, pa.int32()),
        "far": pa.array(numbers * 10**12, pa.int64()),
        "name": pa.array([f"order {n}" for n in numbers]),
    }
    lance.write_dataset(pa.table(rows), str(path), max_rows_per_file=2000)
    lance.dataset(str(path)).delete("id % 7 = 3")
    return path


@pytest.fixture(autouse=True)
def _any_sort_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_ranges, "_MIN_SORTED", 1)


def _plan(table: Path, query: str) -> str:
    con = connect("install")
    return str(con.execute("EXPLAIN " + query.format(t=f"'{table}'")).fetchall()[0][1])


@not_in_2_0_0("does not pack what it sorts")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT name, id FROM {t} ORDER BY tea DESC NULLS LAST, id",
        "SELECT * FROM {t} ORDER BY far, id",
        "FROM {t} ORDER BY town, below DESC, id",
        "SELECT id + 1 AS next FROM {t} ORDER BY -tea, next",
        "CREATE OR REPLACE TEMP TABLE sorted AS FROM {t} ORDER BY tea, id",
    ],
)
def test_rows_are_sorted_as_duckdb_sorts_its_own(native: Any, table: Path, query: str) -> None:
    assert "CAST(#" in _plan(table, query)
    con = connect("install")
    if query.startswith("CREATE"):
        con.execute(query.format(t=f"'{table}'"))
        query, table_name = "FROM sorted", "sorted"
        expected = con.execute(f"FROM '{table}' ORDER BY tea, id").fetchall()
        assert con.execute(query).fetchall() == expected
        types = con.execute(f"DESCRIBE {table_name}").fetchall()
        assert types == con.execute(f"DESCRIBE FROM '{table}'").fetchall()
    else:
        assert_same_rows(con, native, table, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name FROM {t} ORDER BY name",
        "SELECT below, far FROM {t} ORDER BY below, far",
        "SELECT id FROM {t} ORDER BY id LIMIT 3",
        "SELECT id FROM {t} WHERE tea = 5 ORDER BY id",
        "SELECT tea, count(*) FROM {t} GROUP BY tea ORDER BY tea",
        "SELECT DISTINCT town FROM {t} ORDER BY town",
        "SELECT a.id FROM {t} AS a, {t} AS b WHERE a.id = b.tea AND b.town = 1 ORDER BY a.id",
    ],
)
def test_others_come_as_they_are(native: Any, table: Path, query: str) -> None:
    assert "CAST(#" not in _plan(table, query)
    assert_same_rows(connect("shared"), native, table, query)
