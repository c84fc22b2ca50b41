"""Planning and running a scan: which rows, which columns, in batches.

A scan goes through the fragments in the order of the manifest, in steps of so many rows: few at
first, so that whoever wants little waits for little, then as many as a budget of bytes allows,
since every step costs some time for each column. Where rows are long, whoever reads a step reads
its beginning only, and the rest is the next step. Steps are read ahead by a few threads and come
out in order; there are never more of them in memory than threads, plus the one in the consumer's
hands. Only of a remote table, whose small fragments are mostly waited for, more are under way, as
long as they have no more rows than so many long ones. Rows that a filter names by their ids or
addresses are looked up, and steps without such rows left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Blobs, Field
from lancefs.scan.mapped_memory import STREAM_BYTES, Mapped
from lancefs.scan.morsel_reader import StepReader
from lancefs.scan.morsels import Pace, Read, Readers, Step
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun, in_runs, runs_with
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID
from lancefs.threads import THREADS, handed_to

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.scan.conditions import Condition
    from lancefs.table.row_index import RowIndex

_One = TypeVar("_One")
_Result = TypeVar("_Result")

BATCH_ROWS = 64 * 1024
# A batch with the bytes of blobs has fewer: each of them may be megabytes.
BLOB_BATCH_ROWS = 256
# Seconds for which a scan reads without threads: little is read before these would be of use.
AT_ONCE = 0.01
# Small steps, or fragments that rows are taken from, of a remote table that are under way at once.
_WAITING = 32
# Bytes of a step of a stream, of which with two threads five are in memory: two that are read, what
# reading them takes, and the one that is consumed; and of a step where all rows are kept anyway.
STEP_BYTES = 64 * 1024 * 1024 // 5
_TABLE_BYTES = 192 * 1024 * 1024
# Rows of small fragments that are read together where all rows are kept; of a stream, a batch.
_TABLE_ROWS = 256 * 1024
# The blocks of so few columns, lists and filters apart, are of few sizes: Arrow's allocator uses
# them again, quicker than the system's.
_ALIKE_COLUMNS = 2
# A step with so many times fewer bytes than one before it leaves memory free for others.
_UNEVEN = 2


@dataclass(frozen=True)
class Scan:
    """What to read.

    Attributes:
        fragments: Readers of the fragments, in scan order.
        fields: The columns to return, in order.
        filter: Rows to return; all where it is None.
        filter_fields: The columns that the filter reads.
        batch_rows: At most this many rows a batch.
        limit: At most this many rows in all; None for no limit.
        offset: Rows, among those that the filter keeps, to pass over first.
        index: Knows which rows rows are; without it, there are no columns of row metadata.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        is_kept: Whether the consumer keeps all batches; then they are as long as it is quickest.
        encoded: The ids of string columns that come dictionary-encoded.
    """

    fragments: Sequence[FragmentReader]
    fields: tuple[Field, ...]
    filter: Condition | None = None
    filter_fields: tuple[Field, ...] = ()
    batch_rows: int = BATCH_ROWS
    limit: int | None = None
    offset: int = 0
    index: RowIndex | None = None
    blobs: Blobs = "descriptors"
    is_kept: bool = False
    encoded: frozenset[int] = frozenset()

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order; batches are not empty.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        left = self.limit
        if left is not None and self.filter is None and self._is_short():
            yield from self.pick(np.arange(self.offset, self.offset + left))
            return
        fragments, first, skip = self._from_offset()
        budget = _TABLE_BYTES if self.is_kept else STEP_BYTES
        pace = Pace(self.batch_rows, budget, len(self.fields) + len(self.filter_fields))
        steps = self._steps(fragments, first, pace)
        if left == 0:
            return
        reads = self._in_turn(steps, pace) if self._is_short() else self._ahead(steps, pace)
        for batch in self._cut(reads if self.is_kept else _giving_back(reads)):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            batch, skip = batch.slice(skip), 0
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch
            if left == 0:
                return

    def pick(self, rows: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the rows at given positions, of a scan without filter, offset and limit.

        Args:
            rows: Positions among the rows of the scan, ascending, each once.
        """
        yield from self.at(self._each(_with_offsets, self._found(rows)))

    def at(self, wanted: Iterable[tuple[FragmentReader, Ints]]) -> Iterator[pa.RecordBatch]:
        """Yield rows of fragments, whatever filter, offset and limit say.

        Args:
            wanted: Fragments, each with the offsets of rows of it, ascending, each once; they must
                not be deleted.
        """
        runs = runs_with(wanted, self.batch_rows)
        yield from self._each(lambda one: self._reader.at(*one), runs)

    def _each(self, do: Callable[[_One], _Result], wanted: Iterable[_One]) -> Iterator[_Result]:
        """Yield what is done with each of some fragments, of which few are open at a time.

        Those of a remote table are waited for together.
        """
        left = iter(wanted)
        first = list(islice(left, 2))
        if len(first) < 2 or self.fragments[0].is_local:
            yield from map(do, chain(first, left))
            return
        with ThreadPoolExecutor(_WAITING, "lancefs-take") as pool:
            ahead = islice(left, _WAITING - len(first))
            pending = deque(handed_to(pool, do, one) for one in chain(first, ahead))
            while pending:
                yield pending.popleft()()
                pending.extend(handed_to(pool, do, one) for one in islice(left, 1))

    def _found(self, rows: Ints) -> Iterator[tuple[FragmentReader, Ints]]:
        """Yield the fragments with rows at given positions, and these as positions in each."""
        first = start = 0
        for fragment in self.fragments:
            if start == len(rows):
                return
            end = int(np.searchsorted(rows, first + fragment.num_rows))
            if start < end:
                yield fragment, rows[start:end] - first
            first, start = first + fragment.num_rows, end

    @cached_property
    def _reader(self) -> StepReader:
        return StepReader(
            self.fields,
            self.filter,
            self.filter_fields,
            self.index,
            self.blobs,
            self.encoded,
            is_kept=self.is_kept,
            gives_back=not (self.is_kept or self._is_short()),
            mapped=Mapped(_TABLE_BYTES if self.is_kept else STREAM_BYTES),
        )

    def _is_short(self) -> bool:
        """Whether so few rows are wanted that reading ahead would be wasted."""
        passed_over = 0 if self.filter is None else self.offset
        return self.limit is not None and passed_over + self.limit <= self.batch_rows

    def _from_offset(self) -> tuple[Sequence[FragmentReader], int, int]:
        """Leave out the rows that `offset` passes over; a filter must see them all.

        Returns:
            The fragments that are left, the offset of the row to begin with in the first of them,
            and how many rows are still to be passed over.
        """
        skip = self.offset
        if self.filter is not None:
            return self.fragments, 0, skip
        for position, fragment in enumerate(self.fragments):
            if skip < fragment.num_rows:
                # From its beginning steps are cut where they are without `offset`, also where the
                # first rows are deleted.
                first = int(fragment.offsets(np.array([skip]))[0]) if skip else 0
                return self.fragments[position:], first, 0
            skip -= fragment.num_rows
        return (), 0, 0

    def _steps(self, fragments: Iterable[FragmentReader], first: int, pace: Pace) -> Iterator[Step]:
        """Yield steps, from an offset in the first of the fragments on."""
        for fragment, within in self._sources(fragments):
            total = 0 if within == [] else fragment.physical_rows
            yield from pace.parts(Step(fragment, min(first, total), total, within))
            first = 0

    def _sources(
        self, fragments: Iterable[FragmentReader]
    ) -> Iterator[tuple[FragmentReader | FragmentRun, Sequence[RowRange] | None]]:
        """Yield what to read, and where in it rows lie that may be wanted; None: anywhere.

        Small fragments are read together, but for the first one: it may be all that is wanted.
        """
        candidates = self._candidates()
        if candidates is None:
            left = iter(fragments)
            most_rows = max(self.batch_rows, _TABLE_ROWS) if self.is_kept else self.batch_rows
            together = in_runs(left, most_rows)
            yield from ((one, None) for one in chain(islice(left, 1), together))
            return
        for fragment in fragments:
            yield fragment, candidates.get(fragment.fragment.id, [])

    def _candidates(self) -> Mapping[int, Sequence[RowRange]] | None:
        """Return where rows lie that the filter may keep, by fragment id; None: anywhere."""
        if self.filter is None or self.index is None:
            return None
        from lancefs.scan import expressions

        read = {field.id for field in self.filter_fields}
        for field, find in (
            (ROW_ID, self.index.ranges_of_ids),
            (ROW_ADDRESS, self.index.ranges_of_addresses),
        ):
            if field.id in read:
                values = expressions.values_of(self.filter.expression, field.name)
                if values is not None:
                    return find(values)
        return None

    def _in_turn(self, steps: Iterable[Step], pace: Pace) -> Iterator[Read]:
        """Read steps one by one."""
        for step in steps:
            while step.rows:
                yield (read := self._reader.read(step, pace))
                step = step._replace(start=read.step.end)

    def _ahead(self, steps: Iterator[Step], pace: Pace) -> Iterator[Read]:
        """Read steps in threads, and choose how long the next ones are."""
        for read in self._in_threads(steps, pace):
            pace.learn(read)
            yield read

    def _in_threads(self, steps: Iterator[Step], pace: Pace) -> Iterator[Read]:
        """Read steps in threads, in order; closing the generator stops the readers."""
        left = yield from self._at_once(steps, pace)
        first = next(left, None)
        if first is None:
            return
        is_local, read_step = first.fragment.is_local, partial(self._reader.read, pace=pace)
        with Readers(
            read_step, THREADS if is_local else _WAITING, self._spares_memory()
        ) as readers:
            for step in chain([first], left):
                is_tiny = pace.is_tiny(step) or isinstance(step.fragment, FragmentRun)
                readers.submit(step, is_tiny and is_local)
                while len(readers) > THREADS and (
                    is_local or len(readers) >= _WAITING or readers.rows > THREADS * pace.rows
                ):
                    yield readers.next()
            while len(readers):
                yield readers.next()

    def _at_once(self, steps: Iterator[Step], pace: Pace) -> Generator[Read, None, Iterator[Step]]:
        """Read steps without threads, as long as that is sooner done than threads are of use.

        The first one is read in any case: it may be all that is wanted.

        Returns:
            The steps that are left.
        """
        spent = a_row = 0.0
        while (step := next(steps, None)) is not None:
            if spent + a_row * step.rows > AT_ONCE:
                return chain([step], steps)
            started = perf_counter()
            read = self._reader.read(step, pace)
            seconds = perf_counter() - started
            yield read
            if read.step.end < step.end:
                steps = chain(pace.parts(step._replace(start=read.step.end)), steps)
            if not step.fragment.is_local:
                break
            spent, a_row = spent + seconds, seconds / read.step.rows
        return steps

    def _spares_memory(self) -> bool:
        """Whether threads take memory that is given back at once; see `spare_memory`."""
        are_alike = self.filter is None and len(self.fields) <= _ALIKE_COLUMNS
        return not (self.is_kept or (are_alike and not any(one.children for one in self.fields)))

    def _cut(self, reads: Iterable[Read]) -> Iterator[pa.RecordBatch]:
        """Cut steps into batches, which then are the same however long steps are.

        What a filter leaves of a step stays together where it is no more than a batch.
        """
        for read in reads:
            batch, rows = read.batch, self.batch_rows
            is_small = read.step.rows <= rows or (self.filter is not None and len(batch) <= rows)
            if not batch.num_rows:
                continue
            if is_small or self.is_kept:
                yield batch
                continue
            done = 0
            for start in range(0, read.step.rows, rows):
                length = min(rows, read.step.rows - start)
                if read.kept is not None:
                    length = int(np.count_nonzero(read.kept[start : start + rows]))
                if length:
                    yield batch.slice(done, length)
                done += length


def _giving_back(reads: Iterable[Read]) -> Iterator[Read]:
    """Give memory back that reads no longer need.

    Reads that are alike take the memory of those before them. Where they are not, Arrow's allocator
    would keep more and more of it that does not fit.
    """
    pool, largest, are_alike = pa.default_memory_pool(), 0, True
    for read in reads:
        yield read
        if _UNEVEN * read.size < largest:
            pool.release_unused()
            largest, are_alike = 0, False
        largest = max(largest, read.size)
    if not are_alike:
        pool.release_unused()


def _with_offsets(one: tuple[FragmentReader, Ints]) -> tuple[FragmentReader, Ints]:
    """Return a fragment, and positions among the rows that a reader sees as offsets."""
    fragment, rows = one
    return fragment, fragment.offsets(rows)
