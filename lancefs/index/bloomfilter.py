"""BLOOMFILTER indices: a Bloom filter of the values of each zone of some thousand rows.

A filter consists of blocks of 256 bits. A hash of a value chooses a block and a bit in each of its
eight words; a zone that lacks one of these bits lacks the value.

Format pages: Bloom filter index (`docs/src/format/index/scalar/bloom_filter.md`); split block Bloom
filters of Apache Parquet, whose hash is XXH64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.buffers import Ints, Mask, UInts
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest, KeyInterval
from lancefs.index.sort_keys import has_byte_keys, is_stored_number
from lancefs.index.xxhash import xxh64
from lancefs.index.zones import COLUMNS, Zones

FILES = ("bloomfilter.lance",)

_SALTS = np.array(
    [
        *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
        *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
    ],
    np.uint32,
)
_BLOCK = 32  # bytes
_HALF = np.uint64(32)
# Values of a condition that are looked up, at least, and as a share of the zones: of a longer list,
# most zones have one.
_FEW_VALUES = 64
_VALUES_SHARE = 1 / 2
# Filters that are tested for a value each, together.
_TESTS_AT_ONCE = 1024 * 1024
# Bloom filters of up to `_KEPT_BYTES` stay in memory; larger ones are read in parts.
_KEPT_BYTES = 32 * 1024 * 1024
_BYTES_AT_ONCE = 8 * 1024 * 1024
# Memory of the open file, about, and of a zone.
_READER_BYTES = 8 * 1024
_ZONE_BYTES = 32


class BloomFilter(Zones):
    """One segment of a BLOOMFILTER index, open: all zones are in memory, and small filters.

    Args:
        file: The file of the zones and their filters.

    Raises:
        CorruptFile: The file is damaged.
    """

    def __init__(self, file: IndexReader) -> None:
        nulls, *numbers = file.read(["has_null", *COLUMNS])
        super().__init__(file, *numbers)
        if not pa.types.is_boolean(nulls.type) or nulls.null_count:
            raise file.damage("whether values are missing was expected of each zone")
        self._has_null: Mask = mask_of(nulls)
        self._kept: pa.Array | None = None

    @property
    def cost(self) -> int:
        """Memory in bytes, about; that of the filters is allowed for before they are read."""
        size = self._file.file.size
        filters = size if size <= _KEPT_BYTES else 0
        return len(self._starts) * _ZONE_BYTES + _READER_BYTES + filters

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the zones that may hold values that pass a test; None if it has no answer."""
        values = None
        if test.intervals is not None:
            most = max(_FEW_VALUES, int(_VALUES_SHARE * len(self._starts)))
            values = _values_of(test.intervals, test.data_type, most)
        if values is None or not self._is_worth(values, test.data_type):
            return None
        wanted = np.zeros(len(self._starts), np.bool_)
        if values:
            hashes = np.array([xxh64(value) for value in values], np.uint64)
            for first, filters in self._filters():
                wanted[first : first + len(filters)] = self._may_hold(filters, hashes)
        if test.keeps_null:
            wanted |= self._has_null
        zones: Ints = np.flatnonzero(wanted)
        return zones

    def _is_worth(self, values: Sequence[bytes], data_type: pa.DataType) -> bool:
        """Tell whether filters are read quicker than the column; both may be remote."""
        return not values or has_byte_keys(data_type) or self._file.file.store.is_local

    def _filters(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield the filters of some zones, each with the number of the first of these."""
        if self._kept is not None:
            yield 0, self._kept
        elif self._file.file.size <= _KEPT_BYTES:
            (self._kept,) = self._file.read(["bloom_filter_data"])
            yield 0, self._kept
        else:
            zones = len(self._starts)
            step = max(zones * _BYTES_AT_ONCE // self._file.file.size, 1)
            for first in range(0, zones, step):
                rows = [(first, min(first + step, zones))]
                (filters,) = self._file.read(["bloom_filter_data"], rows)
                yield first, filters

    def _may_hold(self, filters: pa.Array, hashes: UInts) -> Mask:
        """Return which filters have all bits of one of some hashes."""
        if not pa.types.is_binary(filters.type) or filters.null_count:
            raise self._file.damage("a filter for each zone was expected")
        ends = _offsets_of(filters)
        sizes = np.diff(ends)
        if (sizes <= 0).any() or (sizes % _BLOCK).any():
            raise self._file.damage("a filter that does not consist of blocks")
        # No filter is cut, so that each begins at a multiple of blocks after the first one.
        words = np.frombuffer(filters.buffers()[2], "<u4", (ends[-1] - ends[0]) // 4, ends[0])
        firsts = (ends[:-1] - ends[0]) // 4
        blocks = (sizes // _BLOCK).astype(np.uint64)
        found = np.zeros(len(filters), np.bool_)
        step = max(_TESTS_AT_ONCE // max(len(filters), 1), 1)
        for start in range(0, len(hashes), step):
            found |= _have_bits(words, firsts, blocks, hashes[start : start + step])
        return found


def _have_bits(words: UInts, firsts: Ints, blocks: UInts, hashes: UInts) -> Mask:
    """Return which filters have all bits of one of some hashes.

    Args:
        words: The words of all filters.
        firsts: The first word of each filter.
        blocks: How many blocks each filter has.
        hashes: The hashes.
    """
    at = ((hashes >> _HALF)[:, np.newaxis] * blocks) >> _HALF
    places = firsts + at.astype(np.int64) * len(_SALTS)
    low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)[:, np.newaxis]
    bits = np.uint32(1) << ((low * _SALTS) >> np.uint32(27))
    # Of most filters the first word tells that they lack a value.
    value, zone = np.nonzero(words[places] & bits[:, :1])
    places = places[value, zone]
    for word in range(1, len(_SALTS)):
        has_bit = np.flatnonzero(words[places + word] & bits[value, word])
        value, zone, places = value[has_bit], zone[has_bit], places[has_bit]
    found = np.zeros(len(firsts), np.bool_)
    found[zone] = True
    return found


def _offsets_of(array: pa.Array) -> Ints:
    """Return where the values of a binary array begin in its data, and where the last one ends."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    own: Ints = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return own


def _values_of(
    intervals: Sequence[KeyInterval], data_type: pa.DataType, most: int
) -> list[bytes] | None:
    """Return values of a column as their hashes take them; None for more than `most` values.

    Args:
        intervals: The sort keys of the values.
        data_type: Type of the column.
        most: Number of values.
    """
    if any(low is None or high is None or low != high for low, high in intervals):
        return None
    keys = list(dict.fromkeys(low for low, _ in intervals))
    if len(keys) > most:
        return None
    if has_byte_keys(data_type):
        return keys
    if pa.types.is_floating(data_type):
        zeros = [-0.0, 0.0] if 0 in keys else []  # which are equal, and of other bits
        letter = "f4" if data_type.bit_width == 32 else "f8"
        with np.errstate(over="ignore"):
            numbers = [*zeros, *(key for key in keys if key)]
            return [np.array(number, f"<{letter}").tobytes() for number in numbers]
    if not is_stored_number(data_type) or pa.types.is_decimal(data_type):
        return None
    is_signed = not pa.types.is_unsigned_integer(data_type)
    size = data_type.bit_width // 8
    return [int(key).to_bytes(size, "little", signed=is_signed) for key in keys]
