"""Hybrid search: rows ranked by their vectors and by their texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_tables import texts
from vector_tables import vector_array

import lancefs
from lancefs.search.hybrid_search import by_ranks, by_values
from lancefs.search.nearest_rows import Ranked
from lancefs.search.scored_rows import Scored

QUERY = np.random.default_rng(5).normal(0, 1, 8).astype(np.float32)
WORDS = "house word12"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Both kinds of indices, deleted rows, and rows that no index covers."""
    path = str(tmp_path_factory.mktemp("hybrid") / "t.lance")

    def rows(count: int, seed: int) -> pa.Table:
        vectors = np.random.default_rng(seed).normal(0, 1, (count, 8)).astype(np.float32)
        ids = np.arange(count) + 1000 * seed
        return pa.table({"id": ids, "t": texts(count, seed), "v": vector_array(vectors, None)})

    dataset = lance.write_dataset(rows(700, 0), path)
    dataset.create_scalar_index("t", "INVERTED", with_position=True)
    dataset.create_index("v", "IVF_PQ", num_partitions=3, num_sub_vectors=4)
    lance.write_dataset(rows(50, 1), path, mode="append")
    lance.dataset(path).delete("id % 11 = 3")
    return path


def fused_by_ranks(found: list[dict[str, Any]], matched: list[dict[str, Any]]) -> dict[int, float]:
    """The sum of 1 / (60 + rank), as LanceDB's `RRFReranker` has it."""
    scores: dict[int, float] = {}
    for rows in (found, matched):
        for rank, row in enumerate(rows, 1):
            scores[row["id"]] = scores.get(row["id"], 0) + 1 / (60 + rank)
    return scores


@pytest.mark.parametrize("options", [{}, {"filter": "id % 2 = 0"}, {"use_index": False}])
def test_rows_are_ranked_by_their_ranks_in_both_searches(
    table: str, options: dict[str, Any]
) -> None:
    dataset = lancefs.open(table)
    found = dataset.nearest("v", QUERY, 12, **options).to_pylist()
    matched = dataset.search(WORDS, ["t"], 12, **options).to_pylist()
    fused = dataset.hybrid_search("v", QUERY, WORDS, 12, **options).to_table()
    assert fused.column_names == ["id", "t", "v", "_distance", "_score", "_relevance_score"]
    expected = fused_by_ranks(found, matched)
    ids = fused["id"].to_pylist()
    assert len(ids) == 12
    scores = fused["_relevance_score"].to_pylist()
    assert scores == pytest.approx(sorted(expected.values(), reverse=True)[:12])
    assert scores == pytest.approx([expected[one] for one in ids])
    by_id = {row["id"]: row["_distance"] for row in found}
    assert fused["_distance"].to_pylist() == [by_id.get(one) for one in ids]
    by_id = {row["id"]: row["_score"] for row in matched}
    assert fused["_score"].to_pylist() == [by_id.get(one) for one in ids]
    assert set(by_id) - set(ids)  # some rows were left out, and some were found by one search
    assert fused["_score"].null_count


def test_alpha_weighs_the_distances_against_the_scores(table: str) -> None:
    dataset = lancefs.open(table)
    near = dataset.nearest("v", QUERY, 12)["id"].to_pylist()
    best = dataset.search(WORDS, k=12)["id"].to_pylist()

    def ids(alpha: float) -> list[int]:
        search = dataset.hybrid_search("v", QUERY, WORDS, 6, alpha=alpha, oversample_factor=2)
        found = search.to_table()
        assert found.column_names[-3:] == ["_distance", "_score", "_hybrid_score"]
        return [int(one) for one in found["id"].to_pylist()]

    assert ids(1) == near[:6]
    assert ids(0) == best[:6]
    assert ids(0.5)[0] in near + best


def test_columns_are_chosen_and_rows_named(table: str) -> None:
    columns = ["_hybrid_score", "id"]
    search = lancefs.open(table).hybrid_search(
        "v", QUERY, WORDS, 3, alpha=0.3, columns=columns, with_row_id=True
    )
    found = search.to_table()
    assert found.schema == search.schema
    assert found.column_names == ["_hybrid_score", "id", "_distance", "_score", "_rowid"]
    assert search.to_table() == found


def test_a_filter_may_come_after_both_searches(table: str) -> None:
    dataset = lancefs.open(table)
    options: dict[str, Any] = {"filter": "id < 350", "prefilter": False}
    found = dataset.nearest("v", QUERY, 10, **options).to_pylist()
    matched = dataset.search(WORDS, k=10, **options).to_pylist()
    fused = dataset.hybrid_search("v", QUERY, WORDS, 10, **options).to_table()
    assert set(fused["id"].to_pylist()) <= set(fused_by_ranks(found, matched))
    assert fused.num_rows == min(10, len(fused_by_ranks(found, matched)))


