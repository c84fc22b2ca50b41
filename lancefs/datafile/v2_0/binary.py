"""Binary: byte strings, as the offset at which each ends and their bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import FixedWidth, RowRange, VariableWidth
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots
from lancefs.datafile.v2_0.extents import Extents, read_extents
from lancefs.datafile.v2_0.widths import has_room
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding, Binary
from lancefs.storage import Bytes, Steps


def read(encoding: Binary, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    extents = yield from _extents(encoding, page, ranges)
    data = yield from read_bytes(encoding.bytes, page, extents.ranges)
    return Slots(VariableWidth(extents.offsets, data), extents.valid)


def read_lengths(encoding: Binary, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    """Read how long strings are, as 64-bit numbers in place of them."""
    extents = yield from _extents(encoding, page, ranges)
    if not has_room(encoding.bytes, page, max((end for _, end in extents.ranges), default=0)):
        yield from read_bytes(encoding.bytes, page, extents.ranges)  # which checks them
    return Slots(FixedWidth(64, np.diff(extents.offsets)), extents.valid)


def _extents(encoding: Binary, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Extents]:
    return (yield from read_extents(encoding.indices, page, ranges, int(encoding.null_adjustment)))


def read_bytes(
    encoding: ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange]
) -> Steps[Bytes]:
    """Read an array that must be bytes without nulls.

    Raises:
        CorruptFile: It is not.
    """
    if not ranges:
        return np.empty(0, np.uint8)
    slots = yield from registry.read(encoding, page, ranges)
    block = slots.values
    if not isinstance(block, FixedWidth) or block.bits != 8 or slots.valid is not None:
        raise CorruptFile("the bytes of strings are not stored as bytes")
    return block.values
