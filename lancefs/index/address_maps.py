"""Serialized maps of row addresses: for each fragment, the offsets of some of its rows.

A map is the number of its entries (u32); an entry is the id of a fragment (u32), a length (u32) and
a Roaring bitmap of so many bytes. A length of 0 stands for all rows of the fragment. In tables with
stable row ids, the "fragment" of a row id is its upper half.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lancefs.datafile.buffers import reserve
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.index.row_sets import Addresses
from lancefs.table.bitmaps import parse_bitmap
from lancefs.table.row_metadata import OFFSET_BITS

if TYPE_CHECKING:
    from pyroaring import BitMap

# Bytes of an address, of an offset, and of both while they are put together.
_ADDRESS_BYTES = 32
_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")


class AddressMap:
    """A map of row addresses, whose bitmaps are parsed and not expanded.

    Args:
        data: The serialized map.

    Attributes:
        bitmaps: The id of each fragment, and the offsets of rows in it.

    Raises:
        CorruptFile: The bytes are not a map.
        UnsupportedFeature: An entry stands for all rows of a fragment.
    """

    def __init__(self, data: bytes) -> None:
        self.bitmaps = [(number, _bitmap(number, part)) for number, part in _entries(data)]
        self._size = len(data)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(len(bitmap) for _, bitmap in self.bitmaps)

    def addresses(self) -> Addresses:
        """Return the addresses of the rows.

        Raises:
            MemoryLimitExceeded: So many addresses take too much memory.
        """
        reserve(_ADDRESS_BYTES * self.num_rows, self._size)
        parts = [np.empty(0, np.uint64)]
        for fragment_id, bitmap in self.bitmaps:
            offsets = np.frombuffer(bitmap.to_array(), np.uint32)
            parts.append(offsets.astype(np.uint64) + np.uint64(fragment_id << OFFSET_BITS))
        return np.concatenate(parts)


def _bitmap(fragment_id: int, data: bytes) -> BitMap:
    if not data:
        raise UnsupportedFeature(f"an entry for all rows of fragment {fragment_id}")
    return parse_bitmap(data)


def _entries(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fragment and the bitmap of each entry."""
    if len(data) < _COUNT.size:
        raise CorruptFile(f"a map of row addresses of {len(data)} bytes")
    (count,) = _COUNT.unpack_from(data)
    position = _COUNT.size
    for _ in range(count):
        start = position + _ENTRY.size
        if start > len(data):
            raise CorruptFile(f"a map of row addresses ends within its {count} entries")
        fragment_id, length = _ENTRY.unpack_from(data, position)
        position = start + length
        if position > len(data):
            raise CorruptFile(f"a bitmap of {length} bytes at byte {start} of {len(data)}")
        yield fragment_id, data[start:position]
    if position != len(data):
        raise CorruptFile(f"{len(data) - position} bytes follow a map of row addresses")
