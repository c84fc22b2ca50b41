"""Columns: finding them by name, and their Arrow schema.

Format page: table schema (`docs/src/format/table/schema.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lancefs.datafile.fields import Blobs, Field
from lancefs.errors import ColumnNotFound, UnsupportedFeature

# Key in the metadata of a column that this release does not read; the value is the reason.
UNSUPPORTED = b"lancefs:unsupported"


def arrow_schema(
    fields: Sequence[Field],
    metadata: Mapping[bytes, bytes] | None = None,
    blobs: Blobs = "descriptors",
) -> pa.Schema:
    """Return the Arrow schema of columns.

    Args:
        fields: The columns.
        metadata: Metadata of the schema.
        blobs: Whether blob columns have the type of their descriptors, or of their bytes.

    Raises:
        UnsupportedFeature: The type of a column is unknown; the message names the type.
        CorruptFile: The type of a column is not a valid one.
    """
    return pa.schema([field.to_arrow(blobs) for field in fields], metadata=dict(metadata or {}))


def shown_field(field: Field) -> pa.Field:
    """Return the Arrow field of a column; of type null if the type of the column is unknown.

    The metadata of such a field give the reason. The other columns of the table stay readable; a
    scan of the unknown one raises `UnsupportedFeature`.
    """
    try:
        return field.to_arrow()
    except UnsupportedFeature as error:
        metadata = {UNSUPPORTED: str(error).encode()}
        return pa.field(field.name, pa.null(), metadata=metadata)  # never non-nullable


def shown_schema(fields: Sequence[Field], metadata: Mapping[bytes, bytes]) -> pa.Schema:
    """Return the schema that a dataset shows, in which a column of an unknown type is null.

    Args:
        fields: The columns.
        metadata: Metadata of the schema.
    """
    return pa.schema([shown_field(field) for field in fields], metadata=dict(metadata) or None)


def find_column(fields: Sequence[Field], name: str) -> tuple[Field, ...]:
    """Find a column, or a member of a struct, by name.

    Args:
        fields: The columns of the table.
        name: Name of a column, which may contain dots, or path of a member: `user.address.city`.

    Returns:
        The fields on the path: the column first, the column or member of the name last.

    Raises:
        ColumnNotFound: There is no such column; the message names similar ones.
    """
    path = _find(fields, name)
    if path is None:
        around = _longest(fields, name)
        is_nested = around and around[-1].children and around[-1].logical_type != "struct"
        hint = no_members(around) if is_nested else _nearest(fields, name)
        raise ColumnNotFound(f"there is no column {name!r}; {hint}")
    return path


def no_members(way: Sequence[Field]) -> str:
    """Say for an error message that a column, or a member, has no members that could be named.

    Args:
        way: The column, then the members down to the one that is meant.
    """
    name = ".".join(field.name for field in way)
    kind = way[-1].shown_type or way[-1].logical_type
    return f"{name} is {kind}, and only members of structs can be read alone"


def primary_key(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields of the table's unenforced primary key, in the order of the key.

    Fields with a position come first, by position; fields without one follow, by id. Most tables
    have no such key.
    """
    parts = [field for column in fields for field in column.walk() if field.primary_key is not None]
    return tuple(sorted(parts, key=lambda f: (not f.primary_key, f.primary_key, f.id)))


def listed(fields: Sequence[Field]) -> str:
    """Name the columns of a table for an error message: the first ten, no row metadata."""
    names = [field.name for field in fields if field.id >= 0]
    more = ", …" if len(names) > 10 else ""
    return (
        f"the table has {len(names)} column{'' if len(names) == 1 else 's'}: "
        f"{', '.join(names[:10])}{more}"
    )


def _find(fields: Sequence[Field], name: str) -> tuple[Field, ...] | None:
    for field in fields:
        if field.name == name:
            return (field,)
    for field in fields:
        if name.startswith(field.name + ".") and field.members:
            rest = _find(field.members, name[len(field.name) + 1 :])
            if rest is not None:
                return field, *rest
    return None


def _longest(fields: Sequence[Field], name: str) -> tuple[Field, ...]:
    """Return the longest way that the parts of a path lead; empty if there is no such column."""
    while "." in name:
        name = name.rpartition(".")[0]
        if (way := _find(fields, name)) is not None:
            return way
    return ()


def _nearest(fields: Sequence[Field], name: str) -> str:
    import difflib

    names = [path for field in fields for path in _paths(field)]
    lower = {path.lower(): path for path in names}
    near = [lower[match] for match in difflib.get_close_matches(name.lower(), lower, 3, 0.53)]
    if near:
        return f"did you mean {' or '.join(repr(path) for path in near)}?"
    return listed(fields)


def _paths(field: Field) -> Iterator[str]:
    """Yield the names that `find_column` takes for a column and the members of its structs."""
    yield field.name
    for member in field.members:
        yield from (f"{field.name}.{path}" for path in _paths(member))
