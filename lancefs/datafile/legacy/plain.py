"""Plain: values of a fixed width, one after the other; booleans take a bit each.

A page starts at any byte. Fixed-size lists are their items, one list after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import Block, FixedSizeList, FixedWidth, Ints, offsets_of, typed
from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.page_slots import Pages, Pieces
from lancefs.errors import UnsupportedFeature
from lancefs.storage import Bytes, Steps


def read(column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read pieces of a field of fixed width; all values are valid."""
    block = yield from _read_block(column.pages, pieces, column.data_type)
    return to_arrow(block, column.data_type, None)


def _read_block(pages: Pages, pieces: Pieces, data_type: pa.DataType) -> Steps[Block]:
    if not pa.types.is_fixed_size_list(data_type):
        return (yield from read_values(pages, pieces, _bit_width(data_type)))
    size = data_type.list_size
    pages.check(pieces)
    items = yield from _read_block(pages.scaled(size), pieces.scaled(size), data_type.value_type)
    return FixedSizeList(size, items, None, pieces.count)


def check(pages: Pages, pieces: Pieces, data_type: pa.DataType) -> None:
    """Check that pieces which are not read are in the file; raises as `read_values` does."""
    if not pa.types.is_fixed_size_list(data_type):
        pages.bytes_of(pieces, _bit_width(data_type))
    else:
        pages.check(pieces)
        size = data_type.list_size
        check(pages.scaled(size), pieces.scaled(size), data_type.value_type)


def read_values(pages: Pages, pieces: Pieces, bits: int) -> Steps[FixedWidth]:
    """Read pieces of pages of values.

    Args:
        pages: The pages.
        pieces: What is wanted of them, in values.
        bits: The width of a value.

    Raises:
        CorruptFile: Values are wanted that lie outside of their page or the file.
    """
    ranges, shifts = pages.bytes_of(pieces, bits)
    buffers = yield ranges
    data = joined(buffers)
    if bits == 1:
        sizes = np.array([len(buffer) for buffer in buffers], dtype=np.int64)
        return FixedWidth(1, _bits(data, sizes, shifts, pieces.lengths))
    if bits == 0:
        return FixedWidth(0, np.empty(pieces.count, "V0"))
    return FixedWidth(bits, typed(_aligned(data, bits // 8), bits))


def joined(buffers: Sequence[Bytes]) -> Bytes:
    """Join buffers; a single one is not copied."""
    return buffers[0] if len(buffers) == 1 else np.concatenate([np.empty(0, np.uint8), *buffers])


def _bit_width(data_type: pa.DataType) -> int:
    try:
        return int(data_type.bit_width)
    except ValueError:
        raise UnsupportedFeature(f"the plain encoding of {data_type}") from None


def _aligned(data: Bytes, width: int) -> Bytes:
    """Return bytes that start where values of a width may start in memory, copied if need be."""
    step = min(width & -width, 16)
    return data if data.ctypes.data % step == 0 else data.copy()


def _bits(data: Bytes, sizes: Ints, shifts: Ints, counts: Ints) -> Bytes:
    """Unpack bits: piece i is `counts[i]` of them in `sizes[i]` bytes, the first `shifts[i]` on."""
    bits = np.unpackbits(data, bitorder="little")
    first = offsets_of(sizes)[:-1] * 8 + shifts
    if len(counts) == 1:
        return bits[first[0] : first[0] + counts[0]]
    total = int(counts.sum())
    return bits[np.arange(total) + np.repeat(first - offsets_of(counts)[:-1], counts)]
