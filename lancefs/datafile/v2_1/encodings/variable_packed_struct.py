"""Packed struct with variable-width children: each row is one full-zip value.

A row is the concatenation of its children; a length precedes a variable-width child.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.blocks import (
    Block,
    Ints,
    Struct,
    gather,
    spread,
)
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import VariablePackedStruct
from lancefs.storage import Bytes


def decode_variable(encoding: VariablePackedStruct, values: Chunked) -> Block:
    filled = values.sizes > 0  # a null row has no bytes at all
    cursor, stops = values.starts[filled], values.ends[filled]
    children = []
    for field in encoding.fields:
        child, cursor = _child(field, values.data, cursor, stops)
        children.append(child if filled.all() else spread(child, filled))
    if not np.array_equal(cursor, stops):
        raise CorruptFile("the rows of a packed struct are longer than their children")
    return Struct(tuple(children), len(filled))


def _child(
    field: VariablePackedStruct.FieldEncoding, data: Bytes, cursor: Ints, stops: Ints
) -> tuple[Block, Ints]:
    """Cut one child out of all rows; return it, and the start of the next child in each row."""
    if field.WhichOneof("layout") == "bits_per_value":
        if field.bits_per_value % 8:
            raise CorruptFile("a child of a packed struct does not fill whole bytes")
        ends = _check_ends(cursor + int(field.bits_per_value) // 8, stops)
        fixed = gather(data, cursor, ends)
        return registry.decode_fixed(field.value, fixed, len(cursor)), ends
    if field.bits_per_length not in (32, 64):
        raise CorruptFile(f"length prefixes of {field.bits_per_length} bits in a packed struct")
    width = int(field.bits_per_length) // 8
    starts = _check_ends(cursor + width, stops)
    lengths = gather(data, cursor, starts).view(f"<i{width}").astype(np.int64)
    if np.any(lengths < 0):
        raise CorruptFile("a length in a packed struct is negative")
    _check_ends(lengths, stops)  # the sum might wrap
    ends = _check_ends(starts + lengths, stops)
    return registry.decode_variable(field.value, Chunked(data, starts, ends)), ends


def _check_ends(ends: Ints, stops: Ints) -> Ints:
    if np.any(ends > stops):
        raise CorruptFile("a row of a packed struct is too short for its children")
    return ends
