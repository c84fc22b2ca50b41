"""Array encodings of data files 2.0 (docs: `ArrayEncoding` in `encodings_v2_0.proto`).

Each encoding has a function `read_…(encoding, page, ranges)` that requests the bytes of some rows
of a page and returns `Slots`; `READERS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias, TypeVar

import numpy as np
from google.protobuf.message import Message

from lancefs.datafile import row_sizes
from lancefs.datafile.blocks import (
    Array,
    Block,
    Constant,
    Dictionary,
    FixedSizeList,
    FixedWidth,
    Mask,
    RowRange,
    Struct,
    VariableWidth,
    dtype_of,
    no_width,
    select,
    typed,
)
from lancefs.datafile.buffers import join_bytes
from lancefs.datafile.kernels import decode_fsst, unpack
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.datafile.kernels.fsst import parse_table
from lancefs.datafile.row_ranges import between, bounds_of, count_rows, filled, scaled
from lancefs.datafile.v2_0.array_page import (
    ArrayPage,
    Slots,
    as_signed,
    as_unsigned,
    flat_bits,
    name_of,
    read_bits,
    read_joined,
    read_spans,
    without_nulls,
)
from lancefs.datafile.v2_0.extents import Extents, decode_extents, with_previous_rows
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Bytes, Reads, together

# Reads rows of an array, as `read` does.
Read: TypeAlias = Callable[[pb.ArrayEncoding, ArrayPage, Sequence[RowRange]], Reads[Slots]]

_MAX_FLAT_BITS = 1 << 31  # of a value
_MAX_PAGE_BITS = 1 << 62  # far more than any file has, and still an int64
_MAX_ROW_BYTES = 1 << 31  # of a packed struct
_PACKED = "a packed struct"

_MessageT = TypeVar("_MessageT", bound=Message)


def read(encoding: pb.ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Read rows of an array of a page.

    Args:
        encoding: Description of the array.
        page: The page.
        ranges: Rows of the array, ascending; neighbours may overlap. None is empty.

    Raises:
        CorruptFile: The bytes contradict the description.
        UnsupportedFeature: The encoding is not known, or not one of data files 2.0.
    """
    name = name_of(encoding)
    if name not in READERS:
        raise UnsupportedFeature(f"array encoding {name} in a data file 2.0")
    return (yield from READERS[name](getattr(encoding, name), page, ranges))


# --- values of a fixed width ---


