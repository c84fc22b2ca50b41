"""Members of structs as columns: `user.age` is read without the other members of `user`.

A member that is read as a column is a field whose `way` leads to it from the column. Data files
store the structs around a member only together with it, so that readers read these structs with the
one member, and take it out of them. A member of a missing struct is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.table.schema import find_column


def as_column(way: Sequence[Field]) -> Field:
    """Return a member of a struct as a column, named by its path: `user.age`.

    A part that has a dot stands in backticks where the path would lead to another member.

    Args:
        way: The column, then the members down to the one that is meant; a column alone is itself.
    """
    *around, member = way
    if not around:
        return member
    is_nullable = any(field.nullable for field in way)
    name = _path_of(way)
    return replace(member, name=name, nullable=is_nullable, way=tuple(way))


def _path_of(way: Sequence[Field]) -> str:
    names = [field.name for field in way]
    path = ".".join(names)
    if any("." in name for name in names) and find_column(way[:1], path) != tuple(way):
        return ".".join(_quoted(name) if "." in name else name for name in names)
    return path


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns_and_members(columns: Iterable[Field]) -> Iterator[Field]:
    """Yield columns, each of them followed by the members of structs in it, as columns.

    Args:
        columns: The columns.
    """
    for column in columns:
        yield from _with_members_of((column,))


def _with_members_of(way: tuple[Field, ...]) -> Iterator[Field]:
    yield as_column(way)
    if _can_be_taken_apart(way[-1]):
        for member in way[-1].children:
            yield from _with_members_of((*way, member))


def _can_be_taken_apart(field: Field) -> bool:
    """Whether members of a field can be read alone."""
    return field.logical_type == "struct" and not field.is_blob


def walk_down(column: Field, names: Sequence[str]) -> tuple[Field, ...]:
    """Return the way from a column to a member, as far as members can be read alone.

    Args:
        column: The column.
        names: The names of the members on the way.
    """
    way = [column]
    for name in names:
        if not _can_be_taken_apart(way[-1]):
            break
        found = [child for child in way[-1].children if child.name == name]
        if len(found) != 1:
            break
        way.append(found[0])
    return tuple(way)


def outermost(fields: Collection[Field]) -> list[Field]:
    """Leave out members of structs that are among the fields themselves."""
    ids = {field.id for field in fields}
    return [field for field in fields if not any(part.id in ids for part in field.way[:-1])]


def stored(field: Field) -> Field:
    """Return what is read for a column: of a member, the structs around it with this member alone.

    The members of a packed struct are stored side by side, so that it is read whole.
    """
    if not field.way:
        return field
    *around, part = field.way
    assert not any(struct.is_blob for struct in around), "descriptors of blobs are read whole"
    for struct in reversed(around):
        part = struct if struct.is_packed else replace(struct, children=(part,))
    return part


def taken_out(array: pa.Array, field: Field) -> pa.Array:
    """Return the values of a column: those of a member, out of the structs that were read for it.

    Args:
        array: Values of `stored(field)`.
        field: The column.
    """
    is_whole = False  # what a packed struct holds is read whole, however deep
    for struct, member in pairwise(field.way):
        is_whole = is_whole or struct.is_packed
        ids = [child.id for child in struct.children] if is_whole else [member.id]
        array = array.flatten()[ids.index(member.id)]
    return array


def paths_of(fields: Iterable[Field]) -> dict[str, tuple[str, ...]]:
    """Return the names on the way to each member among some columns, by the name of its column."""
    return {field.name: tuple(part.name for part in field.way) for field in fields if field.way}


def nested(batch: pa.RecordBatch, paths: Mapping[str, Sequence[str]]) -> pa.RecordBatch:
    """Put members back into structs, where expressions look for them.

    The structs are not null; their members are where the structs of the table are.

    Args:
        batch: Columns, and members as columns.
        paths: The names on the way to each member, by the name of its column.
    """
    if not any(name in paths for name in batch.schema.names):
        return batch
    tree: dict[str, Any] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        *around, last = paths.get(name, (name,))
        inside = tree
        for part in around:
            inside = inside.setdefault(part, {})
        inside[last] = array
    return pa.RecordBatch.from_arrays([_array(value) for value in tree.values()], names=list(tree))


def _array(value: Any) -> pa.Array:
    """Return an array, or a struct of the members in a dict."""
    if not isinstance(value, dict):
        return value
    return pa.StructArray.from_arrays([_array(member) for member in value.values()], list(value))
