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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lancefs.datafile.blocks import Ints
from lancefs.datafile.container import MAGIC, wrong_ending
from lancefs.datafile.fields import DictionaryLocation, LegacyEncoding
from lancefs.datafile.legacy.page_slots import FieldPages
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import schema_pb2, table_pb2
from lancefs.storage import ByteRange, Bytes, File, Reads

VERSIONS = ((0, 1), (0, 2))  # in the footers of 0.1 files; both mean the same
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_ENCODINGS = {int(encoding): encoding for encoding in LegacyEncoding}
_MAX_PAGE_LENGTH = 1 << 48


@dataclass(frozen=True, slots=True)
class StoredField:
    """Field as the schema of the data file describes it.

    Attributes:
        name: Its name.
        has_pages: Whether the field has pages; structs have none.
        encoding: Encoding of its pages.
        dictionary: Location of its dictionary values in the file.
        surplus: How many more slots than rows its pages have: 1 for lists, whose pages hold
            offsets; None for a field below a list, whose pages do not count rows.
        struct: Name of the struct that the field is a member of, if it has a value in each row.
    """

    name: str
    has_pages: bool
    encoding: LegacyEncoding
    dictionary: DictionaryLocation | None
    surplus: int | None
    struct: str | None


@dataclass(frozen=True, slots=True)
class LegacyFooter:
    """Content of the footer, the metadata and the schema of a data file.

    Attributes:
        batch_offsets: First row of each batch, followed by the number of rows.
        page_table: Position of the page table in the file.
        page_table_end: Position after the page table; None if the file does not tell.
        fields: Fields of the file, by id.
        schema: The schema that the file holds.
    """

    batch_offsets: Ints
    page_table: int
    page_table_end: int | None
    fields: Mapping[int, StoredField]
    schema: table_pb2.Manifest

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
        self.start, self.data = file.read_tail()

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
        offsets = _batch_offsets(metadata)
        # Where there are no pages, the schema may be what comes first.
        if not metadata.manifest_position and len(offsets) > 1:
            raise UnsupportedFeature("a data file 0.1 that does not hold its schema")
        schema = table_pb2.Manifest()
        _parse(schema, tail, metadata.manifest_position, end)
        if schema.fragments:
            raise CorruptFile("a manifest of a table where a data file is expected")
        fields = _stored_fields(schema)
        table_end = _page_table_end(metadata, fields, position)
        page_table = int(metadata.page_table_position)
        if not fields:  # as pages of zeros do, where a schema is looked for
            raise CorruptFile("a data file 0.1 whose schema has no fields")
        if len(offsets) == 1 and _has_pages(metadata, fields):
            raise CorruptFile("no batches are named, but the file begins with pages")
        return LegacyFooter(offsets, page_table, table_end, fields, schema)


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


def _has_pages(metadata: schema_pb2.Metadata, fields: Mapping[int, StoredField]) -> bool:
    """Return whether there are bytes that can only be pages: before all that follows pages."""
    dictionaries = [field.dictionary.offset for field in fields.values() if field.dictionary]
    return min([int(metadata.manifest_position), *dictionaries]) > 0


def _page_table_end(
    metadata: schema_pb2.Metadata, fields: Mapping[int, StoredField], position: int
) -> int | None:
    """Return the position after the page table, None if the file does not tell.

    Writers before 0.8, which recorded the number of rows nowhere else, put the schema right after
    it. Dictionaries and, later, statistics lie in between.

    Args:
        metadata: The metadata.
        fields: The fields of the file.
        position: Position of the metadata.
    """
    is_followed = any(field.dictionary is not None for field in fields.values())
    if is_followed or metadata.HasField("statistics") or len(UnknownFieldSet(metadata)):
        return None
    behind = (int(metadata.manifest_position), position)
    return min((one for one in behind if one >= metadata.page_table_position), default=None)


def _stored_fields(schema: table_pb2.Manifest) -> dict[int, StoredField]:
    fields = {}
    of_rows = _fields_of_rows(schema)
    for field in schema.fields:
        if field.id < 0:
            raise CorruptFile(f"field {field.name!r} has the id {field.id}")
        dictionary = None
        if field.HasField("dictionary"):
            dictionary = DictionaryLocation(field.dictionary.offset, field.dictionary.length)
        fields[int(field.id)] = StoredField(
            field.name,
            field.logical_type != "struct",
            _ENCODINGS.get(int(field.encoding), LegacyEncoding.NONE),
            dictionary,
            None if field.id not in of_rows else int(_is_list(field)),
            of_rows.get(field.id),
        )
    return fields


