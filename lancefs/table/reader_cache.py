"""Readers of local data files, for datasets that open the files again.

A program that asks a little of a table opens it each time. Data files are immutable, so what
footers, column metadata and page descriptions say of one is kept until memory is wanted for others,
and found by the path and identity of the file. Nothing here holds bytes of a file.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from lancefs.datafile.data_file import FieldReader, open_data_file
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.point_reader import PointReader
from lancefs.errors import CorruptFile
from lancefs.storage import File
from lancefs.storage.shared_budget import SharedBudget
from lancefs.table.fragments import DataFile

# The open readers of all versions that a process keeps, and what is cached of files that were
# closed meanwhile; the budget is in bytes, about.
READERS = SharedBudget(lambda: 1 << 30, 64 * 1024 * 1024)
# Memory of a reader, and of the metadata of each column of its open files, about.
READER_BYTES = 8 * 1024
COLUMN_BYTES = 2 * 1024

# The place of a file, what tells its bytes from all others, and what the manifest says of it.
_FileKey: TypeAlias = tuple[Hashable, ...]


class _CachedReader:
    """A reader of a data file without the memory of the file.

    Attributes:
        fields: The columns of the table that the reader was made for.
        last_use: See `SharedBudget`.
    """

    def __init__(self, key: _FileKey, reader: PointReader, fields: Sequence[Field]) -> None:
        self.key = key
        self.reader = reader
        self.fields = fields
        self.last_use = 0

    @property
    def cost(self) -> int:
        """Estimated memory in bytes; readers of the file that are open count a part of it, too."""
        return len(self.reader.columns) * COLUMN_BYTES // 2 + self.reader.cached_bytes

    def let_go(self) -> None:
        """Forget the file."""
        _CACHED.pop(self.key, None)


_CACHED: dict[_FileKey, _CachedReader] = {}


def open_cached(
    file: File, data_file: DataFile, rows: int | None, fields: Sequence[Field]
) -> FieldReader:
    """Open a data file, with what is cached since it was opened before.

    Args:
        file: The file.
        data_file: What the manifest says of it.
        rows: Number of rows that it should have; None if that is not cached.
        fields: The columns of the table. Versions with other columns share nothing: each would
            plan anew what the other one has planned for its columns.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The footer of the file is damaged.
        UnsupportedFeature: The file has a format that this release does not read.
    """
    try:
        key = None if data_file.is_legacy else _key(file, data_file, rows)
        cached = None if key is None else _CACHED.get(key)
        if cached is not None and cached.fields is fields:
            READERS.use(cached)
            return _over(file, cached.reader)
        reader = open_data_file(file, data_file.columns, data_file.is_legacy, rows)
    except CorruptFile:
        file.let_go()  # it may have been read while something wrote it
        raise
    if key is not None and isinstance(reader, PointReader):
        unread = File(file.store, file.path, file.size)
        cached = _CACHED[key] = _CachedReader(key, _over(unread, reader), fields)
        READERS.hold(cached)
    return reader


def _over(file: File, reader: PointReader) -> PointReader:
    """Return a reader of a file that shares what another one has understood of its bytes."""
    return reader.of(reader.container.of(file))


def forget_cached(root: str) -> None:
    """Drop the cached readers of the local files below a directory.

    Args:
        root: The directory.
    """
    for cached in list(_CACHED.values()):
        if str(cached.key[0]).startswith(f"{root}/"):
            READERS.drop(cached)
            cached.let_go()


def _key(file: File, data_file: DataFile, rows: int | None) -> _FileKey | None:
    """Return what tells a file from all others; None where nothing does."""
    if not file.store.is_local:
        return None
    identity = file.settled_identity()
    if identity is None:
        return None
    return file.place, identity, file.size, rows, tuple(data_file.columns.items())
