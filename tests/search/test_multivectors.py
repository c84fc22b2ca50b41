"""Rows with several vectors each, as late interaction has them: their distances are pylance's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from vector_tables import assert_same, ours, theirs, write

import lancefs

DIMENSION = 8


def lists_of_vectors(count: int) -> list[Any]:
    """Lists of up to four vectors; some are missing, and some empty."""
    draw = np.random.default_rng(3)
    lists = [draw.normal(size=(number % 5, DIMENSION)).tolist() for number in range(count)]
    return [None if number % 23 == 1 else one for number, one in enumerate(lists)]


def query(vectors: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(9).normal(size=(vectors, DIMENSION)).astype(np.float32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    vectors = pa.array(lists_of_vectors(300), pa.list_(pa.list_(pa.float32(), DIMENSION)))
    path = tmp_path_factory.mktemp("multivectors") / "t.lance"
    write(path, pa.table({"id": range(300), "v": vectors}), max_rows_per_file=120)
    lance.dataset(path).delete("id % 13 = 5")
    return str(path)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("vectors", [1, 3])
def test_the_nearest_rows_are_those_of_pylance(table: str, metric: str, vectors: int) -> None:
    q = query(vectors)
    assert_same(ours(table, q, 20, metric=metric), theirs(table, q, 20, metric=metric))
    few = {"metric": metric, "filter": "id > 200", "prefilter": True}
    assert_same(ours(table, q[0], 20, **few), theirs(table, q[0], 20, **few))


def test_all_rows_with_vectors_are_found_and_no_others(table: str) -> None:
    found = lancefs.open(table).nearest("v", query(2), k=1000, columns=["id"])
    lists = lists_of_vectors(300)
    assert sorted(found["id"].to_pylist()) == [
        number for number, one in enumerate(lists) if one and number % 13 != 5
    ]
    assert found.column_names == ["id", "_distance"]  # the vectors are one query


def test_vectors_without_a_distance_do_not_count(tmp_path: Path) -> None:
    nan, one, zero = [float("nan")] * 2, [1.0, 1.0], [0.0, 0.0]
    lists = [[nan, one], [nan], [zero, one], [None]]
    vectors = pa.array(lists, pa.list_(pa.list_(pa.float32(), 2)))
    path = write(tmp_path / "t.lance", pa.table({"id": range(4), "v": vectors}))
    found = lancefs.open(path).nearest("v", [one, one], metric="cosine", columns=["id"])
    assert found["id"].to_pylist() == [0, 2]


def test_an_index_over_them_is_not_used_but_its_metric(table: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "t.lance")
    lance.write_dataset(lance.dataset(table), copy)
    lance.dataset(copy).create_index("v", "IVF_FLAT", num_partitions=2, metric="cosine")
    search = lancefs.open(copy).vector_search("v", query(3), k=5)
    compared = lancefs.open(table).nearest("v", query(3), k=5, metric="cosine")
    assert search.to_table()["id"] == compared["id"]
    assert search.explain().startswith("index v_idx is not used, rows have several vectors\n")


def test_they_are_searched_in_sql(table: str) -> None:
    statement = "SELECT id FROM lance_vector_search(?, 'v', ?, k := 5)"
    rows = lancefs.sql(statement, params=[table, query(3).tolist()]).fetchall()
    expected = lancefs.open(table).nearest("v", query(3), k=5)["id"].to_pylist()
    assert rows == [(number,) for number in expected]
