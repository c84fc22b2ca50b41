"""What inputs of kernels are drawn with: bulk numbers, odd addresses, and damage."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

Arguments = tuple[Any, ...]


def ints(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


@st.composite
def generators(draw: st.DrawFn) -> np.random.Generator:
    """Draw a source of bulk numbers, whose seed is all that hypothesis has to shrink."""
    return np.random.default_rng(draw(st.integers(0, 1 << 32)))


def odd_place(draw: st.DrawFn, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Move bytes to an address that is not a multiple of anything."""
    shift = draw(st.integers(0, 7))
    return np.concatenate((np.zeros(shift, np.uint8), data.view(np.uint8)))[shift:]


def damage(draw: st.DrawFn, *arrays: np.ndarray[Any, Any]) -> None:
    """In some cases change one number of one array."""
    if draw(st.integers(0, 3)):
        return
    array = draw(st.sampled_from(arrays))
    if len(array):
        info = np.iinfo(array.dtype)
        near = st.integers(max(-3, info.min), min(1100, info.max))
        extreme = st.sampled_from([info.min, info.max, info.max // 2])
        array[draw(st.integers(0, len(array) - 1))] = draw(near | extreme)


def some_of(draw: st.DrawFn, counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Draw positions among the values of chunks, ascending and each once, or damaged ones."""
    total = int(np.clip(counts, 0, 1024).sum())
    wanted = np.flatnonzero(
        draw(generators()).random(total) < draw(st.sampled_from([0.01, 0.3, 1]))
    )
    damage(draw, wanted)
    return wanted
