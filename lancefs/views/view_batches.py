"""The batches of a view, and decoding columns of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import overload

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, Mask
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.datafile.masks import filtered
from lancefs.errors import ArrayTooLarge, CorruptFile, MemoryLimitExceeded
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.fragment_run import MAX_FRAGMENTS, FragmentRun, in_runs, plain_run
from lancefs.table.null_free import all_valid

# Rows of a batch in a view. Batches are cut within each fragment at multiples of this, deleted rows
# counted. The bytes of a view depend on it: see `file_node.LAYOUT`.
BATCH_ROWS = 64 * 1024
# Batches of a view: what is known of each is held in memory.
_MAX_BATCHES = 1 << 18
# Bytes of data files that one group of batches reads from a remote store.
AT_ONCE = 32 * 1024 * 1024
# Fragment readers that the batches of a view keep open.
_USED = 4096
# Memory of each of them in bytes, about.
_BATCH_BYTES = 2 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a fragment that are one batch in every view that shows them.

    Attributes:
        fragment: The reader of the fragment.
        position: Position of the fragment among those of the view.
        number: Position of the batch among the batches of the fragment, empty ones counted.
        rows: Number of live rows.
    """

    fragment: FragmentReader
    position: int
    number: int
    rows: int

    @property
    def is_remote(self) -> bool:
        """Whether the data files are in a remote store, where each request takes time."""
        return not self.fragment.files.store.is_local

    @property
    def start(self) -> int:
        """The offset of the first row in the data files."""
        return self.number * BATCH_ROWS

    @property
    def end(self) -> int:
        """The offset after the last row in the data files."""
        return min(self.start + BATCH_ROWS, self.fragment.physical_rows)

    def deleted(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the offsets of deleted rows, relative to the first row of the batch."""
        deleted = self.fragment.deleted
        first, last = np.searchsorted(deleted, (self.start, self.end))
        return (deleted[first:last] - self.start).astype(np.int64)

    def known_valid(self, fields: Sequence[Field]) -> list[bool]:
        """Tell which columns have no nulls at any depth, as far as page descriptions tell.

        Raises:
            LanceError: The metadata of a data file cannot be read.
        """
        return all_valid(self.fragment, fields, [(self.start, self.end)])

    def live_mask(self) -> Mask:
        """Return for each row, deleted ones included, whether it is live.

        Raises:
            LanceError: A deletion file cannot be read, or contradicts the manifest.
        """
        live = np.ones(self.end - self.start, np.bool_)
        if self.rows < len(live):
            live[self.deleted()] = False
        if np.count_nonzero(live) != self.rows:
            raise CorruptFile(
                f"fragment {self.fragment.fragment.id}: {np.count_nonzero(live)} rows from row "
                f"{self.start} on are not deleted; the manifest says {self.rows}"
            )
        return live


def joins(group: Sequence[Batch], batch: Batch, columns: int) -> bool:
    """Tell whether a batch is read together with the batches before it, to share requests.

    A group has about `AT_ONCE` bytes in the data files of a remote store, all columns being taken
    as equally large.

    Args:
        group: The batches of the group so far, possibly none.
        batch: The next batch.
        columns: Number of columns that are read.
    """
    fragment = batch.fragment
    if not group or not batch.is_remote or group[0].position != batch.position:
        return False
    size = sum(file.size or AT_ONCE for file in fragment.fragment.files)
    cells = max(1, fragment.physical_rows * len(fragment.fields))
    return (len(group) + 1) * BATCH_ROWS * columns * size <= AT_ONCE * cells


def read_joined(batches: Sequence[Batch], fields: Sequence[Field]) -> list[pa.Array]:
    """Decode columns of several batches in the same rounds of requests.

    Args:
        batches: At least one, ascending: batches of one fragment, or those of small fragments that
            are read as one (see `group_small`).
        fields: The columns, or outlines of them.

    Returns:
        The live rows of all batches as one array for each column, in the types that readers see.

    Raises:
        LanceError: They cannot be read.
    """
    if batches[0] is batches[-1]:
        return _read_rows(batches[0], fields, 0, batches[0].end - batches[0].start)
    if batches[0].position == batches[-1].position:
        read = batches[0].fragment.read(fields, _ranges(batches))
    else:
        run = FragmentRun([batch.fragment for batch in batches])
        read = run.read(fields, [(0, run.physical_rows)])
    arrays = [present(array, field) for array, field in zip(read, fields, strict=True)]
    if all(batch.rows == batch.end - batch.start for batch in batches):
        return arrays
    return filtered(arrays, np.concatenate([batch.live_mask() for batch in batches]))


def read_together(batches: Sequence[Batch], fields: Sequence[Field]) -> list[list[pa.Array]]:
    """Decode columns of several batches as `read_joined` does; return the columns of each batch.

    Args:
        batches: The batches.
        fields: The columns, or outlines of them.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    return split(read_joined(batches, fields), [batch.rows for batch in batches])


def read_in_parts(batch: Batch, fields: Sequence[Field]) -> list[list[pa.Array]]:
    """Decode columns of a batch in as few parts of rows as arrays can hold, mostly one.

    Args:
        batch: The batch.
        fields: The columns.

    Raises:
        ArrayTooLarge: The values of a single row do not fit.
        LanceError: They cannot be read.
    """

    def read(start: int, end: int) -> list[list[pa.Array]]:
        try:
            return [_read_rows(batch, fields, start, end)]
        except ArrayTooLarge:
            if end - start < 2:
                raise
        middle = (start + end) // 2
        return read(start, middle) + read(middle, end)

    return read(0, batch.end - batch.start)


def _read_rows(batch: Batch, fields: Sequence[Field], start: int, end: int) -> list[pa.Array]:
    """Decode columns of some rows of a batch, which count from its first one, deleted ones too."""
    rows = (batch.start + start, batch.start + end)
    read = batch.fragment.read(fields, [rows])
    arrays = [present(array, field) for array, field in zip(read, fields, strict=True)]
    if batch.rows == batch.end - batch.start:
        return arrays
    return filtered(arrays, batch.live_mask()[start:end])


def split(arrays: Sequence[pa.Array], rows: Sequence[int]) -> list[list[pa.Array]]:
    """Cut joined columns into those of each batch.

    Args:
        arrays: The columns.
        rows: Number of rows of each batch.
    """
    starts = accumulate(rows, initial=0)
    return [
        [array.slice(first, count) for array in arrays]
        for first, count in zip(starts, rows, strict=False)
    ]


def group_small(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """Group consecutive batches that are small fragments which can be read as one."""
    left = iter(batches)
    for source in in_runs((batch.fragment for batch in batches), BATCH_ROWS):
        yield list(islice(left, len(source.fragment_ids)))


def rows_together(rows: Ints) -> list[int]:
    """Return how many of successive batches are looked at together, as `group_small` may join them.

    Args:
        rows: Live rows of the batches.
    """
    counts, total = [0], 0
    for count in rows.tolist():
        total += count
        if counts[-1] and (total > BATCH_ROWS or counts[-1] == MAX_FRAGMENTS):
            counts.append(0)
            total = count
        counts[-1] += 1
    return counts if len(rows) else []


def _ranges(batches: Sequence[Batch]) -> list[RowRange]:
    """Return the row ranges of batches in the data files, adjacent ranges joined."""
    ranges: list[RowRange] = []
    for batch in batches:
        if ranges and ranges[-1][1] == batch.start:
            ranges[-1] = (ranges[-1][0], batch.end)
        else:
            ranges.append((batch.start, batch.end))
    return ranges


def batches_of(fragments: Iterable[FragmentReader]) -> Iterator[Batch]:
    """Yield the batches of fragments that have live rows.

    Raises:
        LanceError: The deleted rows could not be read.
        MemoryLimitExceeded: The rows are more than a view can be laid out for.
    """
    total = 0
    for position, fragment in enumerate(fragments):
        steps = -(-fragment.physical_rows // BATCH_ROWS)
        total += steps
        _check_count(total)
        rows = [fragment.num_rows] if steps == 1 else _live_rows(fragment, steps)
        for number, count in enumerate(rows):
            if count > 0:
                yield Batch(fragment, position, number, count)


class Batches(Sequence[Batch]):
    """The batches of fragments that have live rows; objects are made of those looked at.

    Args:
        fragments: Readers of the fragments.

    Attributes:
        fragments: For each batch the position of its fragment, of shape (batches,).
        numbers: For each batch its position among the batches of the fragment, empty ones counted.
        rows: For each batch the number of its live rows.

    Raises:
        LanceError: A deletion file cannot be read.
        MemoryLimitExceeded: The rows are more than a view can be laid out for.
    """

    def __init__(self, fragments: Sequence[FragmentReader]) -> None:
        self._readers = fragments
        self._used: dict[int, FragmentReader] = {}
        table = _table(fragments)
        self.fragments, self.numbers, self.rows = table[:, table[2] > 0]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...

    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        position = int(self.fragments[index])
        reader = self._used.get(position)
        if reader is None:
            if len(self._used) >= _USED:
                self._used.clear()
            reader = self._used[position] = self._reader(position)
        return Batch(reader, position, int(self.numbers[index]), int(self.rows[index]))

    def read_run(
        self, indices: Sequence[int], run: FragmentRun, fields: Sequence[Field]
    ) -> list[pa.Array]:
        """Decode columns of batches that `plain_run` joined, as `read_joined` does."""
        read = run.read(fields, [(0, run.physical_rows)])
        arrays = [present(array, field) for array, field in zip(read, fields, strict=True)]
        live = self.rows[list(indices)]
        if int(live.sum()) == run.physical_rows:
            return arrays
        kept = np.ones(run.physical_rows, np.bool_)
        kept[run.deleted] = False
        counts = np.add.reduceat(kept, run.first_rows[:-1], dtype=np.int64)
        for at in np.flatnonzero(counts != live).tolist():
            self[indices[at]].live_mask()  # raises the error
        return filtered(arrays, kept)

    def plain_run(self, indices: Sequence[int]) -> FragmentRun | None:
        """Return batches that are whole small fragments as one; see `fragment_run.plain_run`."""
        if not isinstance(self._readers, FragmentReaders) or not self._readers.are_many:
            return None
        positions = self.fragments[list(indices)]
        if len(positions) < 2 or (np.diff(positions) <= 0).any():
            return None
        readers = self._readers.picked(positions)
        counts = readers.row_counts
        if counts is None or counts[0].sum() > BATCH_ROWS:
            return None
        return plain_run(readers)

    @property
    def cost(self) -> int:
        """Memory in bytes that the batches and the readers looked at may take, about."""
        table: int = self.fragments.nbytes + self.numbers.nbytes + self.rows.nbytes
        return min(len(self), _USED) * _BATCH_BYTES + table

    def identities(self, indices: Sequence[int]) -> list[bytes]:
        """Return digests of everything that the rows of batches depend on.

        The digest of a fragment's message takes a tenth of the time of that of its parts.

        Args:
            indices: The batches.
        """
        fragments, numbers = self.fragments[indices].tolist(), self.numbers[indices].tolist()
        readers = self._readers
        if isinstance(readers, FragmentReaders):
            table = hashlib.sha256(readers.root.encode("utf-8", "surrogatepass"))
            digests = []
            for fragment in fragments:
                digest = table.copy()
                digest.update(readers.message_bytes(fragment))
                digests.append(digest.digest())
        else:
            digests = [_identity(self[index].fragment) for index in indices]
        return [
            digest + number.to_bytes(4, "little") if number else digest
            for digest, number in zip(digests, numbers, strict=True)
        ]

    def _reader(self, position: int) -> FragmentReader:
        readers = self._readers
        return (
            readers.passing(position) if isinstance(readers, FragmentReaders) else readers[position]
        )


def _identity(reader: FragmentReader) -> bytes:
    fragment, root = reader.fragment, reader.files.store.root
    data = fragment.files, fragment.deletion_file, fragment.overlays
    return hashlib.sha256(repr((root, *data, fragment.physical_rows)).encode()).digest()


def _table(readers: Sequence[FragmentReader]) -> Ints:
    """Return fragment, number and rows of each batch, empty ones included, of shape (3, batches).

    If the manifest has all counts, only large fragments with deleted rows are looked at.
    """
    counts = readers.row_counts if isinstance(readers, FragmentReaders) else None
    if counts is None:
        found = [(batch.position, batch.number, batch.rows) for batch in batches_of(readers)]
        return np.array(found, np.int64).reshape(-1, 3).T
    physical, deleted = counts
    steps = -(-physical // BATCH_ROWS)
    _check_count(int(steps.sum()))
    fragments = np.repeat(np.arange(len(physical)), steps)
    firsts = np.cumsum(steps) - steps
    numbers = np.arange(len(fragments)) - firsts[fragments]
    rows = np.minimum(physical[fragments] - numbers * BATCH_ROWS, BATCH_ROWS)
    is_small = steps == 1
    rows[firsts[is_small]] -= deleted[is_small]
    for position in np.flatnonzero(~is_small & (deleted > 0)).tolist():
        first, count = int(firsts[position]), int(steps[position])
        rows[first : first + count] = _live_rows(readers[position], count)
    return np.stack((fragments, numbers, rows))


def _check_count(batches: int) -> None:
    if batches > _MAX_BATCHES:
        raise MemoryLimitExceeded(
            f"a view of more than {_MAX_BATCHES * BATCH_ROWS:,} rows; read the table with "
            "lancefs.open, or its fragments one by one"
        )


def _live_rows(fragment: FragmentReader, steps: int) -> list[int]:
    """Return the number of live rows in each batch of a fragment, empty ones included."""
    gone = np.bincount(fragment.deleted // BATCH_ROWS, minlength=steps)
    sizes = np.full(steps, BATCH_ROWS)
    if steps:
        sizes[-1] = fragment.physical_rows - (steps - 1) * BATCH_ROWS
    rows: list[int] = (sizes - gone).tolist()
    return rows
