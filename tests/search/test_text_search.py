"""Full-text search: rows and scores are those of pylance, whatever happened to the table since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from text_tables import assert_same, assert_same_best, index, ours, rows, theirs, write

import lancefs
from lancefs import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery
from lancefs.errors import ColumnNotFound, UnsupportedFeature

# How an index is built.
LAYOUTS: dict[str, dict[str, Any]] = {
    "v1": {"format_version": 1},
    "v2": {},
    "v3": {"block_size": 256},
    "v1 with positions": {"format_version": 1, "with_position": True},
    "v2 with positions": {"with_position": True},
    "v3 with positions": {"block_size": 256, "with_position": True},
    "whitespace": {"base_tokenizer": "whitespace", "stem": False},
    "plain words": {"stem": False, "remove_stop_words": False, "ascii_folding": False},
    "own stop words": {"custom_stop_words": ["hous", "word3"], "max_token_length": 6},
    "raw": {"base_tokenizer": "raw"},
}
QUERIES = [
    "house",
    "word250",
    "House running",
    "quick the quickly word7 word7",
    "zurich Resume NAIVE",
    "nowhere",
    "the",
    "",
    MatchQuery("house running", "t", operator="AND"),
    MatchQuery("house nowhere", "t", operator="AND"),
    MatchQuery("the running word1", "t", boost=2.5, operator="AND"),
    MatchQuery("word5 word6", "t", boost=0.5),
]
PHRASES = [
    PhraseQuery("house running", "t"),
    PhraseQuery("running the house", "t"),
    PhraseQuery("running running", "t"),
    PhraseQuery("running word0", "t", slop=1),
    PhraseQuery("word9", "t"),
    PhraseQuery("house nowhere", "t"),
]
JOINED = [
    BoostQuery(MatchQuery("house running", "t"), MatchQuery("word0 quickly", "t"), 0.7),
    BooleanQuery(must=[MatchQuery("house", "t"), MatchQuery("running", "t")]),
    BooleanQuery(should=[MatchQuery("word1", "t"), MatchQuery("word2 house", "t")]),
    BooleanQuery(
        must=[MatchQuery("house", "t")],
        should=[MatchQuery("word0", "t"), MatchQuery("word4", "t")],
        must_not=[MatchQuery("running", "t"), MatchQuery("word1", "t")],
    ),
    BooleanQuery(
        must=[BooleanQuery(should=[MatchQuery("word3", "t"), MatchQuery("word1", "t")])],
        must_not=[BoostQuery(MatchQuery("running", "t"), MatchQuery("house", "t"))],
    ),
    # Rows of the rarest word are looked for first.
    BooleanQuery(
        must=[MatchQuery("house", "t", boost=1.5), MatchQuery("word20", "t")],
        should=[MatchQuery("running word3", "t")],
    ),
    BooleanQuery(
        must=[
            MatchQuery("house running", "t"),
            MatchQuery("word7", "t"),
            MatchQuery("running house", "t", operator="AND"),
        ],
        must_not=[MatchQuery("word0", "t")],
    ),
    BooleanQuery(must=[MatchQuery("house", "t"), MatchQuery("nowhere", "t")]),
    BooleanQuery(
        must=[
            BooleanQuery(must=[MatchQuery("word2", "t"), MatchQuery("house", "t")]),
            BoostQuery(MatchQuery("running", "t"), MatchQuery("word1", "t"), 0.3),
            MatchQuery("house", "t"),
            MatchQuery("house", "t"),
        ]
    ),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes a table of three fragments once for each layout."""
    made: dict[str, str] = {}

    def table(layout: str) -> str:
        if layout not in made:
            path = tmp_path_factory.mktemp("texts") / "t.lance"
            to_dataset = {"max_rows_per_file": 1000}
            made[layout] = write(path, rows(3000), to_dataset=to_dataset, **LAYOUTS[layout])
        return made[layout]

    return table


def assert_agrees(path: str, queries: list[Any], **options: Any) -> None:
    for query in queries:
        expected = theirs(path, query, **options)
        assert_same(ours(path, query, **options), expected)
        assert_same_best(ours(path, query, 10, **options), expected.slice(0, 10))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_and_scores_are_those_of_pylance(tables: Callable[[str], str], layout: str) -> None:
    assert_agrees(tables(layout), QUERIES)


