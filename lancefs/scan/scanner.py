"""`LanceScanner`: what to read of a dataset, and in which form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import without_columns
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.fields import Blobs, Field
from lancefs.scan.execution import BATCH_ROWS, BLOB_BATCH_ROWS, Scan
from lancefs.table.dictionary_columns import is_encodable
from lancefs.table.row_metadata import ROW_ID

if TYPE_CHECKING:
    from lancefs.lance_dataset import LanceDataset
    from lancefs.scan.conditions import Condition

# Names of columns, or names for expressions over columns.
Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression | str]
Positions: TypeAlias = npt.NDArray[np.integer[Any]]


class LanceScanner:
    """What to read of a dataset; made by `LanceDataset.scanner`."""

    def __init__(
        self,
        dataset: LanceDataset,
        columns: Columns | None = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        limit: int | None = None,
        offset: int | None = None,
        blobs: Blobs = "descriptors",
        dictionary_columns: Collection[str] = (),
    ) -> None:
        for name, value in (("batch_size", batch_size), ("limit", limit), ("offset", offset)):
            if value is not None and value < (name == "batch_size"):
                raise ValueError(f"{name} is {value}; a positive number was expected")
        if blobs not in get_args(Blobs):
            raise ValueError(f"blobs is {blobs!r}; one of {get_args(Blobs)} was expected")
        if not (filter is None or isinstance(filter, pc.Expression)):
            raise TypeError(
                f"filter is {filter!r}; a pyarrow.compute expression was expected, such as "
                'pyarrow.compute.field("price") > 3'
            )
        self._dataset = dataset
        self._computed = _expressions(columns) if isinstance(columns, Mapping) else None
        self._scan = Scan(
            fragments=dataset._fragment_readers,
            fields=self._fields(columns),
            filter=None if filter is None else _condition(filter),
            filter_fields=self._fields_of([] if filter is None else [filter]),
            batch_rows=batch_size or (BATCH_ROWS if blobs == "descriptors" else BLOB_BATCH_ROWS),
            limit=limit,
            offset=offset or 0,
            index=dataset._row_index,
            blobs=blobs,
            encoded=self._encoded(dictionary_columns),
        )

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the dataset."""
        return self._dataset.schema

    @cached_property
    def projected_schema(self) -> pa.Schema:
        """The columns that come out."""
        metadata = self._dataset.schema.metadata
        if self._computed is None:
            return self._scan.schema.with_metadata(metadata)
        empty = pa.RecordBatch.from_pylist([], schema=self._scan.schema)
        return self._compute(empty).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read in batches, in order."""
        return self._batches(self._scan)

    def _batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        metadata = self._dataset.schema.metadata
        for batch in scan.batches():
            if self._computed is None:
                yield batch.replace_schema_metadata(metadata) if metadata else batch
            else:
                yield self._compute(batch)

    def to_reader(self) -> pa.RecordBatchReader:
        """Read as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Read into memory."""
        batches = self._batches(replace(self._scan, is_kept=True))
        return pa.Table.from_batches(batches, self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows, and no more than their chunks."""
        limit = num_rows if self._scan.limit is None else min(num_rows, self._scan.limit)
        return self._limited(limit).to_table()

    def count_rows(self) -> int:
        """Count the rows that come out."""
        scan = self._scan
        if scan.filter is None:
            rows = max(0, self._dataset.count_rows() - scan.offset)
            return rows if scan.limit is None else min(rows, scan.limit)
        counted = replace(scan, fields=(), is_kept=True)
        return sum(batch.num_rows for batch in counted.batches())

    def take(self, indices: Sequence[int] | Positions | pa.Array) -> pa.Table:
        """Read rows by their positions among those that come out.

        Args:
            indices: Positions, in any order, also repeated.

        Raises:
            IndexError: There is no such row.
        """
        wanted = np.asarray(indices, dtype=np.int64)
        if self._scan.filter is not None or self._scan.limit is not None or self._scan.offset:
            return _taken(self.to_table(), wanted)
        total = self._dataset.count_rows()
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < total:
            beyond = int(wanted.min() if wanted.min() < 0 else wanted.max())
            raise IndexError(f"row {beyond} of {self._dataset.uri}, which has {total} rows")
        rows, position = np.unique(wanted, return_inverse=True)
        return _taken(self._gathered(self._scan.pick(rows)), position)

    def take_ids(self, row_ids: Sequence[int] | Positions | pa.Array) -> pa.Table:
        """Read rows by their ids; what the scanner says of rows has no meaning here.

        Args:
            row_ids: Values of `_rowid`, in any order, also repeated.

        Raises:
            IndexError: The table has no such row.
        """
        self._dataset._refuse_if_fresh(ROW_ID.name)
        wanted, position = np.unique(np.asarray(row_ids, dtype=np.uint64), return_inverse=True)
        found = self._dataset._row_index.find_ids(wanted)
        which = np.concatenate([np.empty(0, np.int64), *(one.which for one in found)])
        order = np.argsort(which)
        if len(which) < len(wanted):
            missing = np.delete(wanted, which)
            raise IndexError(
                f"{self._dataset.uri}@{self._dataset._ref} has no row with the id {missing[0]}"
                + (f" (nor with {len(missing) - 1} others)" if len(missing) > 1 else "")
            )
        batches = self._scan.at((one.reader, one.offsets) for one in found)
        return _taken(self._gathered(batches), order[position])

    def _gathered(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Put batches of the scan together, with expressions worked out."""
        computed = [batch if self._computed is None else self._compute(batch) for batch in batches]
        return pa.Table.from_batches(computed, self.projected_schema)

    def _limited(self, limit: int) -> LanceScanner:
        limited = copy(self)
        limited._scan = replace(self._scan, limit=limit)
        return limited

    def _fields(self, columns: Columns | None) -> tuple[Field, ...]:
        if columns is None:
            return self._dataset._columns
        if self._computed is not None:
            return self._fields_of(list(self._computed.values()))
        return tuple(self._dataset._field(name) for name in columns)

    def _encoded(self, names: Collection[str]) -> frozenset[int]:
        """Return the ids of columns that come dictionary-encoded."""
        fields = [self._dataset._field(name) for name in names]
        other = next((field for field in fields if not is_encodable(field)), None)
        if other is not None:
            raise ValueError(
                f"dictionary_columns has {other.name!r}, which is {other.shown_type}; only columns "
                "of strings come dictionary-encoded"
            )
        return frozenset(field.id for field in fields)

    def _fields_of(self, wanted: Sequence[pc.Expression]) -> tuple[Field, ...]:
        if not wanted:
            return ()
        from lancefs.scan import expressions

        fields, needed = self._dataset._named_fields, set[str]()
        for one in wanted:
            found = expressions.names_in(one)
            needed |= set(fields) if found is None else found
        for name in sorted(needed - fields.keys()):
            self._dataset._field(name)  # says that there is none
        return tuple(field for name, field in fields.items() if name in needed)

    def _compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        from lancefs.scan import expressions

        assert self._computed is not None
        arrays = expressions.evaluate(list(self._computed.values()), batch)
        return pa.RecordBatch.from_arrays(arrays, names=list(self._computed))


def _taken(table: pa.Table, positions: Positions) -> pa.Table:
    """Return rows of a table by their positions."""
    if table.num_columns:
        return table.take(to_arrow_numbers(positions))
    # What Arrow takes of a table without columns has no rows.
    return pa.Table.from_batches([without_columns(len(positions))], table.schema)


def _condition(filter: pc.Expression) -> Condition:
    from lancefs.scan.conditions import Condition

    return Condition(filter)


def _expressions(columns: Mapping[str, pc.Expression | str]) -> dict[str, pc.Expression]:
    return {
        name: pc.field(value) if isinstance(value, str) else value
        for name, value in columns.items()
    }
