"""Columns of the rows that a scan decodes, by field id: reading, choosing rows, making batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

import pyarrow as pa

from lancefs.datafile.arrays import encode_texts, spelled_out, without_columns
from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.decimals import decimal64_array, decimal64_field, decimal64_items
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.datafile.masks import filtered
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.validity import validity_array, validity_of
from lancefs.errors import CorruptFile, locating
from lancefs.scan.output_forms import OutputForms, have_fixed_types
from lancefs.scan.request import ScanRequest
from lancefs.table import dictionary_columns
from lancefs.table.file_prefetch import open_together
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun, FragmentSource
from lancefs.table.row_metadata import is_row_metadata

# Fewer rows, and rows that lie apart, are read in 128 bits by the kernel that reads a few rows of
# all columns at once, and converted afterwards.
_MIN_DECIMAL64_ROWS = 256 + 1


def read_columns(
    request: ScanRequest,
    fragment: FragmentSource,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    forms: OutputForms,
) -> dict[int, pa.Array]:
    """Decode columns; between groups of them, mapped bytes are released if the request says so.

    Args:
        request: What the scan is to read.
        fragment: The fragment, or the run of fragments.
        fields: The columns, those of row metadata included.
        ranges: Offsets of rows, ascending and disjoint.
        forms: The forms in which columns come. Few rows of decimals may come in 128 bits all the
            same.

    Returns:
        The columns by field id.
    """
    computed = [field for field in fields if is_row_metadata(field)]
    stored = [field for field in fields if not is_row_metadata(field)] if computed else fields
    read, arrays = list[Field](), list[pa.Array]()
    for number, group in enumerate(_groups(request, fragment, stored, ranges)):
        if number:
            fragment.release()
        read += group
        arrays += _read_group(request, fragment, group, ranges, forms)
    if forms.validity:
        arrays = [
            validity_array(array) if field.id in forms.validity else array
            for field, array in zip(read, arrays, strict=True)
        ]
    if not have_fixed_types(read):
        as_read = forms.dictionary | forms.items | forms.validity
        arrays = [
            array if field.id in as_read else present(array, field, request.blobs)
            for field, array in zip(read, arrays, strict=True)
        ]
    columns = {field.id: array for field, array in zip(read, arrays, strict=True)}
    for field in computed:
        metadata = request.index.metadata
        parts = [metadata.read(field, *part) for part in fragment.parts(ranges)]
        columns[field.id] = join_arrays(parts, field.storage_type)
    return columns


def _read_group(
    request: ScanRequest,
    fragment: FragmentSource,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    forms: OutputForms,
) -> list[pa.Array]:
    """Decode stored columns together; see `read_columns`."""
    asked = fields
    if forms.validity and request.blobs == "descriptors":
        asked = validity_fields(fragment, asked, forms.validity)
    if forms.decimal64:
        decimal64 = forms.decimal64 - forms.dictionary - forms.validity
        asked = decimal64_fields(fragment, asked, ranges, decimal64)
    if encoded := forms.dictionary | forms.items:
        return dictionary_columns.read(
            fragment, asked, ranges, request.blobs, encoded, request.string_cache
        )
    return fragment.read(asked, ranges, request.blobs)


def _groups(
    request: ScanRequest,
    fragment: FragmentSource,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
) -> Sequence[Sequence[Field]]:
    """Return columns in groups, between which mapped bytes are given back."""
    if not (fields and fragment.is_local and request.gives_back):
        return [fields]
    return fragment.groups(fields, ranges, request.settings.mapped_columns)


def columns_at_once(request: ScanRequest, fragment: FragmentSource, fields: Sequence[Field]) -> int:
    """Return how many columns are decoded, for all rows, before the selected rows are copied.

    Args:
        request: What the scan is to read.
        fragment: The fragment, or the run of fragments.
        fields: All columns to decode.
    """
    settings, most = request.settings, max(len(fields), 1)
    if fragment.is_local and request.gives_back:
        most = settings.mapped_columns
    if request.is_collected:
        return most
    return min(most, max(len(fields) // 4, settings.filtered_columns))


def look_up_values(
    columns: dict[int, pa.Array], ids: Collection[int], decimal64: Collection[int]
) -> dict[int, pa.Array]:
    """Return columns with values in place of the dictionary codes of some of them.

    Args:
        columns: The columns by field id.
        ids: Field ids of the columns whose values are looked up.
        decimal64: Field ids of the columns of decimals whose values are wanted in 64 bits.
    """
    spelled = {}
    for id in columns.keys() & ids:
        array = columns[id]
        spelled[id] = spelled_out(decimal64_items(array) if id in decimal64 else array)
    return columns | spelled


def mask_columns(columns: dict[int, pa.Array], mask: Mask) -> dict[int, pa.Array]:
    """Return the rows of columns that a mask keeps.

    Args:
        columns: The columns by field id.
        mask: One boolean a row.
    """
    return dict(zip(columns, filtered(columns.values(), mask), strict=True))


def validity_fields(
    reader: FragmentSource, fields: Sequence[Field], ids: Set[int]
) -> Sequence[Field]:
    """Return the fields to read for columns, with validity in place of values where that is wanted.

    Values are read nevertheless from small fragments, whose files few kernel calls decode together,
    and from overlays, which replace parts of values.

    Args:
        reader: The reader of the fragment, or of several.
        fields: Columns of the table, or members of structs as columns.
        ids: The ids of those whose validity is wanted; see `validity_array`.
    """
    if not ids or isinstance(reader, FragmentRun) or reader.fragment.overlays:
        return fields
    return [validity_of(field) or field if field.id in ids else field for field in fields]


def decimal64_fields(
    reader: FragmentSource,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    ids: Set[int],
) -> Sequence[Field]:
    """Return the fields to read for columns, some of which are wanted in 64 bits.

    Few rows, small fragments, overlays and data files before 2.1 are read in 128 bits;
    `as_decimal64` converts them.

    Args:
        reader: The reader of the fragment, or of several.
        fields: Columns of the table, or members of structs as columns.
        ranges: Offsets of rows, ascending and disjoint.
        ids: The ids of those that are wanted in 64 bits.
    """
    if len(ranges) != 1 or count_rows(ranges) < _MIN_DECIMAL64_ROWS:
        return fields
    if ids.isdisjoint(field.id for field in fields):
        return fields
    if isinstance(reader, FragmentRun) or reader.fragment.overlays:
        return fields
    if not all(reader.open_file(file)[1].reads_decimal64 for file in reader.fragment.files):
        return fields
    return [decimal64_field(field) or field if field.id in ids else field for field in fields]


def as_decimal64(reader: FragmentSource, field: Field, array: pa.Array) -> pa.Array:
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


def open_files(fragment: FragmentSource, fields: Sequence[Field]) -> None:
    """Open the files that columns of a remote fragment are read from, in one round.

    Args:
        fragment: The fragment, or the run of fragments.
        fields: The columns.
    """
    if not isinstance(fragment, FragmentRun):  # whose fragments are local
        open_together([fragment], fields)


def filter_batch(
    request: ScanRequest, columns: Mapping[int, pa.Array], rows: int
) -> pa.RecordBatch:
    """Return the columns of the filter as a batch.

    Args:
        request: What the scan is to read.
        columns: These columns by field id, and perhaps others.
        rows: Number of rows.
    """
    fields = request.filter_fields
    if not fields:
        return without_columns(rows)
    arrays = [columns[field.id] for field in fields]
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


def output_batch(
    request: ScanRequest,
    fragment: FragmentSource,
    columns: Mapping[int, pa.Array],
    rows: int,
) -> pa.RecordBatch:
    """Return the columns to return as a batch, in their order and forms.

    Args:
        request: What the scan is to read.
        fragment: The fragment that they were read from, or the run of fragments.
        columns: These columns by field id, and perhaps others.
        rows: Number of rows.

    Raises:
        CorruptFile: A decimal takes more bits than its type has.
    """
    fields, forms = request.fields, request.forms
    if not fields:
        return without_columns(rows)
    arrays = [columns[field.id] for field in fields]
    if forms.validity or forms.decimal64 or forms.items:
        for place, field in enumerate(fields):
            array = arrays[place]
            if field.id in forms.validity:  # of few rows, or compared: then there are values
                arrays[place] = validity_array(array)
            elif field.id in forms.decimal64:
                arrays[place] = as_decimal64(fragment, field, array)
            elif field.id in forms.items:
                arrays[place] = encode_texts(array)
    return pa.RecordBatch.from_arrays(arrays, schema=request.schema)


def empty_columns(request: ScanRequest, known: Mapping[int, pa.Array]) -> dict[int, pa.Array]:
    """Return the columns to return, except those that are known, without rows.

    Args:
        request: What the scan is to read.
        known: Columns by field id.
    """
    # Unlike `pa.array([], …)`, `pa.nulls` takes types with extension types inside.
    return {
        field.id: pa.nulls(0, data_type)
        for field, data_type in zip(request.fields, request.schema.types, strict=True)
        if field.id not in known
    }
