"""Footer and page table of a data file 0.1.

Docs: the messages `Metadata` and `Field` of `file.proto`. The last 16 bytes of the file give the
position of the `Metadata` message, which holds the first row of each batch and the positions of the
page table and of the file's own schema. A u32 before each message gives its length.

The page table (`Metadata.page_table_position`) is a matrix of (position, length) pairs of i64, with
one row per field id, from the smallest to the largest of the file, and one column per batch. The
rows of ids without pages are zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from lancefs.datafile.blocks import Ints
from lancefs.datafile.container import MAGIC, wrong_ending
from lancefs.datafile.fields import DictionaryLocation, LegacyEncoding
from lancefs.datafile.legacy.page_slots import FieldPages
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import schema_pb2, table_pb2
from lancefs.storage import TAIL, ByteRange, Bytes, File, Reads

VERSIONS = ((0, 1), (0, 2))  # in the footers of 0.1 files; both mean the same
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_ENCODINGS = {int(encoding): encoding for encoding in LegacyEncoding}
_MAX_PAGE_LENGTH = 1 << 48


@dataclass(frozen=True, slots=True)
class StoredField:
    """Field as the schema of the data file describes it.

    Attributes:
        has_pages: Whether the field has pages; structs have none.
        encoding: Encoding of its pages.
        dictionary: Location of its dictionary values in the file.
    """

    has_pages: bool
    encoding: LegacyEncoding
    dictionary: DictionaryLocation | None


@dataclass(frozen=True, slots=True)
class LegacyFooter:
    """Content of the footer, the metadata and the schema of a data file.

    Attributes:
        batch_offsets: First row of each batch, followed by the number of rows.
        page_table: Position of the page table in the file.
        fields: Fields of the file, by id.
    """

    batch_offsets: Ints
    page_table: int
    fields: Mapping[int, StoredField]

    @property
    def num_batches(self) -> int:
        """Number of batches in the file."""
        return len(self.batch_offsets) - 1


class Tail:
    """Last bytes of a file, fetched in one request; they hold most of its metadata.

    Args:
        file: The file.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.start, self.data = file.read_tail(TAIL)

    @property
    def size(self) -> int:
        """Length of the file in bytes."""
        return self.start + len(self.data)

    def cut(self, start: int, end: int) -> Bytes | None:
        """Return bytes of the file, or None where they begin before the tail."""
        return None if start < self.start else self.data[start - self.start : end - self.start]

    def read(self, start: int, end: int) -> Bytes:
        """Return bytes of the file; fetch them where they begin before the tail."""
        data = self.cut(start, end)
        return self.file.read([(start, end)])[0] if data is None else data


def read_footer(tail: Tail) -> LegacyFooter:
    """Read the footer of a file, its metadata and its schema.

    Raises:
        CorruptFile: The file is not a data file, or damaged.
        UnsupportedFeature: The file has another format.
    """
    with locating(tail.file.url, "footer"):
        end = tail.size - _FOOTER.size
        if end < 0:
            raise CorruptFile(f"a data file of {tail.size} bytes; the footer alone has 16")
        position, major, minor, magic = _FOOTER.unpack(tail.data[-_FOOTER.size :].tobytes())
        if magic != MAGIC:
            raise wrong_ending(magic)
        if (major, minor) not in VERSIONS:
            raise UnsupportedFeature(f"data file version {major}.{minor}")
        metadata = schema_pb2.Metadata()
        _parse(metadata, tail, position, end)
        if metadata.page_table_position > end:
            raise CorruptFile(
                f"the page table is at {metadata.page_table_position}, beyond the file"
            )
        if not metadata.manifest_position:
            raise UnsupportedFeature("a data file 0.1 that does not hold its schema")
        schema = table_pb2.Manifest()
        _parse(schema, tail, metadata.manifest_position, end)
        return LegacyFooter(
            _batch_offsets(metadata), int(metadata.page_table_position), _stored_fields(schema)
        )


def _parse(
    message: schema_pb2.Metadata | table_pb2.Manifest, tail: Tail, position: int, end: int
) -> None:
    """Parse a message that follows its length and lies before `end`."""
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


def _batch_offsets(metadata: schema_pb2.Metadata) -> Ints:
    offsets = np.array(metadata.batch_offsets or [0], dtype=np.int64)
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
            _ENCODINGS.get(int(field.encoding), LegacyEncoding.NONE),
            dictionary,
        )
    return fields


class PageTable:
    """Page table of a file. Its rows are read on demand.

    Args:
        tail: End of the file.
        footer: Footer of the file.
    """

    def __init__(self, tail: Tail, footer: LegacyFooter) -> None:
        self.tail = tail
        self.footer = footer
        self._first_id: int | None = None  # field id of the first row
        self._pages: dict[int, FieldPages] = {}

    def __getitem__(self, field_id: int) -> FieldPages:
        """Return the pages of a field that `load` has read."""
        return self._pages[field_id]

    def load(self, field_ids: Collection[int]) -> Reads[None]:
        """Read the rows of fields.

        Raises:
            CorruptFile: A field is not in the file, or the table is damaged.
        """
        with locating(self.tail.file.url, "page table"):
            unread = sorted(set(field_ids) - self._pages.keys())
            missing = [field_id for field_id in unread if field_id not in self.footer.fields]
            if missing:
                raise CorruptFile(f"field {missing[0]} is wanted, the file does not hold it")
            if not unread:
                return
            if self._first_id is None:
                self._first_id = yield from self._find_first_id()
            first = self._first_id
            rows = yield from self._read([self._locate_row(id_ - first) for id_ in unread])
            for field_id, row in zip(unread, rows, strict=True):
                self._pages[field_id] = self._parse_row(field_id, row)

    def _find_first_id(self) -> Reads[int]:
        """Return the field id of the first row.

        Writers before 0.8 started at 0, whatever the smallest id was. They left the rows of ids
        that the file lacks empty; a field with pages has none of length 0 at position 0.
        """
        smallest = min(self.footer.fields)
        if smallest == 0 or self.footer.batch_offsets[-1] == 0:
            return smallest
        probe = min((i for i, field in self.footer.fields.items() if field.has_pages), default=None)
        if probe is None:
            return smallest
        row = yield from self._read([self._locate_row(probe - smallest)])
        return smallest if row[0].any() else 0

    def _read(self, ranges: list[ByteRange]) -> Reads[list[Bytes]]:
        """Read byte ranges, without a request where the tail holds them all."""
        in_tail = [data for range_ in ranges if (data := self.tail.cut(*range_)) is not None]
        return in_tail if len(in_tail) == len(ranges) else list((yield ranges))

    def _locate_row(self, row: int) -> ByteRange:
        size = 16 * self.footer.num_batches
        start = self.footer.page_table + row * size
        if start + size > self.tail.size:
            raise CorruptFile(
                f"row {row} ends at byte {start + size}, the file at {self.tail.size}"
            )
        return start, start + size

    def _parse_row(self, field_id: int, row: Bytes) -> FieldPages:
        pairs: Ints = np.frombuffer(row.tobytes(), "<i8").astype(np.int64).reshape(-1, 2)
        positions, lengths = pairs[:, 0], pairs[:, 1]
        limit = self.tail.size
        if np.any(positions < 0) or np.any(positions > limit):
            raise CorruptFile(f"field {field_id} has a page that starts outside of the file")
        is_wrong = (lengths < 0) | (lengths > _MAX_PAGE_LENGTH)
        if np.any(is_wrong):
            raise CorruptFile(f"field {field_id} has a page of {lengths[is_wrong][0]} values")
        return FieldPages(positions, lengths, limit)
