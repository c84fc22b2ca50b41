"""Sets of rows as bits."""

from __future__ import annotations

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
