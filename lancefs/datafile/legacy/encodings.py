"""Encodings of data files 0.1.

Each encoding has a function `read_…(column, slots)` that requests the bytes of some slots of a
column and returns an Arrow array; `READERS` lists them. `read_outline` returns lengths or zeros in
place of the values (see `datafile.outlines`), `read_validity` which values are there (see
`datafile.validity`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import nulls, to_arrow
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
from lancefs.datafile.buffers import check_size, join_bytes
from lancefs.datafile.fields import DictionaryLocation, LegacyEncoding
from lancefs.datafile.legacy.page_slots import FieldPages, SlotRanges
from lancefs.datafile.logical_types import is_variable_width
from lancefs.datafile.outlines import LENGTHS, zeros
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import Bytes, Reads, together

# Slots of a range, on average, from which on a call of NumPy for each range is quicker than one for
# all: 1.5 M rows of batches of 8,192 take 1 ms in place of 10.
_LONG_RANGE = 256
# Reads slots of a column, as `read_column` does.
ReadColumn: TypeAlias = Callable[[LegacyEncoding, "LegacyColumn", SlotRanges], Reads[pa.Array]]


@dataclass(slots=True)
class DictionaryValues:
    """Values of a dictionary, kept after the first read."""

    location: DictionaryLocation
    values: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class LegacyColumn:
    """Field with pages of its own, in one data file."""

    data_type: pa.DataType
    nullable: bool
    pages: FieldPages
    dictionary: DictionaryValues | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the values of some slots lie, as their offsets tell.

    Attributes:
        lengths: Length of each value.
        starts: Start of the first value of each range of slots.
        ends: End of the last value of each range of slots.
    """

    lengths: Ints
    starts: Ints
    ends: Ints


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
        return to_arrow(FixedWidth(64, spans.lengths), column.data_type, _validity(column, spans))
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
    block = yield from _read_plain_block(column.pages, slots, column.data_type)
    return to_arrow(block, column.data_type, None)


def _read_plain_block(pages: FieldPages, slots: SlotRanges, data_type: pa.DataType) -> Reads[Block]:
    if not pa.types.is_fixed_size_list(data_type):
        return (yield from _read_values(pages, slots, _bit_width(data_type)))
    size = data_type.list_size
    pages.check(slots)
    items = yield from _read_plain_block(
        pages.scaled(size), slots.scaled(size), data_type.value_type
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
    try:
        return int(data_type.bit_width)
    except ValueError:
        raise UnsupportedFeature(f"the plain encoding of {data_type}") from None


def _read_values(pages: FieldPages, slots: SlotRanges, bits: int) -> Reads[FixedWidth]:
    """Read slots of a width.

    Args:
        pages: The pages.
        slots: The slots.
        bits: Width of a slot.

    Raises:
        CorruptFile: Slots lie outside of their page or of the file.
    """
    ranges, shifts = pages.locate(slots, bits)
    buffers = yield ranges
    data = join_bytes(buffers)
    if bits == 0:
        return FixedWidth(0, no_width(slots.count))
    if bits == 1:
        sizes = np.array([len(buffer) for buffer in buffers], dtype=np.int64)
        return FixedWidth(1, _unpack_bits(data, sizes, shifts, slots.lengths))
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


def read_spans(pages: FieldPages, slots: SlotRanges, bits: int) -> Reads[Spans]:
    """Read the offsets of lists or byte strings. A page of n values has n + 1 offsets.

    Args:
        pages: Pages of offsets; their lengths count offsets.
        slots: The slots, in values.
        bits: Width of an offset.

    Raises:
        CorruptFile: The offsets descend, or lie outside of their page.
    """
    offset_slots = slots.extended()
    block = yield from _read_values(pages, offset_slots, bits)
    values = block.values
    offsets = values.view(np.int64) if values.itemsize == 8 else values.astype(np.int64)
    firsts = offsets_of(offset_slots.lengths)[:-1]
    lasts = firsts + slots.lengths
    lengths = _lengths(offsets, firsts, lasts)
    if offsets.min(initial=0) < 0 or lengths.min(initial=0) < 0:
        raise CorruptFile("the offsets of values descend")
    return Spans(lengths, offsets[firsts], offsets[lasts])


def _lengths(offsets: Ints, firsts: Ints, lasts: Ints) -> Ints:
    """Return the differences of offsets within ranges, which are given by their ends."""
    count = len(offsets) - len(firsts)
    if len(firsts) * _LONG_RANGE > count:
        return np.delete(np.diff(offsets), lasts[:-1])  # without those between two ranges
    lengths, stop = np.empty(count, np.int64), 0
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        start, stop = stop, stop + last - first
        np.subtract(offsets[first + 1 : last + 1], offsets[first:last], out=lengths[start:stop])
    return lengths


def read_var_binary(column: LegacyColumn, slots: SlotRanges) -> Reads[pa.Array]:
    """Read strings or byte strings.

    The page holds n + 1 offsets (i64), which are positions in the file; the bytes may lie anywhere.
    In a nullable field an empty value is a null.
    """
    spans = yield from _read_value_spans(column, slots)
    check_size(int(spans.lengths.sum()))
    buffers = yield list(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))
    block = VariableWidth(offsets_of(spans.lengths), join_bytes(buffers))
    return to_arrow(block, column.data_type, _validity(column, spans))


def _read_value_spans(column: LegacyColumn, slots: SlotRanges) -> Reads[Spans]:
    """Read where the bytes of strings lie in the file."""
    column.pages.check(slots)
    spans = yield from read_spans(column.pages.extended(), slots, 64)
    if np.any(spans.ends > column.pages.limit):
        raise CorruptFile(f"a value ends at byte {spans.ends.max()}, beyond the file")
    return spans


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
    index_column = replace(column, data_type=column.data_type.index_type)
    indices, values = yield from together(
        [read_plain(index_column, slots), _read_dictionary_values(column)]
    )
    positions = indices.to_numpy().astype(np.int64)
    is_null = positions == -1 if len(values) else np.ones(len(positions), np.bool_)
    is_wrong = ((positions < 0) | (positions >= len(values))) & ~is_null
    if np.any(is_wrong):
        raise CorruptFile(
            f"index {positions[is_wrong][0]} of a dictionary of {len(values)} values; writers "
            "of 0.1 files lost all dictionaries of a column but the first"
        )
    if len(values) and column.nullable and is_variable_width(values.type):
        is_empty = pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        is_null |= np.append(is_empty, False)[positions]  # −1 takes the appended element
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
        values = LegacyColumn(column.data_type.value_type, False, page)
        read = read_var_binary if is_variable_width(values.data_type) else read_plain
        all_slots = SlotRanges(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([length]))
        stored.values = yield from read(values, all_slots)
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
