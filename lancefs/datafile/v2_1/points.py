"""A few rows of many leaf columns, read in one call of a kernel (data files 2.1 and later).

Reading a page takes some time in Python, however few of its rows are wanted. What a kernel needs to
know of a page is a row of numbers, its *plan*: where its buffers are, and how its values and levels
are stored. The kernel finds the values at the same rows of all pages of many leaves. Leaves with a
page that it does not know are read in the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints
from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import take_points
from lancefs.datafile.kernels.points import Stored
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding
from lancefs.storage import ByteRange, Bytes

# Most rows that are read in this way, most bytes of the chunk table of a page, which is walked up
# to its end for every read, and the share of a column's rows above which whole pages are quicker.
MOST_ROWS = 4096
_MOST_TABLE_BYTES = 64 * 1024
_LEAST_SHARE = 4

_WIDTHS = (8, 16, 32, 64)  # bits of values that are bit-packed
_MOST_BITS = 256  # of a plain value: those of a decimal
_LEVEL_BITS = 16
_ALIGN = 64  # bytes, of the values of a leaf


class LeafPlan(NamedTuple):
    """What the kernel needs to know of a leaf.

    Attributes:
        pages: The plan of each page; see `kernels.points.PageColumn`.
        data_type: The Arrow type of the values.
        bits: Bits of a value.
        has_levels: Whether a page has definition levels.
        rows: Number of rows.
        span: Start of the first and end of the last buffer.
    """

    pages: Ints
    data_type: pa.DataType
    bits: int
    has_levels: bool
    rows: int
    span: ByteRange


def plan_leaf(field: Field, column: ColumnPages) -> LeafPlan | None:
    """Plan how the kernel reads a leaf; None where it does not know one of its pages.

    Args:
        field: The field, which is at the top of the table and no outline.
        column: The pages of the leaf.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The layout of a page, or the type of the field, is not known.
    """
    data_type = field.storage_type
    try:
        bits = int(data_type.bit_width)
    except ValueError:  # a type of variable width
        return None
    is_plain = not (pa.types.is_nested(data_type) or pa.types.is_dictionary(data_type))
    if not (column.pages and is_plain and 0 < bits <= _MOST_BITS):
        return None
    plans = []
    for page, first_row in zip(column.pages, column.first_rows, strict=False):
        plan = _plan_page(page, first_row, bits)
        if plan is None:
            return None
        plans.append(plan)
    pages = np.array(plans, np.int64)
    span = int(pages[:, 2:6].min()), int(pages[:, 2:6].max())
    has_levels = bool(pages[:, 9].any())
    return LeafPlan(pages, data_type, bits, has_levels, column.first_rows[-1], span)


def _plan_page(page: Page, first_row: int, bits: int) -> tuple[int, ...] | None:
    description = layout_of(page.encoding)
    if not isinstance(description, MiniBlock):
        return None
    stored = _stored_as(description, bits)
    if stored is None or description.items != page.rows:
        return None
    description.check_buffers(page)
    (begin, end), chunks = page.buffers[:2]
    if end - begin > _MOST_TABLE_BYTES:
        return None
    return (first_row, page.rows, begin, end, *chunks, description.width, *stored)


def _stored_as(description: MiniBlock, bits: int) -> tuple[int, int, int, int] | None:
    """Return how the values and levels of a page are stored; None where the kernel cannot tell."""
    layers = description.layers
    is_plain = len(layers) == 1 and not layers[0].is_list and description.buffers == 1
    if not is_plain or description.has_rep or description.has_dictionary:
        return None
    values = _values_stored_as(description.layout.value_compression, bits)
    if values is None:
        return None
    if not description.has_def:
        return values, bits, Stored.NONE, 0
    if not layers[0].nullable:
        return None
    levels = _levels_stored_as(description.layout.def_compression)
    return None if levels is None else (values, bits, *levels)


def _values_stored_as(encoding: CompressiveEncoding, bits: int) -> Stored | None:
    match encoding.WhichOneof("compression"):
        case "flat" if not encoding.flat.HasField("data"):
            is_known = encoding.flat.bits_per_value == bits and (bits == 1 or bits % 8 == 0)
            return Stored.FLAT if is_known else None
        case "inline_bitpacking" if not encoding.inline_bitpacking.HasField("values"):
            packed = encoding.inline_bitpacking.uncompressed_bits_per_value
            return Stored.PACKED if packed == bits and bits in _WIDTHS else None
        case _:
            return None


def _levels_stored_as(encoding: CompressiveEncoding) -> tuple[int, int] | None:
    """Return how levels are stored, and the bits of a level that is packed apart from its width."""
    match encoding.WhichOneof("compression"):
        case "flat" | "inline_bitpacking":
            stored = _values_stored_as(encoding, _LEVEL_BITS)
            return None if stored is None else (stored, 0)
        case "out_of_line_bitpacking":
            packed = encoding.out_of_line_bitpacking
            width = _flat_bits(packed.values)
            is_known = packed.uncompressed_bits_per_value == _LEVEL_BITS
            is_known = is_known and width is not None and 0 < width <= _LEVEL_BITS
            return (Stored.PACKED_APART, width or 0) if is_known else None
        case "rle":
            is_known = _flat_bits(encoding.rle.values) == _LEVEL_BITS
            is_known = is_known and _flat_bits(encoding.rle.run_lengths) == 8
            return (Stored.RUNS, 0) if is_known else None
        case _:
            return None


def _flat_bits(encoding: CompressiveEncoding) -> int | None:
    """Return the bits of plain values; None for any other encoding."""
    if encoding.WhichOneof("compression") != "flat" or encoding.flat.HasField("data"):
        return None
    return int(encoding.flat.bits_per_value)


def is_worthwhile(count: int, rows: int) -> bool:
    """Whether so many rows are few enough, of a column of so many rows, to be read singly."""
    return 0 < count <= min(MOST_ROWS, rows // _LEAST_SHARE)


def span_of(plans: Sequence[LeafPlan]) -> ByteRange:
    """Return the byte range of a file that has all pages of leaves."""
    return min([plan.span[0] for plan in plans]), max([plan.span[1] for plan in plans])


class Points(NamedTuple):
    """The values of leaves at some rows.

    Attributes:
        arrays: The values of each leaf.
        size: Number of bytes that were looked at.
        places: Number of places where they are.
    """

    arrays: list[pa.Array]
    size: int
    places: int


def read_points(plans: Sequence[LeafPlan], rows: Ints, data: Bytes, start: int) -> Points:
    """Read the values of leaves at the same rows.

    Args:
        plans: The plan of each leaf.
        rows: The rows, ascending and each once, within the leaves.
        data: Bytes of the file that hold the pages.
        start: Where the bytes begin in the file.

    Raises:
        CorruptFile: A page is damaged.
    """
    count = len(rows)
    pages = np.concatenate([plan.pages for plan in plans])
    pages[:, 2:6] -= start
    leaves, size, first = [], 0, 0
    sizes = []
    for plan in plans:
        length = (count * plan.bits + 7) // 8
        validity = size + -(-length // 8) * 8 if plan.has_levels else -1
        leaves.append((first, len(plan.pages), size, validity))
        sizes.append(length)
        first += len(plan.pages)
        size = -(-(size + length + (16 + count // 8 if plan.has_levels else 0)) // _ALIGN) * _ALIGN
    out, nulls = take_points(data, pages, np.array(leaves, np.int64), rows, size)
    buffer, null_counts = pa.py_buffer(out), nulls.tolist()
    arrays = []
    for plan, (_, _, at, validity), length, found in zip(
        plans, leaves, sizes, null_counts, strict=False
    ):
        valid = buffer.slice(validity, (count + 7) // 8) if found else None
        buffers = [valid, buffer.slice(at, length)]
        arrays.append(pa.Array.from_buffers(plan.data_type, count, buffers, found))
    return Points(arrays, *null_counts[-2:])
