"""Runs of fragments: consecutive small fragments, or rows of any fragments, read as one.

Reading a column of a fragment takes some time in Python, however few rows it has. Small appends
leave thousands of fragments whose files have the same columns; the pages of a column in a run of
such fragments are decoded together (see `datafile.v2_1.layouts.chunk_runs`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import expanding
from lancefs.datafile.data_file import read_small, read_together
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.page_ranges import by_page, join_columns
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.small_files import SmallRows
from lancefs.forks import cached_property
from lancefs.storage import SMALL_FILE
from lancefs.table.field_parts import PrunedArray, locate_fields, merge_parts
from lancefs.table.fragment_reader import (
    TINY_BYTES,
    TINY_ROWS,
    FragmentReader,
    columns_in_groups,
    with_members,
)
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.plain_files import PlainFiles

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.datafile.row_sizes import RowSizes

# Most fragments of a run of small files, which are read into one block; most fragments of another
# run, whose files are mapped at the same time; and most bytes of the files of a run.
MAX_FRAGMENTS = 512
_MAX_MAPPED = 64
_MAX_BYTES = 32 * 1024 * 1024

# The fields and column indices of each data file of a fragment.
_Kind: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
# A fragment, and ranges of its rows.
_RunPart: TypeAlias = tuple[FragmentReader, Sequence[RowRange]]


class FragmentRun:
    """Reads rows of several fragments as if they were one fragment.

    Args:
        readers: Readers of the fragments, whose files have the same columns; see `in_runs`.
        files: Their data files; then a reader is made where it is needed only. None for readers
            that there are.

    Attributes:
        first_rows: The first row of each fragment, then the number of all rows.
    """

    def __init__(self, readers: Sequence[FragmentReader], files: PlainFiles | None = None) -> None:
        self._given = readers
        self._files = files
        self._readers = tuple(readers) if files is None else None
        if files is None:
            rows = [reader.physical_rows for reader in readers]
        else:
            rows = files.rows.tolist()
        self.first_rows = [0, *accumulate(rows)]

    @property
    def readers(self) -> tuple[FragmentReader, ...]:
        """Readers of the fragments."""
        if self._readers is None:
            self._readers = tuple(self._given)
        return self._readers

    def _reader(self, position: int) -> FragmentReader:
        """Return the reader of one of the fragments; the others need not be made for it."""
        if self._readers is None and isinstance(self._given, FragmentReaders):
            return self._given.passing(position)
        return self.readers[position]

    @property
    def physical_rows(self) -> int:
        """Number of rows, deleted rows included."""
        return self.first_rows[-1]

    @property
    def mean_rows(self) -> float:
        """Number of rows of a fragment on average, deleted rows included."""
        return self.physical_rows / len(self._given)

    @property
    def fragment_ids(self) -> list[int]:
        """The ids of the fragments, in order."""
        if self._files is not None:
            ids: list[int] = self._files.ids.tolist()
            return ids
        return [reader.fragment.id for reader in self.readers]

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, so that a read does not wait for a network."""
        return self._files is not None or self.readers[0].is_local

    @cached_property
    def deleted(self) -> Ints:
        """Offsets of the deleted rows in the run, ascending."""
        if self._files is not None:
            deleted = [np.empty(0, np.int64)]
            for position in np.flatnonzero(self._files.deleted).tolist():
                deleted.append(self._given[position].deleted + self.first_rows[position])
            return np.concatenate(deleted)
        return self.joined(reader.deleted for reader in self.readers)

    def joined(self, offsets: Iterable[Ints]) -> Ints:
        """Translate the offsets in each fragment into offsets in the run."""
        pairs = zip(offsets, self.first_rows, strict=False)
        return np.concatenate([local + first for local, first in pairs])

    def parts(self, ranges: Sequence[RowRange]) -> list[_RunPart]:
        """Return the fragments of ranges of rows, each with its ranges in the fragment."""
        by_fragment = by_page(self.first_rows, ranges)
        return [(self._reader(position), local) for position, local in by_fragment]

    def read(
        self,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        blobs: Blobs = "descriptors",
        encoded: Collection[int] = (),
    ) -> list[pa.Array]:
        """Read rows of several fields, deleted rows included; see `FragmentReader.read`.

        Args:
            fields: Columns of the table, or parts of them.
            ranges: Rows of the run, ascending and disjoint.
            blobs: Whether blobs come as descriptors, or as their bytes.
            encoded: Ids of fields of strings that may come dictionary-encoded.
        """
        table = self.readers[0].files if self._files is None else self._files.table
        with expanding(table.max_memory, len(fields)):
            read = partial(self._read_fields, ranges=ranges, blobs=blobs, encoded=encoded)
            return with_members(read, fields)

    def _read_fields(
        self,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        blobs: Blobs,
        encoded: Collection[int],
    ) -> list[pa.Array]:
        small = None
        if blobs == "descriptors" and self._files is not None:
            small = self._files.read(fields, ranges, encoded)
        if small is not None and all(field.id in small.arrays for field in fields):
            return [small.arrays[field.id] for field in fields]
        parts = self.parts(ranges)
        if blobs == "bytes":
            return join_columns([reader.read(fields, local, blobs) for reader, local in parts])
        pruned: list[list[PrunedArray]] = [[] for _ in fields]
        located = locate_fields(fields, self._reader(0).fragment)
        for number in sorted({number for _, number, _ in located}):
            in_file = [(position, part) for position, file, part in located if file == number]
            arrays = _read_file(number, parts, [part for _, part in in_file], small)
            for (position, part), array in zip(in_file, arrays, strict=True):
                pruned[position].append((part, array))
        rows = count_rows(ranges)
        return [
            merge_parts(field, field_parts, rows)
            for field, field_parts in zip(fields, pruned, strict=True)
        ]

    def row_sizes(self, fields: Sequence[Field]) -> RowSizes | None:
        """Estimate the bytes of rows; see `FragmentReader.row_sizes`.

        In a run of tiny fragments only, the first one is the sample for all.
        """
        are_tiny = self._files is not None and self._files.have_at_most(TINY_ROWS, TINY_BYTES)
        sizes = [] if are_tiny else [reader.row_sizes(fields) for reader in self.readers]
        if not any(sizes):
            sample = self._given[0]
            if not sample.physical_rows:
                return None
            from lancefs.table.row_estimates import stored_row_sizes

            return stored_row_sizes(sample, fields).stretched(self.physical_rows)
        from lancefs.datafile.row_sizes import RowSizes, estimate_row_sizes

        parts = [
            own_sizes or estimate_row_sizes([], reader.physical_rows, 0)
            for own_sizes, reader in zip(sizes, self.readers, strict=True)
        ]
        return RowSizes.joined(parts)

    @property
    def touched(self) -> int:
        """Estimated bytes of local files that became resident since the last release."""
        return sum(reader.touched for reader in self._readers or ())

    def groups(
        self, fields: Sequence[Field], ranges: Sequence[RowRange], most: int
    ) -> list[Sequence[Field]]:
        """Return columns in groups, so that each is read of few mapped bytes."""
        return columns_in_groups(fields, most)

    def release(self) -> None:
        """Release the memory of the local files' mapped bytes; see `File`."""
        for reader in self._readers or ():
            reader.release()


