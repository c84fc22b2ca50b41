"""Reading the rows of a step: of those that are wanted, the columns that are returned.

The columns that the filter reads come first, and the others only for rows that are left. Columns of
strings that the data files store with dictionaries are tested by their items, and spelled out for
rows that are returned. Of a stream, mapped bytes of files are given back between columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import spelled_out, without_columns
from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import TooLarge, limited
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.masks import filtered
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.row_ranges import RowRanges, as_ranges, count_rows
from lancefs.scan.mapped_memory import Mapped
from lancefs.scan.morsels import Pace, Read, Step, decoded_bytes
from lancefs.table import dictionary_columns
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun
from lancefs.table.row_metadata import is_row_metadata

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.scan.conditions import Condition
    from lancefs.table.row_index import RowIndex

# A stream gives mapped bytes of files back once so many columns were read: to read a little of one
# may map a megabyte.
_MAPPED_COLUMNS = 32
# A stream keeps some rows of a quarter of the columns at a time, but of no fewer than so many.
_LEAST_COLUMNS = 8
# Where a filter leaves fewer rows than this share, only those are read of the other columns, unless
# they are scattered: a run of rows costs about as much as so many rows that are read with others.
_SPARSE = 1 / 16
_ROWS_A_RUN = 32
# With fewer rows it is quicker to look the values of all up than to ask where that is needless.
_MANY_ROWS = 32 * 1024
# Times fewer rows that are tried where the values of so many turned out to be too large.
_FEWER = 4


@dataclass(frozen=True, slots=True)
class StepReader:
    """Reads the rows of steps.

    Attributes:
        fields: The columns to return, in order.
        filter: Rows to return; all where it is None.
        filter_fields: The columns that the filter reads.
        index: Knows which rows rows are; without it, there are no columns of row metadata.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        encoded: The ids of string columns that come dictionary-encoded.
        is_kept: Whether the consumer keeps all batches; then memory is not spared.
        gives_back: Whether mapped bytes of files are given back between columns.
        mapped: Gives them back after steps.
    """

    fields: tuple[Field, ...]
    filter: Condition | None
    filter_fields: tuple[Field, ...]
    index: RowIndex | None
    blobs: Blobs
    encoded: frozenset[int]
    is_kept: bool
    gives_back: bool
    mapped: Mapped
    _schemas: dict[tuple[int | bool, ...], pa.Schema] = attribute(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._schema(self.fields)

    def at(self, fragment: FragmentReader | FragmentRun, offsets: Ints) -> pa.RecordBatch:
        """Return rows of a fragment, or of a run of several, whatever the filter says.

        Args:
            fragment: The fragment, or the run.
            offsets: Of the rows, ascending, each once; they must not be deleted.
        """
        arrays = self._columns(fragment, self.fields, as_ranges(offsets))
        return self._batch(self.fields, arrays, len(offsets))

    def read(self, step: Step, pace: Pace) -> Read:
        """Read one step, or its beginning where its rows are long; only rows to return.

        Args:
            step: The step, of at least one row.
            pace: Says how many of its rows are read.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        read = self._fitting(step, pace)
        self.mapped.watch(step.fragment)
        return read

    def _fitting(self, step: Step, pace: Pace) -> Read:
        looked_up = self._looked_up(step)
        fields = self.fields if self.filter is None else self.filter_fields
        step = pace.fitted(step, [field for field in fields if field.id not in looked_up])
        while step.rows > 1:
            with suppress(TooLarge), limited(pace.largest):
                return self._read(step, looked_up, pace)
            step = step.begun(-(-step.rows // _FEWER))
        return self._read(step, looked_up, pace)

    def _read(self, step: Step, looked_up: frozenset[int], pace: Pace) -> Read:
        kept = step.wanted()
        arrays: dict[int, pa.Array] = {}
        size = 0
        if self.filter is not None:
            arrays, kept, size = self._tested(step, self.filter, kept, looked_up)
            fitted = pace.fitted(step, self.fields, int(np.count_nonzero(kept)) / step.rows)
            if fitted.rows < step.rows:
                return self._fitting(fitted, pace)
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
        return reader.with_dictionaries(fields)

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
                read += dictionary_columns.read(fragment, columns, ranges, self.blobs, encoded)
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
        gives_back = self.gives_back and fragment.is_local
        return _MAPPED_COLUMNS if gives_back else max(len(fields), 1)

    def _schema(self, fields: Sequence[Field], encoded: bool = True) -> pa.Schema:
        key = (encoded, *(field.id for field in fields))
        if key not in self._schemas:
            self._schemas[key] = pa.schema([self._shown(field, encoded) for field in fields])
        return self._schemas[key]

    def _shown(self, field: Field, encoded: bool = True) -> pa.Field:
        shown = field.to_arrow(self.blobs)
        is_encoded = encoded and field.id in self.encoded
        return shown.with_type(dictionary_columns.ENCODED) if is_encoded else shown

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
