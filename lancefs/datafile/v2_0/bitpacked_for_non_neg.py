"""Bit-packed for values from 0 on: blocks of 1024 integers in the FastLanes order.

The last block is padded. Only previews of the format were written with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import FixedWidth, RowRange
from lancefs.datafile.kernels import unpack
from lancefs.datafile.kernels.bitpacking import BLOCK
from lancefs.datafile.v2_0.flat import joined, read_spans
from lancefs.datafile.v2_0.page import ArrayPage, Slots
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import BitpackedForNonNeg
from lancefs.storage import Steps


def read(encoding: BitpackedForNonNeg, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    bits = int(encoding.uncompressed_bits_per_value)
    width = int(encoding.compressed_bits_per_value)
    if bits not in (8, 16, 32, 64) or not 0 < width <= bits:
        raise CorruptFile(f"integers of {bits} bits packed in {width} bits")
    size = BLOCK // 8 * width
    blocks = [(start // BLOCK, -(-end // BLOCK)) for start, end in ranges]
    spans = [(first * size, stop * size) for first, stop in blocks]
    pieces = yield from read_spans(page, page.locate(encoding.buffer), spans)
    counts = np.array([stop - first for first, stop in blocks], dtype=np.int64)
    whole = np.full(int(counts.sum()), BLOCK, dtype=np.int64)
    starts = np.arange(len(whole), dtype=np.int64) * size
    values = unpack(joined(pieces), starts, np.full(len(whole), width), whole, bits)
    # Where the rows of each range are among the values of all blocks read.
    shifts = (np.cumsum(counts) - counts) * BLOCK
    kept = [
        values[int(shift) + start % BLOCK :][: end - start]
        for shift, (start, end) in zip(shifts, ranges, strict=True)
    ]
    return Slots(FixedWidth(bits, np.concatenate([values[:0], *kept])))
