"""The fragments in the message of a manifest, as columns of numbers.

A manifest may list a hundred thousand fragments, of which most reads need a few. Here the message
is read far enough to tell where each fragment is, and how many rows it has; protobuf makes objects
of the fragments that are looked at.

Bytes are only passed over if protobuf is sure to accept them, see `wire`. Whatever is damaged,
unusual or newer than this code is left to protobuf.

Format: messages `Manifest`, `DataFragment`, `DataFile` and `DeletionFile` of `protos/table.proto`.
"""

import re
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Damaged, c_function, twin_of
from lancefs.datafile.kernels.wire import BYTES, EIGHT_BYTES, FOUR_BYTES, VARINT, Reader, Unknown
from lancefs.storage import Bytes


class FragmentColumns(NamedTuple):
    """The fragments in the message of a manifest, an item for each fragment.

    Attributes:
        starts: Where the fragment's message begins.
        ends: Where it ends.
        ids: Id; negative if it is 2⁶³ or more.
        rows: Rows, deleted ones included; 0 if the manifest does not tell.
        deleted: Deleted rows; −1 if only the deletion file tells.
        known: 1 if the fragment's message is sound and the numbers make sense; 0 if protobuf has
            to decide and to read them.
    """

    starts: Ints
    ends: Ints
    ids: Ints
    rows: Ints
    deleted: Ints
    known: Ints


class FileColumns(NamedTuple):
    """The data files of fragments that have one each, an item for each fragment.

    Attributes:
        starts: Where the file's path begins, a plain name.
        ends: Where it ends.
        sizes: Bytes; 0 if the manifest does not tell.
        kinds: The first of the fragments whose file has the same fields, column indices and
            version, where only such fragments follow it; −1 for a fragment with more files, none,
            or an unusual one, of which nothing is told.
    """

    starts: Ints
    ends: Ints
    sizes: Ints
    kinds: Ints


class ManifestParts(NamedTuple):
    """The message of a manifest, taken apart.

    Attributes:
        fragments: The fragments.
        others: Start and end of each range of other bytes, and 1 if all of them are fields of the
            schema, else 0; shape (n, 3).
    """

    fragments: FragmentColumns
    others: Ints


_WIDTHS = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
# Numbers of the fields of a manifest, a fragment, a data file and a deletion file.
_FIELDS, _FRAGMENTS = 1, 2
_ID, _FILES, _DELETION_FILE, _ROWS, _CLUSTERING_ID = 1, 2, 3, 4, 15
_SEQUENCES = (5, 7, 9)  # row ids and row versions within the manifest
_PATH, _FIELD_IDS, _COLUMN_INDICES, _FILE_NUMBERS = 1, 2, 3, (4, 5, 6, 7)
_MAJOR, _MINOR, _SIZE = _FILE_NUMBERS[:3]
# The path of a data file that leads nowhere else, however a store reads it.
_PLAIN_NAME = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_MAX_BYTES = 1 << 48  # of a data file
_MAX_VERSION = 0xFFFF
_MAX_ROWS = 1 << 32  # rows that a fragment can have
_DELETED, _DELETION_NUMBERS = 4, (1, 2, 3, 4, 7)


def find_fragments(data: Bytes) -> ManifestParts | None:
    """Find the fragments in the message of a manifest, and the bytes between them.

    Args:
        data: The message.

    Returns:
        None if the message is damaged or unusual between the fragments.
    """
    message = Reader(data.tobytes())
    rows: list[tuple[int, ...]] = []
    others: list[tuple[int, int, int]] = []
    try:
        while message.at < message.end:
            start = message.at
            number, kind = message.tag()
            if kind in _WIDTHS:
                message.skip(_WIDTHS[kind])
            elif kind == VARINT:
                message.varint()
            elif kind != BYTES:
                return None
            elif number == _FRAGMENTS:
                part = message.bytes()
                rows.append((part.at, part.end, *_fragment(part)))
                continue
            else:
                message.bytes()
            is_field = int(number == _FIELDS and kind == BYTES)
            if others and others[-1][1:] == (start, is_field):
                start = others.pop()[0]
            others.append((start, message.at, is_field))
    except Unknown:
        return None
    table = np.array(rows, np.uint64).astype(np.int64).reshape(-1, 6).T
    return ManifestParts(FragmentColumns(*table), np.array(others, np.int64).reshape(-1, 3))


_c_find_fragments = c_function("find_fragments", "bytes number out out number out number")


@twin_of(find_fragments)
def _compiled_find_fragments(data: Bytes) -> ManifestParts | None:
    counts = np.zeros(2, np.int64)
    try:
        _c_find_fragments(data, len(data), counts, None, 0, None, 0)
    except Damaged:
        return None
    room, ranges = counts.tolist()
    table, others = np.empty((6, room), np.int64), np.empty((ranges, 3), np.int64)
    _c_find_fragments(data, len(data), counts, table, room, others, ranges)
    return ManifestParts(FragmentColumns(*table), others)


