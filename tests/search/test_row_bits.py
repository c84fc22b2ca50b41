"""Sets of rows as bits."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancefs.search.row_bits import RowBits

IDS = st.integers(0, 200) | st.integers(65_530, 65_545) | st.integers(0, 2**63)


@given(st.lists(st.lists(IDS, max_size=30), max_size=4), st.lists(IDS, max_size=30))
def test_a_set_has_the_rows_that_were_added(parts: list[list[int]], others: list[int]) -> None:
    rows, known = RowBits(), set[int]()
    for part in parts:
        new = list(dict.fromkeys(one for one in part if one not in known))
        rows.add(np.array(new, np.uint64))
        known |= set(new)
    asked = [*others, *known]
    assert rows.has(np.array(asked, np.uint64)).tolist() == [one in known for one in asked]
    assert rows.row_ids().tolist() == sorted(known)
    assert rows.num_rows == len(known)


def test_a_set_has_rows_that_lie_close_together_and_rows_that_do_not() -> None:
    rows = RowBits()
    close = np.arange(60_000, 140_000, 3, dtype=np.uint64)
    apart = np.arange(50, dtype=np.uint64) << np.uint64(40)
    for part in (close[::2], apart, close[1::2]):
        rows.add(part)
    asked = np.concatenate([close, apart, close + np.uint64(1)])
    has = rows.has(asked)
    assert has[: len(close) + len(apart)].all()
    assert not has[len(close) + len(apart) :].any()
    assert rows.row_ids().tolist() == sorted([*close.tolist(), *apart.tolist()])


def test_a_set_of_rows_that_lie_apart_takes_8_bytes_each() -> None:
    rows = RowBits()
    rows.add(np.arange(100_000, dtype=np.uint64) << np.uint64(32))
    tracemalloc.start()
    assert rows.has(np.array([7 << 32, 7], np.uint64)).tolist() == [True, False]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
