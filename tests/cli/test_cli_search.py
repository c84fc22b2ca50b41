"""`lancefs search`."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from running import Here

import lancefs

BODIES = ["a brown fox", "a lazy dog", "brown dogs and a brown fox", None, "a fox that is brown"]
VECTORS = [[9.0, 9.0], [0.0, 0.0], [5.0, 5.0], [0.0, 1.0], None]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("search") / "t.lance")
    vectors = pa.array(VECTORS, pa.list_(pa.float32(), 2))
    rows = pa.table({"id": range(5), "body": BODIES, "other": BODIES[::-1], "v": vectors})
    dataset = lance.write_dataset(rows, path)
    dataset.create_scalar_index("body", "INVERTED", with_position=True)
    return path


def ids(text: str) -> list[int]:
    return [row["id"] for row in json.loads(text)]


def test_the_best_rows_are_shown_with_their_scores(table: str, here: Here) -> None:
    done = here("search", table, "brown fox", "-c", "id", "-f", "json")
    expected = lancefs.open(table).search("brown fox", select=["id"])
    assert json.loads(done.out) == expected.to_pylist()
    assert sorted(ids(done.out)) == [0, 2, 4]
    plain = here("search", table, "dog", "-c", "id", "-n", "1")
    assert plain.out.split()[:2] == ["id", "_score"]
    assert len(plain.out.splitlines()) == 2


def test_all_words_a_phrase_and_a_condition(table: str, here: Here) -> None:
    options = ("-c", "id", "-f", "json")
    assert ids(here("search", table, "lazy fox", "--all", *options).out) == []
    assert sorted(ids(here("search", table, "dog fox", "--all", *options).out)) == [2]
    assert sorted(ids(here("search", table, '"brown fox"', *options).out)) == [0, 2]
    assert ids(here("search", table, "brown fox", "-w", "id > 2", *options).out) == [4]


def test_words_with_typing_errors_are_found(table: str, here: Here) -> None:
    options = ("-c", "id", "-f", "json")
    assert ids(here("search", table, "bron", *options).out) == []
    assert sorted(ids(here("search", table, "bron", "--fuzzy", "1", *options).out)) == [0, 2, 4]
    assert sorted(ids(here("search", table, "lazi", "--fuzzy", "auto", *options).out)) == [1]
    both = ("bron fax", "--all", "--fuzzy", "1")
    assert sorted(ids(here("search", table, *both, *options).out)) == [0, 2, 4]


def test_a_column_without_an_index_is_searched_if_it_is_named(table: str, here: Here) -> None:
    options = ("-c", "id", "-f", "json")
    assert ids(here("search", table, "lazy", "--column", "other", *options).out) == [3]
    both = ("--column", "other", "--column", "body")
    assert sorted(ids(here("search", table, "lazy", *both, *options).out)) == [1, 3]


def test_the_plan_says_whether_an_index_is_used(table: str, here: Here) -> None:
    told = here("search", table, "brown fox", "--explain").out
    assert "index body_idx over body" in told
    assert "tokens: brown fox" in told
    told = here("search", table, "brown fox", "--explain", "--no-index").out
    assert "segment used" not in told


def test_rows_are_found_by_a_vector_too(table: str, tmp_path: Path, here: Here) -> None:
    (tmp_path / "q").write_text("[0, 0]")
    options = ("--vector-column", "v", "-c", "id", "-f", "json")
    done = here("search", table, "fox", *options, "--vector", str(tmp_path / "q"))
    search = lancefs.open(table).hybrid_search("v", [0, 0], "fox", columns=["id"])
    assert json.loads(done.out) == search.to_table().to_pylist()
    done = here("search", table, "fox", *options, "--like", "1", "--alpha", "1", "-n", "2")
    assert ids(done.out) == [1, 3]
    assert list(json.loads(done.out)[0]) == ["id", "_distance", "_score", "_hybrid_score"]
    told = here("search", table, "fox", "--vector-column", "v", "--like", "1", "--explain").out
    assert "exact search: 5 vectors compared by l2" in told
    assert "index body_idx over body" in told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["fox", "--column", "nothing"], "no column 'nothing'"),
        (["fox", "--column", "id"], "column 'id' is int64; texts are"),
        (["fox", "-w", "id >"], "--where"),
        (["fox", "-n", "0"], "k is 0"),
        (["fox", "--fuzzy", "x"], "'x' is neither a number from 0 on nor auto"),
        (["fox", "--like", "1"], "are for a search with --vector-column"),
        (["fox", "--alpha", "0.5"], "are for a search with --vector-column"),
        (["fox", "--vector-column", "v"], "either --like ROWID or --vector FILE is expected"),
        (["fox", "--vector-column", "id", "--like", "1"], "column 'id' is int64; vectors are"),
        (["fox", "--vector-column", "v", "--like", "4"], "the row with the id 4 has no vector"),
        (["fox", "--vector-column", "v", "--like", "1", "--alpha", "2"], "alpha"),
    ],
)
def test_wrong_input_is_one_line(table: str, here: Here, options: list[str], text: str) -> None:
    done = here("search", table, *options)
    assert done.code == 2
    assert text in done.err
    assert not done.out


def test_a_table_without_an_index_says_what_to_do(tmp_path: Path, here: Here) -> None:
    lance.write_dataset(pa.table({"body": BODIES}), tmp_path / "t.lance")
    done = here("search", str(tmp_path / "t.lance"), "fox")
    assert done.code == 2
    assert "no column with a full-text index" in done.err
