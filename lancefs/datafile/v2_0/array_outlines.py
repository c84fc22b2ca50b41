"""Arrays of data files 2.0 as outlines (see `datafile.outlines`).

Nulls are bits beside the values, or in where strings end: the values of numbers, and the bytes of
strings, are not read. Where lengths are not told apart from values, these are decoded, and let go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.outlines import LENGTHS, without_values, zeros
from lancefs.datafile.v2_0 import (
    binary,
    fixed_size_binary,
    fixed_size_list,
    fsst,
    nullable,
    registry,
)
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows
from lancefs.datafile.v2_0.widths import has_room
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding
from lancefs.storage import Steps

_LENGTHS: dict[str, Callable[..., Steps[Slots]]] = {
    "binary": binary.read_lengths,
    "fixed_size_binary": fixed_size_binary.read_lengths,
    "fsst": fsst.read_lengths,
}


def read(
    encoding: ArrayEncoding,
    page: ArrayPage,
    ranges: Sequence[RowRange],
    data_type: pa.DataType,
) -> Steps[Slots]:
    """Read rows of an array that a page describes.

    Args:
        encoding: The description.
        page: The page.
        ranges: Rows of the array, ascending; none is empty.
        data_type: The type of the outline.

    Returns:
        What an outline has of these rows.

    Raises:
        CorruptFile: The bytes are not what the description says.
        UnsupportedFeature: The encoding is not known, or not one of a data file 2.0.
    """
    name = registry.name_of(encoding)
    if name == "nullable":
        below = partial(read, data_type=data_type)
        return (yield from nullable.read(encoding.nullable, page, ranges, below))
    if name == "fixed_size_list" and pa.types.is_fixed_size_list(data_type):
        below = partial(read, data_type=data_type.value_type)
        return (yield from fixed_size_list.read(encoding.fixed_size_list, page, ranges, below))
    if name in _LENGTHS and data_type == LENGTHS:
        return (yield from _LENGTHS[name](getattr(encoding, name), page, ranges))
    if name == "flat" and _are_there(encoding, page, ranges[-1][1], data_type):
        return Slots(zeros(data_type, count_rows(ranges)))
    slots = yield from registry.read(encoding, page, ranges)
    return Slots(without_values(slots.values, data_type), slots.valid)


def _are_there(
    encoding: ArrayEncoding, page: ArrayPage, count: int, data_type: pa.DataType
) -> bool:
    """Whether so many numbers are known to be in the file, without being read."""
    if data_type == LENGTHS or pa.types.is_fixed_size_list(data_type):
        return False
    return has_room(encoding, page, -(-count * data_type.bit_width // 8))
