"""What is known of a table, as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from duckdb_adapter.tables import Table
from lancefs.datafile.fields import Field
from lancefs.errors import UnsupportedFeature
from lancefs.proto import table_pb2
from lancefs.table.manifest import read_manifest, read_section, read_timestamp
from lancefs.table.refs import list_branches, list_tags
from lancefs.table.roaring import read_roaring
from lancefs.table.versions import VersionFile, list_versions

_TIME = pa.timestamp("us", tz="UTC")
# Manifests that are read side by side.
_READERS = 8

_VERSIONS = pa.schema(
    [
        ("version", pa.int64()),
        ("branch", pa.string()),
        ("committed_at", _TIME),
        ("num_rows", pa.int64()),
        ("num_fragments", pa.int64()),
        ("num_columns", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("writer", pa.string()),
    ]
)
_REFS = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("version", pa.int64()),
        ("branch", pa.string()),
        ("created_at", _TIME),
        ("updated_at", _TIME),
    ]
)
_FRAGMENTS = pa.schema(
    [
        ("fragment_id", pa.int64()),
        ("num_rows", pa.int64()),
        ("physical_rows", pa.int64()),
        ("num_deleted", pa.int64()),
        ("deletion_file", pa.string()),
        (
            "data_files",
            pa.list_(
                pa.struct(
                    [
                        ("path", pa.string()),
                        ("format", pa.string()),
                        ("size_bytes", pa.int64()),
                        ("field_ids", pa.list_(pa.int32())),
                    ]
                )
            ),
        ),
    ]
)
_FIELDS = pa.schema(
    [
        ("field_id", pa.int32()),
        ("parent_id", pa.int32()),
        ("path", pa.string()),
        ("name", pa.string()),
        ("logical_type", pa.string()),
        ("arrow_type", pa.string()),
        ("nullable", pa.bool_()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
_INDICES = pa.schema(
    [
        ("name", pa.string()),
        ("uuid", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("type", pa.string()),
        ("version", pa.int64()),
        ("fragment_ids", pa.list_(pa.int64())),
        ("created_at", _TIME),
    ]
)


def versions(table: Table) -> pa.Table:
    """List the versions of the branch that a version is on, oldest first."""
    tags: dict[int, list[str]] = {}
    for tag in list_tags(table.where.root).values():
        if tag.branch == table.where.branch:
            tags.setdefault(tag.version, []).append(tag.name)
    with ThreadPoolExecutor(_READERS) as pool:
        files = list_versions(table.where.store)
        rows = list(pool.map(lambda file: _version(table, file, tags), files))
    return pa.Table.from_pylist(rows, schema=_VERSIONS)


def refs(table: Table) -> pa.Table:
    """List the tags and branches of a table; for a branch, the version that it started from."""
    root = table.where.root
    rows: list[dict[str, Any]] = [
        {
            "name": tag.name,
            "kind": "tag",
            "version": tag.version,
            "branch": tag.branch,
            "created_at": _parsed(tag.created_at),
            "updated_at": _parsed(tag.updated_at),
        }
        for tag in list_tags(root).values()
    ]
    rows += [
        {
            "name": branch.name,
            "kind": "branch",
            "version": branch.parent_version,
            "branch": branch.parent_branch,
            "created_at": branch.created_at,
        }
        for branch in list_branches(root).values()
    ]
    return pa.Table.from_pylist(rows, schema=_REFS)


def fragments(table: Table) -> pa.Table:
    """List the fragments of a version, in scan order."""
    rows = [
        {
            "fragment_id": fragment.id,
            "num_rows": fragment.num_rows,
            "physical_rows": fragment.physical_rows,
            "num_deleted": fragment.num_deleted,
            "deletion_file": fragment.deletion_file and fragment.deletion_file.path(fragment.id),
            "data_files": [
                {
                    "path": file.path,
                    "format": file.version,
                    "size_bytes": file.size,
                    "field_ids": list(file.fields),
                }
                for file in fragment.files
            ],
        }
        for fragment in table.dataset.manifest.fragments
    ]
    return pa.Table.from_pylist(rows, schema=_FRAGMENTS)


def fields(table: Table) -> pa.Table:
    """List the fields of a version, each before those that are nested in it."""
    rows = [
        {
            "field_id": field.id,
            "parent_id": parent,
            "path": path,
            "name": field.name,
            "logical_type": field.logical_type,
            "arrow_type": _arrow_type(field),
            "nullable": field.nullable,
            "metadata": [(_text(key), _text(value)) for key, value in field.metadata.items()],
        }
        for field, parent, path in _walk(table.dataset.manifest.fields)
    ]
    return pa.Table.from_pylist(rows, schema=_FIELDS)


def indices(table: Table) -> pa.Table:
    """List the indices of a version, one row a segment."""
    section = table.dataset.manifest.index_section
    data = b"" if section is None else read_section(table.where.manifest, section)
    paths = {field.id: path for field, _, path in _walk(table.dataset.manifest.fields)}
    rows = [_index(index, paths) for index in table_pb2.IndexSection.FromString(data).indices]
    return pa.Table.from_pylist(rows, schema=_INDICES)


def _version(table: Table, file: VersionFile, tags: Mapping[int, list[str]]) -> dict[str, Any]:
    manifest_file = table.where.store.file(file.path, file.size)
    row: dict[str, Any] = {
        "version": file.version,
        "branch": table.where.branch,
        "tags": sorted(tags.get(file.version, [])),
    }
    try:
        manifest = read_manifest(manifest_file)
    except UnsupportedFeature:  # a version that cannot be read is one all the same
        return row | {"committed_at": read_timestamp(manifest_file)}
    writer = manifest.writer
    return row | {
        "committed_at": manifest.timestamp,
        "num_rows": manifest.num_rows,
        "num_fragments": len(manifest.fragments),
        "num_columns": len(manifest.fields),
        "writer": writer and f"{writer.library} {writer.version}",
    }


def _index(index: table_pb2.IndexMetadata, paths: Mapping[int, str]) -> dict[str, Any]:
    created = index.created_at if index.HasField("created_at") else None
    return {
        "name": index.name,
        "uuid": str(UUID(bytes=index.uuid.uuid)),
        "columns": [paths.get(field, str(field)) for field in index.fields],
        "type": index.index_details.type_url.rpartition(".")[2].removesuffix("IndexDetails")
        or None,
        "version": index.dataset_version,
        "fragment_ids": _bitmap(index.fragment_bitmap),
        "created_at": None if created is None else _at(created),
    }


def _index_type(url: str) -> str | None:
    """Name the kind of an index by the message that describes it."""
    return url.rpartition(".")[2].removesuffix("IndexDetails") or None


def _bitmap(data: bytes) -> list[int] | None:
    """Read the fragments that an index covers; None where it does not say."""
    if not data:
        return None
    covered: list[int] = read_roaring(np.frombuffer(data, np.uint8), 2**32).tolist()
    return covered


def _walk(
    fields: tuple[Field, ...], parent: int | None = None, prefix: str = ""
) -> Iterator[tuple[Field, int | None, str]]:
    """Yield fields with the id of the one around each, and the names that lead to it."""
    for field in fields:
        path = prefix + field.name
        yield field, parent, path
        yield from _walk(field.children, field.id, path + ".")


def _arrow_type(field: Field) -> str | None:
    try:
        return str(field.to_arrow().type)
    except UnsupportedFeature:
        return None


def _parsed(time: str | None) -> datetime | None:
    """Read a time as tags have it; None where it is not one, since nothing depends on it."""
    try:
        parsed = None if time is None else datetime.fromisoformat(time)
    except ValueError:
        return None
    return parsed if parsed is None or parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _at(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
