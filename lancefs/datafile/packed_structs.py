"""Packed structs that the table has dropped members of.

The members of a packed struct lie side by side in one column, so that those that were dropped are
still between the others. The file's own schema says which there are; ids tell which are wanted.

Format page: file format, section "Schema" (`docs/src/format/file/index.md`).
"""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.container import Container
from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.errors import locating
from lancefs.proto import schema_pb2


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
    messages = []
    for message in container.descriptor().schema.fields:
        if message.id == field.id:
            top = schema_pb2.Field()
            top.CopyFrom(message)
            top.parent_id = -1  # whatever is around it does not matter here
            messages.append(top)
        elif message.parent_id == field.id:
            messages.append(message)
    with locating(container.file.url, "schema"):
        found = fields_from_proto(messages)
    return found[0] if found and _ids(found[0]) >= _ids(field) else field


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
