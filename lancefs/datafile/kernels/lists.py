"""The levels of lists: counted, cut where rows begin, turned into offsets and validity."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints, Mask
from lancefs.errors import CorruptFile


class Meanings(NamedTuple):
    """What the definition level of an item that begins a list says about the list."""

    null: int  # it is null; 0 where there is no such level
    empty: int  # it is empty; 0 where there is no such level
    upper: int  # above this, it is null because of what is around it
    highest: int  # above this, there is no list: one around it has no items


class Lists(NamedTuple):
    """One layer of lists, and the levels of the layer around it."""

    offsets: Ints  # of items, one more than there are lists; the first is 0 in sound pages
    validity: Mask | None  # None where no list is null
    rep: npt.NDArray[np.uint16]
    definition: npt.NDArray[np.uint16] | None


def tally_levels(levels: npt.NDArray[np.uint16], limit: int) -> tuple[int, int]:
    """Count levels.

    Args:
        levels: One an item.
        limit: From -1.

    Returns:
        The highest of them, 0 where there are none, and how many are not above the limit.
    """
    return int(levels.max(initial=0)), int(np.count_nonzero(levels <= limit))


def find_rows(rep: npt.NDArray[np.uint16], top: int, rows: Ints) -> Ints:
    """Find the items that rows begin with.

    Args:
        rep: The repetition level of each item.
        top: That of an item which begins a row.
        rows: Numbers of rows, ascending; that of all rows stands for the end.

    Raises:
        CorruptFile: There are fewer rows.
    """
    starts = np.append(np.flatnonzero(rep == top), len(rep))
    if len(rows) and rows[-1] >= len(starts):
        raise CorruptFile(f"the levels tell of {len(starts) - 1} rows, expected {rows[-1]}")
    return starts[rows].astype(np.int64)


def split_lists(
    rep: npt.NDArray[np.uint16], definition: npt.NDArray[np.uint16] | None, meanings: Meanings
) -> Lists:
    """Find the lists of the innermost layer that is left.

    Args:
        rep: The repetition level of each item, above 0 where a list begins.
        definition: As many definition levels; None where all are 0.
        meanings: Of definition levels.

    Returns:
        The lists; around them, each list is an item that has one level less.

    Raises:
        CorruptFile: There are more levels of one kind than of the other.
    """
    if definition is not None and len(definition) != len(rep):
        raise CorruptFile(f"{len(rep)} repetition levels, {len(definition)} definition levels")
    starts = np.flatnonzero(rep)
    outer = rep[starts] - np.uint16(1)
    if definition is None:
        return Lists(np.append(starts, len(rep)).astype(np.int64), None, outer, None)
    null, empty, upper, highest = meanings
    levels = definition[starts]
    shown = levels <= highest
    is_null = shown & (((levels == null) & (null > 0)) | (levels > upper))
    is_empty = shown & (levels == empty) & (empty > 0)
    # Every item counts, except those that stand for a list without items.
    items = np.ones(len(rep), np.int64)
    items[starts[~shown | is_null | is_empty]] = 0
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(items)))
    offsets = np.append(before[starts[shown]], before[-1])
    return Lists(offsets, ~is_null[shown] if is_null.any() else None, outer, levels)
