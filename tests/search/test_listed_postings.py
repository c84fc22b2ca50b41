"""Full-text indices of Lance 0.20 to 0.27: postings in rows, without `metadata.lance`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from listed_indices import ListedIndex, folder_of, listed_index, words, write_listed
from support import corpus_case, local_store
from text_tables import assert_same, ours, rows, theirs

import lancefs
from lancefs import BooleanQuery, MatchQuery, PhraseQuery
from lancefs.errors import CorruptFile, LanceError
from lancefs.index.files import IndexReader
from lancefs.index.text.listed_postings import LISTED_FILES, listed_partition
from lancefs.index.text.partitions import TextPartition
from lancefs.search.text_query import TextQuery

QUERIES: list[str | TextQuery] = [
    "house",
    "house word250 running",
    "résumé the naïve of",
    "nowhere",
    MatchQuery("house running", "t", operator="AND"),
    BooleanQuery(
        must=[MatchQuery("house", "t")],
        should=[MatchQuery("running", "t")],
        must_not=[MatchQuery("the", "t")],
    ),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with deleted rows, and with rows that the index does not cover."""
    path = tmp_path_factory.mktemp("listed") / "t.lance"
    write_listed(path, rows(400), to_dataset={"max_rows_per_file": 150})
    lance.dataset(str(path)).delete("id % 7 = 3")
    lance.write_dataset(rows(60, 2, 400), path, mode="append")
    return str(path)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_rows_and_scores_are_those_of_pylance(table: str, query: str | TextQuery) -> None:
    expected = theirs(table, query)
    assert_same(ours(table, query, None), expected)
    best = ours(table, query, 5)["_score"].to_pylist()
    np.testing.assert_allclose(best, expected["_score"].to_pylist()[:5], rtol=1e-5)


def test_the_index_is_used(table: str) -> None:
    told = lancefs.open(table).text_search("house").explain()
    assert "1 of 1 segment used" in told
    assert "texts of 1 fragment that no index covers were read" in told


def test_a_filter_before_the_search(table: str) -> None:
    found = ours(table, "house", None, filter="small = 2", prefilter=True)
    assert_same(found, theirs(table, "house", filter="small = 2", prefilter=True))
    assert found.num_rows


def test_phrases_are_found_by_places(table: str) -> None:
    """pylance 14 has no phrases of such indices: the rows are those whose words stand so."""
    read = lancefs.open(table).to_table(["id", "t"]).to_pylist()
    texts = {row["id"]: words(row["t"] or "") for row in read}
    having = {number for number, own in texts.items() if ("running", "house") in pairwise(own)}
    found = ours(table, PhraseQuery("running house", "t"), None)
    assert having
    assert set(found["id"].to_pylist()) == having


