"""Sets of rows are joined as sets of their addresses are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancefs.index.row_sets import RowSet, intersection, join, of_addresses, union
from lancefs.table.row_metadata import OFFSET_BITS

# By fragment id, offsets of rows; fragments without rows are covered, too.
FRAGMENTS = st.dictionaries(st.integers(0, 4), st.sets(st.integers(0, 12)), max_size=4)


def rows_of(fragments: dict[int, set[int]]) -> set[int]:
    return {(number << OFFSET_BITS) + row for number, rows in fragments.items() for row in rows}


def as_set(fragments: dict[int, set[int]]) -> RowSet:
    addresses = np.array(sorted(rows_of(fragments)), np.uint64)
    return of_addresses(addresses, np.array(sorted(fragments), np.int64))


def members(rows: RowSet) -> set[int]:
    """The rows of a set, whose ranges are ascending and disjoint."""
    bounds = np.column_stack((rows.starts, rows.ends)).reshape(-1).tolist()
    assert bounds == sorted(bounds)
    assert all(rows.starts < rows.ends)
    found = np.concatenate([np.empty(0, np.uint64), *map(np.arange, rows.starts, rows.ends)])
    assert rows.num_rows == len(found)
    return set(found.tolist())


@given(FRAGMENTS, FRAGMENTS)
def test_rows_of_both_sets(left: dict[int, set[int]], right: dict[int, set[int]]) -> None:
    both = left.keys() & right.keys()
    expected = {number: (left | right)[number] for number in left.keys() | right.keys()}
    expected |= {number: left[number] & right[number] for number in both}
    found = intersection(as_set(left), as_set(right))
    assert found.covered.tolist() == sorted(expected)
    assert members(found) == rows_of(expected)


@given(st.lists(FRAGMENTS, min_size=1, max_size=3))
def test_rows_of_any_set(parts: list[dict[int, set[int]]]) -> None:
    covered = set.intersection(*(set(part) for part in parts))
    expected = {number: set().union(*(part[number] for part in parts)) for number in covered}
    found = union([as_set(part) for part in parts])
    assert found.covered.tolist() == sorted(covered)
    assert members(found) == rows_of(expected)
    joined = join([as_set(part) for part in parts])
    assert members(joined) == set().union(*map(rows_of, parts))
