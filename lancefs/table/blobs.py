"""Blobs: large binary values, stored outside of the column that describes them.

A blob column holds descriptors. A descriptor of blob v1 (data files 2.0 and 2.1) is a byte range of
the data file. A descriptor of blob v2 (2.2 and later) also names the file: the data file itself
(inline), a sidecar with several blobs (packed), a sidecar with one blob (dedicated), or an object
outside of the table, by its URI (external). Sidecars lie in a directory that is named after the
data file; the name of a sidecar is its 32-bit id in binary, lowest bit first.

Format page: blob v2 (`docs/src/format/table/blob.md`); blob v1: Lance's guide
(`docs/src/guide/blob.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, children_of, mask_of, numbers_of, with_children
from lancefs.datafile.blocks import Array, Ints, Mask, offsets_of
from lancefs.datafile.buffers import reserve
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.storage import ByteRange, Bytes, File, read_all
from lancefs.storage.store import LARGEST_REQUEST
from lancefs.table.base_paths import DATA, TableFiles
from lancefs.table.fragments import DataFile

_INLINE, _PACKED, _DEDICATED, _EXTERNAL, _MANAGED = range(5)


@dataclass(frozen=True, slots=True)
class Described:
    """Values of a field from a data file, blobs as descriptors.

    Attributes:
        data_file: The data file in the manifest.
        file: The opened file.
        field: The field, pruned to the parts that the file holds.
        array: The values, with descriptors in the place of blobs.
    """

    data_file: DataFile
    file: File
    field: Field
    array: pa.Array


@dataclass(frozen=True, slots=True)
class _FileBlobs:
    """Blobs of a column that lie in one file.

    Attributes:
        file: The file.
        rows: Positions of the blobs' rows in the column.
        ranges: Byte range of each blob in the file.
    """

    file: File
    rows: Ints
    ranges: Sequence[ByteRange]


@dataclass(frozen=True, slots=True)
class _BlobColumn:
    """The places of the blobs of a column.

    Attributes:
        files: The blobs in each file. Blobs of no bytes are in none.
        valid: Whether each row has a blob.
    """

    files: Sequence[_FileBlobs]
    valid: Mask


def as_bytes(field: Field) -> Field:
    """Return a field with the blob fields at or below it as `large_binary`."""
    if field.is_blob:
        return replace(field, logical_type="large_binary", metadata={}, children=())
    return replace(field, children=tuple(as_bytes(child) for child in field.children))


def has_blobs(field: Field) -> bool:
    """Return whether a field or a field below it is a blob."""
    return any(part.is_blob for part in field.walk())


def read_blobs(files: TableFiles, described: Sequence[Described]) -> list[pa.Array]:
    """Replace the descriptors of blobs by their bytes, all in one round of requests.

    Args:
        files: Finds the files of the table.
        described: Arrays of data files, with descriptors.

    Returns:
        The arrays with bytes, each of the storage type of `as_bytes(field)`.

    Raises:
        MissingFile: A file that a descriptor names is gone.
        CorruptFile: A descriptor is damaged, or its file was cut short.
        UnsupportedFeature: A blob lies outside of the table and may not be read, or has a kind that
            this release does not know.
    """
    columns = [column for values in described for column in _blob_columns(files, values)]
    requests = [(blobs.file, blobs.ranges) for column in columns for blobs in column.files]
    contents = iter(read_all(requests))
    arrays = iter([_binary(column, [next(contents) for _ in column.files]) for column in columns])
    return [_with_bytes(values.field, values.array, arrays) for values in described]


def _blob_columns(files: TableFiles, described: Described) -> Iterator[_BlobColumn]:
    """Yield the blob columns at or below a field, in the order of `Field.walk`."""

    def below(field: Field, array: pa.Array) -> Iterator[_BlobColumn]:
        if field.is_blob:
            with locating(described.file.url, f"blobs of {described.field.name}"):
                yield _locate(files, described, array)
        elif has_blobs(field):
            for child, values in _children(field, array):
                yield from below(child, values)

    return below(described.field, described.array)


def _children(field: Field, array: pa.Array) -> list[tuple[Field, pa.Array]]:
    return list(zip(field.children, children_of(array), strict=True))


def _with_bytes(field: Field, array: pa.Array, blobs: Iterator[pa.Array]) -> pa.Array:
    """Replace the descriptors at or below a field by the next arrays of bytes."""
    if field.is_blob:
        return next(blobs)
    if not has_blobs(field):
        return array
    children = [_with_bytes(child, values, blobs) for child, values in _children(field, array)]
    return with_children(array, as_bytes(field).storage_type, children)


def _locate(files: TableFiles, described: Described, array: pa.StructArray) -> _BlobColumn:
    """Return the files and byte ranges of blobs, from their descriptors."""
    valid = mask_of(array.is_valid())
    position, size = _numbers(array, "position"), _numbers(array, "size")
    if array.type.get_field_index("kind") < 0:
        # A null of data files 2.0 is a descriptor of size 0 at a position other than 0.
        valid = valid & ((size != 0) | (position == 0))
        rows = np.flatnonzero(valid & (size > 0))
        return _BlobColumn([_file_blobs(described.file, rows, position, size)], valid)
    kind, blob_id = _numbers(array, "kind"), _numbers(array, "blob_id")
    unknown = kind[valid & (kind > _EXTERNAL)]
    if len(unknown):
        name = "managed blobs" if unknown[0] == _MANAGED else "blobs"
        raise UnsupportedFeature(
            f"{name} of kind {unknown[0]}, which releases after Lance 14 write"
        )
    inline = np.flatnonzero(valid & (kind == _INLINE) & (size > 0))
    blobs = [_file_blobs(described.file, inline, position, size)]
    in_sidecar = np.flatnonzero(valid & ((kind == _PACKED) | (kind == _DEDICATED)))
    for sidecar_id, rows in _group_by(blob_id, in_sidecar):
        sidecar = _sidecar(files, described.data_file, sidecar_id)
        blobs.append(_file_blobs(sidecar, rows, position, size))
    uris = array.field("blob_uri")
    of_object: dict[tuple[str, int], list[int]] = {}
    for row in np.flatnonzero(valid & (kind == _EXTERNAL)).tolist():
        of_object.setdefault((uris[row].as_py(), int(blob_id[row])), []).append(row)
    for (uri, base_id), same in of_object.items():
        if not uri:
            raise CorruptFile("an external blob has no address")
        blobs += _external_blobs(files.external(uri, base_id or None), same, position, size)
    return _BlobColumn(blobs, valid)


def _group_by(keys: Array, rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each key of some rows, with the rows that have it."""
    ordered = rows[np.argsort(keys[rows], kind="stable")]
    changes = np.flatnonzero(np.diff(keys[ordered])) + 1
    for group in np.split(ordered, changes):
        if len(group):
            yield int(keys[group[0]]), group


