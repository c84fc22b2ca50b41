"""The pages of columns of many small files, from the files' footers and column metadata.

A small append leaves a file with one page in each column. Here the files of a run of such fragments
are read far enough to tell where these pages are; see `container` for how one file is read, with
all of its pages. Bytes are only passed over if protobuf is sure to accept them, see `wire.h`.

Docs: format/file. Messages `ColumnMetadata` and `Encoding` of `protos/container.proto`.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Damaged, c_function
from lancefs.proto import container_pb2 as pb
from lancefs.storage import Bytes

MAX_BUFFERS = 3  # of a page: chunk table, chunks, dictionary
_MAX_ROWS = 1 << 48
_MAGIC = b"LANC"
_FOOTER = struct.Struct("<8xQQIIHH4s")
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


_c_find_pages = c_function("find_pages", "bytes number ints number ints number out out")


def find_pages(data: Bytes, files: Ints, columns: Ints) -> FilePages | None:
    """Find the pages of columns that have one page in each of several files.

    Args:
        data: The bytes of the files, one after the other.
        files: Start and end of each file in the data, of shape (files, 2).
        columns: Indices of the columns in each file, ascending.

    Returns:
        None if a column of a file has more or fewer pages, or if a file is damaged or unusual.
    """
    if _c_find_pages is None:
        return _find_by_protobuf(data, files, columns)
    pages = np.empty((len(columns), len(files), len(FileColumn)), np.int64)
    versions = np.empty((len(files), 2), np.int64)
    try:
        _c_find_pages(data, len(data), files, len(files), columns, len(columns), pages, versions)
    except Damaged:
        return None
    return FilePages(pages, versions)


def _find_by_protobuf(data: Bytes, files: Ints, columns: Ints) -> FilePages | None:
    """Find pages where there is no library; see `find_pages`."""
    pages = np.zeros((len(columns), len(files), len(FileColumn)), np.int64)
    versions, first = np.zeros((len(files), 2), np.int64), [dict[bytes, int]() for _ in columns]
    try:
        for number, (start, end) in enumerate(files.tolist()):
            file, stored = data[start:end].tobytes(), 0
            footer = _FOOTER.unpack(file[-_FOOTER.size :])
            at, buffers_at, buffers, count, *versions[number], magic = footer
            table = _table(file, at, count)
            _table(file, buffers_at, buffers)
            if magic != _MAGIC or not 0 <= start <= end <= len(data):
                return None
            for column, index in enumerate(columns.tolist()):
                begin, size = table[index]
                metadata = pb.ColumnMetadata.FromString(file[begin : begin + size])
                (page,) = metadata.pages
                sizes, own = page.buffer_sizes, page.encoding.direct.encoding
                places = list(zip(page.buffer_offsets, sizes, strict=True))
                bounds = [
                    start + at_ for place, length in places for at_ in (place, place + length)
                ]
                stored += sum(sizes)
                is_odd = bool(metadata.buffer_offsets) or metadata.encoding.HasField("indirect")
                is_odd |= page.length >= _MAX_ROWS or max(bounds, default=0) > end or not own
                if is_odd or index < 0 or len(sizes) > MAX_BUFFERS:
                    return None
                bounds += [0] * (2 * MAX_BUFFERS - len(bounds))
                for text in (own, metadata.encoding.direct.encoding):
                    place = start + file.index(text, begin)
                    bounds += [place, place + len(text)]
                like = first[column].setdefault(own, number)
                pages[column, number] = page.length, len(sizes), *bounds, like
            if stored > len(file):
                return None  # pages that share bytes
    except (struct.error, DecodeError, ValueError, IndexError):
        return None
    return FilePages(pages, versions)


def _table(file: bytes, position: int, count: int) -> list[tuple[int, int]]:
    """Return a table of positions and sizes; raise a ValueError if one leaves the file."""
    entries = list(_ENTRY.iter_unpack(file[position : position + _ENTRY.size * count]))
    if len(entries) != count or any(begin + size > len(file) for begin, size in entries):
        raise ValueError("a table that leaves the file, or tells of more than the file has")
    return entries
