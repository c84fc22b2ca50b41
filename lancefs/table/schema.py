"""Columns: finding them by name, and their Arrow schema.

Format page: table schema (`docs/src/format/table/schema.md`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lancefs.arguments import similar_names
from lancefs.datafile.fields import Field
from lancefs.errors import ColumnNotFound, UnsupportedFeature

# Key in the metadata of a column that this release does not read; the value is the reason.
UNSUPPORTED = b"lancefs:unsupported"

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


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
            Parts may stand in backticks, as a name with a dot that could be a path has to.

    Returns:
        The fields on the path: the column first, the column or member of the name last.

    Raises:
        ColumnNotFound: There is no such column; the message names similar ones.
    """
    path = _find(fields, name) or find_way(fields, _parts(name))
    if path is None:
        around = _longest(fields, name)
        is_nested = around and around[-1].children and around[-1].logical_type != "struct"
        hint = no_members(around) if is_nested else _nearest(fields, name)
        raise ColumnNotFound(f"there is no column {name!r}; {hint}")
    return path


def find_way(fields: Sequence[Field], names: Sequence[str]) -> tuple[Field, ...] | None:
    """Find a column, or a member of a struct, by its name and those of the structs around it.

    Args:
        fields: The columns of the table.
        names: The name of the column, then those of members.

    Returns:
        The fields on the path; None if there is no such column, or no name.
    """
    way: list[Field] = []
    for name in names:
        found = next((field for field in fields if field.name == name), None)
        if found is None:
            return None
        way.append(found)
        fields = found.members
    return tuple(way) or None


def _parts(name: str) -> list[str]:
    """Return the parts of a path with backticks, which are doubled in names; none of any other."""
    parts, end = [], -1
    while "`" in name and end < len(name):
        found = _PART.match(name, end + 1)
        if found is None or name[found.end() : found.end() + 1] not in ("", "."):
            return []
        end = found.end()
        quoted, plain = found.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
    return parts


def no_members(way: Sequence[Field]) -> str:
    """Say for an error message that a column, or a member, has no members that could be named.

    Args:
        way: The column, then the members down to the one that is meant.
    """
    name = ".".join(field.name for field in way)
    kind = way[-1].shown_type or way[-1].logical_type
    return f"{name} is {kind}, and only members of structs can be read alone"


def with_paths(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[str, Field]]:
    """Yield fields and all fields below them, each with its path: the names joined by dots."""
    for field in fields:
        path = prefix + field.name
        yield path, field
        yield from with_paths(field.children, f"{path}.")


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
    """Find a column by its name, or else a member by a path."""
    found = next((field for field in fields if field.name == name), None)
    return _find_member(fields, name) if found is None else (found,)


def _find_member(fields: Sequence[Field], path: str) -> tuple[Field, ...] | None:
    """Find a member below some fields; a dot of the path ends a name rather than is part of it."""
    around = [field for field in fields if path.startswith(field.name + ".")]
    for field in sorted(around, key=lambda field: len(field.name)):
        rest = path[len(field.name) + 1 :]
        below = _find_member(field.members, rest) or find_way(field.members, [rest])
        if below is not None:
            return field, *below
    return None


def _longest(fields: Sequence[Field], name: str) -> tuple[Field, ...]:
    """Return the fields that the first parts of a path name; empty if there is no such column."""
    while "." in name:
        name = name.rpartition(".")[0]
        if (way := _find(fields, name)) is not None:
            return way
    return ()


def _nearest(fields: Sequence[Field], name: str) -> str:
    paths = [path for field in fields for path in _paths(field)]
    if near := similar_names(name, paths, cutoff=0.53):
        return f"did you mean {' or '.join(repr(path) for path in near)}?"
    return listed(fields)


def _paths(field: Field) -> Iterator[str]:
    """Yield the names that `find_column` takes for a column and the members of its structs."""
    yield field.name
    for member in field.members:
        yield from (f"{field.name}.{path}" for path in _paths(member))
