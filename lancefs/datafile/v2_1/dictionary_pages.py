"""Whether the pages of a column have dictionaries, found out from their descriptions alone."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.container import Column
from lancefs.datafile.data_file import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import locating
from lancefs.storage import Steps

# A dictionary goes along with every batch: with more items it may be larger than its batch.
_MOST_ITEMS = 10_000


def with_dictionaries(reader: FieldReader, fields: Sequence[Field]) -> Steps[list[Field]]:
    """Tell which columns have dictionaries in all their pages, and small ones.

    Args:
        reader: Of the data file.
        fields: Columns whose fields are leaves.

    Raises:
        CorruptFile: The metadata of a column is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader):
        return []
    held = [(field, reader.columns[field.id]) for field in fields if field.id in reader.columns]
    container = reader.container
    yield from container.load([index for _, index in held])
    found = []
    for field, index in held:
        with locating(container.file.url, f"column {index} ({field.name})"):
            if _has_dictionaries(container.column(index)):
                found.append(field)
    return found


def _has_dictionaries(column: Column) -> bool:
    layouts = [layout_of(page.encoding) for page in column.pages]
    return bool(layouts) and all(
        isinstance(layout, MiniBlock)
        and layout.has_dictionary
        and layout.dictionary_items <= _MOST_ITEMS
        for layout in layouts
    )
