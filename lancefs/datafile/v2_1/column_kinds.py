"""Columns whose pages are all of one kind: with dictionaries, or full-zip.

The check reads no byte of the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lancefs.datafile.container import ColumnPages, Page
from lancefs.datafile.data_file import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.point_reader import PointReader
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import locating
from lancefs.storage import Reads

# Every batch carries its dictionary: one with more items may be larger than the batch.
_MAX_ITEMS = 10_000
# Bytes of the chunks for each string of a byte, whose end takes four: chunks have some more, and
# a few nulls less. Longer texts of which most are empty seldom have as many.
_FLAG_BYTES = 4.95, 5.1


def with_dictionaries(
    reader: FieldReader, fields: Sequence[Field], flags: bool = False
) -> Reads[list[Field]]:
    """Find the columns that have a small dictionary in every page.

    Args:
        reader: The reader of the data file.
        fields: Columns that are leaves.
        flags: Whether columns are found, too, whose strings are likely to have a byte each.

    Raises:
        CorruptFile: The metadata of a column is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """

    if not isinstance(reader, PointReader):
        return []
    may_be_flags = flags and isinstance(reader, StructuralReader)

    def has_codes(column: ColumnPages) -> bool:
        return _has_dictionaries(reader, column) or (may_be_flags and _has_flags(column))

    return (yield from _find(reader, fields, has_codes))


def with_zipped_pages(reader: FieldReader, fields: Sequence[Field]) -> Reads[list[Field]]:
    """Find the columns of which all pages are full-zip pages, whose rows are read one by one.

    Args:
        reader: The reader of the data file.
        fields: Columns that are leaves.

    Raises:
        CorruptFile: The metadata of a column is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader):
        return []
    return (yield from _find(reader, fields, _are_zipped))


def _find(
    reader: PointReader, fields: Sequence[Field], is_wanted: Callable[[ColumnPages], bool]
) -> Reads[list[Field]]:
    """Find columns by the descriptions of their pages."""
    held = [(field, reader.columns[field.id]) for field in fields if field.id in reader.columns]
    container = reader.container
    yield from container.load([index for _, index in held])
    found = []
    for field, index in held:
        with locating(container.file.url, f"column {index} ({field.name})"):
            if is_wanted(container.column(index)):
                found.append(field)
    return found


def _are_zipped(column: ColumnPages) -> bool:
    return bool(column.pages) and all(
        isinstance(layout_of(page.encoding), FullZip) for page in column.pages
    )


def _has_dictionaries(reader: PointReader, column: ColumnPages) -> bool:
    counts = [reader.dictionary_items(page) for page in column.pages]
    return bool(counts) and all(count is not None and count <= _MAX_ITEMS for count in counts)


def _has_flags(column: ColumnPages) -> bool:
    """Whether strings are stored plainly, and have about a byte each."""
    return bool(column.pages) and all(_is_of_flags(page) for page in column.pages)


def _is_of_flags(page: Page) -> bool:
    layout = layout_of(page.encoding)
    if not isinstance(layout, MiniBlock) or layout.has_dictionary or len(page.buffers) < 2:
        return False
    encoding = layout.layout.value_compression
    if encoding.WhichOneof("compression") != "variable" or encoding.variable.HasField("values"):
        return False
    start, end = page.buffers[1]
    return _FLAG_BYTES[0] <= (end - start) / max(layout.items, 1) <= _FLAG_BYTES[1]