def _numbers(array: pa.StructArray, name: str) -> Array:
    index = array.type.get_field_index(name)
    # The fields of a null row may hold anything, nulls included.
    values: Array = numbers_of(array.field(index), null=0)
    return values


def _sidecar(files: TableFiles, data_file: DataFile, blob_id: int) -> File:
    name = f"{blob_id:032b}"[::-1] + ".blob"
    return files.file(DATA, f"{data_file.path.removesuffix('.lance')}/{name}", data_file.base_id)


def _file_blobs(file: File, rows: Ints, position: Array, size: Array) -> _FileBlobs:
    """Return the blobs of rows in one of the table's own files.

    Args:
        file: The file, in which every blob has bytes of its own.
        rows: The rows.
        position: Position of the blob in the file, for all rows of the column.
        size: Size of the blob in bytes, for all rows of the column.
    """
    ranges = [
        (start, start + length)
        for start, length in zip(position[rows].tolist(), size[rows].tolist(), strict=True)
    ]
    total = sum(end - start for start, end in ranges)
    # The size of a file may cost a request: it is compared only before a large read.
    if total > LARGEST_REQUEST and total > file.size:
        raise CorruptFile(f"blobs of {total} bytes in {file.url}, which has {file.size} bytes")
    reserve(total, total)
    return _FileBlobs(file, rows, ranges)


def _external_blobs(
    file: File, rows: Sequence[int], position: Array, size: Array
) -> list[_FileBlobs]:
    """Return the blobs of rows in an object outside of the table, of which blobs may share bytes.

    Args:
        file: The object.
        rows: The rows.
        position: Position of the blob in the object, for all rows of the column.
        size: Size of the blob in bytes, for all rows of the column; 0 for the rest of the object.
    """
    ranges = [_external_range(file, int(position[row]), int(size[row])) for row in rows]
    total = sum(end - start for start, end in ranges)
    # The size of the object may cost a request.
    reserve(total, file.size if total > LARGEST_REQUEST else total)
    return [
        _FileBlobs(file, np.array([row]), [span]) for row, span in zip(rows, ranges, strict=True)
    ]


def _external_range(file: File, position: int, size: int) -> ByteRange:
    """Return the byte range of an external blob; a size of 0 stands for the rest of the object."""
    end = position + size if size else file.size
    if position > end or (size > LARGEST_REQUEST and end > file.size):
        raise CorruptFile(
            f"a blob is bytes {position}–{end} of {file.url}, which has {file.size} bytes"
        )
    return position, end


def _binary(column: _BlobColumn, contents: Sequence[Sequence[Bytes]]) -> pa.LargeBinaryArray:
    """Return the blobs of a column in row order.

    Args:
        column: The column.
        contents: Bytes of the blobs of each file.
    """
    blobs: dict[int, Bytes] = {}
    for file_blobs, values in zip(column.files, contents, strict=True):
        blobs.update(zip(file_blobs.rows.tolist(), values, strict=True))
    count = len(column.valid)
    lengths = np.zeros(count, np.int64)
    for row, blob in blobs.items():
        lengths[row] = len(blob)
    data = np.concatenate([np.empty(0, np.uint8), *(blobs[row] for row in sorted(blobs))])
    validity = None if column.valid.all() else bitmap(column.valid)
    buffers = [validity, pa.py_buffer(offsets_of(lengths)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)
