"""Whether the pages of a column have dictionaries, found out from their descriptions alone."""

from __future__ import annotations

from lancefs.datafile.fields import Field
from lancefs.datafile.layouts.chunks import MiniBlock
from lancefs.datafile.layouts.registry import layout_of
from lancefs.datafile.reader import FieldReader
from lancefs.datafile.structural import StructuralReader
from lancefs.errors import locating
from lancefs.storage import Steps

# A dictionary goes along with every batch: with more items it may be larger than its batch.
_MOST_ITEMS = 10_000


def has_dictionaries(reader: FieldReader, field: Field) -> Steps[bool]:
    """Tell whether all pages of a column have dictionaries, and small ones.

    Args:
        reader: Of the data file.
        field: A column whose field is a leaf.

    Raises:
        CorruptFile: The metadata of the column is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader) or field.id not in reader.columns:
        return False
    index = reader.columns[field.id]
    yield from reader.container.load([index])
    with locating(reader.container.file.url, f"column {index} ({field.name})"):
        layouts = [layout_of(page.encoding) for page in reader.container.column(index).pages]
        return bool(layouts) and all(
            isinstance(layout, MiniBlock)
            and layout.has_dictionary
            and layout.dictionary_items <= _MOST_ITEMS
            for layout in layouts
        )
