"""Fuzzy searches: words that are like those of the query are found, as by pylance."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileReader
from text_tables import assert_same, assert_same_best, index, ours, rows, theirs, write

import lancefs
from lancefs import BooleanQuery, MatchQuery, MultiMatchQuery
from lancefs.errors import CorruptFile
from lancefs.index.text import fuzzy
from lancefs.index.text.fuzzy import FuzzyWord, automatic_distance
from lancefs.index.text.token_maps import ListedTokens, TransducerTokens

TEXTS = [
    "apple",
    "apples",
    "aple pie",
    "bapple zz",
    "apple apples aple",
    "banana apple",
    "bananas aple",
    "Apple ab",
    "ac abc",
    "zürich zurich",
    "zürch zürih",
    "naïve naive naîve",
    "երևան երևա",
    "թբիլիսի ბათუმი ბათუმ",
    "日本 日本語",
    "né née",
    None,
    "",
    "😀pple",
]
WORDS = {"stem": False, "ascii_folding": False, "remove_stop_words": False}

QUERIES = [
    MatchQuery("apple", "t", fuzziness=1),
    MatchQuery("appel", "t", fuzziness=2),
    MatchQuery("appel", "t", fuzziness=1),
    MatchQuery("APPLE", "t", fuzziness=1),
    MatchQuery("Apple", "t", fuzziness=1),
    MatchQuery("apple apple", "t", fuzziness=1),
    MatchQuery("apple aple", "t", fuzziness=1, operator="AND"),
    MatchQuery("appl banan", "t", fuzziness=1, operator="AND", boost=2.0),
    MatchQuery("apple nowhere", "t", fuzziness=1, operator="AND"),
    MatchQuery("apple nowhere", "t", fuzziness=1),
    MatchQuery("apple", "t", fuzziness=5),
    MatchQuery("zurich", "t", fuzziness=1),
    MatchQuery("zürich", "t", fuzziness=1),
    MatchQuery("naïve", "t", fuzziness=1),
    MatchQuery("երևան", "t", fuzziness=1),
    MatchQuery("ბათუ", "t", fuzziness=1),
    MatchQuery("日本", "t", fuzziness=1),
    MatchQuery("né", "t", fuzziness=1),
    MatchQuery("", "t", fuzziness=1),
    MatchQuery("apple", "t", fuzziness=1, max_expansions=0),
    *(MatchQuery("apple bananas", "t", fuzziness=1, max_expansions=most) for most in range(1, 7)),
    *(MatchQuery("apple apple", "t", fuzziness=1, max_expansions=most) for most in range(1, 7)),
    MatchQuery("apple ab", "t", fuzziness=1, max_expansions=4, operator="AND"),
    *(MatchQuery("apple", "t", fuzziness=2, prefix_length=size) for size in (1, 4, 5, 10)),
    *(MatchQuery("naïve", "t", fuzziness=1, prefix_length=size) for size in (2, 3)),
    *(MatchQuery("zürich", "t", fuzziness=2, prefix_length=size) for size in (1, 2, 3)),
    BooleanQuery(must=[MatchQuery("aple", "t", fuzziness=1)], must_not=[MatchQuery("apples", "t")]),
]


def table(texts: list[str | None], first: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + len(texts)), "t": pa.array(texts, pa.string())})


def ids(path: str, query: Any, **options: Any) -> list[int]:
    return sorted(ours(path, query, **options)["id"].to_pylist())


def transducer(tmp_path: Path, words: list[str]) -> TransducerTokens:
    """The token map that Lance writes for words."""
    write(tmp_path / "t.lance", table(list(words)), lower_case=False, **WORDS)
    (folder,) = (tmp_path / "t.lance" / "_indices").iterdir()
    data = LanceFileReader(str(folder / "part_0_tokens.lance")).read_all().to_table()
    return TransducerTokens(data["_token_fst_bytes"][0].as_py())


def test_words_with_typing_errors_are_found(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", table(["a brown fox", "a lazy dog"]), **WORDS)
    assert ids(path, MatchQuery("bron")) == []
    assert ids(path, MatchQuery("bron", fuzziness=1)) == [0]
    assert ids(path, MatchQuery("bron fax", fuzziness=1, operator="AND")) == [0]
    assert ids(path, MatchQuery("bron dig", fuzziness=1, operator="AND")) == []
    assert ids(path, MatchQuery("crown", fuzziness=1, prefix_length=1)) == []
    search = lancefs.open(path).text_search(MatchQuery("bron", fuzziness=1))
    assert search.explain().endswith("tokens: brown")


def test_rows_and_scores_are_those_of_pylance(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", table(TEXTS), **WORDS)
    lance.dataset(path).delete("id = 5")
    for query in QUERIES:
        expected = theirs(path, query)
        assert_same(ours(path, query), expected)
        assert_same_best(ours(path, query, 2), expected.slice(0, 2))


def test_the_best_rows_of_many_are_those_of_pylance(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", rows(3000), **WORDS)
    lance.dataset(path).delete("small = 3")
    for query in (
        MatchQuery("word12 running", "t", fuzziness=1),
        MatchQuery("word200 hose quicky", "t", fuzziness=1),
        MatchQuery("word1 houses", "t", fuzziness=1, operator="AND"),
        MatchQuery("wrd7", "t", fuzziness=2, max_expansions=7),
    ):
        expected = theirs(path, query)
        assert expected.num_rows > 20
        assert_same(ours(path, query), expected)
        assert_same_best(ours(path, query, 10), expected.slice(0, 10))


def test_several_segments_share_the_expansions(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", table(TEXTS[1::2]), **WORDS)
    for start in (0, 10):
        added = table(TEXTS[start : start + 10 : 2], 100 + start)
        lance.write_dataset(added, path, mode="append")
        lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    assert "3 of 3 segments used" in lancefs.open(path).text_search("apple").explain()
    for query in QUERIES:
        assert_same(ours(path, query), theirs(path, query))


def test_several_partitions_share_the_expansions(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", table(TEXTS[1::2]), **WORDS)
    lance.write_dataset(table(TEXTS[::2], 100), path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=1)
    assert "in 2 partitions, 1 of 1 segment" in lancefs.open(path).text_search("apple").explain()
    for query in QUERIES:
        assert_same(ours(path, query), theirs(path, query))


def test_rows_without_an_index_are_searched_too(tmp_path: Path) -> None:
    """Lance finds only the words as they are there; the rows of the index are its own."""
    path = write(tmp_path / "t.lance", table(TEXTS), **WORDS)
    lance.write_dataset(table(["apple", "applz", "aple ab"], 100), path, mode="append")
    query = MatchQuery("apple", "t", fuzziness=1)
    mine, other = ours(path, query), theirs(path, query)
    added = set(mine["id"].to_pylist()) - set(other["id"].to_pylist())
    assert added == {101, 102}
    assert_same(mine.filter(pc.is_in(mine["id"], other["id"].combine_chunks())), other)
    assert ids(path, MatchQuery("applx", "t", fuzziness=1, max_expansions=1)) == [0, 4, 5, 7, 100]
    assert_same(
        ours(path, query, filter="id < 100", prefilter=True),
        theirs(path, query, filter="id < 100", prefilter=True),
    )


def test_without_any_index_all_texts_are_compared(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table(TEXTS), path)
    assert ids(path, MatchQuery("appl", "t", fuzziness=1)) == [0, 4, 5]
    indexed = write(tmp_path / "i.lance", table(TEXTS), **WORDS)
    for query in (one for one in QUERIES if not isinstance(one, BooleanQuery)):
        read = ours(indexed, query, use_index=False)
        assert_same(read, theirs(indexed, query))


def test_distances_depend_on_the_length_of_words_where_none_is_given(tmp_path: Path) -> None:
    words = ["ab", "abc", "abcde", "abcdef", "日", "日本語"]
    assert [automatic_distance(word) for word in words] == [0, 1, 1, 2, 0, 1]
    path = write(tmp_path / "t.lance", table(["ac ab", "banan", "bananas", "the"]), **WORDS)
    assert ids(path, MatchQuery("ab", fuzziness=None)) == [0]
    assert ids(path, MatchQuery("BANANA", fuzziness=None)) == [1, 2]
    assert ids(path, MatchQuery("BANANA", fuzziness=2)) == []


def test_words_like_a_word_are_found_in_several_columns(tmp_path: Path) -> None:
    both = table(["apple", "pear", "aple"]).append_column("u", pa.array(["x", "aple", "y"]))
    path = write(tmp_path / "t.lance", both, **WORDS)
    index(path, "u", **WORDS)
    query = MatchQuery("apple", fuzziness=1, max_expansions=1)
    assert ids(path, query) == [1, 2]
    assert ids(path, MultiMatchQuery("apple", ["t", "u"], fuzziness=1)) == [0, 1, 2]


@pytest.mark.parametrize("name", ["fuzziness", "max_expansions", "prefix_length"])
@pytest.mark.parametrize("value", [-1, 1.5, "auto"])
def test_arguments_are_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value!r}; a whole number"):
        MatchQuery("a", **{name: value})  # type: ignore[arg-type]


def edits(word: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for count, own in enumerate(word, 1):
        row, before = [count], row
        for place, theirs_ in enumerate(other):
            row.append(min(before[place] + (own != theirs_), before[place + 1] + 1, row[-1] + 1))
    return row[-1]


SHORT = st.text("abéწ日😀", max_size=6)


@given(SHORT, SHORT, st.integers(0, 4), st.integers(0, 3))
def test_words_are_alike_by_their_edits(word: str, other: str, distance: int, prefix: int) -> None:
    has_prefix = other.startswith(word[:prefix])
    expected = has_prefix and edits(word, other) <= distance
    assert FuzzyWord(word, distance, prefix).matches(other) == expected


def test_a_walk_finds_what_a_list_has(tmp_path: Path) -> None:
    # Nodes of more than 32 transitions have a table.
    letters = [chr(n) for n in (*range(65, 91), *range(97, 123), *range(0x10D0, 0x10F0))]
    words = sorted({a + b for a in letters for b in "abწ日"} | {f"word{n}" for n in range(300)})
    walked = transducer(tmp_path, words)
    listed = ListedTokens(pa.array(words), pa.array(range(len(words)), pa.uint32()))
    for word in ("ab", "word12", "წბ", "日", "nowhere"):
        for distance, prefix, most in ((1, 0, 1000), (2, 1, 1000), (1, 0, 3), (0, 0, 9), (3, 9, 9)):
            query = FuzzyWord(word, distance, prefix)
            expected = [one for one in words if query.matches(one)][:most]
            assert walked.similar(query, most) == expected
            assert listed.similar(query, most) == expected


def test_tokens_that_a_list_has_many_times_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few bytes of a damaged file may stand for millions of tokens."""
    asked: list[str] = []
    matches = FuzzyWord.matches

    def note(word: FuzzyWord, token: str) -> bool:
        asked.append(token)
        return matches(word, token)

    monkeypatch.setattr(FuzzyWord, "matches", note)
    words = ["horse", "house", None, "a house", "mouse", "ho"] * 20_000
    listed = ListedTokens(pa.array(words), pa.array(range(len(words)), pa.uint32()))
    assert listed.similar(FuzzyWord("house", 1, 0), 50) == ["horse", "house", "mouse"]
    assert len(asked) == 3


