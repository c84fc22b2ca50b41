"""The items of full-zip rows.

An item is a control word, whose low bits are the definition level, and then a value unless the
level says that there is none. A value of variable width has its length before it.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels.calls import Call, small, twin_of
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# Up to this number of rows, a loop over them is faster than NumPy calls for all of them.
_FEW_ROWS = 64


class ItemForm(NamedTuple):
    """The layout of the items of a page."""

    word: int  # bytes of a control word: 1, 2 or 4
    bits: int  # low bits of a control word that are the definition level
    shown: int  # the highest definition level of an item that has a value
    width: int  # bytes of a value; if not fixed, bytes of the length before a value: 1, 2, 4 or 8
    is_fixed: bool  # whether all values have the same width


def find_items(data: Bytes, starts: Ints, ends: Ints, form: ItemForm) -> Ints:
    """Find where the items of rows begin. An item must be read to know where the next one begins.

    Item k of all rows is found at once, for each k, until few rows have more items.

    Args:
        data: The buffer that holds the rows.
        starts: Offset in `data` of the start of each row; rows are ascending and disjoint.
        ends: Offset in `data` of the end of each row.
        form: The layout of an item.

    Returns:
        The offset in `data` of each item, ascending.

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
        position = _end_of_items(data, position, end, form)
        going = position < end
        position, end = position[going], end[going]
    for first, last in zip(position.tolist(), end.tolist(), strict=True):
        found.append(_find_items_of_row(data[first:last].tobytes(), form) + first)
    return np.sort(np.concatenate(found))


@twin_of(find_items, "bytes number ints ints number ints out number")
def _compiled_find_items(call: Call, data: Bytes, starts: Ints, ends: Ints, form: ItemForm) -> Ints:
    rows = data, len(data), starts, ends, len(starts), small(form)
    count = call(*rows, None, 0)
    found = empty(count, np.int64)
    if call(*rows, found, count) != count:  # the file has changed since
        return find_items(data, starts, ends, form)
    return found


def _end_of_items(data: Bytes, position: Ints, end: Ints, form: ItemForm) -> Ints:
    """Return where the items end that begin at `position`; `end` is where their rows end."""
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


def _find_items_of_row(row: bytes, form: ItemForm) -> Ints:
    """Return where the items of one row begin."""
    # A row may have a million items; a list of integers would take four times the memory.
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
    return np.array(begins, np.int64)


def _check(places: Ints, end: Ints) -> None:
    if np.any(places > end):
        _refuse()


def _refuse() -> None:
    raise CorruptFile("an item of a full-zip page reaches beyond its row")
