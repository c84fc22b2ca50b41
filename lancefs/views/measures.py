"""What a view must know of its values before it can be laid out, found out once a fragment.

The measures of a column (see `shapes`) are found out when they are asked for, batch by batch, and
remembered by fragment: versions that share a fragment share what is known of it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile
from lancefs.scan import THREADS
from lancefs.table.fragment_reader import FragmentReader
from lancefs.views.cache import BudgetCache
from lancefs.views.shapes import Numbers, Shape, measure, walk
from lancefs.views.source import BATCH_ROWS, Batch

# Who may share, and the table, as in `view.Key`; the fragment; the column.
CellKey: TypeAlias = tuple[str, str, str, Field]

_KNOWN: BudgetCache[CellKey, Numbers] = BudgetCache(64 * 1024 * 1024)
# Arrays that were read to measure them, and may be wanted next.
_READ: BudgetCache[tuple[CellKey, int], pa.Array] = BudgetCache(128 * 1024 * 1024)

# Columns that are read together to measure them.
_TOGETHER = 8


class Measures:
    """The measures of the columns of a view, as far as they are known.

    Args:
        sharer: Who may share them: the store, its credentials, the rules; and the table.
        batches: The batches of the view.
        fields: Its columns.
        shapes: Of their types.
    """

    def __init__(
        self,
        sharer: tuple[str, str],
        batches: Sequence[Batch],
        fields: Sequence[Field],
        shapes: Sequence[Shape],
    ) -> None:
        self.batches = batches
        self.fields = fields
        self.shapes = shapes
        self._sharer = sharer
        self._identities: dict[int, str] = {}
        self._lock = threading.Lock()
        # Unknown ones are below zero.
        self.columns = [self._gathered(column) for column in range(len(fields))]

    @property
    def rows(self) -> Numbers:
        """Of each batch."""
        return np.array([batch.rows for batch in self.batches], np.int64)

    def require_extents(self) -> None:
        """Find out what the lengths of buffers depend on, in all batches.

        Raises:
            LanceError: What must be read for it cannot be read.
        """
        self._require(range(len(self.batches)), [len(shape.nodes) for shape in self.shapes])

    def require_all(self, batches: Iterable[int]) -> None:
        """Find out all measures of some batches; raises as `require_extents` does."""
        self._require(batches, [0] * len(self.shapes))

    def null_counts(self, batch: int) -> Numbers:
        """Return the null counts of all nodes of a batch, where they are known."""
        return np.concatenate(
            [np.empty(0, np.int64)]
            + [
                column[batch, : len(shape.nodes)]
                for column, shape in zip(self.columns, self.shapes, strict=True)
            ]
        )

    @property
    def is_laid_out(self) -> bool:
        """Whether all is known that the lengths of buffers depend on."""
        pairs = zip(self.columns, self.shapes, strict=True)
        return not any(np.any(column[:, len(shape.nodes) :] < 0) for column, shape in pairs)

    @property
    def is_complete(self) -> bool:
        """Whether all of them are known."""
        return not any(np.any(column < 0) for column in self.columns)

    def is_known(self, batch: int) -> bool:
        """Whether all of a batch are known."""
        return not any(np.any(column[batch] < 0) for column in self.columns)

    def read(self, batch: int, columns: Sequence[int]) -> list[pa.Array]:
        """Read columns of a batch, and remember their measures.

        Args:
            batch: Which one.
            columns: Positions of the columns.

        Raises:
            LanceError: They cannot be read.
        """
        found = {column: _READ.peek(self._place(column, batch)) for column in columns}
        wanted = [column for column, array in found.items() if array is None]
        if wanted:
            fields = [self.fields[column] for column in wanted]
            found.update(zip(wanted, self.batches[batch].read(fields), strict=True))
        for column in wanted:
            array, shape = found[column], self.shapes[column]
            self.note(batch, column, measure(list(walk(array)), shape))
        return [found[column] for column in columns]

    def note(self, batch: int, column: int, found: Numbers) -> None:
        """Remember measures of a column in a batch; those below zero are unknown.

        Raises:
            CorruptFile: They were others before.
        """
        shared = self._shared(column, batch)[self.batches[batch].number]
        for known in (self.columns[column][batch], shared):
            if np.any((known != found) & (known >= 0) & (found >= 0)):
                raise CorruptFile(
                    f"fragment {self.batches[batch].fragment.fragment.id}, "
                    f"{self.fields[column].name}: the values are not those that the file was laid "
                    "out for; a data file, or what the layout cache keeps of it, was changed"
                )
            np.copyto(known, found, where=found >= 0)

    def note_all(self, column: int, found: Numbers) -> None:
        """Remember measures of a column in all batches, where they are not known yet.

        Args:
            column: Its position.
            found: Those below zero are unknown.
        """
        np.copyto(self.columns[column], found, where=self.columns[column] < 0)

    def key(self, column: int, batch: int) -> CellKey:
        """Return what tells a column of a batch from all others, but the number of the batch."""
        fragment = self.batches[batch].fragment
        identity = self._identities.get(id(fragment))
        if identity is None:
            identity = self._identities[id(fragment)] = _identity(fragment)
        return *self._sharer, identity, self.fields[column]

    def _place(self, column: int, batch: int) -> tuple[CellKey, int]:
        return self.key(column, batch), self.batches[batch].number

    def _gathered(self, column: int) -> Numbers:
        """What is known of a column, of all batches."""
        parts = [np.empty((0, self.shapes[column].measures), np.int64)]
        first = 0
        for _, group in groupby(self.batches, lambda batch: id(batch.fragment)):
            numbers = [batch.number for batch in group]
            parts.append(self._shared(column, first)[numbers])
            first += len(numbers)
        return np.concatenate(parts)

    def _shared(self, column: int, batch: int) -> Numbers:
        """What all views know of a column in the fragment of a batch, of all its steps."""
        steps = -(-self.batches[batch].fragment.physical_rows // BATCH_ROWS)
        shape = steps, self.shapes[column].measures
        return _KNOWN.get(
            self.key(column, batch),
            lambda: np.full(shape, -1, np.int64),
            lambda table: table.nbytes + 500,
        )

    def _require(self, batches: Iterable[int], first: Sequence[int]) -> None:
        """Find out the measures from the first ones given on."""
        with self._lock:  # whoever waits finds all of it known
            tasks = []
            for batch in batches:
                unknown = [
                    column
                    for column, known in enumerate(self.columns)
                    if np.any(known[batch, first[column] :] < 0)
                ]
                unknown = self._without_valid(batch, unknown)
                starts = range(0, len(unknown), _TOGETHER)
                tasks += [(batch, unknown[start : start + _TOGETHER]) for start in starts]
            if len(tasks) > 1:
                with ThreadPoolExecutor(THREADS, thread_name_prefix="lancefs-layout") as pool:
                    list(pool.map(lambda task: self._measure(*task), tasks))
            else:
                for task in tasks:
                    self._measure(*task)

    def _without_valid(self, batch: int, columns: Sequence[int]) -> list[int]:
        """Note columns whose measures follow from their having no nulls; return the others."""
        free = [column for column in columns if not self.shapes[column].extents]
        valid = self.batches[batch].known_valid([self.fields[column] for column in free])
        done = {column for column, answer in zip(free, valid, strict=True) if answer}
        for column in done:
            self.note(batch, column, np.zeros(self.shapes[column].measures, np.int64))
        return [column for column in columns if column not in done]

    def _measure(self, batch: int, columns: Sequence[int]) -> None:
        arrays = self.read(batch, columns)
        for column, array in zip(columns, arrays, strict=True):
            if self.shapes[column].dictionaries:
                continue
            _READ.put(self._place(column, batch), array, array.get_total_buffer_size())


def _identity(reader: FragmentReader) -> str:
    """A digest of what the rows of a fragment depend on."""
    one = reader.fragment
    where = reader.files.store.root
    parts = (where, one.files, one.deletion_file, one.overlays, one.physical_rows)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
