"""Drawn vectors, and queries that they are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

_DIMENSIONS = st.integers(0, 70) | st.sampled_from([128, 5000])
_ROWS = st.integers(0, 40)


@st.composite
def vectors_and_queries(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `compare_floats`; some numbers are as large as they can be."""
    source, dimension = _generator(draw), draw(_DIMENSIONS)
    vectors, queries = (
        source.normal(0, draw(st.sampled_from([1, 1e-30, 1e25])), (count, dimension))
        for count in (draw(_ROWS), draw(st.integers(0, 4)))
    )
    if vectors.size:
        wide = draw(st.sampled_from([0.0, -0.0, np.inf, -np.inf, 3e38]))
        vectors.flat[draw(st.integers(0, vectors.size - 1))] = wide
    return vectors.astype(np.float32), queries.astype(np.float32), draw(st.booleans())


@st.composite
def codes_and_queries(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `multiply_codes`."""
    source, dimension = _generator(draw), draw(_DIMENSIONS)
    codes = _bytes(source, draw(_ROWS), dimension)
    return codes, source.normal(0, 10, (draw(st.integers(0, 4)), dimension)).astype(np.float32)


@st.composite
def codes_and_codes(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `compare_codes`; of long ones with sums beyond 32 bits, too."""
    source, dimension = _generator(draw), draw(_DIMENSIONS | st.just(70_000))
    if draw(st.integers(0, 9)) == 0:
        return np.full((2, dimension), 255, np.uint8), np.zeros((1, dimension), np.uint8)
    rows = draw(_ROWS if dimension < 10_000 else st.integers(0, 2))
    return _bytes(source, rows, dimension), _bytes(source, draw(st.integers(0, 4)), dimension)


@st.composite
def codebook_and_vectors(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `compare_parts`; some numbers are as large as they can be."""
    source, length, parts = _generator(draw), draw(st.integers(1, 9)), draw(st.integers(0, 7))
    codebook = source.normal(0, 10, (length, parts, draw(st.sampled_from([16, 256]))))
    vectors = source.normal(0, 10, (draw(st.integers(0, 4)), length * parts))
    if vectors.size:
        wide = draw(st.sampled_from([0.0, np.inf, -np.inf, 3e38]))
        vectors.flat[draw(st.integers(0, vectors.size - 1))] = wide
    return codebook.astype(np.float32), vectors.astype(np.float32), draw(st.booleans())


@st.composite
def kept_and_added(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `keep_nearest`: many distances are equal, and some are none."""
    source, count, k = _generator(draw), draw(st.integers(0, 4)), draw(st.integers(1, 9))
    values = np.array([*draw(st.lists(st.integers(0, 40), min_size=3)), -0.0, np.inf, -np.inf])
    kept, numbers, sizes = np.zeros((count, k)), np.zeros((count, k), np.uint64), []
    for one in range(count):
        sizes.append(draw(st.integers(0, k)))
        found = source.choice(values, sizes[-1])
        of = source.integers(0, 9, sizes[-1], np.uint64)
        order = np.lexsort((of, found))
        kept[one, : sizes[-1]], numbers[one, : sizes[-1]] = found[order], of[order]
    rows = draw(_ROWS)
    added = source.choice([*values, np.nan], (count, rows)).astype(np.float32)
    own = source.integers(0, 9, rows, np.uint64)
    return added, own, kept.astype(np.float32), numbers, np.array(sizes, np.int64)


@st.composite
def bits_and_queries(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `differing_bits`."""
    source, dimension = _generator(draw), draw(_DIMENSIONS)
    vectors = _bytes(source, draw(_ROWS), dimension)
    return vectors, _bytes(source, draw(st.integers(0, 4)), dimension)


@st.composite
def some_halves(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `widen_halves`: any bits."""
    bits = _generator(draw).integers(0, 1 << 16, (draw(_ROWS), draw(_DIMENSIONS)), np.uint16)
    return (bits.view(np.float16),)


def _generator(draw: st.DrawFn) -> np.random.Generator:
    return np.random.default_rng(draw(st.integers(0, 1 << 32)))


def _bytes(source: np.random.Generator, rows: int, dimension: int) -> np.ndarray[Any, Any]:
    return source.integers(0, 256, (rows, dimension), np.uint8)
