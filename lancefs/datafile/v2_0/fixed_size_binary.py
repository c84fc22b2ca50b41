"""Fixed-size binary: strings that all have the same length, without offsets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import FixedWidth, RowRange, VariableWidth
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows, scaled
from lancefs.datafile.v2_0.widths import flat_bits, has_room
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import FixedSizeBinary
from lancefs.storage import Steps


def read(encoding: FixedSizeBinary, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    width = _width(encoding)
    bits = flat_bits(encoding.bytes, "strings of one length")
    # The bytes are described one by one, or all those of a string as one value.
    if bits not in (8, 8 * width):
        raise CorruptFile(f"strings of {width} bytes stored as values of {bits} bits")
    wanted = ranges if bits == 8 * width else scaled(ranges, width)
    slots = yield from registry.read(encoding.bytes, page, wanted)
    block, count = slots.values, count_rows(ranges)
    if not isinstance(block, FixedWidth) or block.values.nbytes != count * width:
        raise CorruptFile(f"the bytes are not those of {count} strings of {width} bytes")
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return Slots(VariableWidth(offsets, block.values.view(np.uint8)))


def read_lengths(
    encoding: FixedSizeBinary, page: ArrayPage, ranges: Sequence[RowRange]
) -> Steps[Slots]:
    """Tell how long strings are, as 64-bit numbers in place of them."""
    if not has_room(encoding.bytes, page, ranges[-1][1] * _width(encoding)):
        yield from read(encoding, page, ranges)  # which checks them
    return Slots(FixedWidth(64, np.full(count_rows(ranges), _width(encoding))))


def _width(encoding: FixedSizeBinary) -> int:
    width = int(encoding.byte_width)
    if not 0 < width < 1 << 31:
        raise CorruptFile(f"strings of {width} bytes")
    return width
