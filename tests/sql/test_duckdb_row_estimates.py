"""DuckDB is told that a filter leaves fewer rows, by which it chooses the sides of joins."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from roads import connect, needs_install

pytestmark = needs_install

ROWS = 12_345
OTHERS = 777


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("estimates")
    orders = {"id": range(ROWS), "place": [n % OTHERS for n in range(ROWS)]}
    lance.write_dataset(pa.table(orders), str(path / "orders.lance"))
    places = {"place": range(OTHERS), "size": range(OTHERS), "kind": ["a", "b", "c"] * 259}
    lance.write_dataset(pa.table(places), str(path / "places.lance"))
    return path


def estimates(home: Path, query: str) -> set[int]:
    """Return the numbers of rows that DuckDB expects of the parts of a plan."""
    text = query.format(o=f"'{home}/orders.lance'", p=f"'{home}/places.lance'")
    plan = connect("install").execute(f"EXPLAIN {text}").fetchall()[0][1]
    return {int(rows.replace(",", "")) for rows in re.findall(r"~([\d,]+) row", plan)}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM {o} o JOIN {p} p USING (place) WHERE size < 700",
        "SELECT count(*) FROM {o} AS o, {p} AS p WHERE o.place = p.place AND 5 <= p.size",
        "SELECT count(*) FROM {o} o JOIN {p} p USING (place) WHERE size BETWEEN 1 AND 1 + 2",
        "SELECT count(*) FROM {o} o JOIN {p} p USING (place) WHERE kind IN ('a', 'b')",
        "SELECT count(*) FROM {o} o JOIN {p} p USING (place) WHERE size = 1 OR kind = 'c'",
        "WITH big AS (SELECT * FROM {p} WHERE size > 9) SELECT count(*) FROM {o} "
        "JOIN big USING (place)",
        "SELECT count(*) FROM {p} p WHERE size > 9 AND EXISTS "
        "(SELECT 1 FROM {o} o WHERE o.place = p.place AND o.id > p.size)",
    ],
)
def test_a_filtered_table_of_a_join_is_taken_for_a_fifth_of_its_rows(
    home: Path, query: str
) -> None:
    found = estimates(home, query)
    assert OTHERS // 5 in found
    assert OTHERS not in found
    assert ROWS in found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(o.id + p.size) FROM {o} o JOIN {p} p USING (place)",
        "SELECT sum(o.id) FROM {o} o JOIN {p} p USING (place) WHERE p.size < o.id",
        "SELECT sum(o.id) FROM {o} o JOIN {p} p USING (place) WHERE p.size IS NOT NULL",
        "SELECT sum(o.id) FROM {o} o JOIN {p} p USING (place) WHERE p.size = 3 OR p.size = o.id",
    ],
)
def test_other_tables_of_a_join_keep_their_rows(home: Path, query: str) -> None:
    assert {OTHERS, ROWS} <= estimates(home, query)


def test_a_filter_that_leaves_out_nothing_gives_all_rows(home: Path) -> None:
    query = (
        "SELECT count(*), sum(id), min(size), max(size) "
        f"FROM '{home}/orders.lance' JOIN '{home}/places.lance' USING (place) WHERE size >= 0"
    )
    expected = (ROWS, ROWS * (ROWS - 1) // 2, 0, OTHERS - 1)
    assert connect("install").execute(query).fetchone() == expected


def test_a_table_alone_keeps_its_rows(home: Path) -> None:
    assert ROWS in estimates(home, "SELECT sum(id) FROM {o} WHERE place < 4")
