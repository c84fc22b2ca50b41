"""Levels of lists, counted, and split into offsets and validity."""

from __future__ import annotations

import numpy as np
import pytest

from lancefs.datafile import kernels
from lancefs.datafile.kernels.layers import EMPTYABLE, LIST, NULLABLE, LeafLevels
from lancefs.errors import CorruptFile


def test_levels_tell_null_and_empty_lists_from_others() -> None:
    # [a, null], null, [], [c], and a row that is null further out
    rep = np.array([1, 0, 1, 1, 1, 1], np.uint16)
    definition = np.array([0, 1, 2, 3, 0, 4], np.uint16)
    kinds = NULLABLE, LIST | NULLABLE | EMPTYABLE, NULLABLE
    leaf = LeafLevels(6, 3, kinds, has_rep=True, has_def=True)
    items, lists, structs = kernels.unravel(rep, definition, [leaf])[0]
    assert items.validity is not None
    assert lists.validity is not None
    assert structs.validity is not None
    assert items.validity.tolist() == [True, False, True]
    assert lists.offsets is not None
    assert lists.offsets.tolist() == [0, 2, 2, 2, 3, 3]
    assert lists.validity.tolist() == [True, False, True, True, False]
    assert structs.validity.tolist() == [True, True, True, True, False]
    assert (items.length, lists.length, structs.length) == (3, 5, 5)


def test_lists_in_lists_end_where_outer_lists_do() -> None:
    # [[a, b], []], [], [[c]]
    rep = np.array([2, 0, 1, 2, 2], np.uint16)
    definition = np.array([0, 0, 1, 2, 0], np.uint16)
    leaf = LeafLevels(5, 3, (0, LIST | EMPTYABLE, LIST | EMPTYABLE), has_rep=True, has_def=True)
    items, inner, outer = kernels.unravel(rep, definition, [leaf])[0]
    assert inner.offsets is not None
    assert outer.offsets is not None
    assert inner.offsets.tolist() == [0, 2, 2, 3]
    assert outer.offsets.tolist() == [0, 2, 2, 3]
    assert items.validity is inner.validity is outer.validity is None


def test_without_definition_levels_no_list_is_null_or_empty() -> None:
    rep = np.array([1, 0, 0, 1], np.uint16)
    leaf = LeafLevels(4, 4, (NULLABLE, LIST | NULLABLE), has_rep=True, has_def=False)
    items, lists = kernels.unravel(rep, None, [leaf])[0]
    assert lists.offsets is not None
    assert lists.offsets.tolist() == [0, 3, 4]
    assert items.validity is lists.validity is None


def test_leaves_have_levels_of_their_own() -> None:
    rep, definition = np.array([1, 0, 0, 0], np.uint16), np.array([1, 0, 1, 0], np.uint16)
    leaves = [
        LeafLevels(2, 2, (0, LIST), has_rep=True, has_def=False),
        LeafLevels(2, 2, (NULLABLE,), has_rep=False, has_def=True),
    ]
    (_, lists), (items,) = kernels.unravel(rep, definition, leaves)
    assert lists.offsets is not None
    assert items.validity is not None
    assert lists.offsets.tolist() == [0, 2]
    assert items.validity.tolist() == [False, True]


@pytest.mark.parametrize(
    ("rep", "values", "message"),
    [
        ([0, 1], 2, "does not begin with a new row"),
        ([1, 1], 3, "lists of 2 items in all, where there are 3"),
        (None, 2, "without repetition levels"),
    ],
)
def test_levels_that_contradict_layers_are_damage(
    rep: list[int] | None, values: int, message: str
) -> None:
    levels = None if rep is None else np.array(rep, np.uint16)
    leaf = LeafLevels(2, values, (0, LIST), rep is not None, has_def=False)
    with pytest.raises(CorruptFile, match=message):
        kernels.unravel(levels, None, [leaf])


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
