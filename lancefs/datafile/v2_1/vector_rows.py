"""A few rows of a column of vectors, whose pages hold nothing but the numbers.

A full-zip page of vectors without levels and nulls is rows of bytes of one width. Nothing has to be
decoded: the rows of all pages are copied by one call of a kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import check_size
from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.kernels import gather
from lancefs.datafile.v2_1.layouts.page_layouts import open_page
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.errors import CorruptFile
from lancefs.storage import ByteRange, Bytes


class VectorPlan(NamedTuple):
    """How the rows of a column of vectors are found.

    Attributes:
        data_type: The type of the column.
        width: Bytes of a vector.
        first_rows: First row of each page, then the number of rows of the column: int64, shape
            (pages + 1,).
        places: Where the first row of each page is in the file: int64, shape (pages,).
        span: Byte range of the file that has all pages.
    """

    data_type: pa.FixedSizeListType
    width: int
    first_rows: Ints
    places: Ints
    span: ByteRange

    def read(self, data: Bytes, rows: Ints) -> pa.Array:
        """Return rows.

        Args:
            data: The bytes of the file in `span`: uint8, shape (bytes,).
            rows: The rows: int64, shape (rows,), ascending and each once, at least one.

        Raises:
            CorruptFile: There is no such row.
            TooLarge: The rows have more bytes than `limited` allows.
            MemoryLimitExceeded: They do, and no fewer rows can be read.
        """
        if rows[-1] >= self.first_rows[-1]:
            raise CorruptFile(f"row {rows[-1]} of a column of {self.first_rows[-1]} rows")
        size = len(rows) * self.width
        check_size(size, size)
        page = self.pages_of(rows)
        starts = self.places[page] + (rows - self.first_rows[page]) * self.width - self.span[0]
        values = gather(data, starts, starts + self.width)
        if starts[-1] + self.width - starts[0] == size:  # a part of `data`
            values = values.copy()
        kind = self.data_type.value_type
        count = len(rows) * self.data_type.list_size
        items = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], 0)
        return pa.Array.from_buffers(self.data_type, len(rows), [None], 0, children=[items])

    def pages_of(self, rows: Ints) -> Ints:
        """Return the page of each row."""
        page: Ints = self.first_rows.searchsorted(rows, side="right") - 1
        return page


def plan_vectors(leaf: LeafField, column: ColumnPages) -> VectorPlan | None:
    """Plan how rows of a column are found; None where it is not one of vectors without nulls.

    Args:
        leaf: The column.
        column: Its pages, at least one.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    data_type = leaf.field.storage_type
    if leaf.around or leaf.field.is_outline or not pa.types.is_fixed_size_list(data_type):
        return None
    if not column.pages or not all(_is_plain(page, data_type) for page in column.pages):
        return None
    starts = np.array([page.buffers[0][0] for page in column.pages], np.int64)
    ends = max(page.buffers[0][1] for page in column.pages)
    width = data_type.list_size * data_type.value_type.bit_width // 8
    first_rows = np.array(column.first_rows, np.int64)
    return VectorPlan(data_type, width, first_rows, starts, (int(starts.min()), ends))


def _is_plain(page: Page, data_type: pa.FixedSizeListType) -> bool:
    """Whether the rows of a page are vectors of a type, one behind the other."""
    # Tables without vectors need none of it.
    from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage

    reader, kind = open_page(page), data_type.value_type
    if not isinstance(reader, FullZipPage) or reader.word or reader.has_index:
        return False
    if len(reader.layers) != 1 or not pa.types.is_primitive(kind) or kind.bit_width % 8:
        return False
    encoding = reader.layout.value_compression
    if encoding.WhichOneof("compression") != "fixed_size_list":
        return False
    lists = encoding.fixed_size_list
    is_flat = lists.values.WhichOneof("compression") == "flat"
    if not is_flat or lists.values.flat.HasField("data") or lists.has_validity:
        return False
    if (lists.items_per_value, lists.values.flat.bits_per_value) != (
        data_type.list_size,
        kind.bit_width,
    ):
        return False
    start, end = page.buffers[0]
    own = data_type.list_size * kind.bit_width // 8
    return bool(reader.width == own and 0 <= page.rows * own <= end - start)
