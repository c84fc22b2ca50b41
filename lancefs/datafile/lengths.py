"""How long values are, where a page tells it without them.

Large values stand in a page each behind its levels and its length, and an index says where each row
begins. Where nothing is compressed, what a row takes there tells how long its value is, or that it
is null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.container import Page
from lancefs.datafile.fields import Field
from lancefs.datafile.layouts.fullzip import FullZipPage
from lancefs.datafile.layouts.registry import open_page
from lancefs.datafile.pages import by_page
from lancefs.datafile.reader import FieldReader
from lancefs.datafile.structural import StructuralReader
from lancefs.errors import CorruptFile, locating
from lancefs.storage import Steps, together

NULL = -1


def value_lengths(
    reader: FieldReader, field: Field, ranges: Sequence[RowRange]
) -> Steps[Ints | None]:
    """Tell how many bytes the values of a column of strings or binaries have.

    Args:
        reader: Of the data file.
        field: The field, pruned to what the file holds.
        ranges: Rows of the file, ascending and disjoint.

    Returns:
        The lengths, `NULL` for nulls; None where the values must be read to know them.

    Raises:
        CorruptFile: The metadata of the column, or an index of rows, is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader) or not _is_plain(field, reader):
        return None
    index = reader.columns[field.id]
    yield from reader.container.load([index])
    with locating(reader.container.file.url, f"column {index} ({field.name})"):
        column = reader.container.column(index)
        wanted = [(column.pages[page], rows) for page, rows in by_page(column.first_rows, ranges)]
        pages = [_with_index(page) for page, _ in wanted]
        if None in pages:
            return None
        parts = yield from together(
            [_lengths(page, rows) for page, (_, rows) in zip(pages, wanted, strict=True) if page]
        )
        return np.concatenate([np.empty(0, np.int64), *parts])


def _is_plain(field: Field, reader: StructuralReader) -> bool:
    """Whether a field is a column of strings or binaries."""
    data_type = field.storage_type
    kinds = (
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_large_string,
        pa.types.is_large_binary,
    )
    is_leaf = field.is_leaf and not field.is_blob and field.id in reader.columns
    return is_leaf and any(kind(data_type) for kind in kinds)


def _with_index(page: Page) -> FullZipPage | None:
    """Return the reader of a page, if its index of rows tells the lengths of its values."""
    reader = open_page(page)
    if not isinstance(reader, FullZipPage) or reader.is_fixed or reader.top:
        return None
    values = reader.layout.value_compression
    is_plain = values.WhichOneof("compression") == "variable"
    is_plain = is_plain and not values.variable.HasField("values")
    return reader if is_plain and len(reader.layers) == 1 else None


def _lengths(page: FullZipPage, ranges: Sequence[RowRange]) -> Steps[Ints]:
    bounds = yield from page.row_bounds(ranges)
    sizes = np.concatenate([np.diff(rows) for rows in bounds]) - page.word
    lengths = np.where(sizes == 0, NULL, sizes - page.width)
    if np.any((lengths < 0) & (sizes != 0)):
        raise CorruptFile("rows of a full-zip page that are shorter than their lengths and levels")
    return lengths
