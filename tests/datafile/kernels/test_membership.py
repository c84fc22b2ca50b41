"""Strings that are one of some texts."""

from __future__ import annotations

import numpy as np

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
