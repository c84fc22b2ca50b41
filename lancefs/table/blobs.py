"""Blobs: the bytes of large values, which lie outside of the column that describes them.

A column holds descriptors. One of the first kind (data files 2.0 and 2.1) is a range of the data
file. Those of the second kind (2.2 and later) name the file as well: the data file itself, a
sidecar that is shared or a value's own, or an object outside of the table, by its address.

Docs: the page on blobs of Lance's guide. Sidecars lie in a directory beside the data file that is
named like it; a sidecar is named by the 32 bits of its number, the lowest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import bitmap, children_of, mask_of, with_children
from lancefs.datafile.blocks import Array, Ints, Mask, offsets_of
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.storage import ByteRange, Bytes, File, read_all
from lancefs.storage.store import LARGEST_REQUEST
from lancefs.table.base_paths import DATA, TableFiles
from lancefs.table.fragments import DataFile

_INLINE, _PACKED, _DEDICATED, _EXTERNAL, _MANAGED = range(5)


@dataclass(frozen=True, slots=True)
class Described:
    """Values of a field, as a data file gives them.

    Attributes:
        data_file: As the manifest names the file.
        file: The file.
        field: The field, as far as the file holds it.
        array: The values, blobs as their descriptors.
    """

    data_file: DataFile
    file: File
    field: Field
    array: pa.Array


@dataclass(frozen=True, slots=True)
class _Part:
    """Blobs that lie in one file: which rows of a column, and where."""

    file: File
    rows: Ints
    ranges: Sequence[ByteRange]


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of blobs."""

    parts: Sequence[_Part]
    valid: Mask


def as_bytes(field: Field) -> Field:
    """Return a field with the blobs at or below it as plain columns of bytes."""
    if field.is_blob:
        return replace(field, logical_type="large_binary", metadata={}, children=())
    return replace(field, children=tuple(as_bytes(child) for child in field.children))


def has_blobs(field: Field) -> bool:
    """Return whether there are blobs at or below a field."""
    return any(part.is_blob for part in field.walk())


def read_blobs(files: TableFiles, described: Sequence[Described]) -> list[pa.Array]:
    """Replace the descriptors of blobs by their bytes, all in one round of requests.

    Args:
        files: Finds the files of the table.
        described: What data files gave.

    Returns:
        The same arrays, with the types of `as_bytes(field)`.

    Raises:
        MissingFile: A file that a descriptor names is gone.
        CorruptFile: A descriptor is damaged, or its file was cut short.
        UnsupportedFeature: A blob lies outside of the table where it may not be read, or is of a
            kind that this release does not know.
    """
    columns = [column for one in described for column in _columns(files, one)]
    wanted = [(part.file, part.ranges) for column in columns for part in column.parts]
    read = iter(read_all(wanted))
    arrays = iter([_binary(column, [next(read) for _ in column.parts]) for column in columns])
    return [_rebuilt(one.field, one.array, arrays) for one in described]


def _columns(files: TableFiles, described: Described) -> Iterator[_Column]:
    """Yield the columns of blobs at or below a field, in the order of `Field.walk`."""

    def below(field: Field, array: pa.Array) -> Iterator[_Column]:
        if field.is_blob:
            with locating(described.file.url, f"blobs of {described.field.name}"):
                yield _located(files, described, array)
        elif has_blobs(field):
            for child, values in _pairs(field, array):
                yield from below(child, values)

    return below(described.field, described.array)


def _pairs(field: Field, array: pa.Array) -> list[tuple[Field, pa.Array]]:
    return list(zip(field.children, children_of(array), strict=True))


def _rebuilt(field: Field, array: pa.Array, blobs: Iterator[pa.Array]) -> pa.Array:
    """Put bytes in the place of descriptors."""
    if field.is_blob:
        return next(blobs)
    if not has_blobs(field):
        return array
    children = [_rebuilt(child, values, blobs) for child, values in _pairs(field, array)]
    return with_children(array, as_bytes(field).storage_type, children)


