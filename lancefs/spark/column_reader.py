"""Columns of a version at given positions, for the Arrow functions of `lancefs.spark.table`.

Spark calls one function for each column that a query uses, one after the other with the positions
of one batch. With the second batch a task knows its columns, and reads all of them in one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import DataType, StructField, StructType

from lancefs.datafile.arrays import stored_values
from lancefs.datafile.buffers import Ints
from lancefs.errors import MemoryLimitExceeded
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.scanner import LanceScanner
from lancefs.spark.brief_errors import brief
from lancefs.spark.pinned_version import Pinned
from lancefs.spark.spark_types import arrow_schema
from lancefs.spark.spark_values import convert
from lancefs.spark.table_options import Nanoseconds
from lancefs.table.batch_rows import batch_rows_for

# Rows are read with those between them if at least one in `_SPARSE` is wanted.
_SPARSE = 4
# Up to this many unwanted rows, a scan goes on; beyond them, a new scan begins behind them.
_PASSED_OVER = 4096
# Bytes of a column in one batch, as many as an array of texts can have.
_MOST_BYTES = 2**31


class TaskColumns:
    """The columns that one task reads of one version.

    Args:
        dataset: The version.
        nanoseconds: What becomes of nanoseconds.
    """

    def __init__(self, dataset: LanceDataset, nanoseconds: Nanoseconds) -> None:
        self._dataset = dataset
        self._nanoseconds = nanoseconds
        self._known: dict[str, pa.Field] = {}  # columns that the task has asked for so far
        self._positions: Ints | None = None  # of the batch at hand
        self._columns: dict[str, pa.Array] = {}
        self._scan: Iterator[pa.RecordBatch] = iter(())  # of the known columns
        self._rest: pa.RecordBatch | None = None  # what the scan gave, and no batch took
        self._next = -1  # position of the next row of the scan; none has begun

    def read(self, field: pa.Field, positions: Ints) -> pa.Array:
        """Return the values of a column.

        Args:
            field: The column, as Spark wants it from Arrow.
            positions: The positions of the rows among the live rows of the version.

        Raises:
            LanceError: As `LanceDataset.to_table` says.
        """
        if self._positions is None or not _are_equal(positions, self._positions):
            self._positions, self._columns = positions, {}
            if self._known:
                self._columns = self._fetch(list(self._known.values()), positions, is_scan=True)
        if field.name not in self._columns:
            self._columns.update(self._fetch([field], positions, is_scan=False))
            self._known[field.name] = field
            self._scan, self._rest, self._next = iter(()), None, -1
        return self._columns[field.name]

    def _fetch(
        self, fields: Sequence[pa.Field], positions: Ints, is_scan: bool
    ) -> dict[str, pa.Array]:
        names = [field.name for field in fields]
        first, count = int(positions[0]), int(positions[-1] - positions[0]) + 1
        if not self._is_dense(positions, names):
            found = self._taken(names, positions)
        elif is_scan:
            found = self._scanned(names, first, count)
        else:
            found = self._scanner(names, first, count).to_batches()
        parts, size = [], 0
        for part in found:
            parts.append(part)
            size += part.nbytes
            if size > _MOST_BYTES * len(names):
                raise _too_large(names, len(positions))
        rows = pa.Table.from_batches(parts)
        if rows.num_rows != len(positions):
            rows = rows.take(pa.array(positions - first))
        batches = rows.combine_chunks().to_batches()
        if len(batches) > 1:
            raise _too_large(names, len(positions))
        converted = convert(batches[0], pa.schema(fields), self._nanoseconds)
        return dict(zip(names, converted.columns, strict=True))

    def _is_dense(self, positions: Ints, names: Sequence[str]) -> bool:
        """Return whether rows are read with those between them."""
        count = int(positions[-1] - positions[0]) + 1
        if count < len(positions) or np.any(np.diff(positions) < 1):
            return False
        if count == len(positions):
            return True
        return count <= min(_SPARSE * len(positions), self._batch_rows(names))

    def _batch_rows(self, names: Sequence[str]) -> int:
        """Return how many rows of columns fit into a batch of a few megabytes."""
        types = self._dataset.scanner(list(names)).projected_schema.types
        return batch_rows_for(self._dataset.manifest.fragments[0], types)

    def _scanner(self, names: Sequence[str], first: int, count: int | None = None) -> LanceScanner:
        rows = self._batch_rows(names)
        return self._dataset.scanner(list(names), offset=first, limit=count, batch_size=rows)

    def _taken(self, names: Sequence[str], positions: Ints) -> Iterator[pa.RecordBatch]:
        """Read rows that lie far apart, no more at a time than fit into memory well."""
        most = self._batch_rows(names)
        for start in range(0, len(positions), most):
            some = positions[start : start + most]
            yield from self._dataset.take(some, columns=names).to_batches()

    def _scanned(self, names: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Go on with the scan, or begin one."""
        skip = first - self._next
        if self._next < 0 or not 0 <= skip <= _PASSED_OVER:
            scanner = self._scanner(names, first)
            self._scan, self._rest, skip = scanner.to_batches(), None, 0
        for _ in self._next_rows(skip):
            pass
        yield from self._next_rows(count)
        self._next = first + count

    def _next_rows(self, count: int) -> Iterator[pa.RecordBatch]:
        while count:
            if not self._rest:
                self._rest = next(self._scan)
            part = self._rest.slice(0, count)
            self._rest = self._rest.slice(len(part))
            count -= len(part)
            yield part


