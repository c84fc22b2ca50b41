"""Phrases are found where their words stand one after the other, whatever else the texts hold."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs import PhraseQuery

WORDS = st.sampled_from(["ash", "bay", "cob", "dew"])
PHRASES = st.lists(WORDS, min_size=2, max_size=4)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """All texts of up to five of three words, and some long ones."""
    found = [""]
    for length in range(5):
        found += [
            f"{text} {word}".strip()
            for text in found[-(3**length) :]
            for word in ("ash", "bay", "cob")
        ]
    return [*found[1:], "dew " * 300 + "ash bay", "dew cob " * 200, "ash dew bay dew cob"]


@pytest.fixture(scope="module")
def table(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("phrases") / "t.lance"
    lance.write_dataset(pa.table({"id": range(len(texts)), "body": texts}), path)
    lance.dataset(path).create_scalar_index("body", "INVERTED", with_position=True, stem=False)
    return path


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(phrase=PHRASES)
def test_texts_that_hold_a_phrase_are_found(
    table: Path,
    texts: list[str],
    phrase: list[str],
) -> None:
    query = " ".join(phrase)
    found = lancefs.open(table).search(PhraseQuery(query, "body"), k=len(texts), select=["id"])
    expected = [number for number, text in enumerate(texts) if f" {query} " in f" {text} "]
    assert sorted(found["id"].to_pylist()) == expected


@pytest.mark.parametrize(("slop", "is_found"), [(0, False), (1, True), (2**31, True)])
def test_words_may_be_apart_within_a_text_but_not_between_texts(
    table: Path, texts: list[str], slop: int, is_found: bool
) -> None:
    query = PhraseQuery("ash bay cob", "body", slop=slop)
    found = lancefs.open(table).search(query, k=len(texts), select=["id"])["id"].to_pylist()
    assert (len(texts) - 1 in found) == is_found
    # Each has the words in their order.
    for number in found:
        words = iter(texts[number].split())
        assert all(word in words for word in ("ash", "bay", "cob"))
