"""Columns by name: which field a user means, and the schema as Arrow sees it.

Format page: table schema (`docs/src/format/table/schema.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lancefs.datafile.fields import Blobs, Field
from lancefs.errors import ColumnNotFound, UnsupportedFeature

# Metadata of a column that cannot be read: why.
UNSUPPORTED = b"lancefs:unsupported"


def arrow_schema(
    fields: Sequence[Field],
    metadata: Mapping[bytes, bytes] | None = None,
    blobs: Blobs = "descriptors",
) -> pa.Schema:
    """Return the Arrow schema of columns.

    Args:
        fields: The columns.
        metadata: Of the schema as a whole.
        blobs: Whether blob columns show where their bytes are, or the bytes.

    Raises:
        UnsupportedFeature: A column's type is not known; it is named.
        CorruptFile: A column's type makes no sense.
    """
    return pa.schema([field.to_arrow(blobs) for field in fields], metadata=dict(metadata or {}))


def shown_field(field: Field) -> pa.Field:
    """Return the Arrow field of a column, of type null where its type is not known.

    Its metadata then says why. So one column from the future hides no other; a scan of it raises
    `UnsupportedFeature`.
    """
    try:
        return field.to_arrow()
    except UnsupportedFeature as error:
        metadata = {UNSUPPORTED: str(error).encode()}
        return pa.field(field.name, pa.null(), field.nullable, metadata)


def find_column(fields: Sequence[Field], name: str) -> tuple[Field, ...]:
    """Find a column, or a member of a struct, by name.

    Args:
        fields: The columns of the table.
        name: Of a column, which may hold dots, or the way to a member: `user.address.city`.

    Returns:
        The way there: the column first, what is meant last.

    Raises:
        ColumnNotFound: There is none; the message names the nearest.
    """
    path = _find(fields, name)
    if path is None:
        raise ColumnNotFound(f"there is no column {name!r}; {_nearest(fields, name)}")
    return path


def primary_key(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields of the table's unenforced primary key, in its order; often there is none.

    Fields with a position come first, by position, then the others by id.
    """
    parts = [field for column in fields for field in column.walk() if field.primary_key is not None]
    return tuple(sorted(parts, key=lambda f: (not f.primary_key, f.primary_key, f.id)))


def _find(fields: Sequence[Field], name: str) -> tuple[Field, ...] | None:
    for field in fields:
        if field.name == name:
            return (field,)
    for field in fields:
        if field.logical_type == "struct" and name.startswith(field.name + "."):
            rest = _find(field.children, name[len(field.name) + 1 :])
            if rest is not None:
                return field, *rest
    return None


def _nearest(fields: Sequence[Field], name: str) -> str:
    import difflib

    names = [path for field in fields for path in _paths(field)]
    lower = {path.lower(): path for path in names}
    near = [lower[found] for found in difflib.get_close_matches(name.lower(), lower, 3, 0.5)]
    if near:
        return f"did you mean {' or '.join(repr(path) for path in near)}?"
    shown = ", ".join(field.name for field in fields[:10])
    return f"the table has {len(fields)} columns: {shown}{', …' if len(fields) > 10 else ''}"


def _paths(field: Field) -> Iterator[str]:
    """The names that `find_column` takes for a column and the members of structs below it."""
    yield field.name
    if field.logical_type == "struct":
        for child in field.children:
            yield from (f"{field.name}.{path}" for path in _paths(child))
