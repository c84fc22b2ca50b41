"""Flat: values as they are, one after the other; booleans and validity take a bit each.

A buffer may be compressed as a whole. An uncompressed one is read in part, and not copied. Bits
never were compressed, although Lance 0.14 said so of those of booleans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Array, FixedWidth, RowRange, no_width, typed
from lancefs.datafile.v2_0.compression import decompress
from lancefs.datafile.v2_0.page import ArrayPage, Slots, count_rows
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import Flat
from lancefs.storage import ByteRange, Bytes, Steps

_WIDEST = 1 << 31  # bits


def read(encoding: Flat, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    bits = int(encoding.bits_per_value)
    if not 0 <= bits <= _WIDEST:
        raise CorruptFile(f"flat values of {bits} bits")
    if bits == 0:
        return Slots(FixedWidth(0, no_width(count_rows(ranges))))
    if bits % 8 and bits != 1:
        raise UnsupportedFeature(f"flat values of {bits} bits; only whole bytes are known")
    spans = [(start * bits // 8, -(-end * bits // 8)) for start, end in ranges]
    span = page.locate(encoding.buffer)
    scheme = encoding.compression.scheme if bits > 1 else ""
    pieces = yield from read_spans(page, span, spans, scheme)
    if bits == 1:
        return Slots(FixedWidth(1, _bits(pieces, ranges)))
    return Slots(FixedWidth(bits, typed(joined(pieces), bits)))


def read_spans(
    page: ArrayPage, buffer: ByteRange, spans: Sequence[ByteRange], scheme: str = ""
) -> Steps[Sequence[Bytes]]:
    """Read parts of a buffer.

    Args:
        page: The page that the buffer belongs to.
        buffer: Where it is in the file.
        spans: First and last byte (exclusive) of each part, within the buffer's values.
        scheme: How the buffer is compressed; empty where it is not.

    Raises:
        CorruptFile: A part lies beyond the end of the buffer.
    """
    if not spans:
        return []
    last = max(end for _, end in spans)
    if scheme in ("", "none"):
        start, end = buffer
        _check(last, end - start)
        return (yield [(start + first, start + stop) for first, stop in spans])
    if buffer not in page.decompressed:
        (packed,) = yield [buffer]
        page.decompressed[buffer] = decompress(scheme, packed)
    whole = page.decompressed[buffer]
    _check(last, len(whole))
    return [whole[first:stop] for first, stop in spans]


def joined(pieces: Sequence[Bytes]) -> Bytes:
    """Join pieces; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])


def _bits(pieces: Sequence[Bytes], ranges: Sequence[RowRange]) -> Array:
    """Unpack bits, which need not begin or end at the border of a byte."""
    bits = [
        np.unpackbits(piece, bitorder="little")[start % 8 : start % 8 + end - start]
        for piece, (start, end) in zip(pieces, ranges, strict=True)
    ]
    return joined(bits)


def _check(wanted: int, present: int) -> None:
    if wanted > present:
        raise CorruptFile(f"{wanted} bytes of values are wanted, the buffer has {present}")