def test_a_walk_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map of 40 levels whose nodes all lead to the next one by two letters has 2^40 words."""
    data = bytearray(struct.pack("<QQ", 3, 0))
    data += bytes([0, 0, ord("b"), ord("a"), 0x10, 2])
    for _ in range(40):
        last = len(data) - 1
        start = len(data)
        data += bytes([start - last, start - last, ord("b"), ord("a"), 0x10, 2])
    root = len(data) - 1
    monkeypatch.setattr(fuzzy, "_MAX_WORK", 10_000)
    tokens = TransducerTokens(bytes(data) + struct.pack("<QQI", 1 << 40, root, 0))
    with pytest.raises(ValueError, match="a smaller fuzziness, or a longer prefix_length"):
        tokens.similar(FuzzyWord("c" * 41, 40, 0), 50)


def test_a_damaged_map_is_an_error_or_another_map(tmp_path: Path) -> None:
    tokens = transducer(tmp_path, ["ab", "abc", "bcd", "né", "née", "日本", "word1", "word22"])
    data = tokens._data
    for place in range(16, len(data) - 20):
        for value in (0, 0x41, 0x82, 0xFF):
            damaged = TransducerTokens(data[:place] + bytes([value]) + data[place + 1 :])
            try:
                found = damaged.similar(FuzzyWord("abc", 3, 0), 5)
            except CorruptFile:
                continue
            assert len(found) <= 5
            assert all(edits("abc", word) <= 3 for word in found)


def test_a_table_with_a_damaged_map_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "t.lance", table(["apple", "aple", "pear"]), **WORDS)
    query = MatchQuery("apple", fuzziness=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransducerTokens, "_transitions", _broken)
        assert ids(path, query) == [0, 1]
    assert "is not used, its rows are read one by one: nothing leads on" in caplog.text


def _broken(tokens: TransducerTokens, address: int, wanted: bytes | None = None) -> None:
    raise CorruptFile("nothing leads on")
