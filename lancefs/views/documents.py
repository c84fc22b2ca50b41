"""The JSON documents of a version: its schema, manifest, transaction and indices."""

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
from lancefs.table.indices import Index, uncovered_rows
from lancefs.views.open_tables import ViewedVersion


def document(name: str, version: ViewedVersion) -> pa.Buffer:
    """Return the bytes of a document, as UTF-8.

    Args:
        name: One of `NAMES`.
        version: The version that the document describes.

    Raises:
        LanceError: A file that the document needs cannot be read.
    """
    text = json.dumps(_BUILDERS[name](version), indent=2, ensure_ascii=False)
    return pa.py_buffer(text.encode("utf-8", "backslashreplace") + b"\n")


def _schema(version: ViewedVersion) -> dict[str, Any]:
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


def _manifest(version: ViewedVersion) -> dict[str, Any]:
    """Return the manifest; of the columns only the names, since `schema.json` describes them."""
    manifest = version.manifest
    counts = {"num_rows": manifest.num_rows, "physical_rows": manifest.physical_rows}
    values = {name: _plain(value) for name, value in manifest._asdict().items() if name != "fields"}
    return counts | values | {"fields": [field.name for field in manifest.fields]}


def _transaction(version: ViewedVersion) -> dict[str, Any] | None:
    """Return the transaction that made the version.

    Returns:
        The transaction; None if the version names none; a note if its file was cleaned up.
    """
    try:
        transaction = version.dataset.transaction()
    except MissingFile as error:
        return {"note": str(error)}
    if transaction is None:
        return None
    names = ("operation", "summary", "message", "read_version", "uuid", "tag")
    values = {name: getattr(transaction, name) for name in names}
    properties, details = _plain(transaction.properties), _plain(transaction.details)
    return values | {"properties": properties, "details": details}


def _indices(version: ViewedVersion) -> list[dict[str, Any]]:
    indices = version.dataset.indices()
    uncovered = uncovered_rows(indices, version.manifest)
    return [
        _index(index) | {"size": index.size, "uncovered_rows": uncovered.get(index.name)}
        for index in indices
    ]


def _index(index: Index) -> dict[str, Any]:
    """Describe an index, without the rows that compactions moved; the details tell how many."""
    names = [field.name for field in dataclasses.fields(index) if field.name != "reuse"]
    return {name: _plain(getattr(index, name)) for name in names}


def _plain(value: Any) -> Any:
    """Convert a value of the manifest to types that JSON has; bytes become Base64."""
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
        return {name: _plain(item) for name, item in value._asdict().items()}
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
    """Decode metadata, which is mostly UTF-8; escape the bytes that are not."""
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data


_BUILDERS: Mapping[str, Callable[[ViewedVersion], Any]] = {
    "schema.json": _schema,
    "manifest.json": _manifest,
    "transaction.json": _transaction,
    "indices.json": _indices,
}

NAMES = tuple(_BUILDERS)
