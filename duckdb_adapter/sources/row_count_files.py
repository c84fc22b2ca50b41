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
from collections.abc import Callable

from lancefs.forks import Lock

_log = logging.getLogger("duckdb_adapter")

# Files of a process at most. None is removed before the process ends, since a relation of Python
# may name it; a file of few bytes takes a block of the disk.
_MAX_FILES = 1024
# Rows of a row group, whose number is a signed number of 32 bits.
_MAX_ROWS = 1 << 30

_MAGIC = b"PAR1"
# Numbers of Parquet: a type, a repetition, encodings.
_BOOLEAN, _OPTIONAL, _PLAIN, _RLE = 0, 1, 0, 3
_COLUMN = b"n"


class _Long(int):
    """A number of 64 bits; others have 32."""


# Types of the compact protocol.
_TYPES: dict[type, int] = {int: 5, _Long: 6, bytes: 8, list: 9, dict: 12}


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
    content, groups = _MAGIC, list[object]()
    for start in range(0, count, _MAX_ROWS):
        rows = min(_MAX_ROWS, count - start)
        page = _page(rows)
        groups.append(_row_group(_Long(rows), _Long(len(page)), _Long(len(content))))
        content += page
    schema = [{4: b"schema", 5: 1}, {1: _BOOLEAN, 3: _OPTIONAL, 4: _COLUMN}]
    footer = _encoded({1: 1, 2: schema, 3: _Long(count), 4: groups})
    return content + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _page(rows: int) -> bytes:
    """Return a data page of nulls: a run of definition levels that are 0, and no values."""
    run = _varint(rows << 1) + b"\0"
    data = len(run).to_bytes(4, "little") + run
    described = {1: rows, 2: _PLAIN, 3: _RLE, 4: _RLE}
    return _encoded({1: 0, 2: len(data), 3: len(data), 5: described}) + data


def _row_group(rows: _Long, size: _Long, offset: _Long) -> object:
    column = {1: _BOOLEAN, 2: [_PLAIN, _RLE], 3: [_COLUMN], 4: 0, 5: rows, 6: size, 7: size}
    return {1: [{2: offset, 3: {**column, 9: offset}}], 2: size, 3: rows}


def _encoded(value: object) -> bytes:
    """Return a value in the compact protocol; a struct is a dict, by the numbers of its fields."""
    if isinstance(value, dict):
        parts, before = [], 0
        for number, each in value.items():  # which ascend by 15 at most
            parts += [bytes([number - before << 4 | _TYPES[type(each)]]), _encoded(each)]
            before = number
        return b"".join(parts) + b"\0"
    if isinstance(value, list):
        is_short, kind = len(value) < 15, _TYPES[type(value[0])]
        header = bytes([(len(value) if is_short else 15) << 4 | kind])
        return b"".join([header, b"" if is_short else _varint(len(value)), *map(_encoded, value)])
    if isinstance(value, bytes):
        return _varint(len(value)) + value
    assert isinstance(value, int)
    return _varint(value << 1)  # zigzag, of numbers that are not negative


def _varint(value: int) -> bytes:
    """Return a number, seven bits in a byte."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
