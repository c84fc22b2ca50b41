"""Bit-packed: integers as one stream of numbers of fewer bits, low bits first.

Only previews of the format were written with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Array, FixedWidth, RowRange, dtype_of
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots
from lancefs.datafile.v2_0.flat import joined, read_spans
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import Bitpacked
from lancefs.storage import Steps


def read(encoding: Bitpacked, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    bits = int(encoding.uncompressed_bits_per_value)
    width = int(encoding.compressed_bits_per_value)
    if bits not in (8, 16, 32, 64) or not 0 < width <= bits:
        raise CorruptFile(f"integers of {bits} bits packed in {width} bits")
    spans = [(start * width // 8, -(-end * width // 8)) for start, end in ranges]
    pieces = yield from read_spans(page, page.locate(encoding.buffer), spans)
    numbers = []
    for piece, (start, end) in zip(pieces, ranges, strict=True):
        skipped = start * width % 8
        stream = np.unpackbits(piece, bitorder="little")
        numbers.append(stream[skipped : skipped + (end - start) * width])
    packed = joined(numbers).reshape(-1, width)
    return Slots(FixedWidth(bits, _widened(packed, bits, encoding.signed)))


def _widened(packed: Array, bits: int, signed: bool) -> Array:
    """Turn rows of single bits into integers; those of signed ones repeat the highest bit."""
    whole = np.zeros((len(packed), bits), dtype=np.uint8)
    whole[:, : packed.shape[1]] = packed
    if signed:
        whole[:, packed.shape[1] :] = packed[:, -1:]
    return np.packbits(whole, axis=1, bitorder="little").reshape(-1).view(dtype_of(bits // 8))
