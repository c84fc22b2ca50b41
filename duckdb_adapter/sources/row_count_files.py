"""Parquet files with a number of rows and no values: DuckDB counts them by their footers.

A file of some 110 bytes holds a billion nulls, and takes 60 more for each further billion. The
bytes are those of Parquet's `parquet.thrift`, in the compact protocol of Thrift.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence

from lancefs.forks import Lock

_log = logging.getLogger("duckdb_adapter")

# Files of a process at most. None is removed before the process ends, since a relation of Python
# may name it; a file of few bytes takes a block of the disk.
_MAX_FILES = 1024
# Rows of a row group, whose number is a signed number of 32 bits.
_MAX_ROWS = 1 << 30

_MAGIC = b"PAR1"
# Types of the compact protocol.
_INT32, _INT64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
# Numbers of Parquet: a type, a repetition, encodings.
_BOOLEAN, _OPTIONAL, _PLAIN, _RLE = 0, 1, 0, 3
_COLUMN = b"n"


class RowCountFiles:
    """Files of this process, in a folder of its own that is removed when the process ends."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._folders: dict[int, str] = {}  # by process; a forked child leaves alone its parent's
        self._paths: dict[tuple[int, int], str] = {}  # by process and number of rows

    def path_of(self, count: int, finds_file: Callable[[str], bool]) -> str | None:
        """Return a file of so many rows.

        Args:
            count: The number.
            finds_file: Whether there is a file that DuckDB may read.

        Returns:
            None where no more files can be made, or DuckDB would read the name as a pattern, or may
            not read the file.
        """
        key = os.getpid(), count
        path = self._paths.get(key)
        if path is not None and finds_file(path):
            return path
        path = self._written(count)
        if path is None or not finds_file(path):
            return None
        self._paths[key] = path
        return path

    def _written(self, count: int) -> str | None:
        try:
            with self._lock:
                folder = self._folder()
                name = f"{count}-rows.parquet"
                path = os.path.join(folder, name)
                if any(sign in path for sign in "*?["):
                    return None
                # What cleans folders of temporary files may have removed it.
                if not os.path.exists(path):
                    if len(os.listdir(folder)) >= _MAX_FILES:
                        return None
                    unfinished = os.path.join(folder, "unfinished")  # as on a full disk
                    with open(unfinished, "wb") as file:
                        file.write(parquet_of_rows(count))
                    os.replace(unfinished, path)
                return path
        except OSError as error:
            _log.debug("rows are counted without a file: %s", error)
            return None

    def _folder(self) -> str:
        process = os.getpid()
        folder = self._folders.get(process)
        if folder is None or not os.path.isdir(folder):
            folder = self._folders[process] = tempfile.mkdtemp(prefix="lancefs-")
            atexit.register(_remove, folder, process)
        return folder


def parquet_of_rows(count: int) -> bytes:
    """Return a Parquet file of a column of nulls.

    Args:
        count: The number of rows, one at least.
    """
    content, groups = _MAGIC, []
    for start in range(0, count, _MAX_ROWS):
        rows = min(_MAX_ROWS, count - start)
        page = _page(rows)
        groups.append(_row_group(rows, len(page), len(content)))
        content += page
    root = _struct((4, _BINARY, _binary(b"schema")), (5, _INT32, _int(1)))
    column = _struct(
        (1, _INT32, _int(_BOOLEAN)), (3, _INT32, _int(_OPTIONAL)), (4, _BINARY, _binary(_COLUMN))
    )
    footer = _struct(
        (1, _INT32, _int(1)),
        (2, _LIST, _list(_STRUCT, [root, column])),
        (3, _INT64, _int(count)),
        (4, _LIST, _list(_STRUCT, groups)),
    )
    return content + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _page(rows: int) -> bytes:
    """Return a data page of nulls: a run of definition levels that are 0, and no values."""
    run = _varint(rows << 1) + b"\0"
    data = len(run).to_bytes(4, "little") + run
    described = _struct(
        (1, _INT32, _int(rows)),
        (2, _INT32, _int(_PLAIN)),
        (3, _INT32, _int(_RLE)),
        (4, _INT32, _int(_RLE)),
    )
    size = _int(len(data))
    header = ((1, _INT32, _int(0)), (2, _INT32, size), (3, _INT32, size), (5, _STRUCT, described))
    return _struct(*header) + data


def _row_group(rows: int, size: int, offset: int) -> bytes:
    column = _struct(
        (1, _INT32, _int(_BOOLEAN)),
        (2, _LIST, _list(_INT32, [_int(_PLAIN), _int(_RLE)])),
        (3, _LIST, _list(_BINARY, [_binary(_COLUMN)])),
        (4, _INT32, _int(0)),
        (5, _INT64, _int(rows)),
        (6, _INT64, _int(size)),
        (7, _INT64, _int(size)),
        (9, _INT64, _int(offset)),
    )
    chunk = _struct((2, _INT64, _int(offset)), (3, _STRUCT, column))
    return _struct(
        (1, _LIST, _list(_STRUCT, [chunk])), (2, _INT64, _int(size)), (3, _INT64, _int(rows))
    )


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    """Return a struct of fields: numbers that ascend by 15 at most, types, and values."""
    parts, before = [], 0
    for number, kind, value in fields:
        parts += [bytes([number - before << 4 | kind]), value]
        before = number
    return b"".join(parts) + b"\0"


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    is_short = len(items) < 15
    header = bytes([(len(items) if is_short else 15) << 4 | kind])
    return header + (b"" if is_short else _varint(len(items))) + b"".join(items)


def _binary(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _int(value: int) -> bytes:
    """Return a number that is not negative: zigzag, and seven bits in a byte."""
    return _varint(value << 1)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
