"""Drawn documents of several tokens, and the places of their words."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

_MOST = (1 << 32) - 1


@st.composite
def ascending_numbers(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `find_common`: dense and sparse numbers, near and far apart."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    size = draw(st.sampled_from([1, 20, 3_000]))
    shares = st.sampled_from([0, 0.002, 0.02, 0.1, 0.5, 1])
    few, many = (np.flatnonzero(source.random(size) < draw(shares)) for _ in range(2))
    step = draw(st.sampled_from([1, _MOST // size]))  # also up to the largest number
    return (few * step).astype(np.uint32), (many * step + draw(st.integers(0, 1))).astype(np.uint32)


@st.composite
def words_of_documents(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `follow_words`; in some cases places that are not there."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    size = draw(st.integers(0, 60))
    starts, places = _lists(source, size)
    documents = np.flatnonzero(source.random(size) < draw(st.floats(0, 1)))
    before = draw(st.sampled_from([None, _lists(source, len(documents))]))
    damaged = draw(st.sampled_from([None, None, None, starts, documents]))
    if damaged is not None and len(damaged):
        wrong = draw(st.sampled_from([-(1 << 63), -1, 400, (1 << 63) - 1]))
        damaged[draw(st.integers(0, len(damaged) - 1))] = wrong
        documents = np.unique(documents)
    slop = draw(st.sampled_from([0, 1, 5, 1 << 40]))
    return (starts, places), documents, before, draw(st.integers(0, 4)), slop


def _lists(source: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Return where some lists of places begin and the last one ends, and the places."""
    counts = source.integers(0, 6, count)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    own = [np.sort(source.choice(12, each, replace=False)) for each in counts]
    return starts, np.concatenate([np.empty(0, np.int64), *own]).astype(np.int64)