def read_flat(encoding: pb.Flat, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Read flat values: one after the other; booleans and validity take one bit each.

    The buffer may be compressed, but a buffer of bits never is, although Lance 0.14 described those
    of booleans as compressed.
    """
    bits = int(encoding.bits_per_value)
    if not 0 <= bits <= _MAX_FLAT_BITS:
        raise CorruptFile(f"flat values of {bits} bits")
    if bits == 0:
        return Slots(FixedWidth(0, no_width(count_rows(ranges))))
    if bits % 8 and bits != 1:
        raise UnsupportedFeature(f"flat values of {bits} bits; only whole bytes are known")
    if ranges and ranges[-1][1] * bits > _MAX_PAGE_BITS:
        raise CorruptFile(f"{ranges[-1][1]} flat values of {bits} bits")
    buffer = page.locate(encoding.buffer)
    if bits == 1:
        return Slots(FixedWidth(1, (yield from read_bits(page, buffer, ranges))))
    spans = scaled(ranges, bits // 8)
    data = yield from read_joined(page, buffer, spans, encoding.compression.scheme)
    return Slots(FixedWidth(bits, typed(data, bits)))


def read_constant(
    encoding: pb.Constant, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Return a constant: the description holds the value of all rows."""
    yield from ()
    return Slots(Constant(encoding.value, count_rows(ranges)))


def read_bitpacked(
    encoding: pb.Bitpacked, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Read integers packed into fewer bits as one stream, low bits first.

    Only previews of the format contain them.
    """
    bits, width = _packed_widths(encoding)
    spans = [(start * width // 8, -(-end * width // 8)) for start, end in ranges]
    pieces = yield from read_spans(page, page.locate(encoding.buffer), spans)
    streams = []
    for piece, (start, end) in zip(pieces, ranges, strict=True):
        first = start * width % 8
        stream = np.unpackbits(piece, bitorder="little")
        streams.append(stream[first : first + (end - start) * width])
    packed = join_bytes(streams).reshape(-1, width)
    return Slots(FixedWidth(bits, _widen(packed, bits, encoding.signed)))


def _packed_widths(encoding: pb.Bitpacked | pb.BitpackedForNonNeg) -> tuple[int, int]:
    """Return the bits of an integer, unpacked and packed."""
    bits = int(encoding.uncompressed_bits_per_value)
    width = int(encoding.compressed_bits_per_value)
    if bits not in (8, 16, 32, 64) or not 0 < width <= bits:
        raise CorruptFile(f"integers of {bits} bits packed in {width} bits")
    return bits, width


def _widen(packed: Array, bits: int, signed: bool) -> Array:
    """Turn rows of single bits into integers; extend the sign of signed ones."""
    widened = np.zeros((len(packed), bits), dtype=np.uint8)
    widened[:, : packed.shape[1]] = packed
    if signed:
        widened[:, packed.shape[1] :] = packed[:, -1:]
    return np.packbits(widened, axis=1, bitorder="little").reshape(-1).view(dtype_of(bits // 8))


def read_bitpacked_blocks(
    encoding: pb.BitpackedForNonNeg, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Read non-negative integers packed in FastLanes order, in blocks of 1024.

    The last block is padded. Only previews of the format contain them.
    """
    bits, width = _packed_widths(encoding)
    size = BLOCK // 8 * width  # bytes of a block
    bounds = bounds_of(ranges)
    counts = bounds[:, 1] - bounds[:, 0]
    first, stop = bounds[:, 0] // BLOCK, -(-bounds[:, 1] // BLOCK)
    # The first block of a range may be the last block of the previous range, and is read once.
    unread = np.maximum(first, np.append(0, stop[:-1]))
    spans = filled(between(unread * size, stop * size))
    data = yield from read_joined(page, page.locate(encoding.buffer), spans)
    lengths = np.full(int((stop - unread).sum()), BLOCK, dtype=np.int64)
    starts = np.arange(len(lengths), dtype=np.int64) * size
    values = unpack(data, starts, np.full(len(lengths), width), lengths, bits)
    # Positions of the first row of each range in the values of all blocks.
    places = (np.cumsum(stop - unread) - (stop - first)) * BLOCK + bounds[:, 0] % BLOCK
    return Slots(FixedWidth(bits, select(values, between(places, places + counts))))


# --- validity, fixed-size lists and packed structs ---


def read_nullable(
    encoding: pb.Nullable,
    page: ArrayPage,
    ranges: Sequence[RowRange],
    read_values: Read = read,
) -> Reads[Slots]:
    """Read values with their validity, one bit each."""
    match encoding.WhichOneof("nullability"):
        case "no_nulls":
            return (yield from read_values(encoding.no_nulls.values, page, ranges))
        case "all_nulls":
            return Slots(Constant(None, count_rows(ranges)))
        case "some_nulls":
            parts = [
                read(encoding.some_nulls.validity, page, ranges),
                read_values(encoding.some_nulls.values, page, ranges),
            ]
            validity, values = yield from together(parts)
            mask = _validity_mask(validity)
            valid = mask if values.valid is None else mask & values.valid
            return Slots(values.values, valid)
        case _:
            raise UnsupportedFeature("a kind of nullability that this release does not know")


def _validity_mask(validity: Slots) -> Mask:
    bits = validity.values
    if not isinstance(bits, FixedWidth) or bits.bits != 1 or validity.valid is not None:
        raise CorruptFile("the validity of values is not a bit each")
    mask: Mask = bits.values.view(np.bool_)
    return mask


def read_fixed_size_list(
    encoding: pb.FixedSizeList,
    page: ArrayPage,
    ranges: Sequence[RowRange],
    read_items: Read = read,
) -> Reads[Slots]:
    """Read fixed-size lists: the items of all rows, one after the other."""
    dimension = _dimension_of(encoding)
    items = yield from read_items(encoding.items, page, scaled(ranges, dimension))
    return Slots(FixedSizeList(dimension, items.values, items.valid, count_rows(ranges)))


def _dimension_of(encoding: pb.FixedSizeList) -> int:
    """Return the number of items of a list.

    Raises:
        CorruptFile: No list can have that number of items.
        UnsupportedFeature: The lists have a validity of their own, as later formats store it.
    """
    if encoding.has_validity:
        raise UnsupportedFeature("the validity of fixed-size lists in a data file 2.0")
    dimension = int(encoding.dimension)
    if not 0 < dimension < 1 << 31:
        raise CorruptFile(f"a fixed-size list of {dimension} items")
    return dimension


def read_packed_struct(
    encoding: pb.PackedStruct, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Read packed structs: the members of a row side by side, each of a fixed width."""
    members = [without_nulls(member, _PACKED) for member in encoding.inner]
    stops = [*accumulate(_member_width(member) for member in members)]  # these do not wrap
    if not stops or stops[-1] > _MAX_ROW_BYTES:
        raise CorruptFile("the members of a packed struct are none, or too wide")
    spans = scaled(ranges, stops[-1])
    data = yield from read_joined(page, page.locate(encoding.buffer), spans)
    count = count_rows(ranges)
    rows = data.reshape(count, stops[-1])
    starts = [0, *stops[:-1]]
    children = tuple(
        _decode_member(member, rows[:, start:stop], count)
        for member, start, stop in zip(members, starts, stops, strict=True)
    )
    return Slots(Struct(children, count))


def _member_width(member: pb.ArrayEncoding) -> int:
    """Return the bytes of a member in a row."""
    if member.WhichOneof("array_encoding") == "fixed_size_list":
        items = without_nulls(member.fixed_size_list.items, _PACKED)
        return _dimension_of(member.fixed_size_list) * _member_width(items)
    bits = flat_bits(member, _PACKED)
    if bits % 8 or not 0 < bits <= 8 * _MAX_ROW_BYTES:
        raise UnsupportedFeature(f"values of {bits} bits in {_PACKED}")
    return bits // 8


def _decode_member(member: pb.ArrayEncoding, cells: Bytes, count: int) -> Block:
    """Decode `count` values of a member from cells of shape (rows, bytes)."""
    if member.WhichOneof("array_encoding") == "fixed_size_list":
        dimension = _dimension_of(member.fixed_size_list)
        items = without_nulls(member.fixed_size_list.items, _PACKED)
        values = _decode_member(items, cells, count * dimension)
        return FixedSizeList(dimension, values, None, count)
    bits = flat_bits(member, _PACKED)
    return FixedWidth(bits, typed(np.ascontiguousarray(cells).reshape(-1), bits))


# --- strings ---


def read_extents(
    ends: pb.ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange], adjustment: int
) -> Reads[Extents]:
    """Read the extents of strings or lists.

    Args:
        ends: Encoding of their end offsets.
        page: The page.
        ranges: Rows of the page, ascending and disjoint.
        adjustment: Number that is added to the end of a null row.

    Raises:
        CorruptFile: The ends do not ascend, or are not integers.
    """
    if not ranges:
        return Extents(np.zeros(1, np.int64), None, [])
    slots = yield from read(ends, page, with_previous_rows(ranges))
    return decode_extents(as_signed(slots, "the offsets of a page"), ranges, adjustment)


def read_binary(encoding: pb.Binary, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Read byte strings: the end offset of each, and the bytes of all."""
    extents = yield from read_extents(encoding.indices, page, ranges, int(encoding.null_adjustment))
    data = yield from read_bytes(encoding.bytes, page, extents.ranges)
    return Slots(VariableWidth(extents.offsets, data), extents.valid)


def read_bytes(
    encoding: pb.ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Bytes]:
    """Read an array of bytes without nulls.

    Raises:
        CorruptFile: The array has another type, or nulls.
    """
    if not ranges:
        return np.empty(0, np.uint8)
    slots = yield from read(encoding, page, ranges)
    block = slots.values
    if not isinstance(block, FixedWidth) or block.bits != 8 or slots.valid is not None:
        raise CorruptFile("the bytes of strings are not stored as bytes")
    return block.values


def read_fixed_size_binary(
    encoding: pb.FixedSizeBinary, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Read byte strings of one length, which have no offsets."""
    width = byte_width_of(encoding)
    bits = flat_bits(encoding.bytes, "strings of one length")
    # A value of the inner array is a byte, or a whole string.
    if bits not in (8, 8 * width):
        raise CorruptFile(f"strings of {width} bytes stored as values of {bits} bits")
    inner_ranges = ranges if bits == 8 * width else scaled(ranges, width)
    slots = yield from read(encoding.bytes, page, inner_ranges)
    block, count = slots.values, count_rows(ranges)
    if not isinstance(block, FixedWidth) or block.values.nbytes != count * width:
        raise CorruptFile(f"the bytes are not those of {count} strings of {width} bytes")
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return Slots(VariableWidth(offsets, block.values.view(np.uint8)))


def byte_width_of(encoding: pb.FixedSizeBinary) -> int:
    """Return the bytes of a string.

    Raises:
        CorruptFile: No string can have that number of bytes.
    """
    width = int(encoding.byte_width)
    if not 0 < width < 1 << 31:
        raise CorruptFile(f"strings of {width} bytes")
    return width


def read_fsst(encoding: pb.Fsst, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Read strings compressed with FSST; the description holds the symbol table."""
    table = parse_table(encoding.symbol_table)
    strings, valid = yield from read_compressed(encoding, page, ranges)
    return Slots(VariableWidth(*decode_fsst(table, strings.offsets, strings.data)), valid)


def read_compressed(
    encoding: pb.Fsst, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[tuple[VariableWidth, Mask | None]]:
    """Read FSST strings without decompressing them.

    Returns:
        The compressed strings, and which are not null (None where none is null).

    Raises:
        CorruptFile: The values are not strings.
    """
    slots = yield from read(encoding.binary, page, ranges)
    if not isinstance(slots.values, VariableWidth):
        raise CorruptFile("FSST over values that are not variable-width")
    return slots.values, slots.valid


# --- dictionaries ---


def read_dictionary(
    encoding: pb.Dictionary, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Read values as indices into dictionary items.

    A column of a dictionary type has its own items, which may be null, and indices from 0. A string
    column with few distinct values has indices from 1, and index 0 for null.
    """
    indices, items = yield from together(
        [read(encoding.indices, page, ranges), _read_items(encoding, page)]
    )
    if indices.is_all_null or items.is_all_null:
        return Slots(Constant(None, count_rows(ranges)))
    return look_up(indices, items, page.zero_based)


def look_up(indices: Slots, items: Slots, zero_based: bool) -> Slots:
    """Join indices with their items; nulls of either become nulls of the indices.

    Args:
        indices: The indices.
        items: The items of the dictionary.
        zero_based: Whether the indices start at 0; else 0 is null.

    Raises:
        CorruptFile: An index is beyond the items.
    """
    positions, valid = as_unsigned(indices.values, "the indices into a dictionary"), indices.valid
    if not zero_based:
        valid = _intersect(valid, positions > 0)
        positions = positions - positions.dtype.type(1)
    if valid is not None:
        positions = np.where(valid, positions, positions.dtype.type(0))
    highest = int(positions.max(initial=0))
    if len(positions) and highest >= items.values.length:
        if valid is not None and not valid.any():
            return Slots(Constant(None, len(positions)))
        raise CorruptFile(f"index {highest} into a dictionary of {items.values.length} items")
    if items.valid is not None:
        valid = _intersect(valid, items.valid[positions])
    if positions.itemsize > 4 and highest <= np.iinfo(np.uint32).max:  # what kernels accept
        positions = positions.astype(np.uint32)
    return Slots(Dictionary(positions, items.values), valid)


def _intersect(valid: Mask | None, other: Mask) -> Mask | None:
    """Return which slots are valid in both masks; None where all are."""
    both = other if valid is None else valid & other
    return None if both.all() else both


def _read_items(encoding: pb.Dictionary, page: ArrayPage) -> Reads[Slots]:
    """Return the items of a dictionary; read them the first time."""
    key = encoding.items.SerializeToString()
    if key not in page.dictionaries:
        count = int(encoding.num_dictionary_items)
        items = yield from read(encoding.items, page, [(0, count)] if count else [])
        if not (items.is_all_null or isinstance(items.values, FixedWidth | VariableWidth)):
            raise CorruptFile("the items of a dictionary are neither numbers nor strings")
        page.dictionaries[key] = items
    return page.dictionaries[key]


def dictionary_overhead(page: ArrayPage, rows: int) -> float:
    """Estimate the bytes of the values that a page looks up in dictionaries.

    Args:
        page: The page.
        rows: Number of its rows.

    Raises:
        CorruptFile: A buffer is missing.
        UnsupportedFeature: The kind of a buffer is not known.
    """
    total = 0.0
    for encoding in _find_messages(page.encoding, pb.Dictionary):
        ranges = [page.locate(buffer) for buffer in _find_messages(encoding.items, pb.Buffer)]
        size = sum(end - start for start, end in ranges)
        total += row_sizes.lookup_bytes(rows, int(encoding.num_dictionary_items), size)
    return total


def _find_messages(message: Message, kind: type[_MessageT]) -> Iterator[_MessageT]:
    """Yield the outermost messages of a kind within another message."""
    if isinstance(message, kind):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if isinstance(value, Sequence) else [value]:
                yield from _find_messages(part, kind)


# By field of `ArrayEncoding`. Lists and structs span several columns: `reader` assembles them.
READERS: dict[str, Callable[..., Reads[Slots]]] = {
    "flat": read_flat,
    "nullable": read_nullable,
    "fixed_size_list": read_fixed_size_list,
    "binary": read_binary,
    "dictionary": read_dictionary,
    "fsst": read_fsst,
    "packed_struct": read_packed_struct,
    "bitpacked": read_bitpacked,
    "fixed_size_binary": read_fixed_size_binary,
    "bitpacked_for_non_neg": read_bitpacked_blocks,
    "constant": read_constant,
}
