"""Reading rows of a fragment from the data files that hold its fields.

Fields are found by id, whatever names and positions they had when a file was written. A field that
no file holds is null. The members of a struct may lie in different files.

Format page: table format, sections "Fragments" and "Data Evolution"
(`docs/src/format/table/index.md`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import expanding, reserve
from lancefs.datafile.column_facts import ColumnFacts
from lancefs.datafile.data_file import FieldReader, mapped_fields
from lancefs.datafile.fields import Blobs, CacheByFields, Field, are_same
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.point_reader import PointReader
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.forks import Lock, cached_property
from lancefs.storage import File, run
from lancefs.table.base_paths import TableFiles
from lancefs.table.deletions import read_deletions
from lancefs.table.field_parts import check_rows, locate_fields
from lancefs.table.fragment_messages import ADDRESS_LIMIT
from lancefs.table.fragments import DataFile, Fragment
from lancefs.table.members import stored, taken_out
from lancefs.table.reader_cache import COLUMN_BYTES, READER_BYTES, READERS, open_cached

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.datafile.row_sizes import RowSizes

# Largest fragment that joins a run. Larger ones are faster read alone, as no rows are copied.
_SMALL_ROWS = 32 * 1024
_SMALL_BYTES = 4 * 1024 * 1024
# Largest fragment whose row sizes are not estimated: its rows take little memory anyway.
TINY_ROWS = 16 * 1024
TINY_BYTES = 512 * 1024


class ReaderCache(dict[int, "FragmentReader"]):
    """The readers that a version keeps, by fragment id; weak references may lead to it."""


class FragmentReader:
    """Reads rows of one fragment; opens its files lazily.

    Args:
        files: Finds the files of the table.
        fragment: The fragment.
        fields: The columns of the table.
        kept: The cache of the version, by fragment id, which the reader leaves when it is let go.

    Attributes:
        lock: Held while a file is opened; `open_file` takes it.
        last_use: See `SharedBudget`.
    """

    def __init__(
        self,
        files: TableFiles,
        fragment: Fragment,
        fields: Sequence[Field],
        kept: ReaderCache | None = None,
    ) -> None:
        self.files = files
        self.fragment = fragment
        self.fields = tuple(fields)
        self._readers: dict[DataFile, tuple[File, FieldReader]] = {}
        self._files: dict[tuple[int | None, str], File] = {}  # by base path and path
        self._deleted: Ints | None = None
        self._holders = CacheByFields[DataFile | None]()
        self.lock = Lock()
        # Weak, so that a version that nobody needs is freed with its mapped files at once, and not
        # when the garbage collector runs.
        self._kept = None if kept is None else weakref.ref(kept)
        self.last_use = 0

    @property
    def physical_rows(self) -> int:
        """Number of rows, deleted rows included.

        Raises:
            CorruptFile: The manifest lacks the number, and that of the data file is beyond 32 bits.
        """
        if self.fragment.physical_rows is not None:
            return self.fragment.physical_rows
        if not self.fragment.files:
            return 0
        file, reader = self.open_file(self.fragment.files[0])
        rows = reader.num_rows
        if rows > ADDRESS_LIMIT:
            error = CorruptFile(f"the number of rows, {rows}, is beyond 32 bits")
            error.path = file.url
            raise error
        return rows

    @property
    def fragment_ids(self) -> list[int]:
        """The id of the fragment, as for a run of several."""
        return [self.fragment.id]

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, so that a read does not wait for a network."""
        return self.files.store.is_local

    @property
    def cost(self) -> int:
        """Estimated memory in bytes: mostly the metadata of columns that were read."""
        columns = sum([len(data_file.fields) for data_file in list(self._readers)])
        deleted = 0 if self._deleted is None else self._deleted.nbytes
        return READER_BYTES + columns * COLUMN_BYTES + deleted

    @property
    def is_cached(self) -> bool:
        """Whether the version keeps this reader, so that later reads find what it holds."""
        kept = None if self._kept is None else self._kept()
        return kept is not None and kept.get(self.fragment.id) is self

    def let_go(self) -> None:
        """Close the files, and forget what was read of them; the next read opens them again."""
        kept = None if self._kept is None else self._kept()
        if kept is not None and self.is_cached:
            kept.pop(self.fragment.id, None)  # another thread may be quicker
        self._readers.clear()
        self._files.clear()
        self.__dict__.pop("facts", None)
        self._holders.clear()
        self._deleted = None

    @property
    def num_rows(self) -> int:
        """Number of live rows."""
        recorded = self.fragment.num_rows
        return self.physical_rows - len(self.deleted) if recorded is None else recorded

    @property
    def deleted(self) -> Ints:
        """Offsets of the deleted rows, ascending."""
        deleted = self._deleted
        if deleted is None:
            recorded = self.fragment.physical_rows
            rows = None if recorded is not None else self.physical_rows
            self._deleted = deleted = read_deletions(self.files, self.fragment, rows)
            if len(deleted):
                self.keep()
        return deleted

    def live_offsets(self) -> Ints:
        """Return the offsets of all live rows, ascending.

        Raises:
            MemoryLimitExceeded: The manifest tells of far more rows than its files have bytes.
        """
        reserve(2 * 8 * self.physical_rows, self.fragment.size or 0)
        return np.delete(np.arange(self.physical_rows), self.deleted)

    def offsets(self, rows: Ints) -> Ints:
        """Translate positions among the live rows into offsets in the data files.

        Args:
            rows: Positions, each below `num_rows`.
        """
        deleted = self.deleted
        if not len(deleted):
            return rows
        live_before = deleted - np.arange(len(deleted))  # live rows before each deleted row
        return rows + np.searchsorted(live_before, rows, side="right")

    def read(
        self,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        blobs: Blobs = "descriptors",
    ) -> list[pa.Array]:
        """Read rows of several fields, deleted rows included.

        Args:
            fields: Columns of the table, or parts or outlines of columns.
            ranges: Ranges of offsets, ascending and disjoint.
            blobs: Whether blobs are read as descriptors, or as their bytes.

        Returns:
            An array of the storage type for each field.

        Raises:
            MissingFile: A data file is gone.
            CorruptFile: A data file is damaged, or does not hold what the manifest says.
            UnsupportedFeature: A data file uses something that this release does not read.
            MemoryLimitExceeded: The rows take too much memory.
        """
        read = partial(self._read_fields, ranges=ranges, blobs=blobs)
        try:
            with expanding(self.files.max_memory, len(fields)):
                return with_members(read, fields)
        except (CorruptFile, UnsupportedFeature) as error:
            if error.path is not None:
                raise
            with self.files.locating():  # of the schema
                raise

    def groups(
        self, fields: Sequence[Field], ranges: Sequence[RowRange], most: int
    ) -> list[Sequence[Field]]:
        """Return columns in groups, each of which maps few bytes of the file.

        Args:
            fields: The columns.
            ranges: The rows that are read.
            most: Columns of a group, at most, that are read from mapped bytes.
        """
        holder = self._holder(fields)
        if holder is None or len(fields) <= most:
            return columns_in_groups(fields, most)
        mapped = mapped_fields(self.open_file(holder)[1], fields, ranges)
        if len(mapped) <= most:
            return [fields]
        ids = {field.id for field in mapped}
        first, *others = columns_in_groups(mapped, most)
        return [[*(field for field in fields if field.id not in ids), *first], *others]

    def _read_fields(
        self, fields: Sequence[Field], ranges: Sequence[RowRange], blobs: Blobs
    ) -> list[pa.Array]:
        rows, holder = count_rows(ranges), self._holder(fields)
        if holder is not None and blobs == "descriptors" and not self.fragment.overlays:
            file, reader = self.open_file(holder)
            arrays = run([(file, reader.read_all(fields, ranges))])[0]
            return [
                check_rows(array, rows, field, self.fragment)
                for array, field in zip(arrays, fields, strict=True)
            ]
        from lancefs.table.assembled_fields import read_assembled

        return read_assembled(self, fields, ranges, blobs)

    def _holder(self, fields: Sequence[Field]) -> DataFile | None:
        """Return the data file that has all values of some fields; None where none has."""
        if not fields:
            return None
        known = self._holders.find(fields)
        if known is not None:
            return known[1]
        located = locate_fields(fields, self.fragment)
        numbers = {number for _, number, _ in located}
        is_one = len(numbers) == 1 and are_same([part for _, _, part in located], fields)
        holder = self.fragment.files[numbers.pop()] if is_one else None
        self._holders.put(fields, holder)
        return holder

    def row_sizes(self, fields: Sequence[Field]) -> RowSizes | None:
        """Estimate the bytes of rows; None for a tiny fragment, whose rows take little memory.

        Raises:
            LanceError: See `stored_row_sizes`.
        """
        if self._has_at_most(TINY_ROWS, TINY_BYTES):
            return None
        from lancefs.table.row_estimates import stored_row_sizes

        return stored_row_sizes(self, fields)

    @cached_property
    def facts(self) -> ColumnFacts:
        """Facts about columns, cached with the file where it is all of the fragment."""
        files = self.fragment.files
        if len(files) == 1 and not files[0].is_legacy and not self.fragment.overlays:
            reader = self.open_file(files[0])[1]
            if isinstance(reader, PointReader):
                return reader.facts
        return ColumnFacts()

    @property
    def stored_bytes(self) -> int:
        """Size of the data files; one that the manifest does not record is asked for."""
        recorded = self.fragment.size
        if recorded is not None:
            return recorded
        return sum(self.file(data_file).size for data_file in self.fragment.files)

    @property
    def is_small(self) -> bool:
        """Whether the fragment is so small that it is faster read in a run with others."""
        return self._has_at_most(_SMALL_ROWS, _SMALL_BYTES)

    def _has_at_most(self, rows: int, size: int) -> bool:
        """Whether the manifest records at most this many rows and bytes of data files."""
        own_rows = self.fragment.physical_rows
        if own_rows is None or own_rows > rows:
            return False
        own_size = self.fragment.size
        return own_size is not None and own_size <= size

    def parts(self, ranges: Sequence[RowRange]) -> list[tuple[FragmentReader, Sequence[RowRange]]]:
        """Return the fragments of ranges of rows, each with its ranges: only this fragment."""
        return [(self, ranges)]

    @property
    def touched(self) -> int:
        """Estimated bytes of local files that became resident since the last release."""
        return sum(file.touched for file in self._opened())

    def release(self) -> None:
        """Release the memory of the local files' mapped bytes; see `File`."""
        for file in self._opened():
            file.release()

    def _opened(self) -> list[File]:
        return list(self._files.values())

    def file_of(self, field: Field) -> File | None:
        """Return the data file whose values a column has; None for none, or several files."""
        located = [] if self.fragment.overlays else locate_fields([field], self.fragment)
        if len(located) != 1:
            return None
        return self.file(self.fragment.files[located[0][1]])

    def file(self, data_file: DataFile) -> File:
        """Return a data file of the fragment, which need not be open.

        Raises:
            CorruptFile: Its path is none below the directory of data files.
            UnsupportedFeature: The rules do not allow its base path.
        """
        key = data_file.base_id, data_file.path
        known = self._files.get(key)
        if known is None:
            made = self.files.data_file(data_file)
            known = self._files.setdefault(key, made)  # another thread may be quicker
        return known

    def open_file(self, data_file: DataFile) -> tuple[File, FieldReader]:
        """Return a data file of the fragment and its reader, opened once.

        Raises:
            MissingFile: The file is gone.
            CorruptFile: The footer of the file is damaged.
            UnsupportedFeature: The file has a format that this release does not read.
        """
        with self.lock:
            opened = self._readers.get(data_file)
            if opened is not None and opened[0].is_stale:
                self.let_go()
                opened = None
            if opened is None:
                file = self.file(data_file)
                is_overlay = data_file not in self.fragment.files
                rows = None if is_overlay else self.fragment.physical_rows
                reader = open_cached(file, data_file, rows, self.fields)
                opened = self._readers[data_file] = file, reader
                self.keep()
            return opened

    def closed_files(self) -> list[Callable[[], object]]:
        """Return functions that open the files of the fragment that are not open, one for each."""
        closed = [each for each in self.fragment.files if each not in self._readers]
        opening: list[Callable[[], object]] = [partial(self.open_file, each) for each in closed]
        if self.lacks_deletions:
            opening.append(lambda: self.deleted)
        return opening

    @property
    def lacks_deletions(self) -> bool:
        """Whether the fragment has a deletion file that is not read yet."""
        return self.fragment.deletion_file is not None and self._deleted is None

    def closed_data_files(self, fields: Sequence[Field]) -> list[DataFile]:
        """Return the data files with values of some columns that are not open."""
        files = self.fragment.files
        if all(file in self._readers for file in files):
            return []
        located = locate_fields([stored(field) for field in fields], self.fragment)
        numbers = sorted({number for _, number, _ in located})
        return [files[number] for number in numbers if files[number] not in self._readers]

    def keep(self) -> FragmentReader:
        """Have the version keep this reader, unless it keeps another one; return the one kept."""
        kept = None if self._kept is None else self._kept()
        reader = self if kept is None else kept.setdefault(self.fragment.id, self)
        if reader is self:
            READERS.hold(self)
        return reader


def columns_in_groups(fields: Sequence[Field], most: int) -> list[Sequence[Field]]:
    """Cut columns into groups of about the same number of columns.

    Args:
        fields: The columns.
        most: Columns of a group at most.
    """
    groups = -(-len(fields) // most)
    length = -(-len(fields) // groups)
    return [fields[start : start + length] for start in range(0, len(fields), length)]


def with_members(
    read: Callable[[Sequence[Field]], list[pa.Array]], fields: Sequence[Field]
) -> list[pa.Array]:
    """Read columns, and members of structs as columns.

    Args:
        read: Reads columns, or structs with some of their members.
        fields: The columns.
    """
    if not any(field.way for field in fields):
        return read(fields)
    arrays = read([stored(field) for field in fields])
    return [taken_out(array, field) for array, field in zip(arrays, fields, strict=True)]
