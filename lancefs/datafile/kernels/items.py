"""The items of full-zip rows: each has a control word, and most a value after it."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# Below this many rows, it is faster to find items one by one than all together.
_FEW_ROWS = 64


class ItemForm(NamedTuple):
    """What items of a page look like."""

    word: int  # bytes of a control word: 1, 2 or 4
    bits: int  # the lowest of it are the definition level
    shown: int  # the highest level of an item that has a value
    width: int  # bytes of a value; or of the length before it, 1, 2, 4 or 8
    is_fixed: bool  # whether all values have as many


def find_items(data: Bytes, starts: Ints, ends: Ints, form: ItemForm) -> Ints:
    """Find where the items of rows begin; where one does, only the one before it tells.

    Item k of all rows is found at once, for each k, until few rows go on.

    Args:
        data: Where the rows are.
        starts: Of each row, ascending and disjoint.
        ends: Of each row.
        form: Of the items.

    Raises:
        CorruptFile: A row leaves `data` or overlaps another, or an item leaves its row.
    """
    bounds = np.column_stack((starts, ends)).reshape(-1)
    if np.any(np.diff(bounds, prepend=0, append=len(data)) < 0):
        raise CorruptFile(f"rows overlap or leave a buffer of {len(data)} bytes")
    found = [np.empty(0, np.int64)]
    active = np.flatnonzero(starts < ends)
    position, end = starts[active], ends[active]
    while len(position) > _FEW_ROWS:
        found.append(position)
        position = _after(data, position, end, form)
        going = position < end
        position, end = position[going], end[going]
    for first, last in zip(position.tolist(), end.tolist(), strict=True):
        found.append(_of_row(data[first:last].tobytes(), form) + first)
    return np.sort(np.concatenate(found))


def _after(data: Bytes, position: Ints, end: Ints, form: ItemForm) -> Ints:
    """Return where items end that begin at given places, none of them beyond its row."""
    value = position + form.word
    _check(value, end)
    words = gather(data, position, value).view(f"<u{form.word}").astype(np.int64)
    shown = words & ((1 << form.bits) - 1) <= form.shown
    after = value + np.where(shown, form.width, 0)
    _check(after, end)
    if not form.is_fixed:
        prefixes = gather(data, value[shown], after[shown]).view(f"<u{form.width}")
        left = (end - after)[shown]
        if np.any(prefixes > left.astype(np.uint64)):
            _refuse()
        after[shown] += prefixes.astype(np.int64)
    return after


def _of_row(row: bytes, form: ItemForm) -> Ints:
    """Return where the items of one row begin: there may be a million of them."""
    mask, begins, at = (1 << form.bits) - 1, array("q"), 0
    while at < len(row):
        begins.append(at)
        level = int.from_bytes(row[at : at + form.word], "little") & mask
        at += form.word
        if at <= len(row) and level <= form.shown:
            length = 0 if form.is_fixed else int.from_bytes(row[at : at + form.width], "little")
            at += form.width + length
    if at != len(row):
        _refuse()
    return np.array(begins, np.int64)  # a list of integers would take four times as much


def _check(places: Ints, end: Ints) -> None:
    if np.any(places > end):
        _refuse()


def _refuse() -> None:
    raise CorruptFile("an item of a full-zip page reaches beyond its row")
