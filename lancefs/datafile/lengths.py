"""How long values are, and which are null, without the values being decoded.

What tells it depends on the page: the index of rows of large values, which stand in a page each
behind its levels and its length; the offsets of strings in chunks; the lengths of symbols and of
the items of dictionaries; definition levels alone, for values of fixed width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import (
    Block,
    Constant,
    Dictionary,
    FixedWidth,
    Ints,
    RowRange,
    lengths_of,
)
from lancefs.datafile.buffers import empty
from lancefs.datafile.encodings import registry
from lancefs.datafile.encodings.registry import Chunked
from lancefs.datafile.fields import Field
from lancefs.datafile.layouts.constant import ConstantPage
from lancefs.datafile.layouts.fullzip import FullZipPage
from lancefs.datafile.layouts.miniblock import MiniBlockPage
from lancefs.datafile.layouts.page import PageReader
from lancefs.datafile.levels import Leaf
from lancefs.datafile.pages import by_page
from lancefs.datafile.reader import FieldReader
from lancefs.datafile.row_ranges import as_ranges
from lancefs.datafile.structural import StructuralReader
from lancefs.errors import CorruptFile, locating
from lancefs.storage import Steps, together

NULL = -1


class _Levels(MiniBlockPage):
    """Reads the levels of values without them; shares its chunk table with who reads values.

    Args:
        page: The reader of the values.
    """

    def __init__(self, page: MiniBlockPage) -> None:
        super().__init__(page.page, page.described)
        self._index = page._index
        self._page = page

    def read(self, ranges: Sequence[RowRange]) -> Steps[Leaf]:
        leaf = yield from super().read(ranges)
        self._page._index = self._index
        return leaf

    def values(
        self,
        buffers: list[Chunked],
        counts: Ints,
        dictionary: Block | None,
        wanted: Ints | None = None,
    ) -> Block:
        return Constant(b"", int(counts.sum()) if wanted is None else len(wanted))


class _Lengths(_Levels):
    """Reads the lengths of values in place of the values."""

    def values(
        self,
        buffers: list[Chunked],
        counts: Ints,
        dictionary: Block | None,
        wanted: Ints | None = None,
    ) -> Block:
        if dictionary is not None:
            items = FixedWidth(64, lengths_of(dictionary))
            return self._page.values(buffers, counts, items, wanted)
        encoding = self.layout.value_compression
        lengths = FixedWidth(64, registry.value_lengths(encoding, buffers, counts))
        return lengths if wanted is None else lengths.select(as_ranges(wanted))


_Page: TypeAlias = FullZipPage | _Levels | ConstantPage


def value_lengths(
    reader: FieldReader, field: Field, ranges: Sequence[RowRange]
) -> Steps[Ints | None]:
    """Tell how many bytes the values of a column have.

    Args:
        reader: Of the data file.
        field: The field, pruned to what the file holds.
        ranges: Rows of the file, ascending and disjoint.

    Returns:
        The lengths, `NULL` for nulls and 0 for all other values of fixed width; None where the
        values must be read to know them.

    Raises:
        CorruptFile: The metadata of the column, or what tells the lengths, is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader) or not _is_plain(field, reader):
        return None
    index = reader.columns[field.id]
    yield from reader.container.load([index])
    with locating(reader.container.file.url, f"column {index} ({field.name})"):
        column = reader.container.column(index)
        wanted = by_page(column.first_rows, ranges)
        is_variable = _is_variable(field.storage_type)
        pages = [_opened(reader.page(index, page), is_variable) for page, _ in wanted]
        if None in pages:
            return None
        told = [
            _lengths(page, rows, is_variable)
            for page, (_, rows) in zip(pages, wanted, strict=True)
            if page
        ]
        parts = yield from together(told)
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def _is_plain(field: Field, reader: StructuralReader) -> bool:
    """Whether a field is a column of single values, which readers see as they are stored."""
    if not field.is_leaf or field.children or field.is_blob or field.is_json:
        return False
    return field.id in reader.columns and (
        _is_variable(field.storage_type) or pa.types.is_primitive(field.storage_type)
    )


def _is_variable(data_type: pa.DataType) -> bool:
    kinds = (
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_large_string,
        pa.types.is_large_binary,
    )
    return any(kind(data_type) for kind in kinds)


def _opened(reader: PageReader, is_variable: bool) -> _Page | None:
    """Return what reads the lengths of a page; None where its values must be read."""
    if not isinstance(reader, FullZipPage | MiniBlockPage | ConstantPage):
        return None
    if len(reader.layers) != 1 or reader.layers[0].is_list:
        return None
    if isinstance(reader, MiniBlockPage):
        return _Lengths(reader) if is_variable else _Levels(reader)
    if isinstance(reader, FullZipPage):
        values = reader.layout.value_compression
        is_plain = values.WhichOneof("compression") == "variable"
        is_plain = is_plain and not values.variable.HasField("values")
        return reader if is_plain and not reader.is_fixed and is_variable else None
    return reader


def _lengths(page: _Page, ranges: Sequence[RowRange], is_variable: bool) -> Steps[Ints]:
    if isinstance(page, FullZipPage):
        return (yield from _between(page, ranges))
    leaf = yield from page.read(ranges)
    if not is_variable:
        lengths = empty(leaf.values.count, np.int64)
        lengths[:] = 0
    else:
        lengths = _told(leaf.values) if isinstance(page, _Lengths) else lengths_of(leaf.values)
    if leaf.definition is not None:
        lengths[leaf.definition != 0] = NULL
    return lengths


def _told(block: Block) -> Ints:
    """Return the lengths that a block has as its values."""
    if isinstance(block, Dictionary):
        lengths: Ints = _told(block.items)[block.indices]
        return lengths
    assert isinstance(block, FixedWidth)
    return block.values.astype(np.int64, copy=False)


def _between(page: FullZipPage, ranges: Sequence[RowRange]) -> Steps[Ints]:
    """Tell lengths by where rows begin; nothing is compressed, and nulls take no room."""
    bounds = yield from page.row_bounds(ranges)
    sizes = np.concatenate([np.diff(rows) for rows in bounds]) - page.word
    lengths = np.where(sizes == 0, NULL, sizes - page.width)
    if np.any((lengths < 0) & (sizes != 0)):
        raise CorruptFile("rows of a full-zip page that are shorter than their lengths and levels")
    return lengths
