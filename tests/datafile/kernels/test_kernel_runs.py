"""Runs of values, expanded."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_inputs import ints

from lancefs.datafile import kernels
from lancefs.errors import CorruptFile


def test_a_run_that_reaches_beyond_its_chunk_is_cut() -> None:
    values = np.array([7, 8, 9], np.uint32)
    found = kernels.expand(values, np.array([2, 9, 1], np.uint8), ints([2, 1]), ints([4, 1]))
    assert found.tolist() == [7, 7, 8, 8, 9]


def test_runs_that_do_not_fill_their_chunk_are_refused() -> None:
    with pytest.raises(CorruptFile, match="runs of chunk 0 give 3 of 4 values"):
        kernels.expand(np.array([7], np.uint8), np.array([3], np.uint8), ints([1]), ints([4]))
