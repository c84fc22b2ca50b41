"""Packed struct of fixed-width children: each row is the concatenated bytes of its children."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints, Struct, typed
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.flat import bytes_of_bits
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import PackedStruct
from lancefs.storage import Bytes


def decode_chunks(encoding: PackedStruct, buffers: Sequence[Chunked], counts: Ints) -> Block:
    widths = _widths(encoding)
    return _split(widths, registry.decode_chunks(encoding.values, buffers, counts))


def most_bytes(encoding: PackedStruct, counts: Ints) -> Ints:
    return bytes_of_bits(sum(int(bits) for bits in encoding.bits_per_value), counts)


def decode_fixed(encoding: PackedStruct, data: Bytes, count: int) -> Block:
    widths = _widths(encoding)
    return _split(widths, registry.decode_fixed(encoding.values, data, count))


def _widths(encoding: PackedStruct) -> list[int]:
    """Return the width of each child in bytes."""
    if not encoding.bits_per_value:
        raise CorruptFile("packed structs without members, which have no bytes")
    if any(bits % 8 or not bits for bits in encoding.bits_per_value):
        raise UnsupportedFeature("packed structs with booleans, which writers left out of the rows")
    return [int(bits) // 8 for bits in encoding.bits_per_value]


def _split(widths: Sequence[int], rows: Block) -> Block:
    if not isinstance(rows, FixedWidth) or rows.bits != 8 * sum(widths):
        raise CorruptFile(f"rows of a packed struct are not {sum(widths)} bytes wide")
    table = np.ascontiguousarray(rows.values).view(np.uint8).reshape(rows.length, sum(widths))
    ends = np.cumsum(widths).tolist()
    columns = [
        np.ascontiguousarray(table[:, end - width : end]).reshape(-1)
        for width, end in zip(widths, ends, strict=True)
    ]
    children = tuple(
        FixedWidth(8 * width, typed(column, 8 * width))
        for width, column in zip(widths, columns, strict=True)
    )
    return Struct(children, rows.length)
