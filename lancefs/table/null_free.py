"""Columns of a fragment without nulls, by the metadata of their pages."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.null_free_pages import known_without_nulls
from lancefs.datafile.validity import validity_of
from lancefs.storage import run
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.members import stored


def all_valid(
    reader: FragmentReader, fields: Sequence[Field], ranges: Sequence[RowRange]
) -> list[bool]:
    """Return for each field whether its values in some rows are all known to be valid.

    The values of fields below it count too. Reads the metadata of columns, no values. False means
    that there may be nulls.

    Args:
        reader: Reader of the fragment.
        fields: Columns of the table.
        ranges: Ranges of offsets, ascending and disjoint.

    Raises:
        LanceError: The metadata cannot be read.
    """
    if reader.fragment.overlays:
        return [False] * len(fields)
    are_valid = [False] * len(fields)
    files = [(file, frozenset(file.columns)) for file in reader.fragment.files]
    positions, reads = [], []
    for position, field in enumerate(fields):
        parts = [(file, part) for file, ids in files if (part := field.prune(ids)) is not None]
        if len(parts) == 1 and parts[0][1] == field and not parts[0][0].is_legacy:
            file, field_reader = reader.open_file(parts[0][0])
            positions.append(position)
            reads.append((file, known_without_nulls(field_reader, field, ranges)))
    for position, is_valid in zip(positions, run(reads), strict=True):
        are_valid[position] = is_valid
    return are_valid


def none_missing(reader: FragmentReader, columns: Sequence[Field]) -> bool:
    """Return whether no value of columns is missing in a fragment, as far as metadata tells.

    What is below the columns does not count; lists are not known to be there.

    Args:
        reader: Reader of the fragment.
        columns: Columns of the table, or members of structs as columns.

    Raises:
        LanceError: The metadata cannot be read.
    """
    fields = [validity_of(column) for column in columns]
    known = [stored(field) for field in fields if field is not None]
    return len(known) == len(fields) and all(all_valid(reader, known, [(0, reader.physical_rows)]))
