"""Ranges of rows, as pairs and as arrays."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile.buffers import in_place
from lancefs.datafile.page_ranges import by_page
from lancefs.datafile.row_ranges import (
    RowRanges,
    as_ranges,
    bounds_of,
    count_rows,
    joined,
    places_within,
    rows_of,
    scaled,
)
from lancefs.errors import CorruptFile


def test_ranges_read_like_the_pairs_that_they_are() -> None:
    ranges = RowRanges(np.array([[0, 3], [5, 6]]))
    assert list(ranges) == [(0, 3), (5, 6)]
    assert ranges == [(0, 3), (5, 6)]
    assert ranges[1] == (5, 6)
    assert ranges[:1] == [(0, 3)]
    assert len(ranges) == 2
    assert repr(ranges) == "RowRanges([(0, 3), (5, 6)])"


@given(st.sets(st.integers(0, 60)))
def test_rows_become_ranges_and_rows_again(rows: set[int]) -> None:
    wanted = np.array(sorted(rows), np.int64)
    ranges = as_ranges(wanted)
    assert rows_of(ranges).tolist() == wanted.tolist()
    assert count_rows(ranges) == len(rows)
    bounds = list(ranges)
    assert all(end < start for (_, end), (start, _) in pairwise(bounds))


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 20))
def test_rows_are_found_in_ranges_that_are_joined(rows: set[int], gap: int) -> None:
    wanted = np.array(sorted(rows), np.int64)
    whole = joined(as_ranges(wanted), gap)
    assert rows_of(whole)[places_within(wanted, whole)].tolist() == wanted.tolist()
    assert all(start - end > gap for (_, end), (start, _) in pairwise(whole))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4))
def test_pairs_and_arrays_mean_the_same(pairs: list[tuple[int, int]]) -> None:
    ascending = [(10 * i + min(pair), 10 * i + max(pair)) for i, pair in enumerate(pairs)]
    ranges = RowRanges(bounds_of(ascending))
    assert count_rows(ranges) == count_rows(ascending)
    assert scaled(ranges, 3) == scaled(ascending, 3)
    assert rows_of(ranges).tolist() == rows_of(ascending).tolist()


@pytest.mark.parametrize("factor", [2**60, 2**63, 2**70])
def test_more_parts_than_an_int64_counts_are_refused(factor: int) -> None:
    for ranges in ([(0, 1), (4, 5)], RowRanges(np.array([[0, 1], [4, 5]]))):
        with pytest.raises(CorruptFile, match=f"5 rows of {factor} parts"):
            scaled(ranges, factor)


def test_no_rows_have_no_parts() -> None:
    assert scaled([], 3) == scaled(RowRanges(np.empty((0, 2), np.int64)), 3) == []


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6),
)
def test_ranges_cut_at_the_borders_of_pages_are_the_same_rows(
    pages: list[int], steps: list[tuple[int, int]]
) -> None:
    first_rows = [0, *accumulate(pages)]
    bounds = np.cumsum(np.array(steps).reshape(-1)).reshape(-1, 2)
    ranges = RowRanges(bounds[bounds[:, 1] <= first_rows[-1]])
    cut = by_page(first_rows, ranges)
    rows = [first_rows[page] + row for page, local in cut for row in rows_of(local).tolist()]
    assert rows == rows_of(ranges).tolist()
    assert [page for page, _ in cut] == sorted({page for page, _ in cut})
    assert all(0 <= start < end <= pages[page] for page, local in cut for start, end in local)


def test_parts_of_one_array_are_joined_where_they_are() -> None:
    data = np.arange(20, dtype=np.uint8)
    whole = in_place([data[3:5], data[9:12]])
    assert whole is not None
    assert whole.tolist() == list(range(3, 12))
    assert np.shares_memory(whole, data)


@pytest.mark.parametrize("second", [np.arange(3, dtype=np.uint8), np.zeros(9, np.uint8)[1:4]])
def test_parts_of_different_arrays_are_not(second: np.ndarray) -> None:
    assert in_place([np.arange(9, dtype=np.uint8)[2:4], second]) is None