def test_the_index_of_an_old_release_finds_what_pylance_does() -> None:
    table = corpus_case("hist_legacy-fts-index-w0.27.0").table()
    text = lance.dataset(table).to_table()["text"][0].as_py()
    expected = lance.dataset(table).to_table(full_text_query=text, with_row_id=True)
    found = lancefs.open(table).search(text, k=None, with_row_id=True)
    assert found.num_rows
    assert_same(found, expected.sort_by([("_score", "descending"), ("_rowid", "ascending")]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.lance"


def expected_of(path: Path, word: str) -> set[int]:
    read = lancefs.open(str(path)).to_table(["id", "t"]).to_pylist()
    return {row["id"] for row in read if word in words(row["t"] or "")}


def test_postings_of_other_tokens_are_not_believed(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As releases up to 0.22 might leave them after a compaction: lists in another order."""
    made = write_listed(path, rows(200))
    ends = [*made.offsets[1:], made.postings.num_rows]
    parts = [made.postings.slice(a, b - a) for a, b in zip(made.offsets, ends, strict=True)]
    swapped = [parts[number ^ 1] for number in range(len(parts) // 2 * 2)]
    made.postings = pa.concat_tables([*swapped, *parts[len(swapped) :]]).combine_chunks()
    sizes = [one.num_rows for one in swapped] + [one.num_rows for one in parts[len(swapped) :]]
    made.offsets = np.cumsum([0, *sizes[:-1]]).tolist()
    made.write(folder_of(path))
    for word in ("house", "of", "word7"):
        assert set(ours(str(path), word, None)["id"].to_pylist()) == expected_of(path, word)
    assert "build the index anew" in caplog.text


def test_postings_without_rows_are_not_believed(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They may be those of a token whose rows were deleted, in the place of others."""
    made = write_listed(path, rows(200))
    number = made.tokens["_token"].to_pylist().index("the")
    token = made.tokens["_token_id"].to_pylist()[number]
    start, end = [*made.offsets, made.postings.num_rows][token : token + 2]
    kept = [made.postings.slice(0, start), made.postings.slice(end)]
    made.postings = pa.concat_tables(kept).combine_chunks()
    made.offsets = [at if at <= start else at - (end - start) for at in made.offsets]
    made.write(folder_of(path))
    found = ours(str(path), "the", None)
    assert set(found["id"].to_pylist()) == expected_of(path, "the")
    assert found.num_rows
    assert "left no row with 'the'" in caplog.text


def test_rows_that_keep_their_ids_are_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Old texts of updated rows may be in the index, which does not tell them from new ones."""
    write_listed(path, rows(100), to_dataset={"enable_stable_row_ids": True})
    assert set(ours(str(path), "house", None)["id"].to_pylist()) == expected_of(path, "house")
    assert "may have old texts" in caplog.text


def test_lists_of_texts_are_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lists = pa.array([["a b", "b c"], ["c"], None, ["d", "b"]], pa.list_(pa.string()))
    write_listed(path, pa.table({"id": [0, 1, 2, 3], "t": lists}))
    assert set(ours(str(path), "b", None)["id"].to_pylist()) == {0, 3}
    assert "each item of a list" in caplog.text


def test_a_tokenizer_that_is_not_told_is_not_guessed(path: Path) -> None:
    made = write_listed(path, rows(20))
    made.tokenizer = None
    made.write(folder_of(path))
    with pytest.raises(LanceError, match=r"release before 0\.20"):
        ours(str(path), "house")


def test_an_index_without_places_finds_no_phrase(path: Path) -> None:
    made = write_listed(path, rows(20))
    made.postings = made.postings.drop_columns(["_position"])
    made.write(folder_of(path))
    assert set(ours(str(path), "house", None)["id"].to_pylist()) == expected_of(path, "house")
    with pytest.raises(ValueError, match="has no positions"):
        ours(str(path), PhraseQuery("the house", "t"))


DOCUMENTS = {7: ["a", "b", "a"], 3: ["b"], 5: ["c", "a"]}


def partition_of(made: ListedIndex, folder: Path) -> TextPartition:
    made.write(folder)
    store = local_store(folder)
    tokens, documents, postings = (IndexReader(store.file(name)) for name in LISTED_FILES)
    return listed_partition(documents, tokens, postings, object())


def test_documents_are_ordered_by_their_rows(tmp_path: Path) -> None:
    found = partition_of(listed_index(DOCUMENTS), tmp_path)
    assert found.row_numbers.tolist() == [3, 5, 7]
    assert found.lengths.tolist() == [1, 2, 3]
    postings = found.postings(["a", "nowhere"])
    assert list(postings) == ["a"]
    assert postings["a"].documents.tolist() == [1, 2]
    assert postings["a"].frequencies.tolist() == [1, 2]
    places = found.positions("a")
    assert places.starts.tolist() == [0, 1, 3]
    assert places.places.tolist() == [1, 0, 2]


def test_a_token_may_have_lost_all_its_rows(tmp_path: Path) -> None:
    made = listed_index(DOCUMENTS)  # a: 2 rows, b: 2, c: 1
    made.postings = made.postings.slice(0, 4)
    found = partition_of(made, tmp_path)
    assert found.postings(["a", "c"])["c"].documents.tolist() == []


def changed(made: ListedIndex, column: str, values: object) -> None:
    """Set the offsets, numbers of the tokens, or a column of the postings.

    They are: `a` in 5 and 7, `b` in 3 and 7, `c` in 5.
    """
    if column == "tokens":
        numbers = pa.array(values, pa.uint32())
        made.tokens = made.tokens.set_column(1, "_token_id", numbers)
        return
    if column == "offsets":
        made.offsets = values
        return
    at = made.postings.column_names.index(column)
    typed = pa.array(values, made.postings.schema.field(at).type)
    made.postings = made.postings.set_column(at, column, typed)


def read_all(made: ListedIndex, folder: Path) -> None:
    found = partition_of(made, folder)
    found.postings(["a", "b", "c"])
    found.positions("a")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("offsets", [0, 2, 9], "no list of 3 numbers up to 5"),
        ("offsets", [0, 2.5, 4], "no list of 3 numbers"),
        ("offsets", {"0": 1, "1": 2, "2": 3}, "no list of 3 numbers"),
        ("offsets", [1, 2, 4], "do not ascend from 0"),
        ("offsets", [0, 4, 2], "do not ascend from 0"),
        ("offsets", [0, 2], "not those of 3 tokens"),
        ("offsets", "a,b,c", "no list of 3 numbers"),
        ("offsets", [0, [2, 4]], "no list of 3 numbers"),
        ("tokens", [0, 1, 3], "has number 3"),
        ("_rowid", [5, 8, 3, 7, 5], "no document"),
        ("_rowid", [7, 7, 3, 7, 5], "do not ascend"),
        ("_frequency", [1, 0, 1, 1, 1], "or never"),
        ("_frequency", [1, 4, 1, 1, 1], "more often"),
        ("_frequency", [1, float("nan"), 1, 1, 1], "more often"),
        ("_frequency", [1, 1.5, 1, 1, 1], "part of a token"),
        ("_frequency", [1, None, 1, 1, 1], "missing"),
        ("_position", [[1], [0], [0], [1], [0]], "other positions"),
        ("_position", [[1], [2, 0], [0], [1], [0]], "do not ascend"),
        ("_position", [[-1], [0, 2], [0], [1], [0]], "do not ascend"),
        ("_position", [[1], None, [0], [1], [0]], "positions"),
    ],
    ids=str,
)
def test_damaged_columns_are_refused_with_the_reason(
    tmp_path: Path, column: str, values: object, message: str
) -> None:
    made = listed_index(DOCUMENTS)
    changed(made, column, values)
    with pytest.raises(CorruptFile, match=message):
        read_all(made, tmp_path)


def test_a_row_of_two_documents_is_damage(tmp_path: Path) -> None:
    made = listed_index(DOCUMENTS)
    made.documents = pa.concat_tables([made.documents, made.documents.slice(0, 1)]).combine_chunks()
    with pytest.raises(CorruptFile, match="names a row twice"):
        partition_of(made, tmp_path)
