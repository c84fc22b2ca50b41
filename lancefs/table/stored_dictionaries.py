"""Columns that the data files of a fragment store with a dictionary in each page, or row by row.

A dictionary holds each value of a page once. Readers may ask for columns of strings in that form;
filters are tested on the dictionaries of strings and of fixed-width values of whole bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lancefs.datafile.arrays import has_offsets
from lancefs.datafile.column_facts import cached_fact
from lancefs.datafile.data_file import FieldReader
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import EXTENSION_NAME, leaf_type
from lancefs.datafile.masks import is_of_bytes
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import Reads, run
from lancefs.table.fragments import DataFile, Fragment

if TYPE_CHECKING:
    from lancefs.table.fragment_reader import FragmentReader


def is_encodable(field: Field) -> bool:
    """Return whether readers may ask for a column dictionary-encoded.

    They may for columns of strings, and of lists of strings, whose items are encoded then.
    """
    if field.logical_type == "list" and len(field.children) == 1 and _has_no_extension(field):
        field = field.children[0]
    return field.logical_type == "string" and _is_plain(field)


def text_field(field: Field) -> Field:
    """Return the field of the strings of a column that is encodable: its items, or itself."""
    return field.children[0] if field.children else field


def fields_with_dictionaries(reader: FragmentReader, fields: Sequence[Field]) -> frozenset[int]:
    """Return the ids of the fields whose pages all have dictionaries, or strings of a byte each.

    Args:
        reader: The fragment, which keeps the answer.
        fields: Columns of the table.

    Raises:
        LanceError: The metadata of the columns cannot be read.
    """
    return cached_fact(
        reader.facts.with_dictionaries,
        fields,
        lambda: dictionary_columns(reader, fields, flags=True),
    )


def zipped_fields(reader: FragmentReader, fields: Sequence[Field]) -> frozenset[int]:
    """Return the ids of the fields of strings in full-zip pages, where rows are found one by one.

    Args:
        reader: The fragment, which keeps the answer.
        fields: Columns of the table.

    Raises:
        LanceError: The metadata of the columns cannot be read.
    """
    from lancefs.datafile.v2_1.column_kinds import with_zipped_pages

    texts = (
        field
        for field in fields
        if field.id >= 0 and not (field.children or field.is_blob or field.is_outline)
        if has_offsets(field.storage_type)
    )
    return cached_fact(
        reader.facts.zipped, fields, lambda: _found_in_files(reader, texts, with_zipped_pages)
    )


def dictionary_columns(
    reader: FragmentReader, fields: Sequence[Field], flags: bool = False
) -> frozenset[int]:
    """Return the ids of the columns whose pages all have small dictionaries in a fragment.

    Reads the metadata of the columns, no values.

    Args:
        reader: The fragment.
        fields: Columns of the table.
        flags: Whether columns of strings of a byte each are returned, too.

    Raises:
        LanceError: The metadata cannot be read.
    """
    from lancefs.datafile.v2_1.column_kinds import with_dictionaries

    find = partial(with_dictionaries, flags=flags)
    return _found_in_files(reader, filter(_is_plain, fields), find)


def _found_in_files(
    reader: FragmentReader,
    fields: Iterable[Field],
    find: Callable[[FieldReader, Sequence[Field]], Reads[list[Field]]],
) -> frozenset[int]:
    """Return the ids of those columns that one file of a fragment holds, and that are found there.

    Args:
        reader: The fragment.
        fields: The columns that are looked for.
        find: Finds columns in a file.
    """
    by_file: dict[DataFile, list[Field]] = {}
    holders = _holders(reader.fragment)
    for field in fields:
        files = holders.get(field.id, ())
        if len(files) == 1 and not files[0].is_legacy:
            by_file.setdefault(files[0], []).append(field)
    reads = []
    for data_file, file_fields in by_file.items():
        file, field_reader = reader.open_file(data_file)
        reads.append((file, find(field_reader, file_fields)))
    return frozenset(field.id for file_fields in run(reads) for field in file_fields)


def _holders(fragment: Fragment) -> dict[int, list[DataFile]]:
    """Return the data files of a fragment that have each field, by the field's id."""
    holders: dict[int, list[DataFile]] = {}
    for file in fragment.files:
        for id in file.fields:
            holders.setdefault(id, []).append(file)
    return holders


def _is_plain(field: Field) -> bool:
    """Return whether the values of a column are shown as stored: strings, or of whole bytes."""
    if field.id < 0 or field.children or field.is_blob:
        return False
    return _has_no_extension(field) and _is_plain_type(field.logical_type)


def _has_no_extension(field: Field) -> bool:
    return EXTENSION_NAME not in field.metadata


@lru_cache(maxsize=256)
def _is_plain_type(logical_type: str) -> bool:
    if logical_type == "json":
        return False
    try:
        stored = leaf_type(logical_type)
    except (CorruptFile, UnsupportedFeature):  # a read of the column raises it
        return False
    return pa.types.is_string(stored) or is_of_bytes(stored)
