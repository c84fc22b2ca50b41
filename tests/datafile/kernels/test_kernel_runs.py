"""Runs of values, expanded."""

from __future__ import annotations

import numpy as np
import pytest
from drawing import ints

from lancefs.datafile import kernels
from lancefs.datafile.kernels import runs
from lancefs.errors import CorruptFile


def test_a_run_that_reaches_beyond_its_chunk_is_cut() -> None:
    values = np.array([7, 8, 9], np.uint32)
    found = kernels.expand(values, np.array([2, 9, 1], np.uint8), ints([2, 1]), ints([4, 1]))
    assert found.tolist() == [7, 7, 8, 8, 9]


def test_runs_that_do_not_fill_their_chunk_are_refused() -> None:
    with pytest.raises(CorruptFile, match="runs of chunk 0 give 3 of 4 values"):
        kernels.expand(np.array([7], np.uint8), np.array([3], np.uint8), ints([1]), ints([4]))


@pytest.mark.parametrize("counts", [[2**62] * 4, [2**61] * 4])
def test_runs_whose_lengths_add_up_to_more_than_an_int64_are_refused(counts: list[int]) -> None:
    """NumPy would write beyond its memory, which it takes for a sum that wraps."""
    values, lengths = np.arange(4, dtype=np.uint8), np.array(counts, np.uint64)
    for expand in (runs.expand, kernels.expand):
        with pytest.raises(CorruptFile):
            expand(values, lengths, ints([1] * 4), ints(counts))
