"""Reading columns of strings dictionary-encoded, whichever way data files store them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import encode_texts
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import as_ranges
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun, FragmentSource
from lancefs.table.stored_dictionaries import dictionary_columns, text_field
from lancefs.table.string_cache import CachedStrings

ENCODED = pa.dictionary(pa.int32(), pa.string())
# Rows of a fragment of a run, on average, up to which decoding the strings of all together, and
# encoding them, is quicker than joining their dictionaries: 1 M rows of five texts take 15 ms in
# place of 54 in 200 fragments; 1.5 M take 37 in place of 25 in 75, and 3 in place of 31 in 150.
_SMALL_ROWS = 12 * 1024


def read(
    reader: FragmentSource,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    blobs: Blobs,
    encoded: Set[int],
    kept: Mapping[int, CachedStrings],
) -> list[pa.Array]:
    """Read rows of several fields, some of them dictionary-encoded; see `FragmentReader.read`.

    Args:
        reader: The reader of the fragment, or of several.
        fields: Columns of the table, or parts of them.
        ranges: Offsets of rows, ascending and disjoint.
        blobs: Whether blobs come as descriptors, or as their bytes.
        encoded: The ids of columns that come with dictionaries and indices of 32 bits, whatever
            their pages are.
        kept: Columns that stay in memory, by the ids of fields.
    """
    wanted = {id: kept[id] for id in kept.keys() & encoded}
    if not wanted:
        return _read(reader, fields, ranges, blobs, encoded)
    parts = reader.parts(ranges)
    arrays = {id: array for id, texts in wanted.items() if (array := texts.find(parts)) is not None}
    rest = [field for field in fields if field.id not in arrays]
    if rest:
        decoded = _read(reader, rest, ranges, blobs, encoded)
        arrays |= {field.id: array for field, array in zip(rest, decoded, strict=True)}
    for field in rest:
        if field.id in wanted:
            wanted[field.id].note(parts, arrays[field.id])
    return [arrays[field.id] for field in fields]


def _read(
    reader: FragmentSource,
    fields: Sequence[Field],
    ranges: Sequence[RowRange],
    blobs: Blobs,
    encoded: Set[int],
) -> list[pa.Array]:
    """Read rows of several fields from their files; see `read`."""
    texts = {text_field(field).id: field.id for field in fields if field.id in encoded}
    as_stored = _decoded_as_stored(reader, ranges, texts.keys())
    decodable = {texts[id] for id in as_stored}
    asked = [encoded_field(field) if field.id in decodable else field for field in fields]
    if isinstance(reader, FragmentRun):
        arrays = reader.read(asked, ranges, blobs, encoded - decodable)
    else:
        arrays = reader.read(asked, ranges, blobs)
    return [
        encode_texts(array) if field.id in encoded else array
        for field, array in zip(fields, arrays, strict=True)
    ]


def stored_items(reader: FragmentReader, field: Field) -> pa.Array | None:
    """Return what the dictionaries of a column hold in a fragment, also what no row has.

    Reads one row of each page, which comes with the dictionary of the page.

    Args:
        reader: The reader of the fragment.
        field: A column of strings.

    Returns:
        None where rows may have other values, since not all pages have small dictionaries.

    Raises:
        LanceError: The dictionaries cannot be read.
    """
    if _decoded_otherwise(reader, {field.id}) or not dictionary_columns(reader, [field]):
        return None
    (file,) = (each for each in reader.fragment.files if field.id in each.fields)
    ((sizes,),) = reader.open_file(file)[1].page_sizes([field])
    *firsts, rows = sizes.first_rows
    some = sorted({first for first in firsts if first < rows})  # a page may have no rows
    (array,) = reader.read(
        [encoded_field(field)], as_ranges(np.array(some, np.int64)), "descriptors"
    )
    return array.dictionary


@lru_cache(maxsize=4096)  # the same for all files of a table
def encoded_field(field: Field) -> Field:
    """Return the field by which a column is read with dictionaries and indices of 32 bits.

    Args:
        field: A column of strings, or of lists of strings; or such a member as a column.
    """
    *around, stored = field.way or (field,)
    if stored.children:
        changed: dict[str, Any] = {"children": (encoded_field(stored.children[0]),)}
    else:
        kind = f"dict:{stored.logical_type}:int32:false"
        changed = {"logical_type": kind, "is_encoded": True}
    way = (*around, replace(stored, **changed)) if around else ()
    return replace(field, **changed, way=way)


def encoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of strings that come dictionary-encoded, or of lists of such strings."""
    return pa.list_(kind.value_field.with_type(ENCODED)) if pa.types.is_list(kind) else ENCODED


def _decoded_as_stored(
    reader: FragmentSource, ranges: Sequence[RowRange], encoded: Set[int]
) -> set[int]:
    """Return the columns that are decoded into dictionary arrays; the others are encoded anew."""
    if isinstance(reader, FragmentRun) and reader.mean_rows <= _SMALL_ROWS:
        return set()
    decodable = set(encoded)
    for part, _ in reader.parts(ranges):
        decodable -= _decoded_otherwise(part, decodable)
    return decodable


def _decoded_otherwise(reader: FragmentReader, ids: Set[int]) -> set[int]:
    """Return the columns that the files of a fragment do not decode into dictionary arrays."""
    if reader.fragment.overlays:
        return set(ids)
    others = (
        file
        for file in reader.fragment.files
        if not ids.isdisjoint(file.fields) and not reader.open_file(file)[1].decodes_dictionaries
    )
    return {id for file in others for id in file.fields if id in ids}