def _too_large(names: Sequence[str], count: int) -> MemoryLimitExceeded:
    return MemoryLimitExceeded(
        f"a batch of {count} rows of {', '.join(names)} has more than 2 GiB: set "
        "spark.sql.execution.arrow.maxRecordsPerBatch lower, or read the table with "
        "lancefs.spark.read, whose batches are cut by bytes"
    )


def _are_equal(left: Ints, right: Ints) -> bool:
    """Compare positions of batches; those of different batches mostly differ in the first one."""
    return left[0] == right[0] and np.array_equal(left, right)


# A Python process of Spark runs one task at a time, of which there is one operator.
_task: int | None = None
_tables: dict[tuple[Any, ...], TaskColumns] = {}


def column_reader(
    pinned: Pinned, names: Sequence[str], data_type: DataType, nanoseconds: Nanoseconds
) -> Callable[..., pa.Array]:
    """Return a function that reads one of some columns at given positions.

    It is called with the positions as its only argument for the first column, with the same twice
    for the second, and so on.

    Args:
        pinned: The version.
        names: The columns.
        data_type: Their type, as Spark sees it.
        nanoseconds: What becomes of nanoseconds.
    """
    read_one = _reader(pinned, names, data_type, nanoseconds)

    @brief
    def read(*same: pa.Array) -> pa.Array:
        return read_one(same[0], len(same) - 1)

    return read


def numbered_column_reader(
    pinned: Pinned, names: Sequence[str], data_type: DataType, nanoseconds: Nanoseconds
) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Return the same, but called with the positions, and as often the number of the column.

    Args:
        pinned: The version.
        names: The columns, of which the first is number 0.
        data_type: Their type, as Spark sees it.
        nanoseconds: What becomes of nanoseconds.
    """
    read_one = _reader(pinned, names, data_type, nanoseconds)

    @brief
    def read(positions: pa.Array, numbers: pa.Array) -> pa.Array:
        return read_one(positions, numbers[0].as_py() if len(numbers) else 0)

    return read


def _reader(
    pinned: Pinned, names: Sequence[str], data_type: DataType, nanoseconds: Nanoseconds
) -> Callable[[pa.Array, int], pa.Array]:
    (field,) = arrow_schema(StructType([StructField(names[0], data_type)]))
    key = (*pinned.key, nanoseconds)

    def open_columns() -> TaskColumns:
        return TaskColumns(LanceDataset(pinned.open()), nanoseconds)

    def read(positions: pa.Array, number: int) -> pa.Array:
        if not len(positions):
            return pa.nulls(0, field.type)
        wanted = field.with_name(names[number])
        return _of_this_task(key, open_columns).read(wanted, stored_values(positions, np.int64))

    return read


def _of_this_task(key: tuple[Any, ...], make: Callable[[], TaskColumns]) -> TaskColumns:
    global _task
    context = TaskContext.get()
    task = None if context is None else context.taskAttemptId()
    if task is None or task != _task:
        _tables.clear()
        _task = task
    if key not in _tables:
        _tables[key] = make()
    return _tables[key]
