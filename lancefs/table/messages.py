"""Messages of the format as plain values, for documents and for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def plain(message: Message) -> dict[str, Any]:
    """Return what a message says, under the names of the format.

    Enumerations are their names, UUIDs are text, and what is binary is left out.
    """
    return {
        field.name: _plain_field(field, value)
        for field, value in message.ListFields()
        if not _is_binary(field)
    }


def uuid_text(data: bytes) -> str:
    """Return an id as text, also where it does not have the 16 bytes of a UUID."""
    return str(UUID(bytes=data)) if len(data) == 16 else data.hex()


def _plain_field(field: FieldDescriptor, value: Any) -> Any:
    of_value = _map_value(field)
    if of_value is not None:
        return {str(key): _plain_value(of_value, one) for key, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):  # repeated, in any protobuf
        return [_plain_value(field, one) for one in value]
    return _plain_value(field, value)


def _plain_value(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.message_type is None:
        return value
    if field.message_type.name == "UUID":
        return uuid_text(value.uuid)
    if field.message_type.full_name == "google.protobuf.Any":
        return value.type_url
    return plain(value)


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The values of a map, None for any other field."""
    below = field.message_type
    if below is None or not below.GetOptions().map_entry:
        return None
    return below.fields_by_name["value"]


def _is_binary(field: FieldDescriptor) -> bool:
    return bool((_map_value(field) or field).type == FieldDescriptor.TYPE_BYTES)
