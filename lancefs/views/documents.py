"""JSON documents: what is known of a version besides its rows."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from enum import Enum
from typing import Any

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.errors import MissingFile
from lancefs.table.flags import ReaderFlags
from lancefs.table.indices import uncovered_rows
from lancefs.views.open_tables import Version


def document(name: str, version: Version) -> pa.Buffer:
    """Return the bytes of a document.

    Args:
        name: One of `NAMES`.
        version: What it is about.
    """
    text = json.dumps(_MAKERS[name](version), indent=2, ensure_ascii=False)
    return pa.py_buffer(text.encode("utf-8", "backslashreplace") + b"\n")


def _schema(version: Version) -> dict[str, Any]:
    manifest = version.manifest
    return {
        "fields": [_field(field) for field in manifest.fields],
        "metadata": _plain(manifest.schema_metadata),
    }


def _field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "id": field.id,
        "type": field.shown_type,
        "logical_type": field.logical_type,
        "nullable": field.nullable,
        "primary_key": field.primary_key,
        "metadata": _plain(field.metadata),
        "fields": [_field(child) for child in field.children],
    }


def _manifest(version: Version) -> dict[str, Any]:
    """All that the typed manifest says, but the columns: those are in the schema's document."""
    manifest = version.manifest
    said = {name: _plain(value) for name, value in manifest._asdict().items() if name != "fields"}
    counts = {"num_rows": manifest.num_rows, "physical_rows": manifest.physical_rows}
    said["fields"] = [field.name for field in manifest.fields]
    return counts | said


def _transaction(version: Version) -> dict[str, Any] | None:
    """What made the version; nothing where it does not say, a note where that was cleaned up."""
    try:
        done = version.dataset.transaction()
    except MissingFile as error:
        return {"note": str(error)}
    if done is None:
        return None
    names = ("operation", "summary", "message", "read_version", "uuid", "tag")
    said = {name: getattr(done, name) for name in names}
    return said | {"properties": _plain(done.properties), "details": _plain(done.details)}


def _indices(version: Version) -> list[dict[str, Any]]:
    found = version.dataset.indices()
    uncovered = uncovered_rows(found, version.manifest)
    return [
        _plain(one) | {"size": one.size, "uncovered_rows": uncovered.get(one.name)} for one in found
    ]


def _plain(value: Any) -> Any:
    """Return a value of the manifest as JSON can say it."""
    if isinstance(value, ReaderFlags):
        return [flag.name for flag in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {_text(key): _item(item) for key, item in sorted(value.items())}
    if isinstance(value, Set):
        return sorted(map(_plain, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _item(value: Any) -> Any:
    return _text(value) if isinstance(value, bytes) else _plain(value)


def _text(data: str | bytes) -> str:
    """Metadata is text; the odd byte that is not shows as an escape."""
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data


_MAKERS: Mapping[str, Callable[[Version], Any]] = {
    "schema.json": _schema,
    "manifest.json": _manifest,
    "transaction.json": _transaction,
    "indices.json": _indices,
}

NAMES = tuple(_MAKERS)
