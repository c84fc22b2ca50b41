"""Columns of strings that come dictionary-encoded, as data files store many of them.

Whoever takes them so is spared the strings: those of a page stand in its dictionary once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.structural import StructuralReader
from lancefs.datafile.types import EXTENSION_NAME
from lancefs.storage import run
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun

ENCODED = pa.dictionary(pa.int32(), pa.string())
# The logical type of `ENCODED`. Data files from 2.1 on decode a page of strings into it.
_LOGICAL_TYPE = "dict:string:int32:false"


def is_encodable(field: Field) -> bool:
    """Whether a column may come dictionary-encoded: those of strings may."""
    return field.logical_type == "string" and EXTENSION_NAME not in field.metadata


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
    for field in filter(is_encodable, fields):
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
        encoded: The ids of columns that come as `ENCODED`, whatever their pages are.
    """
    parts = [part for part, _ in reader.parts(ranges)]
    asked = [
        replace(field, logical_type=_LOGICAL_TYPE)
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
    """Whether the files of a fragment decode strings into dictionary arrays."""
    if reader.fragment.overlays:
        return False
    files = [one for one in reader.fragment.files if field.id in one.fields]
    return all(isinstance(reader.open_file(one)[1], StructuralReader) for one in files)
