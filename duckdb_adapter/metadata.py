"""The metadata of a table as Arrow tables, for SQL functions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from duckdb_adapter.open_names import NamedTable
from lancefs.datafile.fields import Field
from lancefs.errors import UnsupportedFeature
from lancefs.table.indices import index_table
from lancefs.table.tags_and_branches import list_branches, list_tags

_TIME = pa.timestamp("us", tz="UTC")

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


def versions(table: NamedTable) -> pa.Table:
    """List the versions of the branch that a version is on, oldest first, with what each did."""
    return table.dataset.history()


def refs(table: NamedTable) -> pa.Table:
    """List the tags and branches of a table; for a branch, the version that it started from."""
    root = table.where.root
    rows: list[dict[str, Any]] = [
        {
            "name": tag.name,
            "kind": "tag",
            "version": _bigint(tag.version, f"the version of tag {tag.name!r}"),
            "branch": tag.branch,
            "created_at": _parse_time(tag.created_at),
            "updated_at": _parse_time(tag.updated_at),
        }
        for tag in list_tags(root).values()
    ]
    rows += [
        {
            "name": branch.name,
            "kind": "branch",
            "version": _bigint(branch.parent_version, f"the version below {branch.name!r}"),
            "branch": branch.parent_branch,
            "created_at": branch.created_at,
        }
        for branch in list_branches(root).values()
    ]
    return pa.Table.from_pylist(rows, schema=_REFS)


def fragments(table: NamedTable) -> pa.Table:
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
                    "size_bytes": _bigint(file.size, f"the size of data file {file.path!r}"),
                    "field_ids": list(file.fields),
                }
                for file in fragment.files
            ],
        }
        for fragment in table.dataset.manifest.fragments
    ]
    return pa.Table.from_pylist(rows, schema=_FRAGMENTS)


def fields(table: NamedTable) -> pa.Table:
    """List the fields of a version, each before those that are nested in it."""
    rows = [
        {
            "field_id": field.id,
            "parent_id": parent,
            "path": path,
            "name": field.name,
            "logical_type": field.logical_type,
            "arrow_type": field.shown_type,
            "nullable": field.nullable,
            "metadata": [(_text(key), _text(value)) for key, value in field.metadata.items()],
        }
        for field, parent, path in _walk(table.dataset.manifest.fields)
    ]
    return pa.Table.from_pylist(rows, schema=_FIELDS)


def indices(table: NamedTable) -> pa.Table:
    """List the indices of a version, one row a segment."""
    return index_table(table.dataset.indices(), table.dataset.manifest)


def _walk(
    fields: tuple[Field, ...], parent: int | None = None, prefix: str = ""
) -> Iterator[tuple[Field, int | None, str]]:
    """Yield fields with the id of the one around each, and the names that lead to it."""
    for field in fields:
        path = prefix + field.name
        yield field, parent, path
        yield from _walk(field.children, field.id, path + ".")


def _bigint(number: int | None, what: str) -> int | None:
    """Return a number of the format, which has no sign, as DuckDB's BIGINT.

    Raises:
        UnsupportedFeature: It is too large; versions that large are detached ones, sizes forged.
    """
    if number is not None and number >= 2**63:
        raise UnsupportedFeature(f"{what} is {number}, which a BIGINT of DuckDB does not hold")
    return number


def _parse_time(time: str | None) -> datetime | None:
    """Read a time as tags have it; None where it is not one, since nothing depends on it."""
    try:
        parsed = None if time is None else datetime.fromisoformat(time)
    except ValueError:
        return None
    return parsed if parsed is None or parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
