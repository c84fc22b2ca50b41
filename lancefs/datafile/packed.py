"""Packed structs that the table has dropped members of.

The members of a packed struct lie side by side in one column, so that those that were dropped are
still between the others. The file's own schema says which there are; ids tell which are wanted.

Format page: file format, section "Schema" (`docs/src/format/file/index.md`).
"""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.container import Container
from lancefs.datafile.fields import Field


def stored_field(container: Container, field: Field) -> Field:
    """Return a packed struct with all members that its column has.

    Args:
        container: The file that has the column.
        field: The struct as the table knows it.

    Returns:
        The field of the file's schema; the given one where the file's schema lacks one of its
        members.

    Raises:
        CorruptFile: The file's schema is damaged.
    """
    for column in container.fields():
        for found in column.walk():
            if found.id == field.id and _ids(found) >= _ids(field):
                return found
    return field


def without_dropped(rows: pa.StructArray, stored: Field, field: Field) -> pa.StructArray:
    """Return rows with only the members that the table still has.

    Args:
        rows: Of the type of `stored`.
        stored: The struct as the file has it.
        field: The struct as the table knows it.
    """
    positions = {member.id: index for index, member in enumerate(stored.children)}
    members = [rows.field(positions[member.id]) for member in field.children]
    return pa.Array.from_buffers(
        field.storage_type, len(rows), rows.buffers()[:1], rows.null_count, rows.offset, members
    )


def _ids(field: Field) -> set[int]:
    return {member.id for member in field.children}