@pytest.mark.parametrize("layout", ["v2 with positions", "v3 with positions"])
def test_scores_of_long_texts_are_those_of_pylance(tmp_path: Path, layout: str) -> None:
    """Lengths are rounded in blocks of 256 documents; the average of all is exact."""
    draw = np.random.default_rng(6)
    words = np.array(["house", "running", *(f"word{number}" for number in range(300))])
    texts = [" ".join(draw.choice(words, length)) for length in draw.integers(1, 150, 900)]
    table = pa.table({"id": np.arange(len(texts)), "t": texts})
    path = write(tmp_path / "t.lance", table.slice(0, 800), **LAYOUTS[layout])
    queries = [*QUERIES[:4], *PHRASES[:3], *JOINED[:3]]
    assert_agrees(path, queries)
    lance.write_dataset(table.slice(800), path, mode="append")
    assert_agrees(path, ["house", "word250 running"])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "positions" in name])
def test_phrases_are_found_where_positions_are_stored(
    tables: Callable[[str], str], layout: str
) -> None:
    assert_agrees(tables(layout), PHRASES)


@pytest.mark.parametrize("layout", ["v1 with positions", "v2 with positions"])
def test_words_of_a_phrase_may_be_apart(tables: Callable[[str], str], layout: str) -> None:
    path = tables(layout)
    for query in (
        PhraseQuery("house house house", "t", slop=3),
        PhraseQuery("house quickly running", "t", slop=2),
    ):
        # pylance goes forward in the places of all words at once, and passes some matches by.
        found, known = (made(path, query).to_pylist() for made in (ours, theirs))
        assert {row["id"] for row in found} > {row["id"] for row in known}
        exact = {row["id"] for row in ours(path, PhraseQuery(query.query, "t")).to_pylist()}
        assert {row["id"] for row in found} > exact


def test_joined_queries_add_and_exclude_as_pylance_does(tables: Callable[[str], str]) -> None:
    assert_agrees(tables("v2"), JOINED)


@pytest.mark.parametrize("query", [*QUERIES, *PHRASES, *JOINED], ids=repr)
def test_reading_all_texts_finds_the_same(tables: Callable[[str], str], query: Any) -> None:
    path = tables("v2 with positions")
    assert_same(ours(path, query, use_index=False), ours(path, query))


def test_a_text_in_quotation_marks_is_a_phrase(tables: Callable[[str], str]) -> None:
    path = tables("v2 with positions")
    found = ours(path, '"running the house"')
    assert_same(found, ours(path, PhraseQuery("running the house", "t")))
    assert found.num_rows


