"""A DataFrame of the rows that a reader yields, as Arrow batches that a function makes.

Spark takes the rows of such a function (`MapInArrow` in a plan) in about half of the time that it
takes those of a Python data source, and starts no Python process to plan with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from lancefs.spark.data_source import LanceReader
from lancefs.spark.partitions import bytes_to_read
from lancefs.spark.shipping import batches_of
from lancefs.spark.spark_types import read_schema

# Of a span: the positions of its first and last fragments, and the rows of a single fragment.
_NUMBERS = 4
_LONG = np.dtype(np.int64).itemsize
_TASK_BYTES = _NUMBERS * _LONG
_ALL_ROWS = (-1, -1)


def reading_frame(spark: SparkSession, reader: LanceReader) -> DataFrame:
    """Return a DataFrame that has a task for each partition of a reader.

    Args:
        spark: The session.
        reader: What each task reads with. It is asked for its partitions now.
    """
    packed = pack(reader)
    tasks = len(packed) // _TASK_BYTES
    numbers = _numbers(spark, tasks, _size(reader))
    return numbers.mapInArrow(batches_of(make_reading, reader, packed), reader.columns)


def _numbers(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Return numbers from 0, one a task, that Spark takes for so many bytes.

    Spark has nothing else to tell the size of what a function yields. Of a number a task, it would
    hold any table to be a few bytes, and send it whole to all executors in a join. A range of more
    numbers, of which a condition leaves the first of each task, counts in full: Spark does not
    guess how many rows pass. It makes such numbers in about a nanosecond each.
    """
    each = max(1, size // (_LONG * max(1, count)))
    numbers = spark.range(0, count * each, 1, max(1, count))
    return numbers.where(f"id % {each} = 0").selectExpr(f"id div {each} AS id")


def _size(reader: LanceReader) -> int:
    version = reader.pinned.open()
    types = read_schema(version, reader.columns.fieldNames()).types
    return max(bytes_to_read(version.manifest.fragments, types), _LONG * version.num_rows)


def pack(reader: LanceReader) -> bytes:
    """Return the partitions of a reader as bytes, which every task unpickles at once."""
    values = [partition.value for partition in reader.partitions()]
    spans = [(first, last, *(rows or _ALL_ROWS)) for first, last, rows in values]
    return np.array(spans, np.int64).tobytes()


def make_reading(reader: LanceReader, packed: bytes) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """Return what a worker does: read the rows of a partition, by its number.

    Args:
        reader: The reader of the rows.
        packed: What `pack` returned.
    """
    spans = np.frombuffer(packed, np.int64).reshape(-1, _NUMBERS)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        first, last, start, end = spans[number].tolist()
        rows = None if (start, end) == _ALL_ROWS else (start, end)
        return reader.read(InputPartition((first, last, rows)))

    return read
