"""What a view must know of its values before it can be laid out, found out once a fragment.

The measures of a column (see `shapes`) are found out when they are asked for, batch by batch, and
remembered by fragment: versions that share a fragment share what is known of it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.datafile.outlines import outline_of
from lancefs.errors import CorruptFile
from lancefs.scan.mapped_memory import STREAM_BYTES, Mapped
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.null_free import all_valid
from lancefs.threads import THREADS, in_threads
from lancefs.views.arrow.shapes import Numbers, Shape, measure, walk
from lancefs.views.view_batches import BATCH_ROWS, Batch, joins, read_together

# Who may share, and the table, as in `view.Key`; the fragment; the column.
CellKey: TypeAlias = tuple[str, str, str, Field]

_KNOWN: BudgetCache[CellKey, Numbers] = BudgetCache(64 * 1024 * 1024)
# Arrays that were read to measure them, and may be wanted next.
_READ: BudgetCache[tuple[CellKey, int], pa.Array] = BudgetCache(128 * 1024 * 1024)

# Columns that are read together to measure them.
_TOGETHER = 8
# Threads that wait for a remote store.
REQUESTS = 8

T = TypeVar("T")
R = TypeVar("R")


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
        self._mapped = Mapped(STREAM_BYTES)
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

    def read_together(
        self, batches: Sequence[int], columns: Sequence[int], keep: bool = True
    ) -> list[list[pa.Array]]:
        """Read columns of batches of one fragment, and remember their measures.

        Args:
            batches: Which ones, ascending.
            columns: Positions of the columns.
            keep: Whether they may be wanted again, by another reader.

        Returns:
            The columns of each batch.

        Raises:
            LanceError: They cannot be read.
        """
        found = {
            (batch, column): _READ.peek(self._place(column, batch))
            for batch in batches
            for column in columns
        }
        wanted = [one for one in columns if any(found[batch, one] is None for batch in batches)]
        if wanted:
            read = self._read(batches, [self.fields[column] for column in wanted])
            for batch, arrays in zip(batches, read, strict=True):
                found.update(zip(((batch, column) for column in wanted), arrays, strict=True))
        new = set(wanted)
        for (batch, column), array in found.items():
            # Also of arrays that another view has read: it may have done so just now.
            if column in new or np.any(self.columns[column][batch] < 0):
                assert array is not None
                self._measure(batch, column, array)
                if keep:
                    _READ.put(self._place(column, batch), array, array.nbytes)
        return [[found[batch, column] for column in columns] for batch in batches]

    def _read(self, batches: Sequence[int], fields: Sequence[Field]) -> list[list[pa.Array]]:
        """Read fields of batches of one fragment."""
        group = [self.batches[batch] for batch in batches]
        read = read_together(group, fields)
        self._mapped.watch(group[0].fragment)
        return read

    def spans(self, batches: Iterable[int], columns: int) -> list[list[int]]:
        """Group batches that are read together.

        Args:
            batches: Which ones, ascending.
            columns: How many columns are read.
        """
        groups: list[list[int]] = []
        for batch in batches:
            group = [self.batches[one] for one in groups[-1]] if groups else []
            if joins(group, self.batches[batch], columns):
                groups[-1].append(batch)
            else:
                groups.append([batch])
        return groups

    def by_fragment(self, batches: Iterable[int]) -> list[list[int]]:
        """Group batches, which are ascending, by their fragments."""
        groups = groupby(batches, lambda batch: id(self.batches[batch].fragment))
        return [list(group) for _, group in groups]

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
            batches = list(batches)
            for together in self.by_fragment(batches):
                self._note_valid(together, first)
            unknown = self.in_threads(lambda batch: self._unknown(batch, first), batches)
            tasks = []
            pairs = zip(batches, unknown, strict=True)
            for columns, group in groupby(pairs, lambda pair: pair[1]):
                spans = self.spans((one for one, _ in group), min(len(columns), _TOGETHER))
                starts = range(0, len(columns), _TOGETHER)
                tasks += [(span, columns[a : a + _TOGETHER]) for span in spans for a in starts]
            self.in_threads(lambda task: self._find_out(*task), tasks)

    def _find_out(self, batches: Sequence[int], columns: Sequence[int]) -> None:
        """Find out the measures of columns in batches of one fragment, by outlines where it can."""
        outlines = {one: self._outline(batches[0], one) for one in columns}
        told = {one: outline for one, outline in outlines.items() if outline is not None}
        if told:
            read = self._read(batches, list(told.values()))
            for batch, arrays in zip(batches, read, strict=True):
                for column, array in zip(told, arrays, strict=True):
                    self._measure(batch, column, array)
        left = [one for one in columns if one not in told]
        if left:
            self.read_together(batches, left)

    def _measure(self, batch: int, column: int, array: pa.Array) -> None:
        """Remember the measures of a column in a batch, which it or its outline tells."""
        self.note(batch, column, measure(list(walk(array, hidden=True)), self.shapes[column]))

    def in_threads(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do something for each item, several at a time; more of them where that means waiting."""
        is_remote = any(batch.is_remote for batch in self.batches[:1])
        return in_threads(work, items, REQUESTS if is_remote else THREADS, "lancefs-layout")

    def _unknown(self, batch: int, first: Sequence[int]) -> list[int]:
        """Return the columns of a batch that must be read to know their measures."""
        unknown = [
            column
            for column, known in enumerate(self.columns)
            if np.any(known[batch, first[column] :] < 0)
        ]
        return self._without_valid(batch, unknown) if unknown else []

    def _note_valid(self, batches: Sequence[int], first: Sequence[int]) -> None:
        """Note columns that have no nulls in all of a fragment: most, and all batches at once."""
        free = [
            column
            for column, known in enumerate(self.columns)
            if not self.shapes[column].extents and np.any(known[batches, first[column] :] < 0)
        ]
        if len(batches) == 1 or not free:
            return
        fragment = self.batches[batches[0]].fragment
        rows = [(0, fragment.physical_rows)]
        valid = all_valid(fragment, [self.fields[column] for column in free], rows)
        for column, answer in zip(free, valid, strict=True):
            for batch in batches if answer else ():
                self.note(batch, column, np.zeros(self.shapes[column].measures, np.int64))

    def _without_valid(self, batch: int, columns: Sequence[int]) -> list[int]:
        """Note columns whose measures follow from their having no nulls; return the others."""
        free = [column for column in columns if not self.shapes[column].extents]
        valid = self.batches[batch].known_valid([self.fields[column] for column in free])
        done = {column for column, answer in zip(free, valid, strict=True) if answer}
        for column in done:
            self.note(batch, column, np.zeros(self.shapes[column].measures, np.int64))
        return [column for column in columns if column not in done]

    def _outline(self, batch: int, column: int) -> Field | None:
        """Return the outline that tells the measures of a column; None where its values must.

        They also do where no lengths are to be known of a remote table, and nulls come with the
        values: who asks for a message mostly asks for values next.
        """
        one = self.batches[batch]
        waits = one.is_remote and not self.shapes[column].extents
        if waits and not all(file.has_nulls_apart for file in one.fragment.fragment.files):
            return None
        return outline_of(self.fields[column])


def _identity(reader: FragmentReader) -> str:
    """A digest of what the rows of a fragment depend on."""
    one = reader.fragment
    where = reader.files.store.root
    parts = (where, one.files, one.deletion_file, one.overlays, one.physical_rows)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
