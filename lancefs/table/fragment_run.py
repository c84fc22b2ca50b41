"""Fragments that follow each other, read as one: small ones, or some rows of any.

Reading a column of a fragment costs some time in Python, whatever it holds. Appends of a few rows
each leave thousands of fragments whose files are alike; of a run of those, the pages of a column
are decoded together (see `datafile.v2_1.layouts.chunk_runs`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.data_file import read_together
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.page_ranges import by_page, join_columns
from lancefs.datafile.row_ranges import count_rows
from lancefs.table.fragment_reader import FragmentReader, Piece, merge, pieces_of

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.datafile.row_sizes import RowSizes

# Fragments of a run, whose files are open at the same time, and the bytes of these.
_LONGEST = 64
_MOST_BYTES = 32 * 1024 * 1024

# The fields of each file of a fragment, and their columns.
_Kind: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


class FragmentRun:
    """Reads rows of several fragments as if they were one.

    Args:
        readers: Of the fragments, whose files are alike; see `in_runs`.
    """

    def __init__(self, readers: Sequence[FragmentReader]) -> None:
        self.readers = tuple(readers)
        self._first_rows = [0, *accumulate(one.physical_rows for one in readers)]

    @property
    def physical_rows(self) -> int:
        """Rows with the deleted ones."""
        return self._first_rows[-1]

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, so that a read does not wait for a network."""
        return self.readers[0].is_local

    @cached_property
    def deleted(self) -> Ints:
        """The offsets of the deleted rows, ascending."""
        return self.joined(reader.deleted for reader in self.readers)

    def joined(self, offsets: Iterable[Ints]) -> Ints:
        """Return offsets in each of its fragments as offsets in the run."""
        pairs = zip(offsets, self._first_rows, strict=False)
        return np.concatenate([own + first for own, first in pairs])

    def parts(self, ranges: Sequence[RowRange]) -> list[tuple[FragmentReader, Sequence[RowRange]]]:
        """Return ranges of rows as those of each fragment."""
        cut = by_page(self._first_rows, ranges)
        return [(self.readers[position], local) for position, local in cut]

    def read(
        self,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        blobs: Blobs = "descriptors",
    ) -> list[pa.Array]:
        """Read rows of several fields, deleted rows included; see `FragmentReader.read`."""
        parts = self.parts(ranges)
        if blobs == "bytes":
            return join_columns([reader.read(fields, local, blobs) for reader, local in parts])
        found: list[list[Piece]] = [[] for _ in fields]
        held = pieces_of(fields, self.readers[0].fragment)
        for number in sorted({number for _, number, _ in held}):
            of_file = [(position, piece) for position, file, piece in held if file == number]
            opened = [
                (*reader.open_file(reader.fragment.files[number]), local) for reader, local in parts
            ]
            arrays = read_together(opened, [piece for _, piece in of_file])
            for (position, piece), array in zip(of_file, arrays, strict=True):
                found[position].append((piece, array))
        rows = count_rows(ranges)
        return [merge(field, pieces, rows) for field, pieces in zip(fields, found, strict=True)]

    def row_sizes(self, fields: Sequence[Field]) -> RowSizes | None:
        """Return how many bytes rows of fields have; see `FragmentReader.row_sizes`.

        Of a run of very small fragments, which are mostly alike, the first one is looked into.
        """
        sizes = [reader.row_sizes(fields) for reader in self.readers]
        if not any(sizes):
            sample = self.readers[0]
            if not sample.physical_rows:
                return None
            return sample.stored_row_sizes(fields).stretched(self.physical_rows)
        from lancefs.datafile.row_sizes import RowSizes, estimated

        parts = [
            of_one or estimated([], reader.physical_rows, 0)
            for of_one, reader in zip(sizes, self.readers, strict=True)
        ]
        return RowSizes.joined(parts)

    @property
    def touched(self) -> int:
        """About how many bytes of local files are in memory since they were last released."""
        return sum(reader.touched for reader in self.readers)

    def release(self) -> None:
        """Give back the memory that bytes of local files take which were read; see `File`."""
        for reader in self.readers:
            reader.release()


def in_runs(
    readers: Iterable[FragmentReader], most_rows: int
) -> Iterator[FragmentReader | FragmentRun]:
    """Join small fragments that follow each other and are stored alike.

    Args:
        readers: Of the fragments, in order.
        most_rows: Rows of a run.
    """
    sized = (
        (reader, reader.physical_rows, reader.fragment.size or 0 if reader.is_small else None)
        for reader in readers
    )
    return map(_joined, _grouped(sized, most_rows))


def runs_with(
    wanted: Iterable[tuple[FragmentReader, Ints]], most_rows: int
) -> Iterator[tuple[FragmentReader | FragmentRun, Ints]]:
    """Join fragments that follow each other and are stored alike, of which some rows are wanted.

    Args:
        wanted: The fragments, in order, each with the offsets of rows.
        most_rows: Rows that are wanted of a run.

    Yields:
        A fragment or a run, and the offsets of the rows in it.
    """
    found: deque[Ints] = deque()

    def counted() -> Iterator[tuple[FragmentReader, int, int]]:
        for reader, offsets in wanted:
            found.append(offsets)
            yield reader, len(offsets), 0

    for group in _grouped(counted(), most_rows):
        source, offsets = _joined(group), [found.popleft() for _ in group]
        yield source, source.joined(offsets) if isinstance(source, FragmentRun) else offsets[0]


def _grouped(
    readers: Iterable[tuple[FragmentReader, int, int | None]], most_rows: int
) -> Iterator[list[FragmentReader]]:
    """Group fragments that can be read as one.

    Args:
        readers: Of the fragments, in order, each with how many rows are read of it, and how many
            bytes; None for one that is read alone.
        most_rows: Rows that are read of a group.
    """
    group: list[FragmentReader] = []
    kind, rows, size = None, 0, 0
    for reader, own_rows, own_size in readers:
        own = None if own_size is None else _kind(reader)
        rows, size = rows + own_rows, size + (own_size or 0)
        is_full = rows > most_rows or size > _MOST_BYTES or len(group) == _LONGEST
        if group and (own is None or own != kind or is_full):
            yield group
            group, rows, size = [], own_rows, own_size or 0
        group.append(reader)
        kind = own
    if group:
        yield group


def _joined(group: Sequence[FragmentReader]) -> FragmentReader | FragmentRun:
    return group[0] if len(group) == 1 else FragmentRun(group)


def _kind(reader: FragmentReader) -> _Kind | None:
    """Return what fragments that can be read as one have in common; None for one that cannot."""
    fragment = reader.fragment
    if not reader.is_local or fragment.overlays:
        return None
    if any(file.has_nulls_apart for file in fragment.files):
        return None
    return tuple((file.fields, file.column_indices) for file in fragment.files)
