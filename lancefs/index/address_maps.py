"""Serialized maps of row addresses: for each fragment, the offsets of some of its rows.

A map is the number of its entries (u32); an entry is the id of a fragment (u32), a length (u32) and
a Roaring bitmap of so many bytes. A length of 0 stands for all rows of the fragment. In tables with
stable row ids, the "fragment" of a row id is its upper half.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from lancefs.datafile.buffers import UInts, reserve
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.table.bitmaps import parse_bitmap
from lancefs.table.row_metadata import OFFSET_BITS

if TYPE_CHECKING:
    from pyroaring import BitMap, BitMap64

# Bytes of an address, of an offset, and of both while they are put together.
_ADDRESS_BYTES = 32
_COUNT = struct.Struct("<I")
_LONG_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<II")


class AddressMap:
    """A map of row addresses, whose bitmaps are parsed once they are asked for, and not expanded.

    Args:
        data: The serialized map.
        url: URL of the file, for errors.

    Raises:
        CorruptFile: The bytes are not a map.
    """

    def __init__(self, data: bytes, url: str) -> None:
        self._url = url
        self._size = len(data)
        with locating(url):
            entries = list(_entries(data))
            self._bitmaps: dict[int, bytes | BitMap] = dict(entries)
            if len(self._bitmaps) < len(entries):  # rows would be counted twice
                raise CorruptFile("a map of row addresses names a fragment twice")

    @property
    def fragments(self) -> Collection[int]:
        """The ids of all fragments."""
        return self._bitmaps.keys()

    def bitmaps(self, wanted: Collection[int] | None = None) -> list[tuple[int, BitMap]]:
        """Return the ids of fragments, and the offsets of rows in each of them.

        Args:
            wanted: Ids of the fragments that are wanted; None for all.

        Raises:
            CorruptFile: A bitmap is damaged.
            UnsupportedFeature: An entry stands for all rows of a fragment.
        """
        numbers = self._bitmaps if wanted is None else [n for n in self._bitmaps if n in wanted]
        with locating(self._url):
            return [(number, self._parsed(number)) for number in numbers]

    def __len__(self) -> int:
        """Return the number of rows; raises as `bitmaps` does."""
        return sum(len(bitmap) for _, bitmap in self.bitmaps())

    def addresses(self) -> UInts:
        """Return the addresses of the rows; raises as `bitmaps` does.

        Raises:
            MemoryLimitExceeded: So many addresses take too much memory.
        """
        bitmaps = self.bitmaps()
        sizes = [len(bitmap) for _, bitmap in bitmaps]
        reserve(_ADDRESS_BYTES * sum(sizes), self._size)
        addresses = np.empty(sum(sizes), np.uint64)
        ends = list(accumulate(sizes))
        for (fragment_id, bitmap), size, end in zip(bitmaps, sizes, ends, strict=True):
            if size:
                offsets = np.frombuffer(bitmap.to_array(), np.uint32)
                base = np.uint64(fragment_id << OFFSET_BITS)
                np.add(offsets, base, out=addresses[end - size : end])
        return addresses

    def as_set(self) -> BitMap64:
        """Return the addresses, or ids, as one set; raises as `bitmaps` does."""
        entries = [
            _COUNT.pack(number) + bitmap.serialize() for number, bitmap in sorted(self.bitmaps())
        ]
        return read_treemap(_LONG_COUNT.pack(len(entries)) + b"".join(entries))

    def _parsed(self, fragment_id: int) -> BitMap:
        stored = self._bitmaps[fragment_id]
        if isinstance(stored, bytes):
            self._bitmaps[fragment_id] = stored = _bitmap(fragment_id, stored)
        return stored


def read_map(data: bytes, url: str) -> BitMap64:
    """Return a serialized map of row addresses as one set of addresses.

    Args:
        data: The serialized map.
        url: URL of the file, for errors.

    Raises:
        CorruptFile: The bytes are not a map.
        UnsupportedFeature: An entry stands for all rows of a fragment.
    """
    return AddressMap(data, url).as_set()


def read_treemap(data: bytes) -> BitMap64:
    """Return a serialized Roaring treemap: the 64-bit form, whose entries have no length.

    Args:
        data: All bytes of the treemap.

    Raises:
        CorruptFile: The bytes are not one treemap.
    """
    from pyroaring import BitMap64

    try:
        bitmap = BitMap64.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFile(f"not a Roaring treemap: {error}") from error
    size = len(bitmap.serialize())
    if size != len(data):
        raise CorruptFile(f"the treemap takes {size} bytes, {len(data)} were found")
    return bitmap


def expanded(rows: BitMap64) -> UInts:
    """Return the addresses in a set, ascending.

    Raises:
        MemoryLimitExceeded: So many addresses take too much memory.
    """
    reserve(_ADDRESS_BYTES * len(rows))
    if not rows:
        return np.empty(0, np.uint64)
    return np.frombuffer(rows.to_array(), np.uint64)


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