def test_the_plan_is_that_of_both_searches(table: str) -> None:
    told = lancefs.open(table).hybrid_search("v", QUERY, WORDS, 4).explain()
    assert "index v_idx (IVF_PQ, l2)" in told
    assert "index t_idx over t" in told
    assert told.splitlines()[-1] == "fused by ranks: 4 rows"
    dataset = lancefs.open(table)
    told = dataset.hybrid_search("v", QUERY, WORDS, 4, alpha=0.25, use_index=False).explain()
    assert "exact search" in told
    assert "segment used" not in told
    assert told.splitlines()[-1] == "fused by distances and scores, alpha 0.25: 4 rows"


def test_a_search_says_what_it_looks_for(table: str) -> None:
    dataset = lancefs.open(table)
    name = f"{table}@{dataset.version}"
    vectors = f"<VectorSearch of {name}: 3 rows by v>"
    assert repr(dataset.vector_search("v", QUERY, 3)) == vectors
    texts = f"<TextSearch of {name}: 3 rows by t>"
    assert repr(dataset.text_search("house", k=3)) == texts
    assert repr(dataset.text_search("house", k=None)) == texts.replace("3 rows", "all rows")
    both = dataset.hybrid_search("v", QUERY, "house", 3)
    assert repr(both) == f"<HybridSearch: 3 rows of {vectors} and {texts}>"


def test_a_search_that_finds_no_text_has_the_nearest_rows(table: str) -> None:
    dataset = lancefs.open(table)
    fused = dataset.hybrid_search("v", QUERY, "nowhere", 5).to_table()
    assert fused["id"].to_pylist() == dataset.nearest("v", QUERY, 5)["id"].to_pylist()
    assert fused["_score"].null_count == 5
    nothing = dataset.hybrid_search("v", QUERY, "nowhere", 5, filter="id < 0", alpha=1)
    assert nothing.to_table().num_rows == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"oversample_factor": 0}, "oversample_factor is 0"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"q": [[0.0] * 8, [1.0] * 8]}, "q has several vectors"),
        ({"q": [0.0]}, "8"),
        ({"column": "id"}, "column 'id' is int64"),
        ({"text_columns": ["id"]}, "column 'id' is int64"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    table: str, options: dict[str, Any], message: str
) -> None:
    arguments = {"column": "v", "q": QUERY, "query": WORDS, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        lancefs.open(table).hybrid_search(**arguments)


def test_a_column_of_the_name_of_a_score_is_refused(tmp_path: Path) -> None:
    rows = pa.table(
        {"_relevance_score": [1], "t": ["a"], "v": vector_array(np.zeros((1, 2)), None)}
    )
    lance.write_dataset(rows, tmp_path / "t.lance")
    with pytest.raises(ValueError, match="_relevance_score"):
        lancefs.open(str(tmp_path / "t.lance")).hybrid_search("v", [0, 0], "a", text_columns=["t"])


def ranked(values: dict[int, float]) -> tuple[Any, Any]:
    ids = np.array(list(values), np.uint64)
    return ids, np.array(list(values.values()), np.float32)


numbers = st.floats(0, 100, width=32)
found = st.dictionaries(st.integers(0, 20), numbers, max_size=12)


@settings(deadline=None)
@given(found, found, st.integers(1, 30), st.sampled_from([None, 0, 0.25, 1]))
def test_fused_rows_are_those_of_both_searches(
    distances: dict[int, float], scores: dict[int, float], k: int, alpha: float | None
) -> None:
    near, texts = Ranked(*ranked(distances)), Scored(*ranked(scores))
    fused = by_ranks(near, texts, k) if alpha is None else by_values(near, texts, k, alpha)
    every = {**distances, **scores}
    ids = fused.row_ids.tolist()
    assert len(ids) == len(set(ids)) == min(k, len(every))
    assert set(ids) <= set(every)
    assert (np.diff(fused.fused) <= 0).all()
    for number, distance, score in zip(ids, fused.distances, fused.scores, strict=True):
        np.testing.assert_equal(distance, np.float32(distances.get(number, np.nan)))
        np.testing.assert_equal(score, np.float32(scores.get(number, np.nan)))


def test_values_that_are_all_the_same_count_half_and_infinite_ones_nothing() -> None:
    near = Ranked(*ranked({1: 2.0, 2: 2.0}))
    fused = by_values(near, Scored(*ranked({})), 9, 0.5)
    assert fused.fused.tolist() == [0.25, 0.25]
    near = Ranked(*ranked({1: 2.0, 2: 4.0, 3: float("inf")}))
    fused = by_values(near, Scored(*ranked({2: 1.0, 3: 3.0})), 9, 0.5)
    assert dict(zip(fused.row_ids.tolist(), fused.fused.tolist(), strict=True)) == {
        1: 0.5,
        2: 0.0,
        3: 0.5,
    }
