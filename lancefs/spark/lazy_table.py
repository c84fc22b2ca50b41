"""`lancefs.spark.table`: a DataFrame whose columns are read only where a query uses them.

Spark tells a Python data source nothing of the columns of a query, but its optimizer drops what a
query does not use. So such a DataFrame consists of positions of rows, which Spark makes itself, and
for each column of the call of an Arrow function, which reads it at these positions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import arrow_udf
from pyspark.sql.types import DataType, StructType

from lancefs.arguments import check_list
from lancefs.lance_dataset import LanceDataset
from lancefs.spark.column_reader import column_reader, numbered_column_reader
from lancefs.spark.partitions import plan
from lancefs.spark.pinned_version import Pinned, open_table, pin
from lancefs.spark.session import is_remote, quoted, read
from lancefs.spark.shipping import function
from lancefs.spark.spark_types import nullable, spark_schema
from lancefs.spark.stores import absolute
from lancefs.spark.table_options import (
    Nanoseconds,
    TableOptions,
    Unsupported,
)
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, make_ref
from lancefs.table.row_metadata import ROW_OFFSET

# Most columns of one type that share a function: to make one takes PySpark 40 calls into Java.
# How often a call has the positions tells the column. Spark sends them to Python once, however
# often. (An argument by name would say it better, but such functions cannot be arguments of those
# of users: PySpark 4.1 to 4.3 chains these, and passes no names then.)
_SHARE = 8
# Each column takes some 16 such calls, too, each of which waits for the other process. In SQL it
# takes one, but there the functions need names, and to drop these takes longer than the calls of a
# few columns. From so many columns on, SQL is used, where a number tells the column: the texts are
# short then, but Spark sends the numbers to Python.
_MANY = 64
_SHARE_OF_MANY = 64
_NAMED = "lancefs_columns_"
_NAMING = Lock()  # threads with one session take turns with the names


def table(
    spark: SparkSession,
    url: str | os.PathLike[str],
    ref: Ref | int | str | date | None = None,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | str | None = None,
    with_row_id: bool = False,
    rows_per_partition: int | None = None,
    bytes_per_partition: int | None = None,
    nanoseconds: Nanoseconds = "error",
    unsupported: Unsupported = "error",
    use_index: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    base_paths: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a version of a table as a DataFrame that reads the columns that a query uses.

    Counting its rows reads the manifest only. Conditions of a query are tested by Spark; those of
    `filter` where rows are read, with the indices of the table.

    Args:
        spark: The session.
        url: The directory of the table.
        ref: The version: a number, a tag, `exp:3` or `exp:latest` for a branch, or a time; the
            newest version of the main branch by default.
        columns: The columns of the DataFrame, in order; all by default.
        filter: Rows that there are, as for `read`.
        with_row_id: Whether a column `_rowid` comes last.
        rows_per_partition: At most about this many rows a task.
        bytes_per_partition: At most about this many bytes of data files a task.
        nanoseconds: What becomes of nanoseconds: `error`, `long` or `truncate`.
        unsupported: What becomes of columns that Spark has no type for: `error`, `string` or
            `skip`.
        use_index: Whether the filter may be looked up in the indices of the table.
        storage_options: For fsspec, such as credentials.
        base_paths: As for `read`.

    Raises:
        ValueError: An argument makes no sense.
        InvalidFilter: The filter cannot be parsed.
        LanceError: The table cannot be opened, as `lancefs.open` says.
    """
    where = TableOptions(absolute(url), dict(storage_options or {}), moved=dict(base_paths or {}))
    version = open_table(where, make_ref(ref=ref))
    check_list("columns", columns)
    names = None if columns is None else list(columns)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"columns is {names!r}; names were expected, each once")
    chosen = LanceDataset(version).scanner(names, with_row_id=with_row_id).projected_schema
    schema = nullable(spark_schema(chosen, nanoseconds, unsupported))
    if filter is None:
        types = [chosen.field(name).type for name in schema.fieldNames()]
        tasks = plan(
            version.manifest.fragments, rows_per_partition, None, bytes_per_partition, types
        )
        positions = spark.range(0, version.num_rows, 1, max(1, len(tasks)))
        positions = positions.withColumnRenamed("id", ROW_OFFSET.name)
    else:
        positions = read(
            spark, url, columns=[ROW_OFFSET.name], filter=filter,
            version=version.manifest.version, branch=version.resolved.branch,
            rows_per_partition=rows_per_partition, bytes_per_partition=bytes_per_partition,
            use_index=use_index, storage_options=storage_options, base_paths=base_paths,
        )  # fmt: skip
    return _with_columns(positions, where, version, schema, nanoseconds)


def _with_columns(
    positions: DataFrame,
    where: TableOptions,
    version: OpenVersion,
    schema: StructType,
    nanoseconds: Nanoseconds,
) -> DataFrame:
    """Put columns in place of positions."""
    pinned, names = pin(where, version), schema.fieldNames()
    if len(names) >= _MANY and not is_remote(positions.sparkSession):
        shared = _shared(schema, _SHARE_OF_MANY)
        readers = [_reader(numbered_column_reader, pinned, *some, nanoseconds) for some in shared]
        with _named(readers, positions.sparkSession) as functions:
            said = {
                name: f"{function}({ROW_OFFSET.name}, {number}S) AS {quoted(name)}"
                for function, (alike, _) in zip(functions, shared, strict=True)
                for number, name in enumerate(alike)
            }
            return positions.selectExpr(*map(said.get, names))
    at, columns = positions[ROW_OFFSET.name], {}
    for alike, data_type in _shared(schema, _SHARE):
        read = _reader(column_reader, pinned, alike, data_type, nanoseconds)
        columns.update({name: read(*[at] * number) for number, name in enumerate(alike, 1)})
    return positions.select(*map(columns.get, names)).toDF(*names)  # names all in one call


def _shared(schema: StructType, most: int) -> list[tuple[list[str], DataType]]:
    """Return the names of columns that share a function, and their type."""
    alike: dict[DataType, list[str]] = {}
    for field in schema:
        alike.setdefault(field.dataType, []).append(field.name)
    return [
        (names[start : start + most], data_type)
        for data_type, names in alike.items()
        for start in range(0, len(names), most)
    ]


def _reader(
    owner: Callable[..., Any],
    pinned: Pinned,
    names: list[str],
    data_type: DataType,
    nanoseconds: Nanoseconds,
) -> Any:
    """Return the Arrow function of columns of one type."""
    run = function(owner, pinned, names, data_type, nanoseconds)
    run.__annotations__ = {"arrays": pa.Array, "return": pa.Array}  # the kind of function
    return arrow_udf(run, data_type)


@contextmanager
def _named(readers: Sequence[Any], spark: SparkSession) -> Iterator[list[str]]:
    """Give functions names in SQL meanwhile; a DataFrame that is made of them goes without."""
    names = [f"{_NAMED}{number}" for number in range(len(readers))]
    with _NAMING, ExitStack() as stack:
        for name, read in zip(names, readers, strict=True):
            spark.udf.register(name, read)
            stack.callback(spark.sql, f"DROP TEMPORARY FUNCTION {name}")
        yield names
