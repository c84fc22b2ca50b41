"""Blocks: decoded values between the bytes of a data file and Arrow arrays.

A block holds `length` values without their validity, which comes from the definition levels
(`v2_1/levels.py`) or from the item validity of a fixed-size list. Every block can be cut to row
ranges without a loop over values.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from lancefs.datafile.buffers import PLACE_BYTES, reserve
from lancefs.datafile.buffers import Array as Array
from lancefs.datafile.buffers import Ints as Ints
from lancefs.datafile.buffers import Mask as Mask
from lancefs.datafile.buffers import dtype_of as dtype_of
from lancefs.datafile.kernels import gather as gather
from lancefs.datafile.row_ranges import RowRange as RowRange
from lancefs.datafile.row_ranges import bounds_of, count_rows, rows_of, scaled
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# Up to this number of ranges, cutting one by one is faster than computing the index of each value.
_FEW_RANGES = 8


class FixedWidth(NamedTuple):
    """Values of one width.

    Attributes:
        bits: The width of a value.
        values: The values, one-dimensional: unsigned integers for values of 1, 2, 4 or 8 bytes, a
            void dtype for other widths. Single bits (`bits == 1`) take a byte each, 0 or 1.
    """

    bits: int
    values: Array

    @property
    def length(self) -> int:
        return len(self.values)

    def select(self, ranges: Sequence[RowRange]) -> "FixedWidth":
        return FixedWidth(self.bits, select(self.values, ranges))


class VariableWidth(NamedTuple):
    """Byte strings: value i is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: Array  # length + 1 ascending offsets, int32 or int64
    data: Bytes

    @property
    def length(self) -> int:
        return len(self.offsets) - 1

    def select(self, ranges: Sequence[RowRange]) -> "VariableWidth":
        if len(ranges) == 1:
            start, end = ranges[0]
            return VariableWidth(self.offsets[start : end + 1], self.data)
        lengths = select(np.diff(self.offsets), ranges)
        bounds = self.offsets[bounds_of(ranges)].astype(np.int64, copy=False)
        return VariableWidth(offsets_of(lengths), gather(self.data, bounds[:, 0], bounds[:, 1]))


class Dictionary(NamedTuple):
    """Values as indices into a block of items."""

    indices: Array  # unsigned integers, all below items.length
    items: "Block"

    @property
    def length(self) -> int:
        return len(self.indices)

    def select(self, ranges: Sequence[RowRange]) -> "Dictionary":
        return Dictionary(select(self.indices, ranges), self.items)


class FixedSizeList(NamedTuple):
    """Lists of `dimension` items each; `validity` belongs to the items, None if all are valid."""

    dimension: int
    items: "Block"
    validity: Mask | None
    length: int

    def select(self, ranges: Sequence[RowRange]) -> "FixedSizeList":
        items = scaled(ranges, self.dimension)
        validity = None if self.validity is None else select(self.validity, items)
        return FixedSizeList(self.dimension, self.items.select(items), validity, count_rows(ranges))


class Struct(NamedTuple):
    """Rows of a packed struct: one block for each child."""

    children: "tuple[Block, ...]"
    length: int

    def select(self, ranges: Sequence[RowRange]) -> "Struct":
        children = tuple(child.select(ranges) for child in self.children)
        return Struct(children, count_rows(ranges))


class Constant(NamedTuple):
    """One value, `length` times; a value of None stands for nulls."""

    value: bytes | None
    length: int

    def select(self, ranges: Sequence[RowRange]) -> "Constant":
        return Constant(self.value, count_rows(ranges))


Block: TypeAlias = FixedWidth | VariableWidth | Dictionary | FixedSizeList | Struct | Constant


def lengths_of(block: Block) -> Ints:
    """Return the length of each byte string; 0 for a null.

    Raises:
        CorruptFile: The values are no byte strings.
    """
    match block:
        case VariableWidth():
            return np.diff(block.offsets).astype(np.int64, copy=False)
        case Dictionary():
            lengths: Ints = lengths_of(block.items)[block.indices]
            return lengths
        case Constant():
            return np.full(block.length, len(block.value or b""), np.int64)
        case _:
            raise CorruptFile("values that are not byte strings, in a column of byte strings")


def spread(block: Block, filled: Mask) -> Block:
    """Spread values over the filled slots; the content of other slots is undefined.

    Args:
        block: One value for each filled slot.
        filled: Which slots have a value.
    """
    match block:
        case FixedWidth():
            return FixedWidth(block.bits, _spread(block.values, filled))
        case VariableWidth():
            lengths = _spread(np.diff(block.offsets), filled)
            return VariableWidth(offsets_of(lengths), block.data[int(block.offsets[0]) :])
        case Dictionary():
            return Dictionary(_spread(block.indices, filled), block.items)
        case FixedSizeList():
            below = np.repeat(filled, block.dimension)
            validity = None if block.validity is None else _spread(block.validity, below)
            items = spread(block.items, below)
            return FixedSizeList(block.dimension, items, validity, len(filled))
        case Struct():
            return Struct(tuple(spread(child, filled) for child in block.children), len(filled))
        case Constant():
            return Constant(block.value, len(filled))


def _spread(values: Array, filled: Mask) -> Array:
    out = np.zeros(len(filled), values.dtype)
    out[filled] = values
    return out


def select(values: Array, ranges: Sequence[RowRange]) -> Array:
    """Cut ranges out of a one-dimensional array and join them; a single range is not copied."""
    if len(ranges) == 1:
        return values[ranges[0][0] : ranges[0][1]]
    if not ranges:
        return values[:0]
    if len(ranges) <= _FEW_RANGES:
        return np.concatenate([values[start:end] for start, end in ranges])
    rows: Array = values[rows_of(ranges)]
    return rows


def offsets_of(lengths: Array) -> Ints:
    """Return the n + 1 offsets of n values of the given lengths."""
    offsets = np.empty(len(lengths) + 1, dtype=np.int64)
    offsets[0] = 0
    lengths.cumsum(out=offsets[1:])
    return offsets


def typed(data: Bytes, bits: int) -> Array:
    """View bytes as values of a width that is a multiple of 8 bits (see `FixedWidth`).

    Raises:
        CorruptFile: The length is not a multiple of the width.
    """
    width = bits // 8
    if bits % 8 or width == 0 or len(data) % width:
        raise CorruptFile(f"a buffer of {len(data)} bytes does not hold values of {bits} bits")
    return np.ascontiguousarray(data).view(dtype_of(width))


def no_width(count: int) -> Array:
    """Return values of no bytes, for binary values of the fixed size 0.

    Raises:
        MemoryLimitExceeded: There are too many of them.
        TooLarge: There are; of fewer rows there may not be.
    """
    reserve(PLACE_BYTES * count)
    return np.empty(count, "V0")
