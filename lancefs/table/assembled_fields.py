"""Reading columns that no data file of a fragment has as they are.

Their parts may lie in several files, overlays may replace some values, and blobs may be wanted as
bytes. All that the parts need of data files is read in one round of requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import as_ranges, count_rows
from lancefs.storage import run
from lancefs.table.field_parts import PrunedArray, check_rows, locate_fields, merge_parts
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import DataFile

if TYPE_CHECKING:
    from lancefs.table.overlays import Patch

# A data file, the part of a field that it holds, and ranges of rows to read.
_Request: TypeAlias = tuple[DataFile, Field, Sequence[RowRange]]


def read_assembled(
    reader: FragmentReader, fields: Sequence[Field], ranges: Sequence[RowRange], blobs: Blobs
) -> list[pa.Array]:
    """Read rows of several fields, deleted rows included.

    Args:
        reader: Opens the data files of the fragment.
        fields: Columns of the table, or parts or outlines of columns.
        ranges: Ranges of offsets, ascending and disjoint.
        blobs: Whether blobs are read as descriptors, or as their bytes.

    Returns:
        An array of the storage type for each field.

    Raises:
        LanceError: See `FragmentReader.read`.
    """
    rows = count_rows(ranges)
    files, located = reader.fragment.files, locate_fields(fields, reader.fragment)
    read = _read_parts(
        reader, [(files[number], part, ranges) for _, number, part in located], blobs
    )
    parts: list[list[PrunedArray]] = [[] for _ in fields]
    for (position, _, _), part in zip(located, read, strict=True):
        parts[position].append(part)
    fields_read = fields
    if blobs == "bytes":
        from lancefs.table.blobs import as_bytes

        fields_read = [as_bytes(field) for field in fields]
    arrays = [
        check_rows(merge_parts(field, field_parts, rows), rows, field, reader.fragment)
        for field, field_parts in zip(fields_read, parts, strict=True)
    ]
    if not reader.fragment.overlays:
        return arrays
    from lancefs.table.overlays import patches

    overlays, limit = reader.fragment.overlays, reader.physical_rows
    field_patches = [list(patches(overlays, field, ranges, limit)) for field in fields]
    return _apply_overlays(reader, fields_read, arrays, field_patches, blobs)


def _apply_overlays(
    reader: FragmentReader,
    fields: Sequence[Field],
    arrays: list[pa.Array],
    field_patches: Sequence[Sequence[Patch]],
    blobs: Blobs,
) -> list[pa.Array]:
    """Read the values of overlays, and put them into the arrays of their fields."""
    from lancefs.table.overlays import apply

    requests = [
        (patch.overlay.file, patch.field, as_ranges(patch.items))
        for patches in field_patches
        for patch in patches
    ]
    parts = iter(_read_parts(reader, requests, blobs))
    for position, patches in enumerate(field_patches):
        for patch in patches:
            part, values = next(parts)
            patch = replace(patch, field=part)
            arrays[position] = apply(fields[position], arrays[position], patch, values)
    return arrays


def _read_parts(
    reader: FragmentReader, requests: Sequence[_Request], blobs: Blobs
) -> list[PrunedArray]:
    """Read fields of data files, all in one round of requests; then the bytes of blobs."""
    arrays = _read_arrays(reader, requests)
    if blobs == "descriptors":
        return [(part, array) for (_, part, _), array in zip(requests, arrays, strict=True)]
    from lancefs.table.blobs import Described, as_bytes, read_blobs

    described = [
        Described(data_file, reader.open_file(data_file)[0], part, array)
        for (data_file, part, _), array in zip(requests, arrays, strict=True)
    ]
    contents = read_blobs(reader.files, described)
    return [(as_bytes(part), array) for (_, part, _), array in zip(requests, contents, strict=True)]


def _read_arrays(reader: FragmentReader, requests: Sequence[_Request]) -> list[pa.Array]:
    """Read requests in one round; those of the same file and rows are decoded together."""
    groups: dict[tuple[int, int], list[int]] = {}
    for position, (data_file, _, ranges) in enumerate(requests):
        groups.setdefault((id(data_file), id(ranges)), []).append(position)
    reads = []
    for positions in groups.values():
        data_file, _, ranges = requests[positions[0]]
        file, field_reader = reader.open_file(data_file)
        fields = [requests[position][1] for position in positions]
        reads.append((file, field_reader.read_all(fields, ranges)))
    arrays = dict(zip(chain(*groups.values()), chain(*run(reads)), strict=True))
    return [arrays[position] for position in range(len(requests))]