def _fields_of_rows(schema: table_pb2.Manifest) -> dict[int, str | None]:
    """Return the fields that have a value in each row, all but those below lists.

    Returns:
        By id, the name of the struct that a field is a member of, None for a column.
    """
    ids = {field.id for field in schema.fields}
    below: dict[int, list[schema_pb2.Field]] = {}
    for field in schema.fields:
        below.setdefault(field.parent_id if field.parent_id in ids else -1, []).append(field)
    found: dict[int, str | None] = {}
    pending: list[tuple[schema_pb2.Field, str | None]] = [(one, None) for one in below.pop(-1, [])]
    while pending:
        field, struct = pending.pop()
        found[field.id] = struct
        if field.logical_type == "struct":
            pending += [(member, field.name) for member in below.pop(field.id, [])]
    return found


def _is_list(field: schema_pb2.Field) -> bool:
    return field.logical_type.partition(".")[0] in ("list", "large_list")


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

    def has(self, field_ids: Iterable[int]) -> bool:
        """Whether `load` has read the pages of some fields."""
        return all(field_id in self._pages for field_id in field_ids)

    def load(self, field_ids: Collection[int]) -> Reads[None]:
        """Read the rows of fields.

        Raises:
            CorruptFile: A field is not in the file, or the table is damaged.
            UnsupportedFeature: A field is a member of a slice of structs.
        """
        with locating(self.tail.file.url, "page table"):
            unread = sorted(set(field_ids) - self._pages.keys())
            missing = [field_id for field_id in unread if field_id not in self.footer.fields]
            if missing:
                raise CorruptFile(f"field {missing[0]} is wanted, the file does not hold it")
            if not unread:
                return
            if self._first_id is None:
                first_id = yield from self._find_first_id()
                self._check_end(first_id)
                self._first_id = first_id  # what was refused is refused again
            first = self._first_id
            rows = yield from self._read([self._locate_row(id_ - first) for id_ in unread])
            for field_id, row in zip(unread, rows, strict=True):
                self._pages[field_id] = self._parse_row(field_id, row)

    def check_rows(self) -> Reads[None]:
        """Hold the number of rows against the first and the last field.

        Members of structs count where there is nothing else: those of slices have too many values.

        Raises:
            CorruptFile: They have another number, no field has pages, or the table is damaged.
            UnsupportedFeature: There are only structs, of a slice.
        """
        fields, rows = self.footer.fields, int(self.footer.batch_offsets[-1])
        members = [
            one for one, field in fields.items() if field.has_pages and field.surplus is not None
        ]
        ids = [one for one in members if fields[one].struct is None] or members
        if rows and not ids:
            with locating(self.tail.file.url):
                raise CorruptFile(f"{rows} rows, but no field has a page")
        yield from self.load({min(ids), max(ids)} if ids else ())

    def _check_end(self, first_id: int) -> None:
        """Check that the table has as many batches as there are offsets."""
        footer, rows = self.footer, max(self.footer.fields) + 1 - first_id
        end = footer.page_table + 16 * rows * footer.num_batches
        if footer.page_table_end not in (None, end):
            raise CorruptFile(
                f"it ends at byte {footer.page_table_end}; with {rows} fields in "
                f"{footer.num_batches} batches it would end at {end}"
            )

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
        self._check_lengths(field_id, lengths)
        return FieldPages(positions, lengths, limit)

    def _check_lengths(self, field_id: int, lengths: Ints) -> None:
        """Check that the pages of a field have a value for each row of their batches.

        Lance 0.20 wrote a short slice of an array of structs with the members of all the array.
        """
        field = self.footer.fields[field_id]
        if field.surplus is None:
            return
        rows = np.diff(self.footer.batch_offsets)
        is_wrong = (lengths != rows + field.surplus) & ((rows > 0) | (lengths > field.surplus))
        if not np.any(is_wrong):
            return
        batch = int(np.argmax(is_wrong))
        found = max(0, lengths[batch] - field.surplus)
        if field.struct is not None and found > rows[batch]:
            raise UnsupportedFeature(
                f"the struct {field.struct} of {rows[batch]} rows with {found} of {field.name}; "
                "Lance before 0.30 wrote slices so: write the rows anew from their source"
            )
        raise CorruptFile(
            f"batch {batch} has {rows[batch]} rows by the batch offsets, "
            f"{found} by the page of field {field_id}"
        )
