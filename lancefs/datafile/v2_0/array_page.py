"""Pages of a data file 2.0: their descriptions, and the bytes of their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, Constant, FixedWidth, Ints, Mask, RowRange
from lancefs.datafile.buffers import Array, dtype_of, join_bytes
from lancefs.datafile.kernels import gather
from lancefs.datafile.row_ranges import RowRanges, bounds_of, count_rows, rows_of
from lancefs.datafile.v2_1.encodings import general
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.proto.encodings_v2_1_pb2 import (
    COMPRESSION_ALGORITHM_LZ4,
    COMPRESSION_ALGORITHM_ZSTD,
)
from lancefs.storage import ByteRange, Bytes, Reads

_SCHEMES = {"lz4": COMPRESSION_ALGORITHM_LZ4, "zstd": COMPRESSION_ALGORITHM_ZSTD}
# From this number of spans on, the bytes around several spans are requested as one range, unless
# the gap between two spans has more than `_MAX_GAP` bytes (of bits: rows).
_MANY_SPANS = 16
_MAX_GAP = 64 * 1024
# Where spans of bits are this short on average, their bits are selected one by one.
_SHORT_SPAN = 64


class Slots(NamedTuple):
    """Values with their validity.

    Attributes:
        values: One value per slot. The value of a null slot has no meaning.
        valid: Which slots are not null; None where none is null.
    """

    values: Block
    valid: Mask | None = None

    @property
    def is_all_null(self) -> bool:
        """Whether the description of the page says that every slot is null."""
        return isinstance(self.values, Constant) and self.values.value is None


@dataclass(frozen=True, slots=True)
class ArrayPage:
    """Page with its buffers, and what reads of it share.

    Attributes:
        encoding: Description of the page.
        buffers: Locations in the file of the buffers of the page, of its column and of its file:
            a description names one of these three kinds, and an index.
        zero_based: Whether indices into a dictionary start at 0, as in a column of a dictionary
            type. Elsewhere index 0 means null.
        decompressed: Content of the compressed buffers that were read, by location.
        dictionaries: Items of the dictionaries that were read, by description.
    """

    encoding: pb.ArrayEncoding
    buffers: tuple[tuple[ByteRange, ...], tuple[ByteRange, ...], tuple[ByteRange, ...]]
    zero_based: bool = False
    decompressed: dict[ByteRange, Bytes] = field(default_factory=dict)
    dictionaries: dict[bytes, Slots] = field(default_factory=dict)

    def locate(self, buffer: pb.Buffer) -> ByteRange:
        """Return the location of a buffer in the file.

        Raises:
            CorruptFile: There is no such buffer.
            UnsupportedFeature: The kind of the buffer is not known.
        """
        if buffer.buffer_type not in (pb.Buffer.page, pb.Buffer.column, pb.Buffer.file):
            raise UnsupportedFeature(f"buffers of kind {buffer.buffer_type}")
        kind = pb.Buffer.BufferType.Name(buffer.buffer_type)
        present = self.buffers[buffer.buffer_type]
        if buffer.buffer_index >= len(present):
            raise CorruptFile(
                f"buffer {buffer.buffer_index} of the {kind} is wanted, it has {len(present)}"
            )
        return present[buffer.buffer_index]


# --- integers in decoded slots ---


def as_unsigned(block: Block, what: str) -> Array:
    """Return values as unsigned integers of the width in which they are stored.

    Args:
        block: The values.
        what: Name of the values in messages.

    Raises:
        CorruptFile: The values are not integers.
    """
    if not isinstance(block, FixedWidth) or block.bits not in (8, 16, 32, 64):
        raise CorruptFile(f"{what} are not integers")
    return block.values.view(dtype_of(block.bits // 8))


def as_signed(slots: Slots, what: str) -> Ints:
    """Return slots as 64-bit integers, none of them null; those beyond 2⁶³ are negative.

    Args:
        slots: The slots.
        what: Name of the values in messages.

    Raises:
        CorruptFile: The values are not such integers.
    """
    stored = as_unsigned(slots.values, what)
    if slots.valid is not None and not slots.valid.all():
        raise CorruptFile(f"some of {what} are null")
    return stored.view(np.int64) if stored.itemsize == 8 else stored.astype(np.int64)


# --- descriptions ---


def name_of(encoding: pb.ArrayEncoding) -> str:
    """Return the name of an encoding as messages show it."""
    return encoding.WhichOneof("array_encoding") or "(unknown)"


def without_nulls(encoding: pb.ArrayEncoding, where: str) -> pb.ArrayEncoding:
    """Return the encoding of values, without the `nullable` encodings that say that none is null.

    Args:
        encoding: Encoding of the values.
        where: What contains the values, for messages.

    Raises:
        UnsupportedFeature: Some values may be null.
    """
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            raise UnsupportedFeature(f"nulls in {where}")
        encoding = encoding.nullable.no_nulls.values
    return encoding


def flat_bits(encoding: pb.ArrayEncoding, where: str) -> int:
    """Return the width in bits of values that must be flat and never null.

    Args:
        encoding: Encoding of the values.
        where: What contains the values, for messages.

    Raises:
        UnsupportedFeature: The values have another encoding, or may be null.
    """
    values = without_nulls(encoding, where)
    if values.WhichOneof("array_encoding") != "flat":
        raise UnsupportedFeature(f"encoding {name_of(values)} for {where}; only flat is known")
    return int(values.flat.bits_per_value)


def can_skip(encoding: pb.ArrayEncoding, page: ArrayPage, size: int) -> bool:
    """Check that values are in the file, where the description is enough to check it.

    Args:
        encoding: Encoding of the values, which are never null.
        page: The page.
        size: Least number of bytes of the values.

    Returns:
        Whether the values are known to be there. False where they must be read to know it: they
        are compressed, or not flat.

    Raises:
        CorruptFile: The buffer of the values is too short.
        UnsupportedFeature: Some values may be null.
    """
    values = without_nulls(encoding, "values that are not read")
    scheme = values.flat.compression.scheme if values.flat.HasField("compression") else ""
    if values.WhichOneof("array_encoding") != "flat" or scheme not in ("", "none"):
        return False
    start, end = page.locate(values.flat.buffer)
    if size > end - start:
        raise CorruptFile(f"{size} bytes of values are expected, the buffer has {end - start}")
    return True


# --- bytes of buffers ---


def read_spans(
    page: ArrayPage, buffer: ByteRange, spans: Sequence[ByteRange], scheme: str = ""
) -> Reads[Sequence[Bytes]]:
    """Read spans of a buffer.

    An uncompressed buffer is read in part, a compressed one as a whole, once.

    Args:
        page: Page that the buffer belongs to.
        buffer: Location of the buffer in the file.
        spans: First byte and end of each span, within the uncompressed buffer.
        scheme: Compression of the buffer; empty where there is none.

    Raises:
        CorruptFile: A span ends beyond the buffer, or the buffer does not decompress.
        UnsupportedFeature: The compression is not known.
    """
    if not spans:
        return []
    end = max(end for _, end in spans)
    if scheme in ("", "none"):
        base, limit = buffer
        _check_end(end, limit - base)
        return (yield [(base + first, base + stop) for first, stop in spans])
    if buffer not in page.decompressed:
        if scheme not in _SCHEMES:
            raise UnsupportedFeature(f"buffers compressed with {scheme!r}")
        (compressed,) = yield [buffer]
        page.decompressed[buffer] = general.decompress(_SCHEMES[scheme], compressed)
    content = page.decompressed[buffer]
    _check_end(end, len(content))
    return [content[first:stop] for first, stop in spans]


def _check_end(end: int, size: int) -> None:
    if end > size:
        raise CorruptFile(f"{end} bytes of values are wanted, the buffer has {size}")


def read_joined(
    page: ArrayPage, buffer: ByteRange, spans: Sequence[ByteRange], scheme: str = ""
) -> Reads[Bytes]:
    """Read spans of a buffer as one array; see `read_spans`. Many spans share requests."""
    bounds = bounds_of(spans)
    if len(spans) < _MANY_SPANS or np.any(bounds[1:, 0] < bounds[:-1, 1]):
        return join_bytes((yield from read_spans(page, buffer, spans, scheme)))
    groups = _group(bounds)
    pieces = yield from read_spans(page, buffer, [_hull(group) for group in groups], scheme)
    return join_bytes(
        [
            gather(piece, group[:, 0] - group[0, 0], group[:, 1] - group[0, 0])
            for piece, group in zip(pieces, groups, strict=True)
        ]
    )


def read_bits(page: ArrayPage, buffer: ByteRange, rows: Sequence[RowRange]) -> Reads[Bytes]:
    """Read rows of one bit each from an uncompressed buffer, into a byte each, 0 or 1.

    Args:
        page: Page that the buffer belongs to.
        buffer: Location of the buffer in the file.
        rows: The rows, ascending.

    Raises:
        CorruptFile: A row lies beyond the buffer.
    """
    if len(rows) >= _MANY_SPANS and count_rows(rows) < _SHORT_SPAN * len(rows):
        groups = _group(bounds_of(rows))
        hulls = [_hull(group) for group in groups]
        pieces = yield from read_spans(page, buffer, [_bytes_of_bits(*hull) for hull in hulls])
        bits = []
        for piece, group, (start, _) in zip(pieces, groups, hulls, strict=True):
            places = rows_of(RowRanges(group))
            bits.append((piece[places // 8 - start // 8] >> places % 8 & 1).astype(np.uint8))
        return join_bytes(bits)
    pieces = yield from read_spans(page, buffer, [_bytes_of_bits(*range_) for range_ in rows])
    return join_bytes(
        [
            np.unpackbits(piece, bitorder="little")[start % 8 : start % 8 + end - start]
            for piece, (start, end) in zip(pieces, rows, strict=True)
        ]
    )


def _group(spans: Ints) -> list[Ints]:
    """Split ascending spans, of shape (spans, 2), at large gaps."""
    return np.split(spans, np.flatnonzero(spans[1:, 0] - spans[:-1, 1] > _MAX_GAP) + 1)


def _hull(spans: Ints) -> ByteRange:
    return int(spans[0, 0]), int(spans[-1, 1])


def _bytes_of_bits(start: int, end: int) -> ByteRange:
    """Return the range of bytes that holds a range of bits."""
    return start // 8, -(-end // 8)
