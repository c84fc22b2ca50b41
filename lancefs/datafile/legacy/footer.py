"""The footer of a data file 0.1, and what it leads to.

Docs: the messages `Metadata` and `Field` of `file.proto`. The last 16 bytes tell where the metadata
is: the rows of each batch, and where the page table and the file's own schema are. Both messages
have their length before them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from lancefs.datafile.blocks import Ints
from lancefs.datafile.fields import DictionaryLocation, Encoding
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import schema_pb2, table_pb2
from lancefs.storage import TAIL, Bytes, File

MAGIC = b"LANC"
VERSIONS = ((0, 1), (0, 2))  # what the footers of 0.1 files say; both mean the same
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_ENCODINGS = {int(encoding): encoding for encoding in Encoding}


@dataclass(frozen=True, slots=True)
class StoredField:
    """A field as the file itself describes it."""

    has_pages: bool  # false of structs
    encoding: Encoding
    dictionary: DictionaryLocation | None  # in this file


@dataclass(frozen=True, slots=True)
class Footer:
    """What the end of a file says of the rest."""

    batch_offsets: Ints  # first row of each batch; then the number of rows
    page_table: int  # its position in the file
    fields: Mapping[int, StoredField]  # by field id

    @property
    def num_batches(self) -> int:
        return len(self.batch_offsets) - 1


class Tail:
    """The end of a file, read at once, out of which most of what describes the file can be cut.

    Args:
        file: The file.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.start, self.data = file.read_tail(TAIL)

    @property
    def size(self) -> int:
        """The length of the file."""
        return self.start + len(self.data)

    def cut(self, start: int, end: int) -> Bytes | None:
        """Return bytes of the file, None where they begin before the tail."""
        return None if start < self.start else self.data[start - self.start : end - self.start]

    def read(self, start: int, end: int) -> Bytes:
        """Return bytes of the file, reading them where they begin before the tail."""
        data = self.cut(start, end)
        return self.file.read([(start, end)])[0] if data is None else data


def read_footer(tail: Tail) -> Footer:
    """Read the footer of a file, its metadata and its schema.

    Raises:
        CorruptFile: It is not a data file, or damaged.
        UnsupportedFeature: It is of another format.
    """
    with locating(tail.file.url, "footer"):
        end = tail.size - _FOOTER.size
        if end < 0:
            raise CorruptFile(f"a data file of {tail.size} bytes; the footer alone has 16")
        position, major, minor, magic = _FOOTER.unpack(tail.data[-_FOOTER.size :].tobytes())
        if magic != MAGIC:
            raise CorruptFile(f"ends in {magic!r}, a Lance data file ends in {MAGIC!r}")
        if (major, minor) not in VERSIONS:
            raise UnsupportedFeature(f"data file version {major}.{minor}")
        message = schema_pb2.Metadata()
        _parse(message, tail, position, end)
        if message.page_table_position > end:
            raise CorruptFile(
                f"the page table is at {message.page_table_position}, beyond the file"
            )
        if not message.manifest_position:
            raise UnsupportedFeature("a data file 0.1 that does not hold its schema")
        schema = table_pb2.Manifest()
        _parse(schema, tail, message.manifest_position, end)
        return Footer(
            _batch_offsets(message), int(message.page_table_position), _stored_fields(schema)
        )


def _parse(
    message: schema_pb2.Metadata | table_pb2.Manifest, tail: Tail, position: int, end: int
) -> None:
    """Read a message that has its length before it and lies wholly before `end`."""
    name = message.DESCRIPTOR.name
    begin = position + _LENGTH.size
    if begin > end:
        raise CorruptFile(f"the {name} message is at {position}, the file ends at {tail.size}")
    (length,) = _LENGTH.unpack(tail.read(position, begin).tobytes())
    if length > end - begin:
        raise CorruptFile(f"a {name} message of {length} bytes where {end - begin} are left")
    try:
        message.ParseFromString(tail.read(begin, begin + length).tobytes())
    except DecodeError as error:
        raise CorruptFile(f"no {name} message at {position}") from error


def _batch_offsets(message: schema_pb2.Metadata) -> Ints:
    offsets = np.array(message.batch_offsets or [0], dtype=np.int64)
    if offsets[0] != 0 or np.any(np.diff(offsets) < 0):
        raise CorruptFile("the first rows of the batches do not ascend from 0")
    return offsets


def _stored_fields(schema: table_pb2.Manifest) -> dict[int, StoredField]:
    fields = {}
    for field in schema.fields:
        if field.id < 0:
            raise CorruptFile(f"field {field.name!r} has the id {field.id}")
        dictionary = None
        if field.HasField("dictionary"):
            dictionary = DictionaryLocation(field.dictionary.offset, field.dictionary.length)
        fields[int(field.id)] = StoredField(
            field.logical_type != "struct",
            _ENCODINGS.get(int(field.encoding), Encoding.NONE),
            dictionary,
        )
    return fields
