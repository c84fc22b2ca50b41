"""A search for the best documents passes over others: what is left out is never among the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples
from text_tables import write

import lancefs
from lancefs.index.text import matching
from lancefs.index.text.matching import match_all, match_any
from lancefs.index.text.positions import WordPlaces
from lancefs.index.text.postings import Postings
from lancefs.index.text.scoring import Scores, Statistics, length_norms
from lancefs.search import text_column
from lancefs.search.scored_rows import not_worse


class DrawnDocuments:
    """Documents in memory, each token in a share of them."""

    def __init__(self, source: np.random.Generator, count: int, shares: Sequence[float]) -> None:
        self.count = count
        self.lengths = source.integers(1, 40, count).astype(np.uint32)
        self.row_numbers = np.arange(count, dtype=np.uint64)
        self.total_tokens = int(self.lengths.sum())
        self._postings = {}
        for number, share in enumerate(shares):
            documents = np.flatnonzero(source.random(count) < share).astype(np.uint32)
            counts = source.geometric(0.6, len(documents)).astype(np.uint32)
            self._postings[f"t{number}"] = Postings(documents, counts)

    def norms(self, average_length: np.float32) -> Scores:
        return length_norms(self.lengths, average_length)

    def postings(self, tokens: Sequence[str]) -> Mapping[str, Postings]:
        return {token: self._postings[token] for token in tokens if token in self._postings}

    def positions(self, token: str) -> WordPlaces:
        raise NotImplementedError(token)

    @property
    def statistics(self) -> Statistics:
        counts = {token: len(one.documents) for token, one in self._postings.items()}
        return Statistics(self.count, self.total_tokens, counts)


def assert_same_best(
    match: Callable[..., tuple[Any, Any]],
    documents: DrawnDocuments,
    tokens: Sequence[str],
    most: int,
) -> None:
    """Check that a search for the best documents finds those of a search for all."""
    numbers, scores = match(documents, tokens, documents.statistics)
    wanted = not_worse(numbers.astype(np.uint64), scores, most)

    found, own = match(documents, tokens, documents.statistics, most)
    best = not_worse(found.astype(np.uint64), own, most)

    assert dict(zip(found[best].tolist(), own[best].tolist(), strict=True)) == dict(
        zip(numbers[wanted].tolist(), scores[wanted].tolist(), strict=True)
    )


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 4000),
    shares=st.lists(st.sampled_from([0, 0.001, 0.01, 0.1, 0.5, 0.99, 1]), min_size=1, max_size=4),
    most=st.integers(1, 40),
    twice=st.booleans(),
)
def test_the_best_documents_are_those_of_a_search_for_all(
    seed: int, count: int, shares: Sequence[float], most: int, twice: bool
) -> None:
    documents = DrawnDocuments(np.random.default_rng(seed), count, shares)
    tokens = [f"t{number}" for number in range(len(shares))] + ["t0"] * twice + ["unknown"]
    assert_same_best(match_any, documents, tokens, most)


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 4000),
    shares=st.lists(st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.99, 1]), min_size=2, max_size=4),
    most=st.integers(1, 40),
    twice=st.booleans(),
)
def test_the_best_documents_with_all_tokens_are_those_of_a_search_for_all(
    seed: int, count: int, shares: Sequence[float], most: int, twice: bool
) -> None:
    documents = DrawnDocuments(np.random.default_rng(seed), count, shares)
    tokens = [f"t{number}" for number in range(len(shares))] + ["t0"] * twice
    assert_same_best(match_all, documents, tokens, most)


def test_documents_with_all_tokens_are_looked_for_among_the_best_ones_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = DrawnDocuments(np.random.default_rng(1), 4000, [0.9, 0.8])
    looked_at: list[int] = []
    original = matching._common

    def spy(*arguments: Any) -> Any:
        looked_at.append(len(arguments[-1]))
        return original(*arguments)

    monkeypatch.setattr(matching, "_common", spy)
    found, _ = match_all(documents, ["t0", "t1"], documents.statistics, 5)
    assert len(found) >= 5
    assert sum(looked_at) < 500


def test_frequent_tokens_are_looked_up_in_the_documents_with_rare_ones_only() -> None:
    documents = DrawnDocuments(np.random.default_rng(1), 4000, [0.01, 0.9])
    factors = {"t0": np.float32(4.6), "t1": np.float32(0.1)}
    found = documents.postings(["t0", "t1"])

    chosen = matching._decisive(documents, found, factors, 10, documents.statistics)

    assert list(chosen) == ["t0"]


def test_further_rows_are_found_where_the_best_ones_were_deleted(tmp_path: Path) -> None:
    texts = ["rare " * (1 + row % 50 // 40) + "common " * (row % 7) for row in range(2000)]
    table = pa.table({"id": np.arange(2000), "t": texts})
    path = write(tmp_path / "t", table)
    lance.dataset(path).delete("id % 50 >= 40")  # the best ones

    found = lancefs.open(path).search("rare", k=10, select=["id"])

    whole = lancefs.open(path).search("rare", k=None, select=["id"]).slice(0, 10)
    assert found.equals(whole)
    assert found.num_rows == 10


def _texts(tmp_path: Path) -> str:
    """Texts of which many have two words, and few of these one after the other."""
    texts = [
        "tea " * (1 + row % 7) + ("green tea " if row % 40 == 0 else "of green ") * (1 + row % 3)
        for row in range(4000)
    ]
    table = pa.table({"id": np.arange(4000), "t": texts})
    return write(tmp_path / "t", table, with_position=True)


def test_a_phrase_is_looked_for_in_the_best_documents_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    original = matching._has_phrase

    def spy(documents: Any, common: Any, *others: Any) -> Any:
        looked_at.append(len(common.numbers))
        return original(documents, common, *others)

    path = _texts(tmp_path)
    monkeypatch.setattr(matching, "_has_phrase", spy)
    found = lancefs.open(path).search('"tea green"', k=3, select=["id"])
    assert sum(looked_at) < 2000
    whole = lancefs.open(path).search('"tea green"', k=None, select=["id"])
    assert found.equals(whole.slice(0, 3))
    assert 3 < whole.num_rows < 200


@pytest.mark.parametrize("filter", ["id % 3 = 1", "id < 40", "id = 1000", "id > 4000"])
@pytest.mark.parametrize("query", ["tea", "tea green", '"tea green"'])
def test_with_a_filter_the_best_rows_are_those_of_a_search_for_all(
    tmp_path: Path, filter: str, query: str
) -> None:
    path = _texts(tmp_path)
    lance.dataset(path).delete("id % 7 = 6")  # some of the best ones
    dataset = lancefs.open(path)
    found = dataset.search(query, k=10, filter=filter, select=["id"])
    assert found.equals(dataset.search(query, k=None, filter=filter, select=["id"]).slice(0, 10))


def test_with_a_filter_not_all_documents_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    original = text_column.match_any

    def spy(*arguments: Any) -> Any:
        numbers, scores = original(*arguments)
        found.append(len(numbers))
        return numbers, scores

    path = _texts(tmp_path)
    monkeypatch.setattr(text_column, "match_any", spy)
    lancefs.open(path).search("green", k=1, filter="id % 3 > 0", select=["id"])
    assert sum(found) < 3900


_OTHERS = lancefs.MatchQuery("green of", "t")


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        lancefs.BoostQuery(lancefs.MatchQuery("tea", "t"), _OTHERS),
        lancefs.BoostQuery(lancefs.MatchQuery("tea", "t"), _OTHERS, -0.5),
        lancefs.BoostQuery(_OTHERS, lancefs.PhraseQuery("tea green", "t"), 2.0),
        lancefs.BoostQuery(lancefs.MatchQuery("green", "t", boost=0.3), _OTHERS, 0.001),
        lancefs.BooleanQuery(must=[_OTHERS], must_not=[lancefs.PhraseQuery("tea green", "t")]),
        lancefs.BooleanQuery(should=[lancefs.MatchQuery("tea", "t")], must_not=[_OTHERS]),
        lancefs.BooleanQuery(must=[lancefs.MatchQuery("tea", "t", boost=3.0)]),
        lancefs.MultiMatchQuery("green tea", ["t"], [1e-30]),
        lancefs.MatchQuery("green tea", "t", boost=0),
    ],
)
def test_the_best_rows_of_several_queries_are_those_of_a_search_for_all(
    tmp_path: Path, query: Any, stable: bool
) -> None:
    texts = [
        "tea " * (1 + row % 7) + ("green " if row % 40 else "of ") * (row % 3) + "x " * (row % 11)
        for row in range(4000)
    ]
    table = pa.table({"id": np.arange(4000), "t": texts})
    options = {"enable_stable_row_ids": stable, "max_rows_per_file": 1500}
    path = write(tmp_path / "t", table, with_position=True, to_dataset=options)
    lance.dataset(path).delete("id % 7 = 6")
    lance.dataset(path).insert(table.slice(0, 100))
    dataset = lancefs.open(path)
    whole = dataset.search(query, k=None, select=["id"])
    for k in (1, 10, 300):
        assert dataset.search(query, k=k, select=["id"]).equals(whole.slice(0, k))
        few = dataset.search(query, k=k, filter="id % 5 = 1", select=["id"])
        some = dataset.search(query, k=None, filter="id % 5 = 1", select=["id"])
        assert few.equals(some.slice(0, k))