def test_of_rows_with_one_score_the_lower_row_ids_are_found(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", pa.table({"id": range(100), "t": ["alike text"] * 100}))
    assert ours(path, "alike", 7)["id"].to_pylist() == list(range(7))


def test_a_filter_before_the_search_leaves_k_rows_and_after_it_fewer(
    tables: Callable[[str], str],
) -> None:
    path = tables("v2")
    for options in ({"filter": "small = 3"}, {"filter": "small = 3 AND id > 2900"}):
        for query in ("house", "running word3", JOINED[3]):
            expected = theirs(path, query, prefilter=True, **options)
            assert_same(ours(path, query, prefilter=True, **options), expected)
            best = ours(path, query, 5, prefilter=True, **options)
            assert_same_best(best, expected.slice(0, 5))
            after = ours(path, query, 40, **options)
            assert_same(
                after,
                ours(path, query, 40).filter(
                    pa.compute.is_in(ours(path, query, 40)["id"], after["id"])
                ),
            )
    filtered = lancefs.open(path).filter("small = 3").search("house", k=5, select=["small"])
    assert filtered["small"].to_pylist() == [3] * 5


# They are compared after each step.
HISTORIES: dict[str, list[str]] = {
    "merged": ["append", "delta", "append", "merge", "append"],
    "deleted": ["delete", "append", "delete", "delta", "delete"],
    "updated and merged": ["update", "append", "delta", "update", "merge", "update"],
    "compacted": ["delete", "append", "compact", "append", "delta", "compact"],
    "compacted and merged": ["append", "delta", "delete", "compact", "update", "merge", "compact"],
    "fragments gone": ["append", "delta", "delete all", "append", "merge"],
    "column rewritten": ["append", "delta", "rewrite", "delete", "append"],
}


def change(path: str, step: str, number: int) -> None:
    dataset = lance.dataset(path)
    match step:
        case "append":
            table = rows(150, seed=number + 50, first=10_000 * (number + 1))
            lance.write_dataset(table, path, mode="append")
        case "delta":
            dataset.optimize.optimize_indices(num_indices_to_merge=0)
        case "merge":
            dataset.optimize.optimize_indices(num_indices_to_merge=10)
        case "delete":
            dataset.delete(f"id % 11 = {number}")
        case "delete all":
            dataset.delete("id < 250")
        case "update":
            dataset.update({"t": "'house word5 updated'"}, where=f"id % 13 = {number}")
        case "compact":
            dataset.optimize.compact_files(target_rows_per_fragment=500)
        case "rewrite":
            new = pa.table({"id": dataset.to_table(columns=["id"])["id"]})
            new = new.append_column("t", pa.array(["house rewritten"] * len(new)))
            some = new.filter(pa.compute.less(new["id"], 100))
            dataset.merge_insert("id").when_matched_update_all().execute(some)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.parametrize("history", HISTORIES)
def test_scores_are_those_of_pylance_after_changes(
    tmp_path: Path, history: str, stable: bool
) -> None:
    to_dataset = {"max_rows_per_file": 200, "enable_stable_row_ids": stable}
    path = str(tmp_path / "t.lance")
    write(tmp_path / "t.lance", rows(500), to_dataset=to_dataset, with_position=True)
    queries = ["house", "word250", "updated rewritten", QUERIES[8], *PHRASES[:2], JOINED[3]]
    updated = set[int]()
    for number, step in enumerate(HISTORIES[history]):
        change(path, step, number)
        updated |= {row for row in range(30_000) if step == "update" and row % 13 == number}
        if stable and updated and number:
            assert_agrees_but_for(path, queries, updated)
            continue
        assert_agrees(path, queries)
        assert_agrees(path, queries[:2], filter="small < 3", prefilter=True)


def assert_agrees_but_for(path: str, queries: list[Any], updated: set[int]) -> None:
    """Compare rows with those of reading all texts, and with pylance but for updated rows.

    pylance finds updated rows by their old texts, and counts these in all scores; that is its issue
    7795: a row id counts where any segment covers the row.
    """
    for query in queries:
        found, expected = ours(path, query), theirs(path, query)
        scanned = ours(path, query, use_index=False)
        ids, all_ids, their_ids = (set(one["id"].to_pylist()) for one in (found, scanned, expected))
        assert ids == all_ids
        assert ids - updated == their_ids - updated


@pytest.mark.parametrize("workers", [2, 4])
def test_all_partitions_are_searched(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_FTS_NUM_SHARDS", str(workers))
    path = write(tmp_path / "t.lance", rows(2000), to_dataset={"max_rows_per_file": 100})
    assert_agrees(path, [*QUERIES, *JOINED])


def test_several_columns_count_by_their_best_score(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", rows(1500))
    index(path, "u")
    assert_agrees(
        path,
        [
            "house running",
            MultiMatchQuery("running word1", ["t", "u"], boosts=[0.3, 2.0]),
            MultiMatchQuery("running house", ["u", "t"], operator="AND"),
            BooleanQuery(must=[MatchQuery("house", "t")], should=[MatchQuery("word1", "u")]),
        ],
    )
    only = lancefs.open(path).search("house", ["u"], k=None, select=["id"], with_row_id=True)
    assert_same(only, theirs(path, MatchQuery("house", "u")))


def test_a_list_of_texts_is_one_document(tmp_path: Path) -> None:
    lists = [["house of", "running house"], [], None, ["running", None, "house"], ["word"], [""]]
    table = pa.table({"id": range(6), "t": pa.array(lists, pa.list_(pa.string()))})
    path = write(tmp_path / "t.lance", table, with_position=True)
    queries = ["house", "running word", *PHRASES[:2]]
    assert_agrees(path, queries)
    lance.write_dataset(table, path, mode="append")
    assert_agrees(path, queries)


def test_without_an_index_named_columns_are_read_as_they_are(tmp_path: Path) -> None:
    lance.write_dataset(rows(900), tmp_path / "t.lance", max_rows_per_file=400)
    path = str(tmp_path / "t.lance")
    with pytest.raises(ValueError, match="no column with a full-text index"):
        ours(path, "house")
    assert_agrees(path, [MatchQuery("house the Zürich", "t"), PHRASES[0]])
    assert ours(path, MatchQuery("House", "t")).num_rows == 0  # as pylance: case counts
    assert_same(
        lancefs.open(path).search("house", ["t"], None, select=["id"], with_row_id=True),
        theirs(path, MatchQuery("house", "t")),
    )


def test_wrong_arguments_are_named(tables: Callable[[str], str]) -> None:
    dataset = lancefs.open(tables("v2"))
    with pytest.raises(ValueError, match="has no positions"):
        dataset.search(PHRASES[0])
    with pytest.raises(ColumnNotFound, match="nope"):
        dataset.search("house", ["nope"])
    with pytest.raises(TypeError, match="'id' is int64; texts are string"):
        dataset.search("house", ["id"])
    with pytest.raises(TypeError, match="a list of names was expected"):
        dataset.search("house", "t")
    with pytest.raises(TypeError, match="is no query"):
        dataset.search(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k is 0"):
        dataset.search("house", k=0)
    with pytest.raises(ValueError, match="must or should"):
        BooleanQuery(must_not=[MatchQuery("a")])
    with pytest.raises(ValueError, match="'OR' or 'AND'"):
        MatchQuery("a", operator="XOR")
    with pytest.raises(
        ValueError, match="columns is \\[\\]; a list of names was expected, or None"
    ):
        dataset.search("house", [])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: MatchQuery("a", boost=-1), ValueError, "boost is -1"),
        (lambda: MatchQuery("a", boost="2"), ValueError, "boost is '2'; a number"),
        (lambda: PhraseQuery("a b", slop=None), ValueError, "slop is None; a whole number"),
        (lambda: PhraseQuery("a b", slop=float("inf")), ValueError, "slop is inf"),
        (
            lambda: BoostQuery(MatchQuery("a"), MatchQuery("b"), float("nan")),
            ValueError,
            "negative_boost is nan",
        ),
        (lambda: BooleanQuery(must=MatchQuery("a")), TypeError, "must is MatchQuery.*a list"),
    ],
)
def test_a_query_that_makes_no_sense_cannot_be_made(
    make: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make()


def test_numbers_of_a_query_may_be_those_of_numpy(tables: Callable[[str], str]) -> None:
    query = MatchQuery("hose", "t", boost=np.float32(2), fuzziness=np.int64(1))
    assert_same(
        ours(tables("v2"), query), ours(tables("v2"), MatchQuery("hose", "t", 2.0, fuzziness=1))
    )


def test_all_texts_are_read_for_a_phrase_where_no_positions_are_wanted(
    tables: Callable[[str], str],
) -> None:
    found = ours(tables("v2"), PHRASES[0], use_index=False)
    assert found["id"].to_pylist()
    assert_same(found, ours(tables("v2 with positions"), PHRASES[0]))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"base_tokenizer": "ngram"}, "'ngram'"),
        ({"base_tokenizer": "icu"}, "'icu'"),
        ({"language": "German"}, "'German'"),
    ],
)
def test_a_tokenizer_that_is_not_known_is_named(
    tmp_path: Path, options: dict[str, str], name: str
) -> None:
    path = write(tmp_path / "t.lance", rows(50), **options)
    with pytest.raises(UnsupportedFeature, match=f"t.lance/.*index t_idx: .*{name}"):
        ours(path, "house")


def test_explain_tells_what_is_used(tables: Callable[[str], str]) -> None:
    dataset = lancefs.open(tables("v2"))
    told = dataset.text_search("the houses").explain()
    assert "index t_idx over t" in told
    assert "tokens: hous" in told
    assert "whose index is not used" in dataset.text_search("house", use_index=False).explain()