# What a scan decodes rows of: a fragment, or a run that is read as if it were one.
FragmentSource: TypeAlias = FragmentReader | FragmentRun


def _read_file(
    number: int, parts: Sequence[_RunPart], fields: Sequence[Field], small: SmallRows | None
) -> list[pa.Array]:
    """Read rows of the data files at one position among those of each fragment.

    Args:
        number: The position.
        parts: The fragments, each with ranges of its rows.
        fields: The fields, pruned to what the files hold.
        small: What was read of the files by few calls of kernels; None if that was not tried.
    """
    small = _read_small(number, parts, fields) if small is None else small
    # Members of a struct are fields of one id: what is left is identified by position.
    others = [field for field in fields if field.id not in small.arrays]
    arrays: Iterable[pa.Array] = ()
    if others:
        opened = [
            (*reader.open_file(reader.fragment.files[number]), local) for reader, local in parts
        ]
        arrays = read_together(opened, others, small.refusal)
    left = iter(arrays)
    return [small.arrays[field.id] if field.id in small.arrays else next(left) for field in fields]


def _read_small(number: int, parts: Sequence[_RunPart], fields: Sequence[Field]) -> SmallRows:
    """Read those fields of small files that kernels know; see `_read_file`."""
    small = []
    for reader, local in parts:
        data_file, rows = reader.fragment.files[number], reader.fragment.physical_rows
        if rows is None or data_file.size is None or data_file.size > SMALL_FILE:
            return SmallRows({})
        small.append((reader.file(data_file), rows, local))
    if len(small) < 2:
        return SmallRows({})
    holds = all(reader.is_cached for reader, _ in parts)
    return read_small(small, parts[0][0].fragment.files[number].columns, fields, holds)


def plain_run(readers: FragmentReaders) -> FragmentRun | None:
    """Return many small fragments as one, without a reader for each; None if they differ.

    Args:
        readers: Readers of at most `MAX_FRAGMENTS` fragments of a version that has many: those of
            few hold what they read.
    """
    files = readers.plain_files(_MAX_BYTES)
    return None if files is None else FragmentRun(readers, files)


