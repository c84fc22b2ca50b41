"""Strings that are one of some texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancefs.datafile import arrays
from lancefs.datafile.arrays import encode_texts
from lancefs.datafile.kernels import TextSet, among
from lancefs.storage import Bytes


def strings(*values: bytes) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Bytes]:
    """Return the offsets of strings, and their bytes."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return offsets, np.frombuffer(b"".join(values), np.uint8)


def test_a_key_that_comes_a_million_times_is_no_longer_way_than_one() -> None:
    texts = TextSet(np.arange(1_000_001), np.frombuffer(b"a" * 1_000_000, np.uint8))
    assert among(*strings(b"a", b"b", b"a"), texts).tolist() == [True, False, True]


def test_strings_are_looked_up_many_times_in_the_same_texts() -> None:
    texts = TextSet(*strings(b"Gent", b"", b"Lyon" * 9))
    assert among(*strings(), texts).tolist() == []
    assert among(*strings(b"Graz", b"Gent"), texts).tolist() == [False, True]
    assert among(*strings(b"Lyon" * 9, b"Lyon", b""), texts).tolist() == [True, False, True]


WORDS = ["Gent", None, "", "Lyon" * 9, "Gent", "ä" * 8, None, "Lyon" * 9, "Gen", "Gent\0"] * 3


@pytest.mark.parametrize("most", [3, 100])
@pytest.mark.parametrize("words", [WORDS, ["a", "b", "a"], [None, None], []])
def test_strings_have_the_dictionary_that_arrow_makes(
    monkeypatch: pytest.MonkeyPatch, words: list[str | None], most: int
) -> None:
    monkeypatch.setattr(arrays, "_MAX_DISTINCT", most)
    for strings in (pa.array(words, pa.string()), pa.array([None, "x", *words])[2:]):
        found = encode_texts(strings.cast(pa.string()))
        found.validate(full=True)
        assert found.equals(strings.cast(pa.string()).dictionary_encode())
