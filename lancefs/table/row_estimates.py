"""The bytes that rows of a fragment will have when decoded, estimated from page metadata."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancefs.datafile.column_facts import cached_fact
from lancefs.datafile.fields import Field
from lancefs.datafile.row_sizes import FieldSizes, RowSizes, estimate_row_sizes
from lancefs.datafile.value_widths import has_variable_width, min_value_bytes
from lancefs.table.field_parts import locate_fields
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.members import stored


def stored_row_sizes(reader: FragmentReader, fields: Sequence[Field]) -> RowSizes:
    """Estimate the bytes of rows of a fragment from the metadata of the columns' pages.

    Args:
        reader: The reader of the fragment, which keeps the estimate.
        fields: Columns of the table.

    Raises:
        MissingFile: A data file is gone.
        CorruptFile: A data file is damaged.
        UnsupportedFeature: A data file uses something that this release does not read.
    """
    return cached_fact(
        reader.facts.row_sizes,
        fields,
        lambda: _estimate(reader, [stored(field) for field in fields]),
    )


def _estimate(reader: FragmentReader, fields: Sequence[Field]) -> RowSizes:
    """Estimate the bytes of rows of columns that are stored; see `stored_row_sizes`."""
    by_file: dict[int, list[Field]] = {}
    missing = dict(enumerate(fields))
    for position, number, part in locate_fields(fields, reader.fragment):
        by_file.setdefault(number, []).append(part)
        missing.pop(position, None)
    sizes = [FieldSizes((), min_value_bytes(field.storage_type)) for field in missing.values()]
    widths: dict[pa.DataType, tuple[float, bool]] = {}  # many columns have few types
    file_bytes = 0
    for number, parts in by_file.items():
        file, field_reader = reader.open_file(reader.fragment.files[number])
        file_bytes += file.size
        for part, columns in zip(parts, field_reader.page_sizes(parts), strict=True):
            kind = part.storage_type
            width = widths.get(kind)
            if width is None:
                width = widths[kind] = min_value_bytes(kind), has_variable_width(kind)
            sizes.append(FieldSizes(columns, *width))
    return estimate_row_sizes(sizes, reader.physical_rows, file_bytes)
