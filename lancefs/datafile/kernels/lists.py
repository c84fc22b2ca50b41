"""Offsets and validity of lists from repetition and definition levels."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints, Mask, empty
from lancefs.datafile.kernels.calls import Damaged, c_function, small, twin_of
from lancefs.errors import CorruptFile


class Meanings(NamedTuple):
    """The meaning of the definition level of an item that begins a list."""

    null: int  # at this level the list is null; 0 if lists are never null
    empty: int  # at this level the list is empty; 0 if lists are never empty
    upper: int  # above this level the list is null because an outer layer is null
    highest: int  # above this level there is no list, because an outer list has no items


class Lists(NamedTuple):
    """One layer of lists, and the levels of the layer around it."""

    offsets: Ints  # where the items of each list begin, then the end; starts with 0 in sound pages
    validity: Mask | None  # None if no list is null
    rep: npt.NDArray[np.uint16]
    definition: npt.NDArray[np.uint16] | None


def tally_levels(levels: npt.NDArray[np.uint16], limit: int) -> tuple[int, int]:
    """Count levels.

    Args:
        levels: One level per item.
        limit: The highest level to count, from -1.

    Returns:
        The highest level, 0 if there are no levels; and the number of levels up to the limit.
    """
    return int(levels.max(initial=0)), int(np.count_nonzero(levels <= limit))


_c_tally_levels = c_function("tally_levels", "levels number number out")


@twin_of(tally_levels)
def _compiled_tally_levels(levels: npt.NDArray[np.uint16], limit: int) -> tuple[int, int]:
    highest = np.empty(1, np.int64)
    count: int = _c_tally_levels(levels, len(levels), limit, highest)
    return int(highest[0]), count


def tally_parts(levels: npt.NDArray[np.uint16], sizes: Ints, limit: int) -> Ints:
    """Count the levels of parts.

    Args:
        levels: One level per item.
        sizes: Number of items of each part; the parts follow each other.
        limit: The highest level to count, from 0.

    Returns:
        The number of levels of each part up to the limit.

    Raises:
        CorruptFile: The parts have more items than there are, or fewer than none.
    """
    if len(sizes) and (sizes.min() < 0 or sizes.sum(dtype=np.float64) > len(levels)):
        raise CorruptFile(f"parts of more than the {len(levels)} levels that there are")
    seen = np.zeros(len(levels) + 1, np.int64)
    np.cumsum(levels <= limit, out=seen[1:])
    ends = np.cumsum(sizes)
    counts: Ints = seen[ends] - seen[ends - sizes]
    return counts


_c_tally_parts = c_function("tally_parts", "levels number ints number number out")


@twin_of(tally_parts)
def _compiled_tally_parts(levels: npt.NDArray[np.uint16], sizes: Ints, limit: int) -> Ints:
    counts = np.empty(len(sizes), np.int64)
    _c_tally_parts(levels, len(levels), sizes, len(sizes), limit, counts)
    return counts


def find_rows(rep: npt.NDArray[np.uint16], top: int, rows: Ints) -> Ints:
    """Find the first item of each of some rows.

    Args:
        rep: The repetition level of each item.
        top: The repetition level of an item that begins a row.
        rows: Row numbers, ascending. The number of all rows stands for the end of the items.

    Raises:
        CorruptFile: The levels have fewer rows.
    """
    starts = np.append(np.flatnonzero(rep == top), len(rep))
    if len(rows) and rows[-1] >= len(starts):
        raise CorruptFile(f"the levels tell of {len(starts) - 1} rows, expected {rows[-1]}")
    return starts[rows].astype(np.int64)


_c_find_rows = c_function("find_rows", "levels number number ints number out")


@twin_of(find_rows)
def _compiled_find_rows(rep: npt.NDArray[np.uint16], top: int, rows: Ints) -> Ints:
    found = np.empty(len(rows), np.int64)
    _c_find_rows(rep, len(rep), top, rows, len(rows), found)
    return found


def split_lists(
    rep: npt.NDArray[np.uint16], definition: npt.NDArray[np.uint16] | None, meanings: Meanings
) -> Lists:
    """Split levels into the lists of the innermost layer.

    Args:
        rep: The repetition level of each item, above 0 if the item begins a list.
        definition: The definition level of each item; None if all are 0.
        meanings: The meaning of the definition levels.

    Returns:
        The lists. In the layer around them each list is one item, with a repetition level that is
        lower by 1.

    Raises:
        CorruptFile: The numbers of repetition and definition levels differ.
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
    # Every item counts, except an item that stands for a list without items.
    items = np.ones(len(rep), np.int64)
    items[starts[~shown | is_null | is_empty]] = 0
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(items)))
    offsets = np.append(before[starts[shown]], before[-1])
    return Lists(offsets, ~is_null[shown] if is_null.any() else None, outer, levels)


_c_split_lists = c_function("split_lists", "levels levels number ints number out out out out")


@twin_of(split_lists)
def _compiled_split_lists(
    rep: npt.NDArray[np.uint16], definition: npt.NDArray[np.uint16] | None, meanings: Meanings
) -> Lists:
    if definition is not None and len(definition) != len(rep):
        raise Damaged
    has_levels, nulls = definition is not None, np.empty(1, np.int64)
    room = int(np.count_nonzero(rep))
    offsets, valid = empty(room + 1, np.int64), empty(room + 1, np.bool_)
    outer = empty((1 + has_levels) * (room + 1), np.uint16).reshape(-1, room + 1)
    count = _c_split_lists(
        rep, definition, len(rep), small(meanings), room, offsets, valid, outer, nulls
    )
    validity = valid[:count] if nulls[0] else None
    levels = outer[1, :room] if has_levels else None
    return Lists(offsets[: count + 1], validity, outer[0, :room], levels)
