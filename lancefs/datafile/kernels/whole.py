"""A few rows of pages without chunks, as data files 2.0 have them; a part of `points`.

Flat values have a bit for each row that tells whether it is valid. Strings have the end of each,
and indices into a dictionary of strings count from 1 on; 0 is null.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Ints, Mask
from lancefs.datafile.kernels.pages import PageColumn, Stored, TakenRows, numbers_at
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_NEAR = 64 * 1024  # bytes of a buffer of a page without chunks that are one place


def take_whole(data: Bytes, page: Ints, rows: Ints) -> TakenRows:
    """Return rows of a page of values without chunks.

    Args:
        data: Bytes that have the page.
        page: The page; see `PageColumn`.
        rows: The rows, ascending and each once.

    Raises:
        CorruptFile: The page is too short.
    """
    values, within = _buffer(data, page, PageColumn.CHUNKS), rows - page[PageColumn.FIRST_ROW]
    valid, bits = _buffer(data, page, PageColumn.TABLE), int(page[PageColumn.BITS])
    width, count = bits // 8, int(within[-1]) + 1
    _check_room(values, -(-count * bits // 8))
    invalid = np.zeros(len(rows), np.bool_)
    if bits == 1:
        taken, seen = _bits(values, within), _looked_at(within // 8, 1)
    else:
        stored = values[: count * width].reshape(-1, width)
        taken, seen = stored[within].reshape(-1), _looked_at(within * width, width)
    if page[PageColumn.LEVELS] == Stored.NONE:
        return TakenRows(taken, invalid, seen)
    _check_room(valid, -(-count // 8))
    invalid = _bits(valid, within) == 0
    size, places = _looked_at(within // 8, 1)
    return TakenRows(taken, invalid, (seen[0] + size, seen[1] + places))


def take_by_ends(data: Bytes, page: Ints, rows: Ints) -> tuple[Ints, Mask, tuple[int, int]]:
    """Return rows of a page of strings without chunks; see `take_zipped`.

    Raises:
        CorruptFile: The page is too short, or the ends of strings do not ascend.
    """
    within, bits = rows - page[PageColumn.FIRST_ROW], int(page[PageColumn.BITS])
    ends, text = _buffer(data, page, PageColumn.TABLE), _buffer(data, page, PageColumn.CHUNKS)
    lows, highs, invalid = _bounds(ends, bits // 8, within, int(page[PageColumn.ENTRY]), len(text))
    if np.any(lows[1:] < highs[:-1]):
        raise CorruptFile("the offsets of a page do not ascend")
    spans = np.stack((lows, highs), axis=1) + int(page[PageColumn.CHUNKS])
    size, places = _looked_at(within * (bits // 8), bits // 4)
    in_text = _looked_at(lows, 0)[1]
    spans[invalid] = 0
    return spans, invalid, (size + int((highs - lows).sum()), places + in_text)


def take_indexed(data: Bytes, page: Ints, rows: Ints) -> tuple[Ints, Mask, tuple[int, int]]:
    """Return rows of a page of indices into a dictionary of strings; see `take_zipped`.

    Raises:
        CorruptFile: The page is too short, an index is beyond the dictionary, or the ends of
            strings do not ascend.
    """
    within, width = rows - page[PageColumn.FIRST_ROW], int(page[PageColumn.BITS]) // 8
    indices, ends, text = (
        _buffer(data, page, column)
        for column in (PageColumn.TABLE, PageColumn.CHUNKS, PageColumn.ITEMS)
    )
    _check_room(indices, (int(within[-1]) + 1) * width)
    found = numbers_at(indices, within * width, width)
    if np.any((found < 0) | (found > page[PageColumn.ITEM_COUNT])):
        raise CorruptFile(f"an index is beyond the {page[PageColumn.ITEM_COUNT]} items")
    bits, is_item = int(page[PageColumn.WIDTH]), found > 0
    spans, invalid = np.zeros((len(rows), 2), np.int64), ~is_item
    adjustment, items = int(page[PageColumn.ENTRY]), found[is_item] - 1
    lows, highs, invalid[is_item] = _bounds(ends, bits // 8, items, adjustment, len(text))
    spans[is_item] = np.stack((lows, highs), axis=1) + int(page[PageColumn.ITEMS])
    spans[invalid] = 0
    size, places = _looked_at(within * width, width)
    return spans, invalid, (size + len(items) * bits // 4 + int((highs - lows).sum()), places + 2)


def _bounds(
    stored: Bytes, width: int, rows: Ints, adjustment: int, size: int
) -> tuple[Ints, Ints, Mask]:
    """Return where strings begin and end in a text of `size` bytes, and which are null."""
    if len(rows) and int(rows.max()) >= len(stored) // width:
        raise CorruptFile(f"row {rows.max()} of {len(stored) // width} ends of strings")
    highs = numbers_at(stored, rows * width, width)
    lows = np.where(rows > 0, numbers_at(stored, np.maximum(rows - 1, 0) * width, width), 0)
    if np.any((lows < 0) | (highs < 0)):
        raise CorruptFile("the offsets of a page are beyond 2⁶³")
    invalid = highs >= adjustment
    lows = np.where((rows > 0) & (lows >= adjustment), lows - adjustment, lows)
    highs = np.where(invalid, highs - adjustment, highs)
    if np.any((lows > highs) | (highs > size)):
        raise CorruptFile("the offsets of a page do not ascend, or leave its text")
    return lows, highs, invalid


def _buffer(data: Bytes, page: Ints, column: PageColumn) -> Bytes:
    """Return the bytes between the position in a column of a page and the one in the next."""
    start, end = page[column : column + 2].tolist()
    if not 0 <= start <= end <= len(data):
        raise CorruptFile(f"the buffers of a page leave its {len(data)} bytes")
    return data[start:end]


def _check_room(buffer: Bytes, size: int) -> None:
    if size > len(buffer):
        raise CorruptFile(f"{size} bytes of values are wanted, the buffer has {len(buffer)}")


def _bits(stored: Bytes, rows: Ints) -> Bytes:
    """Return single bits, in a byte each."""
    bits: Bytes = stored[rows // 8] >> (rows % 8).astype(np.uint8) & np.uint8(1)
    return bits


def _looked_at(starts: Ints, size: int) -> tuple[int, int]:
    """Return the bytes of values of one size at ascending places, and the number of the places."""
    return len(starts) * size, len(np.unique(starts // _NEAR))
