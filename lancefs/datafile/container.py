"""The container of a data file 2.x: footer, column metadata, pages, global buffers.

Docs: format/file. The footer, the last 40 bytes, gives the positions of two tables: of the metadata
of the columns, and of the global buffers. The metadata of a column lists its pages; a page lists
its buffers and describes its encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import container_pb2 as pb
from lancefs.proto import schema_pb2
from lancefs.storage import ByteRange, Bytes, File, Reads, run

MAGIC = b"LANC"
# How files of other formats end: Parquet, Arrow.
_OTHER_FORMATS = (b"PAR1", b"ROW1")
_FOOTER = struct.Struct("<QQQIIHH4s")
# Longest metadata of a column, in bytes, that is kept for the next file.
_SHARED_BYTES = 4096
# Upper limit of the rows of a column: far more than a fragment holds, far below an overflow.
_MAX_ROWS = 1 << 48


class PageEncoding(NamedTuple):
    """The description of an encoding.

    Attributes:
        type_name: Full protobuf name of the message, such as `lance.encodings21.PageLayout`; empty
            where there is no description.
        data: The serialized message.
    """

    type_name: str
    data: bytes


class Page(NamedTuple):
    """One page of a column: number of rows, byte ranges in the file, encoding."""

    rows: int
    buffers: tuple[ByteRange, ...]
    encoding: PageEncoding


class ColumnPages(NamedTuple):
    """The metadata of a column.

    Attributes:
        pages: The pages, in row order.
        first_rows: First row of each page; then the number of rows of the column.
        buffers: Byte ranges of the buffers that the pages share.
        encoding: The description of the column.
    """

    pages: tuple[Page, ...]
    first_rows: tuple[int, ...]
    buffers: tuple[ByteRange, ...]
    encoding: PageEncoding

    @property
    def stored_bytes(self) -> list[int]:
        """Size of each page in bytes."""
        return [sum([end - start for start, end in page.buffers]) for page in self.pages]


class ContainerFooter(NamedTuple):
    """The footer of a data file.

    Attributes:
        version: The version of the format.
        columns: Byte range of the metadata of each column.
        global_buffers: Byte range of each global buffer.
    """

    version: tuple[int, int]
    columns: tuple[ByteRange, ...]
    global_buffers: tuple[ByteRange, ...]


class Container:
    """A data file 2.x: reads the footer at once, and the metadata of a column when it is asked for.

    Args:
        file: The file.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        with locating(file.url, "footer"):
            self._tail_start, self._tail = file.read_tail()
            self.footer = self._read_footer()
            # Nothing keeps memory that can be read again: the file's, or the end of a remote one.
            start = file.size if file.store.is_local else self._metadata_start()
            self._tail = self._tail[start - self._tail_start :].copy()
            self._tail_start = start
        self._columns: dict[int, ColumnPages] = {}
        self._page_bytes: dict[int, int] = {}  # of these columns
        self._descriptor: schema_pb2.FileDescriptor | None = None

    def of(self, file: File) -> Container:
        """Return the container of a file with the same bytes, which shares what was read of it."""
        container = copy(self)
        container.file = file
        return container

    def column(self, index: int) -> ColumnPages:
        """Return the metadata of a column; read it unless `load` did.

        Raises:
            CorruptFile: There is no such column, or its metadata is damaged.
        """
        if index not in self._columns:
            self.load_columns([index])
        return self._columns[index]

    def load_columns(self, indices: Sequence[int]) -> None:
        """Read the metadata of several columns in one round of requests."""
        if not all(map(self._columns.__contains__, indices)):
            run([(self.file, self.load(indices))])

    def load(self, indices: Sequence[int]) -> Reads[None]:
        """Read the metadata of several columns as part of a larger read."""
        missing = sorted({index for index in indices if index not in self._columns})
        if not missing:
            return
        with locating(self.file.url, "column metadata"):
            if not 0 <= missing[0] <= missing[-1] < len(self.footer.columns):
                raise CorruptFile(
                    f"column {missing[-1]} is wanted, the file has {len(self.footer.columns)}"
                )
            ranges = [self.footer.columns[index] for index in missing]
            data = self._from_tail(ranges)
            if data is None:
                data = list((yield ranges))
            for index, bytes_ in zip(missing, data, strict=True):
                with locating(place=f"column {index}"):
                    column = _column(bytes_.tobytes(), self.file.size)
                    self._page_bytes[index] = sum(column.stored_bytes)
                    self._columns[index] = column
            self._check_page_bytes()

    def _check_page_bytes(self) -> None:
        """Check that pages share no bytes: many pages of the same bytes would be a bomb.

        Several reads may load a column at the same time: it counts once.
        """
        total = sum(list(self._page_bytes.values()))
        if total > self.file.size:
            raise CorruptFile(f"the pages have {total} bytes or more, the file {self.file.size}")

    def descriptor(self) -> schema_pb2.FileDescriptor:
        """Return the file's own schema with its number of rows; read it once.

        Raises:
            CorruptFile: The schema is damaged, or missing.
        """
        if self._descriptor is not None:
            return self._descriptor
        with locating(self.file.url, "schema"):
            if not self.footer.global_buffers:
                raise CorruptFile("a data file without a schema")
            descriptor = schema_pb2.FileDescriptor()
            try:
                descriptor.ParseFromString(self._read([self.footer.global_buffers[0]])[0].tobytes())
            except DecodeError as error:
                raise CorruptFile("the schema is not a FileDescriptor message") from error
            self._descriptor = descriptor
            return descriptor

    def _read(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        data = self._from_tail(ranges)
        return self.file.read(ranges) if data is None else data

    def _from_tail(self, ranges: Sequence[ByteRange]) -> list[Bytes] | None:
        """Return byte ranges out of the tail of the file; None where one lies outside of it."""
        shift = self._tail_start
        if min(ranges)[0] < shift:
            return None
        return [self._tail[start - shift : end - shift] for start, end in ranges]

    def _metadata_start(self) -> int:
        """Return where the metadata begin that are in the tail."""
        footer, tail = self.footer, self._tail_start
        starts = [start for start, _ in (*footer.columns, *footer.global_buffers) if start >= tail]
        return min(starts, default=tail)

    def _read_footer(self) -> ContainerFooter:
        size = self.file.size
        if size < _FOOTER.size:
            raise CorruptFile(f"a data file of {size} bytes; the footer alone has {_FOOTER.size}")
        fields = _FOOTER.unpack(self._tail[-_FOOTER.size :].tobytes())
        _, columns_at, buffers_at, buffers, columns, major, minor, magic = fields
        if magic != MAGIC:
            raise wrong_ending(magic)
        version = (2, 0) if (major, minor) == (0, 3) else (int(major), int(minor))
        if version[0] != 2:
            raise UnsupportedFeature(f"data file version {major}.{minor}")
        tables = [(columns_at, columns_at + 16 * columns), (buffers_at, buffers_at + 16 * buffers)]
        if version == (2, 0) and tables[1][1] == size - _FOOTER.size - 8:
            # The footer of that format is longer, and its metadata are other messages.
            raise UnsupportedFeature("the format that Lance 0.10 tried out before 2.0")
        if any(end > size for _, end in tables):
            raise CorruptFile("the tables of columns and buffers reach beyond the end of the file")
        columns_table, buffers_table = self._read(tables)
        return ContainerFooter(version, _ranges(columns_table, size), _ranges(buffers_table, size))


def wrong_ending(magic: bytes) -> CorruptFile:
    """Return the error for a file that does not end as a Lance data file does.

    The bytes of such a file are not quoted, as they may be anything, for instance a secret; but for
    the mark of another format.

    Args:
        magic: The last four bytes.
    """
    other = f"ends in {magic!r}, " if magic in _OTHER_FORMATS else ""
    return CorruptFile(f"{other}a Lance data file ends in {MAGIC!r}")


def _ranges(table: Bytes, size: int) -> tuple[ByteRange, ...]:
    """Read a table of (position, size) pairs."""
    pairs = table.view("<u8").reshape(-1, 2).tolist()
    return tuple(_range(position, length, size) for position, length in pairs)


def _range(position: int, length: int, size: int) -> ByteRange:
    if position + length > size:
        raise CorruptFile(f"bytes {position}–{position + length} of a file of {size} bytes")
    return position, position + length


def _column(data: bytes, size: int) -> ColumnPages:
    """Return the metadata of a column of a file of `size` bytes.

    A table that is opened again and again, or whose files are alike, has the same few metadata.
    """
    return _known_column(data, size) if len(data) <= _SHARED_BYTES else _parse_column(data, size)


@lru_cache(maxsize=2048)
def _known_column(data: bytes, size: int) -> ColumnPages:
    return _parse_column(data, size)


def _parse_column(data: bytes, size: int) -> ColumnPages:
    try:
        message = pb.ColumnMetadata.FromString(data)
    except DecodeError as error:
        raise CorruptFile("the metadata is not a ColumnMetadata message") from error
    pages = tuple([_parse_page(page, size) for page in message.pages])
    first_rows = (0, *accumulate([page.rows for page in pages]))
    if first_rows[-1] >= _MAX_ROWS:
        raise CorruptFile("the pages have more rows than a file can hold")
    return ColumnPages(
        pages,
        first_rows,
        _buffers(message.buffer_offsets, message.buffer_sizes, size),
        _parse_encoding(message.encoding),
    )


def _parse_page(page: pb.ColumnMetadata.Page, size: int) -> Page:
    buffers = _buffers(page.buffer_offsets, page.buffer_sizes, size)
    return Page(int(page.length), buffers, _parse_encoding(page.encoding))


def _buffers(offsets: Sequence[int], sizes: Sequence[int], size: int) -> tuple[ByteRange, ...]:
    if not offsets and not sizes:
        return ()
    starts, lengths = offsets[:], sizes[:]  # as lists, which iterate faster
    if len(starts) != len(lengths):
        raise CorruptFile(f"{len(starts)} buffer offsets and {len(lengths)} buffer sizes")
    ranges = tuple([(start, start + length) for start, length in zip(starts, lengths, strict=True)])
    for start, end in ranges:
        if end > size:
            _range(start, end - start, size)
    return ranges


def _parse_encoding(encoding: pb.Encoding) -> PageEncoding:
    location = encoding.WhichOneof("location")
    if location == "indirect":
        raise UnsupportedFeature("encodings stored apart from the column metadata")
    if location != "direct":
        return PageEncoding("", b"")
    return parse_description(encoding.direct.encoding)


@lru_cache(maxsize=1024)  # pages of a column, also in other fragments, have equal descriptions
def parse_description(data: bytes) -> PageEncoding:
    """Parse the description of an encoding, a protobuf Any.

    Raises:
        CorruptFile: It is not one.
    """
    message = AnyMessage()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile("a description of an encoding is not a protobuf Any") from error
    return PageEncoding(message.type_url.rsplit("/", 1)[-1], message.value)
