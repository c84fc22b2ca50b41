"""Levels of lists, split into offsets and validity."""

from __future__ import annotations

import numpy as np
import pytest

from lancefs.datafile import kernels
from lancefs.datafile.kernels import lists
from lancefs.errors import CorruptFile


def test_levels_tell_null_and_empty_lists_from_others() -> None:
    # [a, null], null, [], [c], and a row that is null further out
    rep = np.array([1, 0, 1, 1, 1, 2], np.uint16)
    definition = np.array([0, 1, 2, 3, 0, 5], np.uint16)
    meanings = lists.Meanings(null=2, empty=3, upper=3, highest=4)
    found = kernels.split_lists(rep, definition, meanings)
    assert found.offsets.tolist() == [0, 2, 2, 2, 3]
    assert found.validity is not None
    assert found.validity.tolist() == [True, False, True, True]
    assert found.rep.tolist() == [0, 0, 0, 0, 1]
    assert found.definition is not None
    assert found.definition.tolist() == [0, 2, 3, 0, 5]


def test_without_definition_levels_no_list_is_null_or_empty() -> None:
    rep = np.array([1, 0, 0, 1], np.uint16)
    found = kernels.split_lists(rep, None, lists.Meanings(0, 0, 0, 0))
    assert found.offsets.tolist() == [0, 3, 4]
    assert found.validity is None


def test_levels_are_counted_and_their_highest_is_told() -> None:
    levels = np.array([0, 2, 1, 5, 1], np.uint16)
    assert kernels.tally_levels(levels, 1) == (5, 3)
    assert kernels.tally_levels(levels, -1) == (5, 0)
    assert kernels.tally_levels(levels[:0], 1) == (0, 0)


def test_levels_are_counted_part_by_part() -> None:
    levels = np.array([0, 2, 1, 5, 1], np.uint16)
    assert kernels.tally_parts(levels, np.array([2, 0, 3]), 1).tolist() == [1, 0, 2]
    for sizes in ([2, 4], [-1, 3]):
        with pytest.raises(CorruptFile, match="more than the 5 levels"):
            kernels.tally_parts(levels, np.array(sizes), 1)


def test_rows_are_found_by_their_numbers_and_their_end() -> None:
    rep = np.array([2, 0, 1, 2, 2, 1], np.uint16)
    assert kernels.find_rows(rep, 2, np.array([0, 1, 1, 2, 3])).tolist() == [0, 3, 3, 4, 6]
    with pytest.raises(CorruptFile, match="tell of 3 rows, expected 4"):
        kernels.find_rows(rep, 2, np.array([4]))
