"""Protobuf messages of the format: decoding them, and showing them as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar
from uuid import UUID

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from lancefs.errors import CorruptFile

_M = TypeVar("_M", bound=Message)


def parse_message(message: _M, data: bytes, name: str = "message") -> _M:
    """Fill a message from its bytes, and return it.

    Args:
        message: An empty message.
        data: Its serialized form.
        name: Name of the message in the error.

    Raises:
        CorruptFile: The bytes are not such a message.
    """
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile(f"the {name} does not decode: {error}") from error
    return message


def plain(message: Message) -> dict[str, Any]:
    """Return the fields of a message that are set, by the names that the format gives them.

    Enumerations become their names and UUIDs text; binary fields are left out.
    """
    return {
        field.name: _plain_field(field, value)
        for field, value in message.ListFields()
        if not _is_binary(field)
    }


def uuid_text(data: bytes) -> str:
    """Return an id as text; as hexadecimal digits if it does not have the 16 bytes of a UUID."""
    return str(UUID(bytes=data)) if len(data) == 16 else data.hex()


def _plain_field(field: FieldDescriptor, value: Any) -> Any:
    map_value = _map_value(field)
    if map_value is not None:
        return {str(key): _plain_value(map_value, item) for key, item in value.items()}
    # The classes of repeated values differ between releases of protobuf.
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain_value(field, item) for item in value]
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
    """Return the field of the values of a map; None for a field that is no map."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["value"]


def _is_binary(field: FieldDescriptor) -> bool:
    return bool((_map_value(field) or field).type == FieldDescriptor.TYPE_BYTES)
