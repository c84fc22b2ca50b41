"""Encodings of data files 0.1.

Each encoding has a function `read_…(column, slots)` that requests the bytes of some slots of a
column and returns an Arrow array; `READERS` lists them. `read_outline` returns lengths or zeros in
place of the values (see `datafile.outlines`), `read_validity` which values are there (see
`datafile.validity`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import nulls, numbers_of, strings_of, to_arrow
from lancefs.datafile.blocks import (
    Block,
    FixedSizeList,
    FixedWidth,
    Ints,
    Mask,
    VariableWidth,
    no_width,
    offsets_of,
    typed,
)
from lancefs.datafile.buffers import Array, check_size, join_bytes
from lancefs.datafile.fields import DictionaryLocation, LegacyEncoding
from lancefs.datafile.kernels import copy_ranges, find_spans
from lancefs.datafile.kernels.slots import MOST
from lancefs.datafile.legacy.page_slots import FieldPages, SlotRanges
from lancefs.datafile.logical_types import bit_width, is_variable_width
from lancefs.datafile.outlines import LENGTHS, zeros
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import GAP, Bytes, Reads, together

# Reads slots of a column, as `read_column` does.
ReadColumn: TypeAlias = Callable[[LegacyEncoding, "LegacyColumn", SlotRanges], Reads[pa.Array]]


@dataclass(slots=True)
class DictionaryValues:
    """Values of a dictionary, kept after the first read.

    Attributes:
        location: Where they are in the file.
        values: The values; None before the first read.
        means_null: Whether the index of each value stands for a null in a nullable field, as that
            of an empty string does; one more, which is False, for the index −1. None where no
            index does so.
    """

    location: DictionaryLocation
    values: pa.Array | None = None
    means_null: Mask | None = None


@dataclass(frozen=True, slots=True)
class LegacyColumn:
    """Field with pages of its own, in one data file."""

    data_type: pa.DataType
    nullable: bool
    pages: FieldPages
    source: FileBytes
    dictionary: DictionaryValues | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the values of some slots lie, as their offsets tell.

    Attributes:
        offsets: Offsets of all values, from 0: int32 if they fit, else int64.
        starts: Start of the first value of each range of slots.
        ends: End of the last value of each range of slots.
    """

    offsets: Array
    starts: Ints
    ends: Ints

    @property
    def lengths(self) -> Array:
        """Length of each value."""
        return self.offsets[1:] - self.offsets[:-1]


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Where decoders take bytes of the file from.

    Attributes:
        data: All bytes of the file, if they are in memory: ranges of them take no requests, so that
            thousands are copied by one call of a kernel. None if they are read range by range.
        count: Counts bytes of these that are looked at, and in how many places; see
            `File.looked_at`.
    """

    data: Bytes | None
    count: Callable[[int, int], None]

    def read(self, starts: Ints, ends: Ints) -> Reads[Bytes]:
        """Read ranges of the file, joined.

        Args:
            starts: Where each range begins.
            ends: Where it ends.

        Raises:
            CorruptFile: A range is not in the file.
        """
        if self.data is None:
            return join_bytes((yield list(zip(starts.tolist(), ends.tolist(), strict=True))))
        self.looked_at(starts, ends)
        if len(starts) == 1:
            start, end = int(starts[0]), int(ends[0])
            if not 0 <= start <= end <= len(self.data):
                raise CorruptFile(f"bytes {start}–{end} of a file of {len(self.data)} bytes")
            return self.data[start:end]
        return copy_ranges(self.data, starts, ends)

    def looked_at(self, starts: Ints, ends: Ints) -> None:
        """Count ranges of bytes that are in memory as read."""
        if len(starts) == 1:
            self.count(int(ends[0]) - int(starts[0]), 1)
            return
        places = 1 + int(np.count_nonzero(np.abs(starts[1:] - ends[:-1]) > GAP))
        self.count(int((ends - starts).sum()), places)


def read_column(
    encoding: LegacyEncoding, column: LegacyColumn, slots: SlotRanges
) -> Reads[pa.Array]:
    """Read slots of a column.

    Args:
        encoding: Encoding of the column, from the schema of the file.
        column: The column.
        slots: The slots, in values.

    Returns:
        An array of the column's type, with one value per slot.

    Raises:
        CorruptFile: The pages are damaged, or hold values of another type.
        UnsupportedFeature: The encoding is not known.
    """
    if encoding not in READERS:
        raise UnsupportedFeature(f"the encoding {encoding.name} of data files 0.1")
    return READERS[encoding](column, slots)


def read_outline(
    encoding: LegacyEncoding, column: LegacyColumn, slots: SlotRanges
) -> Reads[pa.Array]:
    """Read slots of a column as an outline: string lengths from offsets, no other values.

    Args:
        encoding: Encoding of the column, from the schema of the file.
        column: The column, with the type of its outline.
        slots: The slots, in values.

    Raises:
        CorruptFile: The pages are damaged, or hold values of another type.
    """
    if encoding is LegacyEncoding.VAR_BINARY and column.data_type == LENGTHS:
        spans = yield from _read_value_spans(column, slots)
        lengths = spans.lengths.astype(np.int64, copy=False)
        return to_arrow(FixedWidth(64, lengths), column.data_type, _validity(column, spans))
    if encoding is LegacyEncoding.PLAIN and column.data_type != LENGTHS:
        _check_plain(column.pages, slots, column.data_type)
        return to_arrow(zeros(column.data_type, slots.count), column.data_type, None)
    raise CorruptFile(f"values of another type than the field's, encoded as {encoding.name}")


def read_validity(
    encoding: LegacyEncoding, column: LegacyColumn, slots: SlotRanges
) -> Reads[pa.Array]:
    """Read which slots of a column have a value, as offsets tell: only strings may have none.

    Args:
        encoding: Encoding of the column, from the schema of the file.
        column: The column, with the type of its validity.
        slots: The slots, in values.

    Raises:
        CorruptFile: The pages are damaged, or hold values that have no validity.
    """
    valid = None
    if encoding is LegacyEncoding.VAR_BINARY:
        spans = yield from _read_value_spans(column, slots)
        valid = _validity(column, spans)
    elif encoding is LegacyEncoding.PLAIN:
        column.pages.check(slots)
    else:
        raise CorruptFile(f"values of another type than the field's, encoded as {encoding.name}")
    return to_arrow(zeros(column.data_type, slots.count), column.data_type, valid)


def read_plain(column: LegacyColumn, slots: SlotRanges) -> Reads[pa.Array]:
    """Read plain values: one after the other, of a fixed width, booleans of one bit.

    A page may start at any byte. A fixed-size list is stored as its items. No value is null.
    """
    block = yield from _read_plain_block(column.source, column.pages, slots, column.data_type)
    return to_arrow(block, column.data_type, None)


def _read_plain_block(
    source: FileBytes, pages: FieldPages, slots: SlotRanges, data_type: pa.DataType
) -> Reads[Block]:
    if not pa.types.is_fixed_size_list(data_type):
        return (yield from _read_values(source, pages, slots, _bit_width(data_type)))
    size = data_type.list_size
    pages.check(slots)
    items = yield from _read_plain_block(
        source, pages.scaled(size), slots.scaled(size), data_type.value_type
    )
    return FixedSizeList(size, items, None, slots.count)


def _check_plain(pages: FieldPages, slots: SlotRanges, data_type: pa.DataType) -> None:
    """Check that the file contains slots, without reading them; raises as `read_plain` does."""
    while pa.types.is_fixed_size_list(data_type):
        pages.check(slots)
        size = data_type.list_size
        pages, slots, data_type = pages.scaled(size), slots.scaled(size), data_type.value_type
    pages.locate(slots, _bit_width(data_type))


def _bit_width(data_type: pa.DataType) -> int:
    bits = bit_width(data_type)
    if bits is None:
        raise UnsupportedFeature(f"the plain encoding of {data_type}")
    return bits


def _read_values(
    source: FileBytes, pages: FieldPages, slots: SlotRanges, bits: int
) -> Reads[FixedWidth]:
    """Read slots of a width.

    Args:
        source: Bytes of the file.
        pages: The pages.
        slots: The slots.
        bits: Width of a slot.

    Raises:
        CorruptFile: Slots lie outside of their page or of the file.
    """
    starts, ends, shifts = pages.locate(slots, bits)
    data = yield from source.read(starts, ends)
    if bits == 0:
        return FixedWidth(0, no_width(slots.count))
    if bits == 1:
        return FixedWidth(1, _unpack_bits(data, ends - starts, shifts, slots.lengths))
    return FixedWidth(bits, typed(_align(data, bits // 8), bits))


def _align(data: Bytes, width: int) -> Bytes:
    """Return bytes at an address that suits values of a width; copy them where it does not."""
    step = min(width & -width, 16)
    return data if data.ctypes.data % step == 0 else data.copy()


def _unpack_bits(data: Bytes, sizes: Ints, shifts: Ints, counts: Ints) -> Bytes:
    """Unpack ranges of bits into a byte each, 0 or 1.

    Args:
        data: Joined bytes of the ranges.
        sizes: Bytes of each range.
        shifts: First bit of each range, within its bytes.
        counts: Number of bits of each range.
    """
    bits = np.unpackbits(data, bitorder="little")
    first = offsets_of(sizes)[:-1] * 8 + shifts
    if len(counts) == 1:
        return bits[first[0] : first[0] + counts[0]]
    total = int(counts.sum())
    return bits[np.arange(total) + np.repeat(first - offsets_of(counts)[:-1], counts)]


def read_spans(
    source: FileBytes, pages: FieldPages, slots: SlotRanges, bits: int, limit: int = MOST
) -> Reads[Spans]:
    """Read the offsets of lists or byte strings. A page of n values has n + 1 offsets.

    Args:
        source: Bytes of the file.
        pages: Pages of offsets; their lengths count offsets.
        slots: The slots, in values.
        bits: Width of an offset.
        limit: What no offset is larger than.

    Raises:
        CorruptFile: The offsets descend, or lie outside of their page, or exceed the limit.
    """
    starts, ends, _ = pages.locate(slots.extended, bits)
    if source.data is None:
        stored = yield from source.read(starts, ends)
        starts = offsets_of(ends - starts)[:-1]
    else:
        stored = source.data
        source.looked_at(starts, ends)
    return Spans(*find_spans(stored, starts, slots.lengths, bits // 8, limit))


def read_var_binary(column: LegacyColumn, slots: SlotRanges) -> Reads[pa.Array]:
    """Read strings or byte strings.

    The page holds n + 1 offsets (i64), which are positions in the file; the bytes may lie anywhere.
    In a nullable field an empty value is a null.
    """
    spans = yield from _read_value_spans(column, slots)
    check_size(int(spans.offsets[-1]))
    data = yield from column.source.read(spans.starts, spans.ends)
    block = VariableWidth(spans.offsets, data)
    return to_arrow(block, column.data_type, _validity(column, spans))


def _read_value_spans(column: LegacyColumn, slots: SlotRanges) -> Reads[Spans]:
    """Read where the bytes of strings lie in the file."""
    pages = column.pages
    pages.check(slots)
    return (yield from read_spans(column.source, pages.extended, slots, 64, pages.limit))


def _validity(column: LegacyColumn, spans: Spans) -> Mask | None:
    return spans.lengths > 0 if column.nullable else None


def read_dictionary(column: LegacyColumn, slots: SlotRanges) -> Reads[pa.Array]:
    """Read dictionary values. Pages hold plain indices; the schema locates the values.

    The values are plain or var-binary. Writers stored an index for a null, too: mostly 0, which
    reads as the first value. Three kinds of index still mean a null: −1, as pandas makes it; any
    index into an empty dictionary; and, in a nullable field, the index of an empty string.
    """
    if not pa.types.is_dictionary(column.data_type):
        raise CorruptFile(f"a dictionary where {column.data_type} was expected")
    index_column = LegacyColumn(column.data_type.index_type, False, column.pages, column.source)
    indices, values = yield from together(
        [read_plain(index_column, slots), _read_dictionary_values(column)]
    )
    positions = numbers_of(indices).astype(np.int64)
    is_null = positions == -1 if len(values) else np.ones(len(positions), np.bool_)
    is_wrong = ((positions < 0) | (positions >= len(values))) & ~is_null
    if np.any(is_wrong):
        raise CorruptFile(
            f"index {positions[is_wrong][0]} of a dictionary of {len(values)} values; writers "
            "of 0.1 files lost all dictionaries of a column but the first"
        )
    if column.nullable and column.dictionary is not None:
        means_null = column.dictionary.means_null
        if means_null is not None:
            is_null |= means_null[positions]
    if is_null.any():
        indices = pa.array(np.where(is_null, 0, positions), mask=is_null).cast(indices.type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=column.data_type.ordered)


def _read_dictionary_values(column: LegacyColumn) -> Reads[pa.Array]:
    """Return the values of the dictionary; read them the first time."""
    stored = column.dictionary
    if stored is None:
        raise CorruptFile("a dictionary field whose values are not in the file")
    if stored.values is None:
        offset, length = stored.location.offset, stored.location.length
        limit = column.pages.limit
        if not (0 <= offset <= limit and 0 <= length <= limit):
            raise CorruptFile(f"a dictionary of {length} values at byte {offset}, beyond the file")
        page = FieldPages(np.array([offset]), np.array([length]), limit)
        values = LegacyColumn(column.data_type.value_type, False, page, column.source)
        read = read_var_binary if is_variable_width(values.data_type) else read_plain
        all_slots = SlotRanges(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([length]))
        found = yield from read(values, all_slots)
        if len(found) and is_variable_width(found.type):
            bounds, _ = strings_of(found)
            is_empty = np.append(bounds[1:] == bounds[:-1], False)
            stored.means_null = is_empty if is_empty.any() else None
        stored.values = found
    return stored.values


def read_nulls(column: LegacyColumn, slots: SlotRanges) -> Reads[pa.Array]:
    """Read values of the null type, whose pages have a length but no bytes."""
    if not pa.types.is_null(column.data_type):
        raise UnsupportedFeature(f"values of type {column.data_type} without a known encoding")
    column.pages.check(slots)
    yield from ()
    return nulls(slots.count, column.data_type)


READERS: dict[LegacyEncoding, Callable[[LegacyColumn, SlotRanges], Reads[pa.Array]]] = {
    LegacyEncoding.NONE: read_nulls,
    LegacyEncoding.PLAIN: read_plain,
    LegacyEncoding.VAR_BINARY: read_var_binary,
    LegacyEncoding.DICTIONARY: read_dictionary,
    # RLE has a number, but no release wrote it.
}
