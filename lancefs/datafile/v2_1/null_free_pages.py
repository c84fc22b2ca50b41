"""Null-free rows, recognized by the descriptions of their pages.

The check reads no byte of the pages. Rows of pages that may hold nulls can still be free of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.container import Page
from lancefs.datafile.data_file import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import bit_width
from lancefs.datafile.page_ranges import by_page
from lancefs.datafile.v2_0.reader import ArrayReader
from lancefs.datafile.v2_1.encodings.fixed_size_list import items_are_valid
from lancefs.datafile.v2_1.layouts.constant_page import ConstantPage
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.page_layouts import open_page
from lancefs.datafile.v2_1.layouts.page_reader import PageReader
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import locating
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding
from lancefs.storage import Reads

_PLAIN_2_0 = ("flat", "bitpacked", "bitpacked_for_non_neg")


def known_without_nulls(
    reader: FieldReader, field: Field, ranges: Sequence[RowRange]
) -> Reads[bool]:
    """Check whether rows of a field, and of all fields below it, are known to have no nulls.

    Args:
        reader: The reader of the data file.
        field: The field, pruned to what the file holds.
        ranges: Rows of the file, ascending and disjoint.

    Raises:
        CorruptFile: The metadata of the columns is damaged.
        UnsupportedFeature: A page is of a kind that is not known.
    """
    if not isinstance(reader, StructuralReader | ArrayReader):
        return False
    container = reader.container
    with locating(container.file.url):
        leaves = _leaves(field)
    if leaves is None or any(leaf.id not in reader.columns for leaf in leaves):
        return False
    yield from container.load([reader.columns[leaf.id] for leaf in leaves])
    for leaf in leaves:
        index = reader.columns[leaf.id]
        with locating(container.file.url, f"column {index} ({leaf.name})"):
            column = container.column(index)
            for page, _ in by_page(column.first_rows, ranges):
                with locating(place=f"page {page}"):
                    is_null_free = (
                        _is_null_free_2_0 if isinstance(reader, ArrayReader) else _is_null_free
                    )
                    if not is_null_free(column.pages[page]):
                        return False
    return True


def _leaves(field: Field) -> list[Field] | None:
    """Return the leaves of a field of fixed width, or of a struct of such fields; else None."""
    if field.is_leaf:
        is_plain = not (field.children or field.is_blob) and _has_fixed_width(field.storage_type)
        return [field] if is_plain else None
    if field.logical_type != "struct":
        return None
    leaves: list[Field] = []
    for child in field.children:
        below = _leaves(child)
        if below is None:
            return None
        leaves += below
    return leaves


def _has_fixed_width(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return False
    while pa.types.is_fixed_size_list(data_type):
        data_type = data_type.value_type
    return bool(bit_width(data_type))


def _is_null_free(page: Page) -> bool:
    """Whether a page of a data file 2.1 or later has no nulls."""
    reader: PageReader = open_page(page)
    if not isinstance(reader, MiniBlockPage | FullZipPage | ConstantPage):
        return False
    if any(layer.levels or layer.is_list for layer in reader.layers):
        return False
    if isinstance(reader, ConstantPage):
        return True
    return items_are_valid(reader.layout.value_compression)


def _is_null_free_2_0(page: Page) -> bool:
    """Whether a page of a data file 2.0 has no nulls."""
    encoding = ArrayEncoding()
    try:
        encoding.ParseFromString(page.encoding.data)
    except DecodeError:
        return False  # reading the page will report the damage
    while (kind := encoding.WhichOneof("array_encoding")) not in _PLAIN_2_0:
        if kind == "nullable" and encoding.nullable.HasField("no_nulls"):
            encoding = encoding.nullable.no_nulls.values
        elif kind == "fixed_size_list" and not encoding.fixed_size_list.has_validity:
            encoding = encoding.fixed_size_list.items
        else:
            return False
    return True
