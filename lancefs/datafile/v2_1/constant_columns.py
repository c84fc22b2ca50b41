"""A few rows of columns that have one value, or none, in all pages of several local files.

The descriptions of the pages tell the value, so that no byte of a page is read, and no page is
opened: a column without values costs as little in a hundred fragments as in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import Constant, RowRange
from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.kernel_choice import MAX_ROWS
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.levels import parse_layers
from lancefs.datafile.v2_1.page_plans import CODED, value_bits
from lancefs.datafile.v2_1.point_plans import FEW_PAGES
from lancefs.datafile.v2_1.point_reader import PointReader
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import count_pages


class _OneValue(NamedTuple):
    """The value of all rows: its bytes, or None where all rows are null."""

    value: bytes | None


def read_constant(
    files: Sequence[tuple[PointReader, Sequence[RowRange]]], field: Field
) -> pa.Array | None:
    """Return rows of a column of several files; None where it may have several values.

    Args:
        files: The reader of each file 2.1 or later, and ranges of its rows, ascending and disjoint.
        field: The column, pruned to what each of the files holds.

    Raises:
        CorruptFile: The metadata of a file is damaged.
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
    """
    is_other = field.is_outline or field.is_validity or field.is_blob or field.is_decimal64
    if not field.is_leaf or field.children or is_other:
        return None
    bits, count = value_bits(field.storage_type), sum(count_rows(ranges) for _, ranges in files)
    if bits is None or bits == CODED or not 0 < count <= MAX_ROWS:
        return None
    known: _OneValue | None = None
    for reader, ranges in files:
        if field.id not in reader.columns:
            return None
        index = reader.columns[field.id]
        reader.container.load_columns([index])
        column = reader.container.column(index)
        found, rows = None, column.first_rows[-1]
        with suppress(CorruptFile, UnsupportedFeature):  # in a page that may not be wanted
            found = _value_of(column)
        if found is None or known not in (None, found):
            return None
        if not reader.may_have(rows) or (len(ranges) and ranges[-1][1] > rows):
            return None  # page by page, the error says what is damaged
        known = found
    assert known is not None  # of one file at least
    count_pages(len(files))
    if known.value is None:
        return pa.nulls(count, field.storage_type)
    return to_arrow(Constant(known.value, count), field.storage_type, None) if bits else None


@lru_cache(maxsize=2048)  # a table that is opened again, or whose files are alike
def _value_of(column: ColumnPages) -> _OneValue | None:
    """Return what all pages of a column hold; None where it takes more than descriptions to know.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The layout of a page is not known.
    """
    if not 0 < len(column.pages) <= FEW_PAGES:
        return None
    values = {_value_in(page) for page in column.pages}
    return values.pop() if len(values) == 1 else None


def _value_in(page: Page) -> _OneValue | None:
    layout = layout_of(page.encoding)
    if not isinstance(layout, partial) or any(start < end for start, end in page.buffers):
        return None
    from lancefs.datafile.v2_1.layouts.constant_page import ConstantPage  # few files have them

    if layout.func is not ConstantPage:
        return None
    described = layout.keywords["layout"]
    layers, is_null = parse_layers(described.layers), not described.HasField("inline_value")
    if len(layers) != 1 or layers[0].is_list or (is_null and layers[0].levels != 1):
        return None
    return _OneValue(None if is_null else described.inline_value)
