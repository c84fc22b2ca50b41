"""Columns of long texts, each row of which is found without the others (2.1 and later)."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.container import ColumnPages
from lancefs.datafile.data_file import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import locating
from lancefs.storage import Reads


def with_zipped_pages(reader: FieldReader, fields: Sequence[Field]) -> Reads[list[Field]]:
    """Find the columns whose pages all are full-zip pages.

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
    found = []
    for field, index in held:
        with locating(container.file.url, f"column {index} ({field.name})"):
            if _are_zipped(container.column(index)):
                found.append(field)
    return found


def _are_zipped(column: ColumnPages) -> bool:
    return bool(column.pages) and all(
        isinstance(layout_of(page.encoding), FullZip) for page in column.pages
    )
