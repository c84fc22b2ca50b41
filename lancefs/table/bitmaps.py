"""32-bit Roaring bitmaps: sets of row offsets in deletion files, sets of fragment ids in indices.

pyroaring decodes and validates the containers: values in order, each once, and as many of them as
a bitset container announces. The checks of this module cover what pyroaring leaves open.

Format: https://github.com/RoaringBitmap/RoaringFormatSpec (standard, portable, little-endian).
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lancefs.datafile.buffers import Ints, UInts, reserve
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

if TYPE_CHECKING:
    from pyroaring import BitMap, BitMap64

# Bytes that a value takes while it is expanded: 32 bits, then 64.
_VALUE_BYTES = 12
# Ids are added to a set one by one, unless so many on average follow each other.
_LEAST_RUN = 64


def parse_bitmap(data: bytes | Bytes) -> BitMap:
    """Return a serialized 32-bit Roaring bitmap, whose values are not expanded.

    Args:
        data: All bytes of the bitmap.

    Raises:
        CorruptFile: The bytes are not one bitmap.
    """
    from pyroaring import BitMap  # takes 7 ms to import, which most reads can do without

    if len(data) == 0:  # pyroaring would raise IndexError
        raise CorruptFile("not a Roaring bitmap: it is empty")
    try:
        bitmap = BitMap.deserialize(bytes(data))
    except ValueError as error:
        raise CorruptFile(f"not a Roaring bitmap: {error}") from error
    size = len(bitmap.serialize())
    if size != len(data):  # pyroaring ignores bytes behind the last container
        raise CorruptFile(f"the bitmap takes {size} bytes, {len(data)} were found")
    return bitmap


def bitmap_of(offsets: Ints | range) -> BitMap:
    """Return offsets of rows of a fragment as a set."""
    from pyroaring import BitMap

    if isinstance(offsets, range):
        return BitMap(offsets)
    # Of an array of NumPy it would take eight times as long.
    return BitMap(array("I", offsets.astype(np.uint32).tobytes()))


def set_of_ids(ids: UInts) -> BitMap64:
    """Return row ids, in any order, as a set.

    Args:
        ids: The ids.
    """
    from pyroaring import BitMap64

    edges = np.flatnonzero(ids[1:] - ids[:-1] != 1) + 1
    if (len(edges) + 1) * _LEAST_RUN > len(ids):
        return BitMap64(array("Q", ids.tobytes()))
    found, bounds = BitMap64(), [0, *edges.tolist(), len(ids)]
    for start, end in pairwise(bounds):
        found.add_range(int(ids[start]), int(ids[end - 1]) + 1)
    return found


def read_bitmap(data: bytes | Bytes, limit: int, max_count: int | None = None) -> Ints:
    """Return the values of a serialized 32-bit Roaring bitmap, ascending, each once.

    Args:
        data: All bytes of the bitmap.
        limit: Exclusive upper bound of the values.
        max_count: Upper bound of the number of values; None for `limit`.

    Raises:
        CorruptFile: The bytes are not one bitmap, or its values exceed one of the bounds.
        MemoryLimitExceeded: So many values take too much memory.
    """
    bitmap = parse_bitmap(data)
    # Ten bytes can hold 65536 values: check the bounds before the values are expanded.
    if bitmap and bitmap.max() >= limit:
        raise CorruptFile(f"the bitmap holds {bitmap.max()}, expected values below {limit}")
    max_count = limit if max_count is None else max_count
    if len(bitmap) > max_count:
        raise CorruptFile(f"the bitmap holds {len(bitmap)} values, expected at most {max_count}")
    reserve(_VALUE_BYTES * len(bitmap), len(data))
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)
