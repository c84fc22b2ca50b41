"""The protobuf messages in the files of a table, and how a changed one is put back.

The table is a dict of files. A message that gets another length moves what follows it: positions,
lengths and the sizes in manifests are written anew, so that the change itself is what a reader
meets, and not a footer in the wrong place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from google.protobuf.message import DecodeError

from lancefs.proto import schema_pb2, table_pb2

# The files of a table: bytes by path below the table.
Files = dict[str, bytes]

_FOOTER = struct.Struct("<QQQIIHH4s")  # of a data file 2.x
_END = struct.Struct("<QHH4s")  # of a manifest, and of a data file 0.1
_MAGIC = b"LANC"
# Fields of a manifest that are positions of sections in front of it.
_SECTIONS = (
    "index_section",
    "transaction_section",
    "transaction_section_deprecated",
    "version_aux_data",
)


@dataclass(frozen=True)
class PlacedMessage:
    """A message in a file.

    Attributes:
        path: The file, below the table.
        kind: What the message is.
        data: Its bytes.
        put: Replaces it, and returns the bytes of the file.
    """

    path: str
    kind: str
    data: bytes
    put: Callable[[bytes], bytes] = field(repr=False)


def messages_of(files: Files) -> list[PlacedMessage]:
    """Return the messages in the files of a table."""
    return [message for path in files for message in messages_in(path, files[path])]


def messages_in(path: str, data: bytes) -> Iterator[PlacedMessage]:
    """Yield the messages in a file; none of what is not what its name says."""
    parts, suffix = PurePosixPath(path).parts, PurePosixPath(path).suffix
    try:
        if suffix == ".manifest":
            yield from _of_manifest(path, data)
        elif suffix == ".txn":
            yield PlacedMessage(path, "transaction", data, bytes)
        elif suffix == ".lance" and "data" in parts:
            yield from _of_old_data_file(path, data)
            yield from _of_data_file(path, data)
    except (struct.error, DecodeError, IndexError, OverflowError):
        return


def _framed(data: bytes, position: int) -> bytes:
    """Return the message that follows its length."""
    (length,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + length]


def _frame(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def _of_manifest(path: str, data: bytes) -> Iterator[PlacedMessage]:
    position = _END.unpack_from(data, len(data) - _END.size)[0]
    footer = data[-_END.size :]
    message = _framed(data, position)

    def put(changed: bytes) -> bytes:
        return data[:position] + _frame(changed) + footer

    # A large one is mostly fragments: what else it says is to be damaged as often.
    for _ in range(3):
        yield PlacedMessage(path, "manifest", message, put)
    manifest = table_pb2.Manifest.FromString(message)
    for name in _SECTIONS:
        start = getattr(manifest, name)
        if start and name != "version_aux_data":
            replace = partial(_with_section, data, position, manifest, start)
            yield PlacedMessage(path, name, _framed(data, start), replace)


def _with_section(
    data: bytes, position: int, manifest: table_pb2.Manifest, start: int, changed: bytes
) -> bytes:
    """Return a manifest file in which the section at `start` is another."""
    end = start + 4 + len(_framed(data, start))
    sections = data[:start] + _frame(changed) + data[end:position]
    moved = table_pb2.Manifest()
    moved.CopyFrom(manifest)
    growth = len(sections) - position
    for name in _SECTIONS:
        if getattr(moved, name) > start:
            setattr(moved, name, getattr(moved, name) + growth)
    footer = _END.pack(len(sections), *_END.unpack(data[-_END.size :])[1:])
    return sections + _frame(moved.SerializeToString()) + footer


def _of_old_data_file(path: str, data: bytes) -> Iterator[PlacedMessage]:
    position, major, minor, magic = _END.unpack_from(data, len(data) - _END.size)
    if magic != _MAGIC or (major, minor) not in ((0, 1), (0, 2)):
        return
    body, footer = data[: -_END.size], (major, minor, magic)
    metadata = schema_pb2.Metadata.FromString(_framed(data, position))

    def put(changed: bytes) -> bytes:
        return body + _frame(changed) + _END.pack(len(body), *footer)

    def put_schema(changed: bytes) -> bytes:
        moved = schema_pb2.Metadata()
        moved.CopyFrom(metadata)
        moved.manifest_position = len(body)
        new = body + _frame(changed)
        return new + _frame(moved.SerializeToString()) + _END.pack(len(new), *footer)

    yield PlacedMessage(path, "0.1 metadata", _framed(data, position), put)
    if metadata.manifest_position:
        schema = _framed(data, metadata.manifest_position)
        yield PlacedMessage(path, "0.1 schema", schema, put_schema)


def _of_data_file(path: str, data: bytes) -> Iterator[PlacedMessage]:
    fields = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
    _, columns_at, buffers_at, buffers, columns, major, minor, magic = fields
    if magic != _MAGIC or (major, minor) not in ((0, 3), (2, 0), (2, 1), (2, 2), (2, 3)):
        return
    tables = (columns_at + 16 * columns, buffers_at + 16 * buffers)
    if max(tables) > len(data) - _FOOTER.size:
        return  # an earlier damage cut them off
    version = "2.0" if (major, minor) == (0, 3) else f"{major}.{minor}"

    def put(is_column: bool, index: int, changed: bytes) -> bytes:
        body = data[: -_FOOTER.size]
        tables = [
            bytearray(body[at : at + 16 * count])
            for at, count in ((columns_at, columns), (buffers_at, buffers))
        ]
        struct.pack_into("<QQ", tables[not is_column], 16 * index, len(body), len(changed))
        body += changed
        positions = [len(body), len(body) + len(tables[0])]
        footer = _FOOTER.pack(fields[0], *positions, *fields[3:])
        return body + tables[0] + tables[1] + footer

    for index in range(columns):
        start, size = struct.unpack_from("<QQ", data, columns_at + 16 * index)
        message = data[start : start + size]
        yield PlacedMessage(path, f"{version} column metadata", message, partial(put, True, index))
    if buffers:
        start, size = struct.unpack_from("<QQ", data, buffers_at)
        message = data[start : start + size]
        yield PlacedMessage(path, f"{version} schema", message, partial(put, False, 0))


def note_sizes(files: Files, changed: set[str]) -> None:
    """Write the sizes of changed data files into all manifests that name them."""
    sizes = {PurePosixPath(path).name: len(files[path]) for path in changed}
    for path in [path for path in files if path.endswith(".manifest") and path not in changed]:
        for placed in messages_in(path, files[path]):
            if placed.kind != "manifest":
                continue
            try:
                manifest = table_pb2.Manifest.FromString(placed.data)
            except DecodeError:  # it was damaged
                break
            named = [file for fragment in manifest.fragments for file in fragment.files]
            for file in named:
                if file.file_size_bytes and PurePosixPath(file.path).name in sizes:
                    file.file_size_bytes = sizes[PurePosixPath(file.path).name]
            files[path] = placed.put(manifest.SerializeToString())
            break
