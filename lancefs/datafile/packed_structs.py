"""Packed structs with members that the table has dropped.

One column holds all members of a packed struct row by row, so that the values of dropped members
remain in it. The file's own schema lists the stored members; ids match them to those of the table.

Format page: file format, section "Schema" (`docs/src/format/file/index.md`).
"""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.container import Container
from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.errors import CorruptFile, locating
from lancefs.proto import schema_pb2


def stored_field(container: Container, field: Field) -> Field:
    """Return a packed struct with all members that its column stores.

    Args:
        container: The file that has the column.
        field: The struct in the schema of the table.

    Returns:
        The field of the file's schema; `field` itself where the file's schema lacks one of its
        members.

    Raises:
        CorruptFile: The file's schema is damaged.
    """
    messages = []
    known = {field.id}
    for message in container.descriptor().schema.fields:  # parents come before their children
        if message.id == field.id:
            top = schema_pb2.Field()
            top.CopyFrom(message)
            top.parent_id = -1  # its parents do not matter here
            messages.append(top)
        elif message.parent_id in known:
            known.add(message.id)
            messages.append(message)
    with locating(container.file.url, "schema"):
        stored = fields_from_proto(messages)
    return stored[0] if stored and _ids(stored[0]) >= _ids(field) else field


def without_dropped(rows: pa.StructArray, stored: Field, field: Field) -> pa.StructArray:
    """Return rows with only the members that the table still has.

    Args:
        rows: Rows of the type of `stored`.
        stored: The struct in the schema of the file.
        field: The struct in the schema of the table.

    Raises:
        CorruptFile: The two schemas disagree about the type of a member; it is named.
    """
    positions = {member.id: index for index, member in enumerate(stored.children)}
    members = list[pa.Array]()
    for member in field.children:
        position = positions[member.id]
        values, own = rows.field(position), stored.children[position]
        if own.logical_type == member.logical_type == "struct" and _ids(own) >= _ids(member):
            values = without_dropped(values, own, member)
        if values.type != member.storage_type:
            raise CorruptFile(
                f"column {field.name!r}: its member {member.name!r} is of the type {values.type} "
                f"in the data file, which the schema of the table says is {member.storage_type}; "
                "one of them is damaged"
            )
        members.append(values)
    return pa.Array.from_buffers(
        field.storage_type, len(rows), rows.buffers()[:1], rows.null_count, rows.offset, members
    )


def _ids(field: Field) -> set[int]:
    return {member.id for member in field.children}