def find_data_files(data: Bytes, starts: Ints, ends: Ints) -> FileColumns:
    """Find the data files of fragments that have one each, as most do.

    Args:
        data: Bytes that hold the messages of the fragments.
        starts: Where these begin.
        ends: Where they end.
    """
    table = np.zeros((4, len(starts)), np.int64)
    table[3] = -1
    last: tuple[object, ...] | None = None
    kind = -1
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if not 0 <= start <= end <= len(data):
            continue
        try:
            path, size, description = _only_file(Reader(data[start:end].tobytes()))
        except Unknown:
            continue
        if kind < 0 or description != last:
            kind, last = number, description
        table[:, number] = start + path.at, start + path.end, size, kind
    return FileColumns(*table)


_c_find_data_files = c_function("find_data_files", "bytes number ints ints number out")


@twin_of(find_data_files)
def _compiled_find_data_files(data: Bytes, starts: Ints, ends: Ints) -> FileColumns:
    table = np.empty((4, len(starts)), np.int64)
    _c_find_data_files(data, len(data), starts, ends, len(starts), table)
    return FileColumns(*table)


def _only_file(message: Reader) -> tuple[Reader, int, tuple[object, ...]]:
    """Return the path and the size of a fragment's only file, and what tells how it is read."""
    found = None
    while message.at < message.end:
        number, kind = message.tag()
        if kind == VARINT and number in (_ID, _ROWS, _CLUSTERING_ID):
            message.varint()
        elif kind != BYTES:
            raise Unknown
        elif number == _FILES and found is None:
            found = _data_file(message.bytes())
        elif number == _DELETION_FILE or number in _SEQUENCES:
            message.bytes()
        else:
            raise Unknown
    if found is None:
        raise Unknown
    return found


def _data_file(file: Reader) -> tuple[Reader, int, tuple[object, ...]]:
    parts = {number: Reader(b"") for number in (_PATH, _FIELD_IDS, _COLUMN_INDICES)}
    numbers = dict.fromkeys((_MAJOR, _MINOR, _SIZE), 0)
    seen = set()
    while file.at < file.end:
        number, kind = file.tag()
        if number in seen:
            raise Unknown
        seen.add(number)
        if kind == BYTES and number in parts:
            parts[number] = file.bytes()
        elif kind == VARINT and number in numbers:
            numbers[number] = file.varint()
        else:
            raise Unknown
    path, fields, columns = (part.data[part.at : part.end] for part in parts.values())
    if not _PLAIN_NAME.fullmatch(path) or numbers[_SIZE] >= _MAX_BYTES:
        raise Unknown
    if max(numbers[_MAJOR], numbers[_MINOR]) > _MAX_VERSION:
        raise Unknown
    parts[_FIELD_IDS].varints()
    parts[_COLUMN_INDICES].varints()
    return parts[_PATH], numbers[_SIZE], (fields, columns, numbers[_MAJOR], numbers[_MINOR])


def _fragment(message: Reader) -> tuple[int, int, int, int]:
    """Return id, rows and deleted rows of a fragment, and whether they are known."""
    numbers = {_ID: 0, _ROWS: 0, _CLUSTERING_ID: 0}
    deleted = None
    try:
        while message.at < message.end:
            number, kind = message.tag()
            if kind == VARINT and number in numbers:
                numbers[number] = message.varint()
                if number == _ROWS and numbers[number] > _MAX_ROWS:
                    raise Unknown
            elif kind != BYTES:
                raise Unknown
            elif number == _FILES:
                _check_data_file(message.bytes())
            elif number == _DELETION_FILE and deleted is None:
                deleted = _deleted(message.bytes())
            elif number in _SEQUENCES:
                message.bytes()
            else:
                raise Unknown
    except Unknown:
        return 0, 0, 0, 0
    return numbers[_ID], numbers[_ROWS], deleted or 0, 1


def _check_data_file(file: Reader) -> None:
    while file.at < file.end:
        number, kind = file.tag()
        if kind == BYTES and number == _PATH:
            path = file.bytes()
            if not file.data[path.at : path.end].isascii():
                raise Unknown
        elif kind == BYTES and number in (_FIELD_IDS, _COLUMN_INDICES):
            file.bytes().varints()
        elif kind == VARINT and number in _FILE_NUMBERS:
            file.varint()
        else:
            raise Unknown


def _deleted(file: Reader) -> int:
    """Return the number of deleted rows; the largest number if only the deletion file tells."""
    count = 0
    while file.at < file.end:
        number, kind = file.tag()
        if kind != VARINT or number not in _DELETION_NUMBERS:
            raise Unknown
        value = file.varint()
        count = value if number == _DELETED else count
    if count > _MAX_ROWS:
        raise Unknown
    return count or (1 << 64) - 1
