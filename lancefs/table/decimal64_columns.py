"""Reading decimals of up to 18 digits in 64 bits, whichever way data files store them."""

from __future__ import annotations

from collections.abc import Sequence, Set

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.decimals import decimal64_array, decimal64_field
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import count_rows
from lancefs.errors import CorruptFile, locating
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun

# Fewer rows, and rows that lie apart, are read in 128 bits by the kernel that reads a few rows of
# all columns at once, and converted afterwards.
_MIN_ROWS = 256 + 1


def reduced(
    reader: FragmentReader | FragmentRun,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    ids: Set[int],
) -> Sequence[Field]:
    """Return the fields to read in place of columns, of which some are wanted in 64 bits.

    What comes in 128 bits all the same has to be converted: few rows, small fragments, overlays and
    data files before 2.1.

    Args:
        reader: The reader of the fragment, or of several.
        fields: Columns of the table, or members of structs as columns.
        ranges: Offsets of rows, ascending and disjoint.
        ids: The ids of those that are wanted in 64 bits.
    """
    if len(ranges) != 1 or count_rows(ranges) < _MIN_ROWS:
        return fields
    if ids.isdisjoint(field.id for field in fields):
        return fields
    if isinstance(reader, FragmentRun) or reader.fragment.overlays:
        return fields
    if not all(reader.open_file(file)[1].reads_decimal64 for file in reader.fragment.files):
        return fields
    return [decimal64_field(field) or field if field.id in ids else field for field in fields]


def as_decimal64(reader: FragmentReader | FragmentRun, field: Field, array: pa.Array) -> pa.Array:
    """Return a column in 64 bits.

    Args:
        reader: The reader of the fragment, or of several, that the column is of.
        field: The column.
        array: Some of its rows.

    Raises:
        CorruptFile: A value takes more bits.
    """
    try:
        return decimal64_array(array)
    except CorruptFile:
        file = reader.file_of(field) if isinstance(reader, FragmentReader) else None
        with locating(None if file is None else file.url, field.name):
            raise
