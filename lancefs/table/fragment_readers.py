"""The readers of a version's fragments, made on first use; those of open files are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from lancefs.datafile.fields import Field
from lancefs.table.base_paths import TableFiles
from lancefs.table.column_cache import ColumnCache
from lancefs.table.fragment_reader import FragmentReader, ReaderCache
from lancefs.table.fragment_table import Fragments
from lancefs.table.fragments import Fragment
from lancefs.table.plain_files import PlainFiles, plain_files
from lancefs.table.reader_cache import READERS, forget_cached

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.datafile.kernels.manifests import FileColumns

# Up to this number of fragments, all readers are kept with their small files, for later reads. With
# more fragments, keeping them takes longer than the next pass takes to make them anew.
_FEW_FRAGMENTS = 512
# From this number of fragments on, scans read small ones without a reader for each.
_MIN_JOINED = 16


class _OpenReaders:
    """Makes readers and keeps them, within the budget of the process. Threads may share it.

    Args:
        files: Finds the files of the version.
        fields: The columns of the table.
        fragments: Number of fragments of the version.
    """

    def __init__(self, files: TableFiles, fields: Sequence[Field], fragments: int) -> None:
        self.is_long = fragments > _FEW_FRAGMENTS
        self.are_several = self.is_long or fragments > _MIN_JOINED
        self.files = files
        self.unknown: set[int] = set()  # see `PlainFiles`
        self.column_cache = ColumnCache(fragments)
        self._fields = tuple(fields)
        self._kept = ReaderCache()

    @property
    def root(self) -> str:
        return self.files.store.root

    def reader(self, fragment: Fragment) -> FragmentReader:
        return self._find(fragment) or self._make(fragment).keep()

    def passing_reader(self, fragment: Fragment) -> FragmentReader:
        """Return a reader for one pass over all fragments.

        Of many fragments it is kept only from when it opens a file, or knows deleted rows.
        """
        return self._find(fragment) or (
            self._make(fragment) if self.is_long else self._make(fragment).keep()
        )

    def _find(self, fragment: Fragment) -> FragmentReader | None:
        reader = self._kept.get(fragment.id)
        if reader is not None:
            READERS.use(reader)
        return reader

    def _make(self, fragment: Fragment) -> FragmentReader:
        return FragmentReader(self.files, fragment, self._fields, self._kept)

    def close(self) -> None:
        for reader in list(self._kept.values()):
            reader.let_go()
        self.column_cache.clear()
        if self.files.store.is_local:
            forget_cached(self.root)


class FragmentReaders(Sequence[FragmentReader]):
    """A reader for each fragment; slices share the open readers.

    Args:
        files: Finds the files of the version.
        fragments: The fragments.
        fields: The columns of the table.
    """

    def __init__(self, files: TableFiles, fragments: Fragments, fields: Sequence[Field]) -> None:
        self._fragments = fragments
        self._open = _OpenReaders(files, fields, len(fragments))

    def __len__(self) -> int:
        return len(self._fragments)

    @property
    def live_ends(self) -> Ints | None:
        """The number of live rows up to and with each fragment; None if the manifest lacks one."""
        return self._fragments.live_ends

    @property
    def row_counts(self) -> tuple[Ints, Ints] | None:
        """The rows of each fragment and its deleted rows; None if the manifest lacks a number."""
        return self._fragments.row_counts

    @property
    def positions(self) -> Mapping[int, int]:
        """The position of each fragment by its id."""
        return self._fragments.positions

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self._open.reader(self._fragments[index])
        return self._part(self._fragments[index])

    def _part(self, fragments: Fragments) -> FragmentReaders:
        part = FragmentReaders.__new__(FragmentReaders)
        part._fragments, part._open = fragments, self._open
        return part

    def __iter__(self) -> Iterator[FragmentReader]:
        """Yield a reader of each fragment; of many, only those that open files are kept.

        A scan reads small fragments in runs, without opening one.
        """
        return map(self._open.passing_reader, self._fragments)

    def passing(self, position: int) -> FragmentReader:
        """Return the reader of a fragment, kept or not, as iterating does."""
        return self._open.passing_reader(self._fragments[position])

    @property
    def are_many(self) -> bool:
        """Whether the version has so many fragments that a pass over all keeps no readers."""
        return self._open.is_long

    @property
    def are_several(self) -> bool:
        """Whether the version has so many fragments that scans make no reader for small ones."""
        return self._open.are_several

    @property
    def are_local(self) -> bool:
        """Whether the table is on this machine."""
        return self._open.files.store.is_local

    @property
    def root(self) -> str:
        """The directory of the table."""
        return self._open.root

    def picked(self, positions: Ints) -> FragmentReaders:
        """Return the readers of fragments at some positions, in their order."""
        return self._part(self._fragments.picked(positions))

    def plain_files(self, most_bytes: int) -> PlainFiles | None:
        """Return the data files of the fragments; see `plain_files.plain_files`."""
        return plain_files(
            self._open.files,
            self._fragments,
            most_bytes,
            self._open.unknown,
            self._open.column_cache,
        )

    @property
    def data_files(self) -> FileColumns:
        """The data files of the fragments; see `Fragments.data_files`."""
        return self._fragments.data_files

    def message_bytes(self, position: int) -> bytes:
        """Return the bytes of the message of a fragment."""
        return self._fragments.message_bytes(position)

    def close(self) -> None:
        """Let go of all readers, and with them of open files; they are made again when needed."""
        self._open.close()


def are_several_local(readers: Sequence[FragmentReader]) -> TypeGuard[FragmentReaders]:
    """Return whether there are so many local fragments that no reader is made for small ones."""
    if not isinstance(readers, FragmentReaders):
        return False
    return readers.are_several and readers.are_local


def live_ends(readers: Sequence[FragmentReader]) -> Ints | None:
    """Return the number of live rows up to and with each fragment, as the manifest records them.

    Args:
        readers: Readers of the fragments, in scan order.

    Returns:
        int64, shape (fragments,); None where the manifest lacks a number.
    """
    if isinstance(readers, FragmentReaders):
        return readers.live_ends
    recorded = [reader.fragment.num_rows for reader in readers]
    counts = [count for count in recorded if count is not None]
    return np.cumsum(counts, dtype=np.int64) if len(counts) == len(recorded) else None


def by_fragment(readers: Sequence[FragmentReader], rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield the position of each fragment with some live rows, and these rows within it.

    Where the manifest does not record the rows of all fragments, the fragments up to the last row
    are asked.

    Args:
        readers: Readers of the fragments, in scan order.
        rows: Positions among all live rows, ascending; those beyond the last row are left out.
    """
    ends = readers.live_ends if isinstance(readers, FragmentReaders) else None
    if ends is None:
        first = start = 0
        for position, reader in enumerate(readers):
            if start == len(rows):
                return
            end = int(np.searchsorted(rows, first + reader.num_rows))
            if start < end:
                yield position, rows[start:end] - first
            first, start = first + reader.num_rows, end
        return
    if len(rows) and len(ends):
        position = int(ends.searchsorted(rows[0], side="right"))
        if position < len(ends) and rows[-1] < ends[position]:  # as of few rows
            yield position, rows - ends[position - 1] if position else rows
            return
    if len(ends) < len(rows):  # a long range, or many rows of few fragments
        stops = np.searchsorted(rows, ends)
        starts = np.append(0, stops[:-1])
        for position in np.flatnonzero(starts < stops).tolist():
            before = ends[position - 1] if position else 0
            yield position, rows[starts[position] : stops[position]] - before
        return
    holders = np.searchsorted(ends, rows, side="right")
    edges = (np.flatnonzero(holders[1:] != holders[:-1]) + 1).tolist()
    bounds = [0, *edges, len(rows)] if len(rows) else []
    for start, end in pairwise(bounds):
        position = int(holders[start])
        if position < len(ends):
            yield position, rows[start:end] - (ends[position - 1] if position else 0)


def positions_of(readers: Sequence[FragmentReader], ids: Collection[int]) -> list[int]:
    """Return the positions of the fragments with some ids, ascending; unknown ids have none.

    Args:
        readers: Readers of the fragments.
        ids: Ids of fragments.
    """
    if not isinstance(readers, FragmentReaders):
        return [at for at, reader in enumerate(readers) if reader.fragment.id in ids]
    return sorted(readers.positions[number] for number in ids if number in readers.positions)
