"""Columns that come dictionary-encoded, as data files store many of them.

Whoever takes them so is spared the values: those of a page stand in its dictionary once. Readers
may have columns of strings so; filters are tested on the dictionaries of any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.selection import is_of_bytes
from lancefs.datafile.structural import StructuralReader
from lancefs.datafile.types import EXTENSION_NAME
from lancefs.storage import run
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun

ENCODED = pa.dictionary(pa.int32(), pa.string())


def is_encodable(field: Field) -> bool:
    """Whether readers may have a column dictionary-encoded: those of strings."""
    return field.logical_type == "string" and _is_plain(field)


@lru_cache(maxsize=4096)
def _is_plain(field: Field) -> bool:
    """Whether a column is of strings, or of values of whole bytes, shown as they are stored."""
    if field.children or field.is_json or field.is_blob or EXTENSION_NAME in field.metadata:
        return False
    stored = field.storage_type
    return pa.types.is_string(stored) or is_of_bytes(stored)


def dictionary_columns(reader: FragmentReader, fields: Sequence[Field]) -> list[Field]:
    """Return the columns that a fragment stores with a dictionary a page.

    The metadata of the columns is read for it, no values.

    Args:
        reader: Of the fragment.
        fields: Columns of the table.

    Raises:
        LanceError: The metadata cannot be read.
    """
    from lancefs.datafile.dictionaries import has_dictionaries

    asked = []
    for field in filter(_is_plain, fields):
        files = [one for one in reader.fragment.files if field.id in one.fields]
        if len(files) == 1 and not files[0].is_legacy:
            asked.append((field, *reader.open_file(files[0])))
    found = run([(file, has_dictionaries(opened, field)) for field, file, opened in asked])
    return [field for (field, _, _), answer in zip(asked, found, strict=True) if answer]


def read(
    reader: FragmentReader | FragmentRun,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    blobs: Blobs,
    encoded: Collection[int],
) -> list[pa.Array]:
    """Read rows of several fields, some of them dictionary-encoded; see `FragmentReader.read`.

    Args:
        reader: Of the fragment, or of several.
        fields: Columns of the table, or parts of them.
        ranges: Offsets of rows, ascending and disjoint.
        blobs: Whether blobs come as descriptors, or as their bytes.
        encoded: The ids of columns that come with dictionaries and indices of 32 bits, whatever
            their pages are.
    """
    parts = [part for part, _ in reader.parts(ranges)]
    asked = [
        replace(field, logical_type=f"dict:{field.logical_type}:int32:false")
        if field.id in encoded and all(_decodes_so(part, field) for part in parts)
        else field
        for field in fields
    ]
    arrays = reader.read(asked, ranges, blobs)
    return [
        array.dictionary_encode()
        if field.id in encoded and not pa.types.is_dictionary(array.type)
        else array
        for field, array in zip(fields, arrays, strict=True)
    ]


def _decodes_so(reader: FragmentReader, field: Field) -> bool:
    """Whether the files of a fragment decode a column into dictionary arrays."""
    if reader.fragment.overlays:
        return False
    files = [one for one in reader.fragment.files if field.id in one.fields]
    return all(isinstance(reader.open_file(one)[1], StructuralReader) for one in files)