def many_in_runs(
    readers: FragmentReaders, most_rows: int, first_rows: int
) -> Iterator[FragmentSource]:
    """Join consecutive small fragments as `in_runs` does, without a reader for each where it can.

    Args:
        readers: Readers of the fragments, in scan order, of a version that has many.
        most_rows: Most rows of a run.
        first_rows: Most rows of the second one; the first one is a fragment, and each of the next
            ones has up to eight times as many.
    """
    start = 0
    for end in _ends_of_runs(readers, most_rows, first_rows):
        part = readers[start:end]
        run = plain_run(part)
        yield from in_runs(part, most_rows) if run is None else [run]
        start = end


def _ends_of_runs(readers: FragmentReaders, most_rows: int, first_rows: int) -> Iterator[int]:
    """Yield where runs of fragments end that have similar files, or of any other fragments."""
    counts, count = readers.row_counts, len(readers)
    if not count:
        return
    if counts is None:
        yield count
        return
    files = readers.data_files
    rows, sizes = np.cumsum(counts[0]), np.cumsum(files.sizes)
    breaks = np.append(np.flatnonzero(files.kinds[1:] != files.kinds[:-1]) + 1, count)
    start, longest = 1, min(first_rows, most_rows)
    yield start
    while start < count:
        before = (int(rows[start - 1]), int(sizes[start - 1])) if start else (0, 0)
        ends = [
            int(breaks[np.searchsorted(breaks, start, side="right")]),
            int(np.searchsorted(rows, before[0] + longest, side="right")),
            int(np.searchsorted(sizes, before[1] + _MAX_BYTES, side="right")),
            start + MAX_FRAGMENTS,
        ]
        start = max(start + 1, min(ends))
        yield start
        longest = min(8 * longest, most_rows)


def in_runs(readers: Iterable[FragmentReader], most_rows: int) -> Iterator[FragmentSource]:
    """Join consecutive small fragments whose files have the same columns.

    Args:
        readers: Readers of the fragments, in scan order.
        most_rows: Most rows of a run.
    """
    sized = (
        (reader, reader.physical_rows, reader.fragment.size or 0 if reader.is_small else None)
        for reader in readers
    )
    return map(_join, _group(sized, most_rows))


def runs_with(
    selections: Iterable[tuple[FragmentReader, Ints]], most_rows: int
) -> Iterator[tuple[FragmentSource, Ints]]:
    """Join consecutive fragments whose files have the same columns, for reads of some rows.

    Args:
        selections: The fragments in scan order, each with the offsets of the rows to read.
        most_rows: Most rows to read from a run.

    Yields:
        A fragment or a run, and the offsets of the rows in it.
    """
    left = iter(selections)
    first = list(islice(left, 2))
    if len(first) < 2:
        yield from first
        return
    pending: deque[Ints] = deque()

    def sized() -> Iterator[tuple[FragmentReader, int, int]]:
        for reader, offsets in chain(first, left):
            pending.append(offsets)
            yield reader, len(offsets), _bytes_of_small_files(reader) or 0

    for group in _group(sized(), most_rows):
        source, offsets = _join(group), [pending.popleft() for _ in group]
        yield source, source.joined(offsets) if isinstance(source, FragmentRun) else offsets[0]


def _group(
    readers: Iterable[tuple[FragmentReader, int, int | None]], most_rows: int
) -> Iterator[list[FragmentReader]]:
    """Group fragments that can be read as one.

    Args:
        readers: (reader, rows to read, bytes to read) of each fragment, in scan order; None for the
            bytes of a fragment that is read alone.
        most_rows: Most rows to read from a group.
    """
    group: list[FragmentReader] = []
    group_kind, rows, size, mapped = None, 0, 0, 0
    for reader, own_rows, own_size in readers:
        kind = None if own_size is None else _kind(reader)
        own_mapped = _bytes_of_small_files(reader) is None
        rows, size, mapped = rows + own_rows, size + (own_size or 0), mapped + own_mapped
        is_full = rows > most_rows or size > _MAX_BYTES
        is_full |= len(group) == MAX_FRAGMENTS or mapped > _MAX_MAPPED
        if group and (kind is None or kind != group_kind or is_full):
            yield group
            group, rows, size, mapped = [], own_rows, own_size or 0, own_mapped
        group.append(reader)
        group_kind = kind
    if group:
        yield group


def _join(group: Sequence[FragmentReader]) -> FragmentSource:
    return group[0] if len(group) == 1 else FragmentRun(group)


def _bytes_of_small_files(reader: FragmentReader) -> int | None:
    """Return the bytes of the data files of a fragment; None where one may be mapped."""
    total = 0
    for file in reader.fragment.files:
        if file.size is None or file.size > SMALL_FILE:
            return None
        total += file.size
    return total


def _kind(reader: FragmentReader) -> _Kind | None:
    """Return the kind that fragments of a group share; None for a fragment that is read alone."""
    fragment = reader.fragment
    if not reader.is_local or fragment.overlays:
        return None
    if any(file.is_legacy for file in fragment.files):
        return None
    return tuple((file.fields, file.column_indices) for file in fragment.files)
