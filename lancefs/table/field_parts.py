"""A struct or list whose members lie in several data files of a fragment, as one array.

A member that was added later lies in another file than the others, with the structs and lists
around it. As in Lance's own reader, a struct is there where one of the files has it; lists are
those of the first file. Docs: format/table/schema (evolution).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import (
    bitmap,
    children_of,
    nulls,
    numbers_of,
    valid_slots,
    with_children,
)
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile
from lancefs.table.fragments import DataFile, Fragment

# A field, pruned to the parts that a data file holds, and its values.
PrunedArray: TypeAlias = tuple[Field, pa.Array]


def locate_fields(fields: Sequence[Field], fragment: Fragment) -> list[tuple[int, int, Field]]:
    """Find the data files of a fragment that hold fields, or parts of them.

    Args:
        fields: Columns of the table, or parts or outlines of columns.
        fragment: The fragment.

    Returns:
        (position among the fields, position among the files, field pruned to the parts that the
        file holds), by field and file.

    Raises:
        CorruptFile: A file lists a field, and names no column of it.
    """
    for data_file in fragment.files:
        data_file.check_columns(fields)
    files = [_field_ids(data_file) for data_file in fragment.files]
    return [
        (position, number, pruned)
        for position, field in enumerate(fields)
        for number, ids in enumerate(files)
        if field.children or field.id in ids  # quick, of many columns in as many files
        if (pruned := field.prune(ids)) is not None
    ]


def _field_ids(data_file: DataFile) -> Mapping[int, int] | frozenset[int]:
    """Return the ids of the fields that have values in a file."""
    return frozenset(data_file.fields) if data_file.is_legacy else data_file.columns


def check_rows(array: pa.Array, rows: int, field: Field, fragment: Fragment) -> pa.Array:
    """Return the values of a field of a fragment.

    Args:
        array: The values.
        rows: Number of rows that were read.
        field: The field.
        fragment: The fragment.

    Raises:
        CorruptFile: They are not as many as the rows that were read.
    """
    if len(array) != rows:
        raise CorruptFile(
            f"fragment {fragment.id}, {field.name}: {len(array)} rows, expected {rows}"
        )
    return array


def merge_parts(field: Field, parts: Sequence[PrunedArray], rows: int) -> pa.Array:
    """Merge the parts of a field that data files hold.

    Args:
        field: The field.
        parts: The part of each file, all of the same rows.
        rows: Number of rows.

    Returns:
        An array of the field's storage type; parts that no file holds are null.

    Raises:
        CorruptFile: The lists of one file have other lengths than those of another.
    """
    if not parts:
        return nulls(rows, field.storage_type)
    if field.is_leaf or (len(parts) == 1 and parts[0][0] == field):
        return parts[0][1]  # if two files hold a field, Lance reads the first
    by_id = [
        {
            child.id: (child, values)
            for child, values in zip(part.children, children_of(array), strict=True)
        }
        for part, array in parts
    ]
    arrays = [array for _, array in parts]
    length = _common_length(field, arrays, [len(next(iter(part.values()))[1]) for part in by_id])
    children = [
        merge_parts(child, [part[child.id] for part in by_id if child.id in part], length)
        for child in field.children
    ]
    if len(arrays) > 1 and pa.types.is_struct(field.storage_type):
        return _struct_of(field.storage_type, arrays, children)
    return with_children(arrays[0], field.storage_type, children)


def _struct_of(
    data_type: pa.DataType, arrays: Sequence[pa.Array], children: Sequence[pa.Array]
) -> pa.Array:
    """Return structs that are null where they are null in all of several arrays."""
    masks = [mask for array in arrays if (mask := valid_slots(array)) is not None]
    valid = np.logical_or.reduce(masks) if len(masks) == len(arrays) else None
    return pa.Array.from_buffers(
        data_type, len(arrays[0]), [bitmap(valid)], children=list(children)
    )


def _common_length(field: Field, arrays: Sequence[pa.Array], lengths: Sequence[int]) -> int:
    """Return how many children the parts of a field have, each.

    Args:
        field: The field.
        arrays: The parts.
        lengths: The number of children of each.

    Raises:
        CorruptFile: They differ.
    """
    if len(set(lengths)) > 1 or not _are_same_lists(arrays):
        raise CorruptFile(f"the lists of {field.name!r} have other lengths in another data file")
    return lengths[0]


def _are_same_lists(arrays: Sequence[pa.Array]) -> bool:
    """Whether lists have the same offsets; true of arrays without offsets."""
    if len(arrays) == 1 or not hasattr(arrays[0], "offsets"):
        return True
    first, *others = (numbers_of(array.offsets) for array in arrays)
    return all(np.array_equal(first, other) for other in others)
