"""Flat: values as they are, one after the other; booleans and validity take a bit each.

A buffer may be compressed as a whole. An uncompressed one is read in part, and not copied. Bits
never were compressed, although Lance 0.14 said so of those of booleans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Array, FixedWidth, Ints, RowRange, no_width, typed
from lancefs.datafile.kernels import gather
from lancefs.datafile.row_ranges import RowRanges, bounds_of, rows_of
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows, scaled
from lancefs.datafile.v2_0.compression import decompress
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import Flat
from lancefs.storage import ByteRange, Bytes, Steps

_WIDEST = 1 << 31  # bits
_MOST = 1 << 62  # bits of a page, far more than any file has, that arrays of offsets can still tell
# So many parts of a buffer are cut out at once of what lies around them, unless more than some
# thousands of bytes lie between two.
_MANY = 16
_GAP = 64 * 1024
_FEW_BITS = 64  # of a part: they are looked up one by one


def read(encoding: Flat, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    bits = int(encoding.bits_per_value)
    if not 0 <= bits <= _WIDEST:
        raise CorruptFile(f"flat values of {bits} bits")
    if bits == 0:
        return Slots(FixedWidth(0, no_width(count_rows(ranges))))
    if bits % 8 and bits != 1:
        raise UnsupportedFeature(f"flat values of {bits} bits; only whole bytes are known")
    if ranges and ranges[-1][1] * bits > _MOST:
        raise CorruptFile(f"{ranges[-1][1]} flat values of {bits} bits")
    buffer = page.locate(encoding.buffer)
    if bits == 1:
        return Slots(FixedWidth(1, (yield from _read_bits(page, buffer, ranges))))
    data = yield from read_parts(
        page, buffer, scaled(ranges, bits // 8), encoding.compression.scheme
    )
    return Slots(FixedWidth(bits, typed(data, bits)))


def read_parts(
    page: ArrayPage, buffer: ByteRange, spans: Sequence[ByteRange], scheme: str = ""
) -> Steps[Bytes]:
    """Read parts of a buffer and join them; for the arguments see `read_spans`.

    Many small parts are cut out of what lies around them in one go.
    """
    bounds = bounds_of(spans)
    if len(spans) < _MANY or np.any(bounds[1:, 0] < bounds[:-1, 1]):
        return joined((yield from read_spans(page, buffer, spans, scheme)))
    blocks = _blocks(bounds)
    pieces = yield from read_spans(page, buffer, [_hull(block) for block in blocks], scheme)
    found = [
        gather(piece, block[:, 0] - block[0, 0], block[:, 1] - block[0, 0])
        for piece, block in zip(pieces, blocks, strict=True)
    ]
    return joined(found)


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


def _blocks(spans: Ints) -> list[Ints]:
    """Part spans, ascending and of shape (spans, 2), where much lies between two of them."""
    return np.split(spans, np.flatnonzero(spans[1:, 0] - spans[:-1, 1] > _GAP) + 1)


def _hull(spans: Ints) -> ByteRange:
    return int(spans[0, 0]), int(spans[-1, 1])


def _read_bits(page: ArrayPage, buffer: ByteRange, rows: Sequence[RowRange]) -> Steps[Array]:
    """Read bits, which need not begin or end at the border of a byte, as bytes."""
    if len(rows) >= _MANY and count_rows(rows) < _FEW_BITS * len(rows):
        blocks = _blocks(bounds_of(rows))
        hulls = [_hull(block) for block in blocks]
        pieces = yield from read_spans(page, buffer, [_bytes_of(*hull) for hull in hulls])
        bits = []
        for piece, block, (start, _) in zip(pieces, blocks, hulls, strict=True):
            places = rows_of(RowRanges(block))
            bits.append((piece[places // 8 - start // 8] >> places % 8 & 1).astype(np.uint8))
        return joined(bits)
    pieces = yield from read_spans(page, buffer, [_bytes_of(start, end) for start, end in rows])
    return joined(
        [
            np.unpackbits(piece, bitorder="little")[start % 8 : start % 8 + end - start]
            for piece, (start, end) in zip(pieces, rows, strict=True)
        ]
    )


def _bytes_of(start: int, end: int) -> ByteRange:
    """Return the bytes that hold some bits."""
    return start // 8, -(-end // 8)


def _check(wanted: int, present: int) -> None:
    if wanted > present:
        raise CorruptFile(f"{wanted} bytes of values are wanted, the buffer has {present}")
