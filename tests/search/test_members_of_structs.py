"""Searches in members of structs, by their paths: rows, distances and scores are pylance's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from vector_tables import vector_array

import lancefs
from lancefs import MatchQuery

VECTORS = np.random.default_rng(5).normal(size=(400, 8)).astype(np.float32)
WORDS = ["fox", "dog", "brown", "lazy"]
TEXTS = [f"{WORDS[number % 4]} {WORDS[number % 3]}" for number in range(400)]


def structs(first: int, count: int) -> pa.Table:
    """Rows of a struct in a struct, each of which is missing in some."""
    ids = np.arange(first, first + count)
    members = [vector_array(VECTORS[ids], ids % 17 > 0), pa.array([TEXTS[one] for one in ids])]
    inner = pa.StructArray.from_arrays(members, ["v", "t"], mask=pa.array(ids % 11 == 3))
    members = [inner, pa.array(ids)]
    outer = pa.StructArray.from_arrays(members, ["in", "x"], mask=pa.array(ids % 13 == 5))
    return pa.table({"id": ids, "s": outer})


@pytest.fixture(scope="module", params=[False, True], ids=["scanned", "indexed"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Deleted rows, and rows that no index covers."""
    path = str(tmp_path_factory.mktemp("members") / "t.lance")
    lance.write_dataset(structs(0, 300), path, max_rows_per_file=100)
    if request.param:
        lance.dataset(path).create_index("s.in.v", "IVF_FLAT", num_partitions=2)
        lance.dataset(path).create_scalar_index("s.in.t", "INVERTED")
    lance.write_dataset(structs(300, 100), path, mode="append")
    lance.dataset(path).delete("id % 7 = 1")
    return path


@pytest.mark.parametrize("options", [{}, {"filter": "s.x < 200", "prefilter": True}])
def test_the_nearest_vectors_of_a_member_are_found(path: str, options: dict[str, Any]) -> None:
    query = {"column": "s.in.v", "q": VECTORS[9], "k": 20, "nprobes": 2}
    expected = lance.dataset(path).to_table(columns=["id", "_distance"], nearest=query, **options)
    found = lancefs.open(path).nearest(
        "s.in.v", VECTORS[9], 20, nprobes=2, columns=["id"], **options
    )
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    np.testing.assert_allclose(found["_distance"], expected["_distance"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"filter": "s.x < 200", "prefilter": True}])
def test_the_best_texts_of_a_member_are_found(path: str, options: dict[str, Any]) -> None:
    scan = {"columns": ["id", "_score"], "with_row_id": True, **options}
    query = lance.query.MatchQuery("fox", "s.in.t")
    expected = lance.dataset(path).to_table(full_text_query=query, **scan)
    expected = expected.sort_by([("_score", "descending"), ("_rowid", "ascending")])
    found = lancefs.open(path).search(MatchQuery("fox", "s.in.t"), k=None, select=["id"], **options)
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    np.testing.assert_allclose(found["_score"], expected["_score"], rtol=1e-5)


def test_an_index_over_a_member_is_used(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(structs(0, 300), path)
    lance.dataset(path).create_index("s.in.v", "IVF_FLAT", num_partitions=2, metric="cosine")
    lance.dataset(path).create_scalar_index("s.in.t", "INVERTED")
    dataset = lancefs.open(path)
    assert "(IVF_FLAT, cosine)" in dataset.vector_search("s.in.v", VECTORS[9]).explain()
    # A query that names no column searches all that have an index, as in pylance.
    search = dataset.text_search("dog", select=["id"])
    assert "over s.in.t: " in search.explain()
    assert search.to_table().num_rows == 10
    both = dataset.hybrid_search("s.in.v", VECTORS[9], "dog", 3, columns=["id"])
    assert both.to_table()["id"][0].as_py() == 9
