"""Decimals of 128 bits in 64, against Python's own numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile.kernels import to_decimal64
from lancefs.errors import CorruptFile

SMALL = st.integers(-(1 << 63), (1 << 63) - 1)
ANY = st.integers(-(1 << 127), (1 << 127) - 1) | SMALL
EDGES = st.sampled_from([1 << 63, (1 << 63) - 1, -(1 << 63), -(1 << 63) - 1, -1, 0, 1 << 64])


@given(st.lists(st.lists(SMALL) | st.lists(ANY | EDGES, max_size=3), max_size=4))
def test_numbers_that_take_64_bits_are_told_from_others(segments: list[list[int]]) -> None:
    parts = [
        b"".join(number.to_bytes(16, "little", signed=True) for number in segment)
        for segment in segments
    ]
    data = np.frombuffer(b"\x07" + b"gap".join(parts), np.uint8)
    starts = 1 + np.cumsum([0, *(len(part) + 3 for part in parts)], dtype=np.int64)[: len(parts)]
    ends = starts + np.array([len(part) for part in parts], np.int64)
    low, fits = to_decimal64(data, starts, ends)
    numbers = [number for segment in segments for number in segment]
    assert fits == all(-(1 << 63) <= number < 1 << 63 for number in numbers)
    assert len(low) == len(numbers)
    if fits:
        assert low.tolist() == numbers


@pytest.mark.parametrize(
    ("starts", "ends"),
    [([0], [15]), ([0], [80]), ([-16], [16]), ([16], [0]), ([0, 0], [32, 16]), ([0, 33], [16, 48])],
)
def test_segments_that_have_no_whole_numbers_are_refused(
    starts: list[int], ends: list[int]
) -> None:
    with pytest.raises(CorruptFile):
        to_decimal64(np.zeros(64, np.uint8), np.array(starts), np.array(ends))
