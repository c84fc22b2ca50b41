"""`count(*)` with a condition that an index answers: the rows are counted, and none is read."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import connect, needs_install

from lancefs.scan.execution import Scan

pytestmark = needs_install
ROWS = 40_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    numbers = np.random.default_rng(3).permutation(ROWS)
    cities = [None if one % 7 == 0 else f"city {one % 5}" for one in range(ROWS)]
    floats = np.where(numbers % 11 == 0, np.nan, numbers / 8)
    return pa.table({"id": range(ROWS), "n": numbers, "city": cities, "x": floats})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> str:
    path = str(tmp_path_factory.mktemp("counts") / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=9000)
    lance.dataset(path).delete("id % 100 = 3")
    for name, kind in {"n": "BTREE", "x": "BTREE", "city": "BITMAP"}.items():
        lance.dataset(path).create_scalar_index(name, kind)
    return path


STATEMENTS = [
    "SELECT count(*) FROM {t} WHERE n < 5000",
    "SELECT count(*) FROM {t} WHERE n BETWEEN 5000 AND 35000",
    "SELECT count(*) FROM {t} WHERE x > 4000.5",
    "SELECT count(*) FROM {t} WHERE x <= 100",
    "SELECT count(*) FROM {t} WHERE city = 'city 3'",
    "SELECT count(*) FROM {t} WHERE city IS NULL",
    "SELECT count(*) FROM {t} WHERE n < 5000 AND city = 'city 3'",
    "SELECT count(*), sum(n) FROM {t} WHERE n < 5000",
    "SELECT count(city) FROM {t} WHERE n < 5000",
    "SELECT count(*) FROM {t} a, {t} b WHERE a.n < 5 AND b.n < 7",
    "SELECT (SELECT count(*) FROM {t} WHERE n < 50), (SELECT count(*) FROM {t})",
    "SELECT count(*) FROM (SELECT id FROM {t} WHERE n < 5000 LIMIT 7)",
    "SELECT 1 FROM {t} WHERE n < 3",
    "SELECT count(*) FILTER (WHERE n < 10) FROM {t} WHERE n < 5000",
    "SELECT EXISTS (FROM {t} WHERE n < 0), EXISTS (FROM {t} WHERE n < 1)",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_counts_are_those_of_duckdb(statement: str, path: str, table: pa.Table) -> None:
    con: Any = connect("install")
    con.register("live", table.filter(pa.array([row % 100 != 3 for row in range(ROWS)])))
    con.execute("CREATE TABLE native AS FROM live")
    expected = con.execute(statement.format(t="native")).fetchall()
    for _ in range(2):
        assert con.execute(statement.format(t=f"'{path}'")).fetchall() == expected


def test_no_row_is_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    con: Any = connect("install")
    query = f"SELECT count(*) FROM '{path}' WHERE n < 5000"
    ((expected,),) = con.execute(query).fetchall()

    def refuse(*_: object) -> None:
        raise AssertionError("rows are read")

    monkeypatch.setattr(Scan, "batches", refuse)
    assert con.execute(query).fetchall() == [(expected,)]
