"""The pages of columns of many small files, from the files' footers and column metadata.

A small append leaves a file with one page in each column. Here the files of a run of such fragments
are read far enough to tell where these pages are; see `container` for how one file is read, with
all of its pages. Bytes are only passed over if protobuf is sure to accept them, see `wire`.

Docs: format/file. Messages `ColumnMetadata` and `Encoding` of `protos/container.proto`.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Damaged, c_function, twin_of
from lancefs.datafile.kernels.wire import BYTES, VARINT, Reader, Unknown
from lancefs.storage import Bytes

MAX_BUFFERS = 3  # of a page: chunk table, chunks, dictionary
_MAX_ROWS = 1 << 48
_MAGIC = b"LANC"
_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")  # position and size of a column's metadata, or of a global buffer


class FileColumn(IntEnum):
    """The columns of the table of pages.

    The rows of the page, and its number of buffers; start and end, in the data, of the first one,
    and of two more (0 for one that it lacks); start and end of its description, a protobuf Any, and
    of that of its column (0 where there is none); and the first file whose page of the same column
    has an equal description.
    """

    ROWS = 0
    BUFFERS = 1
    FIRST = 2
    FIRST_END = 3
    SECOND = 4
    SECOND_END = 5
    THIRD = 6
    THIRD_END = 7
    DESCRIPTION = 8
    DESCRIPTION_END = 9
    ENCODING = 10
    ENCODING_END = 11
    LIKE = 12


class FilePages(NamedTuple):
    """The pages of some columns of some files.

    Attributes:
        pages: The page of each column in each file, of shape (columns, files, numbers); see
            `FileColumn`.
        versions: Major and minor version of the format of each file, of shape (files, 2).
    """

    pages: Ints
    versions: Ints


def find_pages(data: Bytes, files: Ints, columns: Ints) -> FilePages | None:
    """Find the pages of columns that have one page in each of several files.

    Args:
        data: The bytes of the files, one after the other.
        files: Start and end of each file in the data, of shape (files, 2).
        columns: Indices of the columns in each file, ascending.

    Returns:
        None if a column of a file has more or fewer pages, or if a file is damaged or unusual.
    """
    pages = np.zeros((len(columns), len(files), len(FileColumn)), np.int64)
    versions = np.zeros((len(files), 2), np.int64)
    try:
        for number, (start, end) in enumerate(files.tolist()):
            if not 0 <= start <= end <= len(data):
                raise Unknown
            file = _File(data[start:end].tobytes())
            versions[number] = file.version
            found = [file.page(column) for column in columns.tolist()]
            if sum(page.stored_bytes for page in found) > end - start:
                raise Unknown  # pages that share bytes
            for column, page in enumerate(found):
                pages[column, number] = page.numbers(start)
    except Unknown:
        return None
    for of_column in pages:
        first: dict[bytes, int] = {}
        for number, page in enumerate(of_column):
            start, end = page[[FileColumn.DESCRIPTION, FileColumn.DESCRIPTION_END]].tolist()
            page[FileColumn.LIKE] = first.setdefault(data[start:end].tobytes(), number)
    return FilePages(pages, versions)


_c_find_pages = c_function("find_pages", "bytes number ints number ints number out out")


@twin_of(find_pages)
def _compiled_find_pages(data: Bytes, files: Ints, columns: Ints) -> FilePages | None:
    pages = np.empty((len(columns), len(files), len(FileColumn)), np.int64)
    versions = np.empty((len(files), 2), np.int64)
    try:
        _c_find_pages(data, len(data), files, len(files), columns, len(columns), pages, versions)
    except Damaged:
        return None
    return FilePages(pages, versions)


class _Page(NamedTuple):
    """A page: its rows, the ranges of its buffers in the file, and that of its description."""

    rows: int
    buffers: list[tuple[int, int]]
    description: Reader
    encoding: Reader | None = None  # of the column

    @property
    def stored_bytes(self) -> int:
        return sum(end - start for start, end in self.buffers)

    def numbers(self, shift: int) -> list[int]:
        """Return the columns of the page but the last, for a file that begins at `shift`."""
        ranges = [*self.buffers, (self.description.at, self.description.end)]
        known = [bound + shift for one in ranges[:-1] for bound in one]
        known += [0] * (2 * (MAX_BUFFERS - len(self.buffers)))
        encoding = self.encoding
        known += [at + shift for at in ranges[-1]]
        known += [0, 0] if encoding is None else [encoding.at + shift, encoding.end + shift]
        return [self.rows, len(self.buffers), *known, 0]


class _File:
    """The footer of a file, and its column metadata."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < _FOOTER.size:
            raise Unknown
        footer = _FOOTER.unpack(data[-_FOOTER.size :])
        _, columns_at, buffers_at, buffers, columns, major, minor, magic = footer
        if magic != _MAGIC:
            raise Unknown
        self.version = int(major), int(minor)
        self.columns = self._table(columns_at, columns)
        self._table(buffers_at, buffers)

    def _table(self, position: int, count: int) -> list[tuple[int, int]]:
        end = position + _ENTRY.size * count
        if end > len(self.data):
            raise Unknown
        ranges = [(at, at + size) for at, size in _ENTRY.iter_unpack(self.data[position:end])]
        if any(end > len(self.data) for _, end in ranges):
            raise Unknown
        return ranges

    def page(self, column: int) -> _Page:
        """Return the only page of a column."""
        if not 0 <= column < len(self.columns):
            raise Unknown
        metadata, pages, has_encoding = Reader(self.data, *self.columns[column]), [], False
        encoding: Reader | None = None
        while metadata.at < metadata.end:
            number, kind = metadata.tag()
            if kind != BYTES:
                raise Unknown
            part = metadata.bytes()
            if number == 1 and not has_encoding:
                encoding = _encoding(part)
                has_encoding = True
            elif number == 2:
                pages.append(self._page(part))
            elif number not in (3, 4) or part.at < part.end:
                raise Unknown  # there are no buffers that the pages share
        if len(pages) != 1:
            raise Unknown
        return pages[0]._replace(encoding=encoding)

    def _page(self, message: Reader) -> _Page:
        starts: list[int] | None = None
        sizes: list[int] | None = None
        description, rows = None, 0
        while message.at < message.end:
            number, kind = message.tag()
            if kind == VARINT and number in (3, 5):
                value = message.varint()
                rows = value if number == 3 else rows
                continue
            if kind != BYTES:
                raise Unknown
            part = message.bytes()
            if number == 1 and starts is None:
                starts = _numbers(part)
            elif number == 2 and sizes is None:
                sizes = _numbers(part)
            elif number == 4 and description is None:
                description = _encoding(part)
            else:
                raise Unknown
        if rows >= _MAX_ROWS or description is None or len(starts or ()) != len(sizes or ()):
            raise Unknown
        pairs = zip(starts or (), sizes or (), strict=True)
        ranges = [(start, start + size) for start, size in pairs]
        if any(end > len(self.data) for _, end in ranges):
            raise Unknown
        return _Page(rows, ranges, description)


def _numbers(packed: Reader) -> list[int]:
    numbers: list[int] = []
    while packed.at < packed.end:
        numbers.append(packed.varint())
        if len(numbers) > MAX_BUFFERS:
            raise Unknown
    return numbers


def _encoding(message: Reader) -> Reader | None:
    """Return the description in an `Encoding`; None where it says that there is none."""
    if message.at == message.end:
        return None
    number, kind = message.tag()
    if kind != BYTES:
        raise Unknown
    part = message.bytes()
    if message.at < message.end or (number == 3 and part.at < part.end):
        raise Unknown
    if number == 3:
        return None
    if number != 2 or part.tag() != (1, BYTES):
        raise Unknown
    description = part.bytes()
    if part.at < part.end:
        raise Unknown
    _check_any(Reader(description.data, description.at, description.end))
    return description


def _check_any(message: Reader) -> None:
    while message.at < message.end:
        number, kind = message.tag()
        if kind != BYTES or number not in (1, 2):
            raise Unknown
        part = message.bytes()
        if number == 1 and not part.data[part.at : part.end].isascii():
            raise Unknown
