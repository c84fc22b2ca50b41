"""Columns that come dictionary-encoded, as data files store many of them.

Whoever takes them so is spared the values: those of a page stand in its dictionary once. Readers
may have columns of strings so; filters are tested on the dictionaries of any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.logical_types import EXTENSION_NAME, leaf_type
from lancefs.datafile.masks import is_of_bytes
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import run
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun
from lancefs.table.fragments import DataFile

ENCODED = pa.dictionary(pa.int32(), pa.string())


def is_encodable(field: Field) -> bool:
    """Whether readers may have a column dictionary-encoded: those of strings."""
    return field.logical_type == "string" and _is_plain(field)


def _is_plain(field: Field) -> bool:
    """Whether a column is of strings, or of values of whole bytes, shown as they are stored."""
    if field.id < 0 or field.children or field.is_blob or EXTENSION_NAME in field.metadata:
        return False
    return _is_of_plain_values(field.logical_type)


@lru_cache(maxsize=256)
def _is_of_plain_values(logical_type: str) -> bool:
    if logical_type == "json":
        return False
    try:
        stored = leaf_type(logical_type)
    except (CorruptFile, UnsupportedFeature):  # who reads the column is told
        return False
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
    from lancefs.datafile.v2_1.dictionary_pages import with_dictionaries

    asked: dict[DataFile, list[Field]] = {}
    holders = _holders(reader)
    for field in filter(_is_plain, fields):
        files = holders.get(field.id, ())
        if len(files) == 1 and not files[0].is_legacy:
            asked.setdefault(files[0], []).append(field)
    opened = [(*reader.open_file(file), held) for file, held in asked.items()]
    found = run([(file, with_dictionaries(fields_of, held)) for file, fields_of, held in opened])
    stored = {field.id for of_file in found for field in of_file}
    return [field for field in fields if field.id in stored]


def _holders(reader: FragmentReader) -> dict[int, list[DataFile]]:
    """Return the data files of a fragment that have each field, by its id."""
    holders: dict[int, list[DataFile]] = {}
    for file in reader.fragment.files:
        for id in file.fields:
            holders.setdefault(id, []).append(file)
    return holders


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
    decodable = set(encoded)
    for part, _ in reader.parts(ranges):
        decodable -= _decoded_otherwise(part, decodable)
    asked = [
        replace(field, logical_type=f"dict:{field.logical_type}:int32:false")
        if field.id in decodable
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


def _decoded_otherwise(reader: FragmentReader, ids: Set[int]) -> set[int]:
    """Return the columns that the files of a fragment do not decode into dictionary arrays."""
    if reader.fragment.overlays:
        return set(ids)
    others = (
        file
        for file in reader.fragment.files
        if not ids.isdisjoint(file.fields)
        and not isinstance(reader.open_file(file)[1], StructuralReader)
    )
    return {id for file in others for id in file.fields if id in ids}
