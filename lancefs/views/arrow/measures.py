"""The measures of a view's columns (see `shapes`), computed on demand.

The measures of a column are computed when they are asked for, batch by batch, from the cheapest
source that has them:

1. the metadata of a column without nulls, strings and lists: all measures are 0;
2. its outline (see `datafile.outlines`): lengths and nulls, without values;
3. its values.

What is computed is recorded in `known_measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice, pairwise
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import array_bytes
from lancefs.datafile.buffers import Mask
from lancefs.datafile.fields import Field
from lancefs.datafile.outlines import outline_of
from lancefs.errors import MemoryLimitExceeded
from lancefs.forks import Lock
from lancefs.scan.mapped_memory import MappedMemory
from lancefs.scan.settings import STREAM_MAPPED_BYTES
from lancefs.storage import SMALL_FILE
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.null_free import all_valid
from lancefs.threads import THREADS, in_threads
from lancefs.views.arrow.known_measures import KnownMeasures
from lancefs.views.arrow.shapes import Shape, measure, measure_flat, walk
from lancefs.views.view_batches import (
    Batch,
    Batches,
    group_small,
    joins,
    read_joined,
    rows_together,
    split,
)

# A column of a batch: sharer and table as in `view.Key`, identity of the batch, column as text.
ColumnKey: TypeAlias = tuple[str, str, bytes, str]

# Values of a column in one batch, which were read for their measures and may be read next. The
# budget is in bytes.
_ARRAYS: BudgetCache[ColumnKey, pa.Array] = BudgetCache(128 * 1024 * 1024)

# Number of columns that are read in one round of requests for their measures.
_COLUMNS_TOGETHER = 8
# Number of batches of small fragments that are read ahead, at most.
_MAX_TOGETHER = 64
# And at least: values of fewer batches are cached, so that all readers share them.
MIN_TOGETHER = 8
# Number of threads for a remote store, which mostly wait.
REQUESTS = 8

T = TypeVar("T")
R = TypeVar("R")


def forget(sharer: str) -> None:
    """Forget values that were read for their measures, which may lie in mapped files.

    Args:
        sharer: Identifies the readers that share them, as the first part of a key.
    """
    _ARRAYS.discard(lambda key: key[0] == sharer)


class Measures(KnownMeasures):
    """The measures of the columns of a view, computed where they are not known.

    Args:
        sharer: As for `KnownMeasures`.
        batches: The batches of the view.
        fields: The columns of the view.
        shapes: Shape of the type of each column.
    """

    def __init__(
        self,
        sharer: tuple[str, str],
        batches: Batches,
        fields: Sequence[Field],
        shapes: Sequence[Shape],
    ) -> None:
        super().__init__(sharer, batches, fields, shapes)
        self._mapped = MappedMemory(STREAM_MAPPED_BYTES)
        self._lock = Lock()

    def require_extents(self) -> None:
        """Compute the missing extents of all batches: the lengths of buffers depend on them.

        Raises:
            LanceError: A column cannot be read.
        """
        self._require(range(len(self.batches)), self.first_extents)

    def require_all(self, batches: Iterable[int]) -> None:
        """Compute the missing measures of some batches.

        Raises:
            LanceError: A column cannot be read.
        """
        self._require(batches, [0] * len(self.shapes))

    def read_and_measure(
        self, batches: Sequence[int], columns: Sequence[int], cache: bool = True
    ) -> list[list[pa.Array]]:
        """Read columns of batches of one fragment, and record their measures.

        Values that are in the cache are not read again.

        Args:
            batches: Positions of the batches, ascending.
            columns: Positions of the columns.
            cache: Whether to cache the values for other readers.

        Returns:
            For each batch its columns.

        Raises:
            LanceError: A column cannot be read, or its values contradict known measures.
        """
        self.look_up(np.array(batches, np.int64))
        arrays = {
            (batch, column): _ARRAYS.peek(self._array_key(column, batch))
            for batch in batches
            for column in columns
        }
        missing = [
            column for column in columns if any(arrays[batch, column] is None for batch in batches)
        ]
        if missing:
            read = self._read(batches, [self.fields[column] for column in missing])
            parts = split(read, self.batches.rows[list(batches)].tolist())
            for batch, values in zip(batches, parts, strict=True):
                arrays.update(zip(((batch, column) for column in missing), values, strict=True))
        new = set(missing)
        for (batch, column), array in arrays.items():
            # Cached values may come from another view, so that this one has no measures of them.
            if column in new or np.any(self.columns[column][batch] < 0):
                assert array is not None
                self._measure_all([batch], column, array)
                if cache:
                    _ARRAYS.put(self._array_key(column, batch), array, array_bytes(array))
        return [[arrays[batch, column] for column in columns] for batch in batches]

    def read_small(self, batches: Sequence[int], columns: Sequence[int]) -> list[pa.Array]:
        """Read columns of small fragments together, and record their measures; nothing is cached.

        Args:
            batches: Positions of the batches; see `small_group`.
            columns: Positions of the columns.

        Returns:
            The rows of all batches as one array for each column.

        Raises:
            LanceError: As `read_and_measure` does.
        """
        arrays = self._read(batches, [self.fields[column] for column in columns])
        for column, array in zip(columns, arrays, strict=True):
            self._measure_all(batches, column, array)
        return arrays

    def small_group(self, batch: int) -> list[int]:
        """Return a batch and those after it that are small fragments which can be read as one."""
        if self._is_remote:
            return [batch]
        following = range(batch, min(batch + _MAX_TOGETHER, len(self.batches)))
        following = following[: rows_together(self.batches.rows[following])[0]]
        if self.batches.plain_run(following) is not None:
            return list(following)
        group = next(group_small([self.batches[number] for number in following]))
        return list(following[: len(group)])

    def _read(self, batches: Sequence[int], fields: Sequence[Field]) -> list[pa.Array]:
        """Read columns or outlines of batches that `read_joined` takes."""
        run = self.batches.plain_run(batches)
        if run is not None:
            return self.batches.read_run(batches, run, fields)
        group = [self.batches[batch] for batch in batches]
        read = read_joined(group, fields)
        for _, same in groupby(group, lambda batch: batch.position):
            self._mapped.watch(next(same).fragment)
        return read

    def request_groups(self, batches: Iterable[int], columns: int) -> list[list[int]]:
        """Group batches that are read in the same rounds of requests.

        Args:
            batches: Positions of the batches, ascending.
            columns: Number of columns that are read.
        """
        groups: list[list[int]] = []
        for batch in batches:
            before = [self.batches[number] for number in groups[-1]] if groups else []
            if joins(before, self.batches[batch], columns):
                groups[-1].append(batch)
            else:
                groups.append([batch])
        return groups

    def group_by_fragment(self, batches: Iterable[int]) -> list[list[int]]:
        """Group batches, given in ascending order, by fragment."""
        listed = list(batches)
        if not listed:
            return []
        edges = np.flatnonzero(np.diff(self.batches.fragments[listed])) + 1
        return [listed[start:end] for start, end in pairwise([0, *edges.tolist(), len(listed)])]

    def _array_key(self, column: int, batch: int) -> ColumnKey:
        (identity,) = self.batches.identities([batch])
        return *self._sharer, identity, self._names[column]

    def _require(self, batches: Iterable[int], first: Sequence[int]) -> None:
        """Compute the missing measures of some batches.

        Args:
            batches: Positions of the batches, ascending.
            first: For each column the first of its measures that is needed.
        """
        with self._lock:  # threads that wait find the measures known
            missing: list[int] = self.unknown(batches, first).tolist()
            for group in self.group_by_fragment(missing):
                self._record_null_free_fragment(group, first)
            tasks = [
                (group, part)
                for same, columns in self._columns_to_read(missing, first)
                for group in self._groups_to_measure(same, columns)
                for part in self._parts(group, columns)
            ]
            try:
                others = [task for task in tasks if not self._compute_plain(*task)]
                self.in_threads(lambda task: self._compute(*task), others)
            finally:
                self.share()

    def _groups_to_measure(
        self, batches: Sequence[int], columns: Sequence[int]
    ) -> Iterable[Sequence[int]]:
        """Group batches whose measures are computed by one thread.

        Args:
            batches: Positions of the batches, ascending.
            columns: Columns to measure.
        """
        if self._is_remote:
            return self.request_groups(batches, min(len(columns), _COLUMNS_TOGETHER))
        left = iter(batches)
        counts = rows_together(self.batches.rows[batches])
        return [list(islice(left, count)) for count in counts]

    def _parts(self, batches: Sequence[int], columns: Sequence[int]) -> list[Sequence[int]]:
        """Return the columns to measure in parts that different threads may read."""
        if not self._is_remote and len(batches) >= MIN_TOGETHER:
            return [columns]  # of small files, which are read once
        starts = range(0, len(columns), _COLUMNS_TOGETHER)
        return [columns[start : start + _COLUMNS_TOGETHER] for start in starts]

    def _compute_plain(self, batches: Sequence[int], columns: Sequence[int]) -> bool:
        """Compute the measures of columns in batches that are read without readers, if they are.

        In one thread: several would wait for each other at each of the many calls of the system.
        """
        run = self.batches.plain_run(batches) if len(batches) >= MIN_TOGETHER else None
        if run is None:
            return False
        try:
            arrays = self.batches.read_run(batches, run, [self.fields[at] for at in columns])
        except MemoryLimitExceeded:  # outlines take less memory
            return False
        for column, array in zip(columns, arrays, strict=True):
            self._measure_all(batches, column, array)
        return True

    def _compute(self, batches: Sequence[int], columns: Sequence[int]) -> None:
        """Compute the measures of columns in batches, from outlines if possible.

        Values of small files are read quicker than their outlines.
        """
        if self._is_remote:
            self._compute_together(batches, columns)
            return
        left = iter(batches)
        for group in group_small([self.batches[batch] for batch in batches]):
            numbers = list(islice(left, len(group)))
            if len(group) >= MIN_TOGETHER and self._are_small(group):
                with suppress(MemoryLimitExceeded):  # outlines take less memory
                    self.read_small(numbers, columns)
                    continue
            for start in range(0, len(columns), _COLUMNS_TOGETHER):
                self._compute_together(numbers, columns[start : start + _COLUMNS_TOGETHER])

    def _compute_together(self, batches: Sequence[int], columns: Sequence[int]) -> None:
        """Compute the measures of columns in batches read together, from outlines if possible."""
        candidates = ((column, self._outline(batches[0], column)) for column in columns)
        outlines = {column: outline for column, outline in candidates if outline is not None}
        if outlines:
            arrays = self._read(batches, list(outlines.values()))
            for column, array in zip(outlines, arrays, strict=True):
                self._measure_all(batches, column, array)
        others = [column for column in columns if column not in outlines]
        if others:
            for group in self.group_by_fragment(batches):
                self.read_and_measure(group, others)

    def _are_small(self, batches: Sequence[Batch]) -> bool:
        """Whether batches are those of several fragments of small files."""
        if batches[0].position == batches[-1].position:
            return False
        files = [file for batch in batches for file in batch.fragment.fragment.files]
        return all(file.size is not None and file.size <= SMALL_FILE for file in files)

    def _measure_all(self, batches: Sequence[int], column: int, array: pa.Array) -> None:
        """Record the measures of a column in several batches, given all of its values or outline.

        Args:
            batches: Positions of the batches.
            column: Position of the column.
            array: The live rows of all batches.
        """
        shape, rows = self.shapes[column], self.batches.rows[list(batches)]
        if len(shape.nodes) == 1:
            self.record_all(batches, column, measure_flat(array, rows, shape))
            return
        parts = split([array], rows.tolist())
        measures = [measure(list(walk(part, hidden=True)), shape) for (part,) in parts]
        self.record_all(batches, column, np.stack(measures))

    def in_threads(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item in threads; use more threads for a remote store."""
        return in_threads(work, items, REQUESTS if self._is_remote else THREADS, "lancefs-layout")

    @property
    def _is_remote(self) -> bool:
        return any(batch.is_remote for batch in self.batches[:1])

    def _columns_to_read(
        self, batches: Sequence[int], first: Sequence[int]
    ) -> Iterator[tuple[Sequence[int], list[int]]]:
        """Find the columns whose missing measures do not follow from metadata.

        Args:
            batches: Positions of the batches that lack measures, ascending.
            first: For each column the first of its measures that is needed.

        Yields:
            Batches that follow each other and lack the same columns, and these columns.
        """
        if not batches:
            return
        pairs = zip(self.columns, first, strict=True)
        lacks = np.stack([(known[batches, low:] < 0).any(axis=1) for known, low in pairs], axis=1)
        is_fixed = np.array([not shape.num_extents for shape in self.shapes])
        asked: list[int] = np.flatnonzero((lacks & is_fixed).any(axis=1)).tolist()
        self.in_threads(lambda at: self._record_null_free(batches[at], lacks[at]), asked)
        edges = np.flatnonzero((lacks[1:] != lacks[:-1]).any(axis=1)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(batches)]):
            columns: list[int] = np.flatnonzero(lacks[start]).tolist()
            if columns:
                yield batches[start:end], columns

    def _record_null_free_fragment(self, batches: Sequence[int], first: Sequence[int]) -> None:
        """Record the columns without nulls in a whole fragment, for several batches at once."""
        if len(batches) == 1:
            return
        fixed_width = [
            column
            for column, known in enumerate(self.columns)
            if not self.shapes[column].num_extents and np.any(known[batches, first[column] :] < 0)
        ]
        if not fixed_width:
            return
        fragment = self.batches[batches[0]].fragment
        rows = [(0, fragment.physical_rows)]
        are_valid = all_valid(fragment, [self.fields[column] for column in fixed_width], rows)
        for column, is_valid in zip(fixed_width, are_valid, strict=True):
            if is_valid:
                self._record_zeros(batches, column)

    def _record_null_free(self, batch: int, lacks: Mask) -> None:
        """Record columns without nulls, strings and lists in a batch.

        Args:
            batch: Position of the batch.
            lacks: For each column whether it lacks measures; set to False where it is recorded.
        """
        lacking: list[int] = np.flatnonzero(lacks).tolist()
        fixed_width = [column for column in lacking if not self.shapes[column].num_extents]
        are_valid = self.batches[batch].known_valid([self.fields[column] for column in fixed_width])
        for column, is_valid in zip(fixed_width, are_valid, strict=True):
            if is_valid:
                self._record_zeros([batch], column)
                lacks[column] = False

    def _record_zeros(self, batches: Sequence[int], column: int) -> None:
        zeros = np.zeros((len(batches), self.shapes[column].num_measures), np.int64)
        self.record_all(batches, column, zeros)

    def _outline(self, batch: int, column: int) -> Field | None:
        """Return the outline of a column to measure; None to measure its values.

        The values are read, too, if the column has no strings and lists, the table is remote, and
        its files store nulls with the values: a reader that needs the message of a batch mostly
        reads the values next, and an outline would not fetch fewer bytes.
        """
        is_remote = self.batches[batch].is_remote
        if is_remote and not self.shapes[column].num_extents:
            files = self.batches[batch].fragment.fragment.files
            if any(not file.has_nulls_apart for file in files):
                return None
        return outline_of(self.fields[column])
