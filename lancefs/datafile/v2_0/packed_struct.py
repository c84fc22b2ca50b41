"""Packed structs: the members of a row side by side, each of a fixed width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, FixedSizeList, FixedWidth, RowRange, Struct, typed
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows, scaled
from lancefs.datafile.v2_0.fixed_size_list import checked_dimension
from lancefs.datafile.v2_0.flat import read_parts
from lancefs.datafile.v2_0.widths import flat_bits, without_nulls
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding, PackedStruct
from lancefs.storage import Bytes, Steps

_WIDEST = 1 << 31  # bytes of a row
_WHERE = "a packed struct"


def read(encoding: PackedStruct, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    members = [without_nulls(member, _WHERE) for member in encoding.inner]
    stops = np.cumsum([_width(member) for member in members]).tolist()
    if not stops or stops[-1] > _WIDEST:
        raise CorruptFile("the members of a packed struct are none, or too wide")
    spans = scaled(ranges, stops[-1])
    data = yield from read_parts(page, page.locate(encoding.buffer), spans)
    count = count_rows(ranges)
    rows = data.reshape(count, stops[-1])
    starts = [0, *stops[:-1]]
    children = tuple(
        _member(member, rows[:, start:stop], count)
        for member, start, stop in zip(members, starts, stops, strict=True)
    )
    return Slots(Struct(children, count))


def _width(member: ArrayEncoding) -> int:
    """Return how many bytes of a row a member takes."""
    if member.WhichOneof("array_encoding") == "fixed_size_list":
        items = without_nulls(member.fixed_size_list.items, _WHERE)
        return checked_dimension(member.fixed_size_list) * _width(items)
    bits = flat_bits(member, _WHERE)
    if bits % 8 or not 0 < bits <= 8 * _WIDEST:
        raise UnsupportedFeature(f"values of {bits} bits in {_WHERE}")
    return bits // 8


def _member(member: ArrayEncoding, cells: Bytes, count: int) -> Block:
    """Decode cells of shape (rows, bytes)."""
    if member.WhichOneof("array_encoding") == "fixed_size_list":
        dimension = checked_dimension(member.fixed_size_list)
        items = without_nulls(member.fixed_size_list.items, _WHERE)
        return FixedSizeList(dimension, _member(items, cells, count * dimension), None, count)
    bits = flat_bits(member, _WHERE)
    return FixedWidth(bits, typed(np.ascontiguousarray(cells).reshape(-1), bits))
