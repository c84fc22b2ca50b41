"""Bit-packed for values from 0 on: blocks of 1024 integers in the FastLanes order.

The last block is padded. Only previews of the format were written with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import FixedWidth, RowRange, select
from lancefs.datafile.kernels import unpack
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.datafile.row_ranges import between, bounds_of, filled
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots
from lancefs.datafile.v2_0.flat import read_parts
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import BitpackedForNonNeg
from lancefs.storage import Steps


def read(encoding: BitpackedForNonNeg, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    bits = int(encoding.uncompressed_bits_per_value)
    width = int(encoding.compressed_bits_per_value)
    if bits not in (8, 16, 32, 64) or not 0 < width <= bits:
        raise CorruptFile(f"integers of {bits} bits packed in {width} bits")
    size = BLOCK // 8 * width
    bounds = bounds_of(ranges)
    rows = bounds[:, 1] - bounds[:, 0]
    first, stop = bounds[:, 0] // BLOCK, -(-bounds[:, 1] // BLOCK)
    # The first block of a range may be the last one of the range before it, and is read once.
    unread = np.maximum(first, np.append(0, stop[:-1]))
    spans = filled(between(unread * size, stop * size))
    data = yield from read_parts(page, page.locate(encoding.buffer), spans)
    whole = np.full(int((stop - unread).sum()), BLOCK, dtype=np.int64)
    starts = np.arange(len(whole), dtype=np.int64) * size
    values = unpack(data, starts, np.full(len(whole), width), whole, bits)
    # Where the rows of each range are among the values of all blocks.
    places = (np.cumsum(stop - unread) - (stop - first)) * BLOCK + bounds[:, 0] % BLOCK
    return Slots(FixedWidth(bits, select(values, between(places, places + rows))))
