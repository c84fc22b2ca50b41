"""Planning and running a scan: which rows, which columns, in batches.

A scan goes through the fragments in the order of the manifest, in steps of so many rows: few at
first, so that whoever wants little waits for little, then as many as a budget of bytes allows,
since every step costs some time for each column. Where rows are long, whoever reads a step reads
its beginning only, and the rest is the next step. In each step the columns that the filter reads
come first, and the others only for rows that are left. Steps are read ahead by a few threads and
come out in order; there are never more of them in memory than threads, plus the one in the
consumer's hands. Only of a remote table, whose small fragments are mostly waited for, more are
under way, as long as they have no more rows than so many long ones. Rows that a filter names by
their ids or addresses are looked up, and steps without such rows left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import spelled_out, without_columns
from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.pages import join_arrays
from lancefs.datafile.row_ranges import RowRanges, as_ranges, count_rows
from lancefs.datafile.selection import filtered
from lancefs.steps import THREADS, Pace, Read, Readers, Step, decoded_bytes
from lancefs.table import dictionaries
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun, in_runs
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID, is_row_metadata

if TYPE_CHECKING:
    from lancefs.conditions import Condition
    from lancefs.table.roaring import Offsets
    from lancefs.table.row_index import RowIndex

BATCH_ROWS = 64 * 1024
# A batch with the bytes of blobs has fewer: each of them may be megabytes.
BLOB_BATCH_ROWS = 256
# Small steps of a remote table that are under way at the same time.
_WAITING = 32
# Bytes of a step of a stream, of which with two threads five are in memory: two that are read, what
# reading them takes, and the one that is consumed; and of a step where all rows are kept anyway.
STEP_BYTES = 64 * 1024 * 1024 // 5
_TABLE_BYTES = 192 * 1024 * 1024
# A stream gives mapped bytes of files back once so many were decoded; to map them anew takes time.
_MAPPED_BYTES = 8 * 1024 * 1024
# And once so many columns were: to read a little of one may map a megabyte.
_MAPPED_COLUMNS = 32
# The blocks of so few columns, lists and filters apart, are of few sizes: Arrow's allocator uses
# them again, quicker than the system's.
_ALIKE_COLUMNS = 2
# A stream keeps some rows of a quarter of the columns at a time, but of no fewer than so many.
_LEAST_COLUMNS = 8
# Where a filter leaves fewer rows than this share, only those are read of the other columns, unless
# they are scattered: a run of rows costs about as much as so many rows that are read with others.
_SPARSE = 1 / 16
_ROWS_A_RUN = 32
# With fewer rows it is quicker to look the values of all up than to ask where that is needless.
_MANY_ROWS = 32 * 1024


@dataclass(frozen=True, slots=True)
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
    _schemas: dict[tuple[int | bool, ...], pa.Schema] = attribute(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _dictionaries: dict[tuple[int, ...], frozenset[int]] = attribute(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._schema(self.fields)

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
        for batch in self._cut(
            self._in_turn(steps, pace) if self._is_short() else self._ahead(steps, pace)
        ):
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

    def pick(self, rows: Offsets) -> Iterator[pa.RecordBatch]:
        """Yield the rows at given positions, of a scan without filter, offset and limit.

        Args:
            rows: Positions among the rows of the scan, ascending, each once.
        """
        first = start = 0
        for fragment in self.fragments:
            if start == len(rows):
                return
            end = int(np.searchsorted(rows, first + fragment.num_rows))
            if start < end:
                offsets = fragment.offsets(rows[start:end] - first)
                yield self.at(fragment, offsets)
            first, start = first + fragment.num_rows, end

    def at(self, fragment: FragmentReader, offsets: Offsets) -> pa.RecordBatch:
        """Return rows of a fragment, whatever filter, offset and limit say.

        Args:
            fragment: The fragment.
            offsets: Of the rows, ascending, each once; they must not be deleted.
        """
        arrays = self._columns(fragment, self.fields, as_ranges(offsets))
        return self._batch(self.fields, arrays, len(offsets))

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
            together = in_runs(left, self.batch_rows)
            yield from ((one, None) for one in chain(islice(left, 1), together))
            return
        for fragment in fragments:
            yield fragment, candidates.get(fragment.fragment.id, [])

    def _candidates(self) -> Mapping[int, Sequence[RowRange]] | None:
        """Return where rows lie that the filter may keep, by fragment id; None: anywhere."""
        if self.filter is None or self.index is None:
            return None
        from lancefs import expressions

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
                yield (read := self._read(step, pace))
                step = step._replace(start=read.step.end)

    def _ahead(self, steps: Iterator[Step], pace: Pace) -> Iterator[Read]:
        """Read steps in threads, choose how long the next ones are, and give mapped bytes back."""
        mapped, most_mapped = 0, _TABLE_BYTES if self.is_kept else _MAPPED_BYTES
        for read in self._in_threads(steps, pace):
            pace.learn(read)
            yield read
            mapped += read.size
            if mapped >= most_mapped:
                read.step.fragment.release()
                mapped = 0

    def _in_threads(self, steps: Iterator[Step], pace: Pace) -> Iterator[Read]:
        """Read steps in threads, in order; closing the generator stops the readers.

        The first step is read alone, and at once: it may be all that is wanted.
        """
        first = next(steps, None)
        if first is None:
            return
        yield (read := self._read(first, pace))
        rest, is_local = first._replace(start=read.step.end), first.fragment.is_local
        read_step, threads = partial(self._read, pace=pace), THREADS if is_local else _WAITING
        with Readers(read_step, threads, self._spares_memory()) as readers:
            for step in chain(pace.parts(rest), steps):
                is_tiny = pace.is_tiny(step, read) or isinstance(step.fragment, FragmentRun)
                readers.submit(step, is_tiny and is_local)
                while len(readers) > THREADS and (
                    is_local or len(readers) >= _WAITING or readers.rows > THREADS * pace.rows
                ):
                    yield (read := readers.next())
            while len(readers):
                yield readers.next()

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

    def _read(self, step: Step, pace: Pace) -> Read:
        """Read one step, or its beginning where its rows are long; only rows to return."""
        looked_up = self._looked_up(step)
        fields = self.fields if self.filter is None else self.filter_fields
        step = pace.fitted(step, [field for field in fields if field.id not in looked_up])
        kept = step.wanted()
        arrays: dict[int, pa.Array] = {}
        size = 0
        if self.filter is not None:
            arrays, kept, size = self._tested(step, self.filter, kept, looked_up)
            fitted = pace.fitted(step, self.fields, int(np.count_nonzero(kept)) / step.rows)
            if fitted.rows < step.rows:
                return self._read(fitted, pace)
            step, arrays = fitted, self._wanted(arrays, looked_up)
        if kept is None or kept.all():
            others = self._others(step, arrays, step.all)
            kept = None
        elif _is_sparse(kept) or self.blobs == "bytes":
            others = self._others(step, arrays, _runs(kept, step.start))
        else:
            others, besides = self._kept(step, arrays, kept)
            size += besides
        arrays |= others
        size += decoded_bytes(arrays)
        rows = step.rows if kept is None else int(np.count_nonzero(kept))
        return Read(step, self._batch(self.fields, arrays, rows), kept, size)

    def _tested(
        self, step: Step, condition: Condition, kept: Mask | None, looked_up: frozenset[int]
    ) -> tuple[dict[int, pa.Array], Mask, int]:
        """Read what the filter reads, of rows that may be wanted.

        Returns:
            Those columns of the rows that pass, which rows of the step those are, and how many
            bytes count that are given up at once.
        """
        is_sparse = kept is not None and (_is_sparse(kept) or self.blobs == "bytes")
        ranges = _runs(kept, step.start) if kept is not None and is_sparse else step.all
        if not ranges:
            assert kept is not None
            return {}, kept, 0
        arrays = self._columns(step.fragment, self.filter_fields, ranges, looked_up)
        tested = arrays if looked_up else _spelled_out(arrays, self.encoded)
        passed = condition.passed(self._to_test(tested, count_rows(ranges)))
        if kept is None:
            kept = passed
        elif is_sparse:
            kept[kept] = passed
        else:
            kept = passed = passed & kept
        size = decoded_bytes(arrays) // 2
        return arrays if passed.all() else _filtered(arrays, passed), kept, size

    def _wanted(
        self, tested: Mapping[int, pa.Array], looked_up: frozenset[int]
    ) -> dict[int, pa.Array]:
        """Return those columns that the filter read which are to return, with their values."""
        arrays = {field.id: tested[field.id] for field in self.fields if field.id in tested}
        return _spelled_out(arrays, looked_up - self.encoded)

    def _looked_up(self, step: Step) -> frozenset[int]:
        """Return the ids of filter columns that are tested by the items of their dictionaries."""
        if self.filter is None or not self.filter.takes_items(
            self._schema(self.filter_fields, encoded=False)
        ):
            return frozenset()
        wanted = frozenset(field.id for field in self.filter_fields) & self.encoded
        return wanted | self._stored(step, self.filter_fields)

    def _stored(self, step: Step, fields: Sequence[Field]) -> frozenset[int]:
        """Return the ids of columns of which rows are chosen before their values are looked up."""
        reader = step.fragment
        if step.rows < _MANY_ROWS or not isinstance(reader, FragmentReader) or not reader.is_local:
            return frozenset()
        # Another fragment may have that id in fresh rows; to be wrong costs time, no more.
        key = (reader.fragment.id, *(field.id for field in fields))
        if key not in self._dictionaries:
            found = dictionaries.dictionary_columns(reader, fields)
            self._dictionaries[key] = frozenset(field.id for field in found)
        return self._dictionaries[key]

    def _to_test(self, arrays: Mapping[int, pa.Array], rows: int) -> pa.RecordBatch:
        """Return the columns that the filter reads."""
        if not self.filter_fields:
            return without_columns(rows)
        columns = [arrays[field.id] for field in self.filter_fields]
        return pa.RecordBatch.from_arrays(columns, [field.name for field in self.filter_fields])

    def _others(
        self, step: Step, known: dict[int, pa.Array], ranges: Sequence[RowRange]
    ) -> dict[int, pa.Array]:
        """Read the columns to return that the filter did not need."""
        fields = [field for field in self.fields if field.id not in known]
        return self._columns(step.fragment, fields, ranges) if ranges else self._none(fields)

    def _kept(
        self, step: Step, known: dict[int, pa.Array], kept: Mask
    ) -> tuple[dict[int, pa.Array], int]:
        """Read those columns of all rows, some at a time, and keep some of the rows.

        Returns:
            The columns, and how many bytes count that are given up at once, as no others are.
        """
        fields = [field for field in self.fields if field.id not in known]
        looked_up, some = self._stored(step, self.fields), self._at_a_time(step.fragment, fields)
        if not self.is_kept:
            some = min(some, max(len(fields) // 4, _LEAST_COLUMNS))
        arrays: dict[int, pa.Array] = {}
        most = 0
        for start in range(0, len(fields), some):
            if start:
                step.fragment.release()
            columns = fields[start : start + some]
            read = self._columns(step.fragment, columns, step.all, looked_up)
            most = max(most, decoded_bytes(read))
            arrays |= _spelled_out(_filtered(read, kept), looked_up - self.encoded)
        return arrays, most // 2

    def _columns(
        self,
        fragment: FragmentReader | FragmentRun,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        looked_up: frozenset[int] = frozenset(),
    ) -> dict[int, pa.Array]:
        stored = [field for field in fields if not is_row_metadata(field)]
        encoded = self.encoded | looked_up
        read: list[pa.Array] = []
        some = self._at_a_time(fragment, stored)
        for start in range(0, len(stored), some):
            if start:
                fragment.release()
            columns = stored[start : start + some]
            if encoded:
                read += dictionaries.read(fragment, columns, ranges, self.blobs, encoded)
            else:
                read += fragment.read(columns, ranges, self.blobs)
        arrays = {
            field.id: array if field.id in encoded else present(array, field, self.blobs)
            for field, array in zip(stored, read, strict=True)
        }
        for field in fields:
            if is_row_metadata(field):
                assert self.index is not None
                metadata = self.index.metadata
                found = [metadata.read(field, *part) for part in fragment.parts(ranges)]
                arrays[field.id] = join_arrays(found, field.storage_type)
        return arrays

    def _at_a_time(self, fragment: FragmentReader | FragmentRun, fields: Sequence[Field]) -> int:
        """Return how many columns are read before mapped bytes are given back."""
        gives_back = fragment.is_local and not (self.is_kept or self._is_short())
        return _MAPPED_COLUMNS if gives_back else max(len(fields), 1)

    def _schema(self, fields: Sequence[Field], encoded: bool = True) -> pa.Schema:
        key = (encoded, *(field.id for field in fields))
        if key not in self._schemas:
            self._schemas[key] = pa.schema([self._shown(field, encoded) for field in fields])
        return self._schemas[key]

    def _shown(self, field: Field, encoded: bool = True) -> pa.Field:
        shown = field.to_arrow(self.blobs)
        is_encoded = encoded and field.id in self.encoded
        return shown.with_type(dictionaries.ENCODED) if is_encoded else shown

    def _none(self, fields: Sequence[Field]) -> dict[int, pa.Array]:
        # Unlike `pa.array([], …)`, this knows extension types inside of others.
        return {field.id: pa.nulls(0, self._shown(field).type) for field in fields}

    def _batch(
        self,
        fields: Sequence[Field],
        arrays: Mapping[int, pa.Array],
        rows: int,
    ) -> pa.RecordBatch:
        if not fields:
            return without_columns(rows)
        columns = [arrays[field.id] for field in fields]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema(fields))


def _is_sparse(kept: Mask) -> bool:
    if int(np.count_nonzero(kept)) >= _SPARSE * len(kept):
        return False
    return int(np.count_nonzero(kept[1:] & ~kept[:-1])) * _ROWS_A_RUN < len(kept)


def _runs(kept: Mask, start: int) -> RowRanges:
    """Return the ranges of rows that a mask keeps."""
    return as_ranges(np.flatnonzero(kept) + start)


def _spelled_out(arrays: dict[int, pa.Array], encoded: Collection[int]) -> dict[int, pa.Array]:
    """Return columns with the values of those that came dictionary-encoded."""
    return arrays | {id: spelled_out(arrays[id]) for id in arrays.keys() & encoded}


def _filtered(arrays: dict[int, pa.Array], kept: Mask) -> dict[int, pa.Array]:
    return dict(zip(arrays, filtered(arrays.values(), kept), strict=True))
