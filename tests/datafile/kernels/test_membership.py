"""Strings that are one of some texts."""

from __future__ import annotations

import numpy as np

from lancefs.datafile import kernels


def test_a_key_that_comes_a_million_times_is_no_longer_way_than_one() -> None:
    keys, texts = b"a" * 1_000_000, np.frombuffer(b"aba", np.uint8)
    offsets, ends = np.arange(4, dtype=np.int32), np.arange(1_000_001)
    found = kernels.among(offsets, texts, ends, np.frombuffer(keys, np.uint8))
    assert found.tolist() == [True, False, True]
