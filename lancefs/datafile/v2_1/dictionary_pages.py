"""Columns whose pages all have dictionaries, recognized by the descriptions of the pages."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.container import ColumnPages
from lancefs.datafile.data_file import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import locating
from lancefs.storage import Reads

# Every batch carries its dictionary: one with more items may be larger than the batch.
_MOST_ITEMS = 10_000


def with_dictionaries(reader: FieldReader, fields: Sequence[Field]) -> Reads[list[Field]]:
    """Find the columns that have a small dictionary in every page.

    Args:
        reader: The reader of the data file.
        fields: Columns that are leaves.

    Raises:
        CorruptFile: The metadata of a column is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader):
        return []
    held = [(field, reader.columns[field.id]) for field in fields if field.id in reader.columns]
    container = reader.container
    yield from container.load([index for _, index in held])
    fields_found = []
    for field, index in held:
        with locating(container.file.url, f"column {index} ({field.name})"):
            if _has_dictionaries(container.column(index)):
                fields_found.append(field)
    return fields_found


def _has_dictionaries(column: ColumnPages) -> bool:
    layouts = [layout_of(page.encoding) for page in column.pages]
    return bool(layouts) and all(
        isinstance(layout, MiniBlock)
        and layout.has_dictionary
        and layout.dictionary_items <= _MOST_ITEMS
        for layout in layouts
    )
