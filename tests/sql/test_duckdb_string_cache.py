"""Strings that statements aggregate again and again are kept in memory, if they have few values."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import assert_same_rows, connect, native_rows, needs_install

import lancefs
from duckdb_adapter.queries.parsing import _parsed
from duckdb_adapter.sources import column_values
from duckdb_adapter.version_cache import open_cached
from lancefs.storage import Store
from lancefs.table.refs import Ref
from lancefs.table.string_cache import cached_string_ids

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_long", "no_values_are_known")]

ROWS = 20_000


def _rows() -> pa.Table:
    source = np.random.default_rng(5)
    users = [f"{n * 7919} is the number of a user" for n in range(1200)]
    drawn = source.integers(0, len(users), ROWS)
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "visitor": pa.array([users[n] if n % 13 else None for n in drawn]),
            "Page": pa.array([f"/{n % 700}/{n % 3}" for n in drawn]),
            "own": pa.array([f"message {n}" for n in range(ROWS)]),
            "cost": pa.array(source.random(ROWS).round(3)),
        }
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "visits.lance"
    lance.write_dataset(_rows(), str(path), max_rows_per_file=9000, data_storage_version="2.0")
    lance.dataset(str(path)).delete("id % 10 = 3")
    return path


@pytest.fixture(scope="module")
def native(written: Path) -> Iterator[Any]:
    with native_rows(lance.dataset(str(written)).to_table()) as connection:
        yield connection


@pytest.fixture
def table(written: Path, tmp_path: Path) -> Path:
    """A table of which nothing is known yet."""
    return Path(shutil.copytree(written, tmp_path / "visits.lance"))


def _kept(path: Path) -> set[str]:
    version = open_cached(Store(None, str(path)), Ref(), None)
    return {field.name for field in version.fields if field.id in cached_string_ids(version)}


QUERIES = [
    "SELECT visitor, sum(id), count(*) FROM {t} GROUP BY visitor ORDER BY ALL",
    "SELECT upper(visitor), max(id) FROM {t} GROUP BY 1 ORDER BY ALL",
    "SELECT regexp_extract(visitor, '[0-9]+'), avg(id) FROM {t} GROUP BY 1 ORDER BY ALL",
    "SELECT page, visitor, min(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT count(DISTINCT visitor), count(visitor), max(length(page)) FROM {t}",
    "SELECT DISTINCT page, visitor FROM {t} ORDER BY ALL",
    "SELECT sum(id) FROM {t} WHERE visitor LIKE '%79%' AND page <> '/1/1' AND id > 500",
    "SELECT page, string_agg(visitor, ',' ORDER BY id) FROM {t} GROUP BY page ORDER BY page",
    "SELECT visitor, row_number() OVER (PARTITION BY page ORDER BY id) AS n FROM {t} ORDER BY ALL",
    "SELECT own, count(*) FROM {t} WHERE visitor IS NULL GROUP BY own ORDER BY own",
    "SELECT * FROM {t} ORDER BY page, id LIMIT 7",
    "SELECT id, own FROM {t} WHERE visitor = '7919 is the number of a user' ORDER BY id",
    "SELECT visitor, page FROM {t} WHERE page > '/5' AND id % 7 = 2 ORDER BY id",
    "SELECT id FROM {t} WHERE visitor IN ('x', '7919 is the number of a user') OR page = '/4/1' "
    "ORDER BY id",
    "SELECT id FROM {t} WHERE visitor IS DISTINCT FROM '0 is the number of a user' ORDER BY id",
]


@pytest.mark.parametrize("query", QUERIES)
def test_answers_stay_the_same(native: Any, table: Path, query: str) -> None:
    con = connect("shared")
    for _ in range(3):
        assert_same_rows(con, native, table, query)
    for each in QUERIES[:2]:  # what one statement has kept, others use
        con.execute(each.format(t=f"'{table}'"))
    assert_same_rows(con, native, table, query)


def test_columns_of_few_values_are_kept_when_they_are_aggregated_again(table: Path) -> None:
    con = connect("install")
    query = f"SELECT page, upper(visitor), own, sum(cost) FROM '{table}' GROUP BY ALL"
    con.execute(query)
    assert _kept(table) == set()
    con.execute(query)
    assert _kept(table) == {"Page", "visitor"}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT visitor, page FROM {t} WHERE id = 77",
        "SELECT min(visitor), max(page) FROM {t}",
        "SELECT count(visitor) FROM {t}",
        "FROM {t} LIMIT 3",
        "SELECT sum(a.cost) FROM {t} AS a JOIN {t} AS b USING (id) WHERE a.visitor = 'x'",
    ],
)
def test_columns_are_not_kept_for_statements_that_gain_nothing(table: Path, query: str) -> None:
    con = connect("shared")
    for _ in range(3):
        con.execute(query.format(t=f"'{table}'"))
    assert _kept(table) == set()


def test_a_column_that_is_tested_again_is_kept(table: Path) -> None:
    con = connect("install")
    query = f"SELECT id, own FROM '{table}' WHERE page = '/3/0' AND visitor LIKE '7%'"
    first = con.execute(query).fetchall()
    assert _kept(table) == set()
    assert con.execute(query).fetchall() == first
    assert _kept(table) == {"Page", "visitor"}
    assert con.execute(query).fetchall() == first


def test_no_column_is_kept_for_rows_that_an_index_finds(table: Path) -> None:
    lance.dataset(str(table)).create_scalar_index("visitor", "BTREE")
    con = connect("install")
    for _ in range(3):
        con.execute(f"SELECT sum(cost) FROM '{table}' WHERE visitor LIKE '1%' AND page LIKE '%7'")
        con.execute(f"SELECT visitor, count(*) FROM '{table}' GROUP BY visitor HAVING sum(id) > 7")
    assert _kept(table) == set()
    for _ in range(2):
        con.execute(f"SELECT page, sum(cost) FROM '{table}' GROUP BY page")
    assert _kept(table) == {"Page"}


def test_a_long_table_is_not_kept(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_values, "_MAX_KEPT_ROWS", ROWS // 2)
    con = connect("install")
    for _ in range(3):
        con.execute(f"SELECT upper(visitor), sum(cost) FROM '{table}' GROUP BY ALL")
    assert _kept(table) == set()


def test_each_version_keeps_its_own_columns(table: Path) -> None:
    con = connect("install")
    query = f"SELECT visitor, sum(id) FROM '{table}' GROUP BY ALL ORDER BY ALL"
    for _ in range(3):
        before = con.execute(query).fetchall()
    lance.dataset(str(table)).update({"visitor": "'somebody else'"}, where="id < 12000")
    for _ in range(3):
        after = con.execute(query).fetchall()
    rows = lancefs.open(str(table)).to_table(columns=["visitor", "id"])
    expected = rows.group_by("visitor").aggregate([("id", "sum")]).to_pylist()
    assert {tuple(row.values()) for row in expected} == set(after) != set(before)


def test_statements_that_look_up_rows_by_numbers_are_not_parsed(table: Path) -> None:
    """To parse one takes as long as to find the row: no such statement has any use of a string."""
    con = connect("install")
    con.execute(f"CREATE TABLE own AS FROM '{table}'")
    texts = [
        "SELECT * FROM {t} WHERE id = 17",
        "SELECT visitor, own FROM {t} WHERE id = 18",
        "FROM {t} WHERE id BETWEEN 20 AND 30 AND cost > 0.5",
        'SELECT id, "Page" FROM {t} WHERE id IN (1, 3, 5) OR cost < 0.001',
    ]
    for text in texts:
        parsed = _parsed.cache_info().misses
        found = con.execute(text.format(t=f"'{table}'")).fetchall()
        assert _parsed.cache_info().misses == parsed
        assert found == con.execute(text.format(t="own")).fetchall()