def _located(files: TableFiles, described: Described, array: pa.StructArray) -> _Column:
    """Find out where blobs lie, from their descriptors."""
    valid = mask_of(array.is_valid())
    position, size = _numbers(array, "position"), _numbers(array, "size")
    if array.type.get_field_index("kind") < 0:
        # Data files 2.0 have no other nulls than this one.
        valid = valid & ((size != 0) | (position == 0))
        rows = np.flatnonzero(valid & (size > 0))
        return _Column([_owned(described.file, rows, position, size)], valid)
    kind, number = _numbers(array, "kind"), _numbers(array, "blob_id")
    wrong = kind[valid & (kind > _EXTERNAL)]
    if len(wrong):
        name = "managed blobs" if wrong[0] == _MANAGED else "blobs"
        raise UnsupportedFeature(f"{name} of kind {wrong[0]}, which releases after Lance 14 write")
    parts = []
    inline = np.flatnonzero(valid & (kind == _INLINE) & (size > 0))
    parts.append(_owned(described.file, inline, position, size))
    in_sidecar = np.flatnonzero(valid & ((kind == _PACKED) | (kind == _DEDICATED)))
    for sidecar, rows in _grouped(number, in_sidecar):
        parts.append(_owned(_sidecar(files, described.data_file, sidecar), rows, position, size))
    found: dict[tuple[str, int], File] = {}
    for row in np.flatnonzero(valid & (kind == _EXTERNAL)).tolist():
        where = (array.field("blob_uri")[row].as_py(), int(number[row]))
        if where not in found:
            found[where] = files.external(where[0], where[1] or None)
        span = _external_range(found[where], int(position[row]), int(size[row]))
        parts.append(_Part(found[where], np.array([row]), [span]))
    return _Column(parts, valid)


def _grouped(keys: Array, rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each key with those of some rows that have it."""
    ordered = rows[np.argsort(keys[rows], kind="stable")]
    changes = np.flatnonzero(np.diff(keys[ordered])) + 1
    for group in np.split(ordered, changes):
        if len(group):
            yield int(keys[group[0]]), group


def _numbers(array: pa.StructArray, name: str) -> Array:
    index = array.type.get_field_index(name)
    # Below a null row there may be anything, also nulls.
    values: Array = pc.fill_null(array.field(index), 0).to_numpy(zero_copy_only=False)
    return values


def _sidecar(files: TableFiles, data_file: DataFile, number: int) -> File:
    name = f"{number:032b}"[::-1] + ".blob"
    return files.file(DATA, f"{data_file.path.removesuffix('.lance')}/{name}", data_file.base_id)


def _owned(file: File, rows: Ints, position: Array, size: Array) -> _Part:
    """Locate blobs of the table's own files, where every blob has bytes of its own."""
    ranges = [
        (start, start + length)
        for start, length in zip(position[rows].tolist(), size[rows].tolist(), strict=True)
    ]
    total = sum(end - start for start, end in ranges)
    # Asking a store for the length of a file costs a request: not for what is soon read.
    if total > LARGEST_REQUEST and total > file.size:
        raise CorruptFile(f"blobs of {total} bytes in {file.url}, which has {file.size}")
    return _Part(file, rows, ranges)


def _external_range(file: File, position: int, size: int) -> ByteRange:
    """Return the range of an object; a size of 0 means all from the position on."""
    end = position + size if size else file.size
    if position > end or (size > LARGEST_REQUEST and end > file.size):
        raise CorruptFile(f"bytes {position}–{end} of {file.url}, which has {file.size}")
    return position, end


def _binary(column: _Column, read: Sequence[Sequence[Bytes]]) -> pa.LargeBinaryArray:
    """Join the bytes of blobs, which were read file by file, in the order of the rows."""
    pieces: dict[int, Bytes] = {}
    for part, values in zip(column.parts, read, strict=True):
        pieces.update(zip(part.rows.tolist(), values, strict=True))
    count = len(column.valid)
    lengths = np.zeros(count, np.int64)
    for row, piece in pieces.items():
        lengths[row] = len(piece)
    data = np.concatenate([np.empty(0, np.uint8), *(pieces[row] for row in sorted(pieces))])
    validity = None if column.valid.all() else bitmap(column.valid)
    buffers = [validity, pa.py_buffer(offsets_of(lengths)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)
