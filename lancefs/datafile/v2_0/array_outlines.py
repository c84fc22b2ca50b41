"""Arrays of data files 2.0 as outlines and as validity (see `datafile.outlines`, `.validity`).

Validity is stored as bits beside the values, or in the end offsets of strings, so that neither the
values of numbers nor the bytes of strings are read. Encodings that do not store lengths apart from
values are decoded; their values are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import FixedWidth, RowRange
from lancefs.datafile.kernels import fsst_lengths
from lancefs.datafile.kernels.fsst import parse_table
from lancefs.datafile.outlines import LENGTHS, without_values, zeros
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_0 import encodings
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, can_skip, name_of
from lancefs.datafile.validity import VALIDITY
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Reads


def read_outline(
    encoding: pb.ArrayEncoding,
    page: ArrayPage,
    ranges: Sequence[RowRange],
    data_type: pa.DataType,
) -> Reads[Slots]:
    """Read the outline of rows of an array of a page.

    Args:
        encoding: Description of the array.
        page: The page.
        ranges: Rows of the array, ascending; none is empty.
        data_type: Type of the outline.

    Raises:
        CorruptFile: The bytes contradict the description.
        UnsupportedFeature: The encoding is not known, or not one of data files 2.0.
    """
    name = name_of(encoding)
    if name == "nullable":
        read_values = partial(read_outline, data_type=data_type)
        return (yield from encodings.read_nullable(encoding.nullable, page, ranges, read_values))
    if name == "fixed_size_list" and pa.types.is_fixed_size_list(data_type):
        lists = encoding.fixed_size_list
        read_items = partial(read_outline, data_type=data_type.value_type)
        return (yield from encodings.read_fixed_size_list(lists, page, ranges, read_items))
    if name in _LENGTHS and data_type == LENGTHS:
        return (yield from _LENGTHS[name](getattr(encoding, name), page, ranges))
    if name == "flat" and _can_skip_numbers(encoding, page, ranges[-1][1], data_type):
        return Slots(zeros(data_type, count_rows(ranges)))
    slots = yield from encodings.read(encoding, page, ranges)
    return Slots(without_values(slots.values, data_type), slots.valid)


def _can_skip_numbers(
    encoding: pb.ArrayEncoding, page: ArrayPage, count: int, data_type: pa.DataType
) -> bool:
    """Check that `count` numbers are in the file; False where that takes reading them."""
    if data_type == LENGTHS or pa.types.is_fixed_size_list(data_type):
        return False
    return can_skip(encoding, page, -(-count * data_type.bit_width // 8))


def _read_binary(encoding: pb.Binary, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Read the lengths of byte strings from their end offsets."""
    extents = yield from encodings.read_extents(
        encoding.indices, page, ranges, int(encoding.null_adjustment)
    )
    if not can_skip(encoding.bytes, page, max((end for _, end in extents.ranges), default=0)):
        yield from encodings.read_bytes(encoding.bytes, page, extents.ranges)  # checks the bytes
    return Slots(FixedWidth(64, extents.lengths), extents.valid)


def _read_fixed_size_binary(
    encoding: pb.FixedSizeBinary, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Return the length of byte strings of one length."""
    width = encodings.byte_width_of(encoding)
    if not can_skip(encoding.bytes, page, ranges[-1][1] * width):
        yield from encodings.read_fixed_size_binary(encoding, page, ranges)  # checks the bytes
    return Slots(FixedWidth(64, np.full(count_rows(ranges), width)))


def _read_fsst(encoding: pb.Fsst, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Measure FSST strings, without decompressing them."""
    table = parse_table(encoding.symbol_table)
    strings, valid = yield from encodings.read_compressed(encoding, page, ranges)
    return Slots(FixedWidth(64, fsst_lengths(table, strings.offsets, strings.data)), valid)


# Readers of lengths, by field of `ArrayEncoding`.
_LENGTHS: dict[str, Callable[..., Reads[Slots]]] = {
    "binary": _read_binary,
    "fixed_size_binary": _read_fixed_size_binary,
    "fsst": _read_fsst,
}


# Encodings of which no value is null.
_NEVER_NULL = {"flat", "bitpacked", "bitpacked_for_non_neg", "fixed_size_binary"}


def read_validity(
    encoding: pb.ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange]
) -> Reads[Slots]:
    """Read the validity of rows of an array of a page.

    The null values of dictionaries are among their indices or their items: these are decoded.

    Args:
        encoding: Description of the array.
        page: The page.
        ranges: Rows of the array, ascending; none is empty.

    Raises:
        CorruptFile: The bytes contradict the description.
        UnsupportedFeature: The encoding is not known, or not one of data files 2.0.
    """
    name = name_of(encoding)
    if name == "nullable":
        return (yield from encodings.read_nullable(encoding.nullable, page, ranges, read_validity))
    if name == "fsst":
        return (yield from read_validity(encoding.fsst.binary, page, ranges))
    if name == "binary":
        ends, adjustment = encoding.binary.indices, int(encoding.binary.null_adjustment)
        extents = yield from encodings.read_extents(ends, page, ranges, adjustment)
        return Slots(zeros(VALIDITY, count_rows(ranges)), extents.valid)
    if name == "fixed_size_list" and not encoding.fixed_size_list.has_validity:
        return Slots(zeros(VALIDITY, count_rows(ranges)))
    if name in _NEVER_NULL:
        return Slots(zeros(VALIDITY, count_rows(ranges)))
    slots = yield from encodings.read(encoding, page, ranges)
    return Slots(without_values(slots.values, VALIDITY), slots.valid)
