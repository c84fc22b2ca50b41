"""What users call in a Spark session, and sessions for the command line."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from lancefs import errors
from lancefs.arguments import check_list
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset
from lancefs.spark import filters
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.reading_frame import reading_frame
from lancefs.spark.requirements import no_gateway, require_java
from lancefs.spark.shipping import rebuild
from lancefs.spark.stores import absolute
from lancefs.spark.table_options import (
    TASK_ROW_METADATA,
    Nanoseconds,
    Unsupported,
)
from lancefs.version import __version__


def register(spark: SparkSession) -> None:
    """Make the format `lancefs` known to a session, for `spark.read`, `readStream` and SQL.

    Args:
        spark: The session; doing it twice does no harm.
    """
    spark.dataSource.register(_shipped_source())


def read(
    spark: SparkSession,
    url: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | str | None = None,
    version: int | str | None = None,
    tag: str | None = None,
    branch: str | None = None,
    as_of: datetime | str | None = None,
    with_row_id: bool = False,
    batch_size: int | None = None,
    rows_per_partition: int | None = None,
    bytes_per_partition: int | None = None,
    nanoseconds: Nanoseconds | None = None,
    unsupported: Unsupported | None = None,
    use_index: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    base_paths: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a version of a table as a DataFrame; only what is asked for is decoded.

    Args:
        spark: The session; the format is registered in it.
        url: The directory of the table.
        columns: The columns to read, in order; all by default.
        filter: Rows to keep: an Arrow expression, or a condition in SQL as docs/filters.md
            describes it. Tasks evaluate it where they read the rows.
        version: A version number, on `branch` where that is given.
        tag: A tag.
        branch: A branch.
        as_of: The newest version committed at or before this time.
        with_row_id: Whether a column `_rowid` comes last.
        batch_size: At most this many rows a batch.
        rows_per_partition: At most about this many rows a task.
        bytes_per_partition: At most about this many bytes of data files a task.
        nanoseconds: What becomes of nanoseconds: `error`, `long` or `truncate`.
        unsupported: What becomes of columns that Spark has no type for: `error`, `string` (decimals
            of many digits as texts) or `skip`.
        use_index: Whether filters may be looked up in the indices of the table.
        storage_options: For fsspec, such as credentials.
        base_paths: Where the files below base paths of the table are now, by base path.

    Raises:
        ValueError: An argument makes no sense.
        InvalidFilter: The filter cannot be parsed.
        LanceError: The table cannot be opened, as `lancefs.open` says.
    """
    check_list("columns", columns)
    given = {
        "path": absolute(url),
        "columns": None if columns is None else json.dumps(list(columns)),
        "filter": filters.serialize(filter) if isinstance(filter, pc.Expression) else filter,
        "version": version,
        "tag": tag,
        "branch": branch,
        "asOf": as_of.isoformat() if isinstance(as_of, datetime) else as_of,
        "withRowId": "true" if with_row_id else None,
        "batchSize": batch_size,
        "rowsPerPartition": rows_per_partition,
        "bytesPerPartition": bytes_per_partition,
        "nanoseconds": nanoseconds,
        "unsupported": unsupported,
        "useIndex": None if use_index else "false",
        "storage": json.dumps(dict(storage_options)) if storage_options else None,
        "basePaths": json.dumps(dict(base_paths)) if base_paths else None,
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    # Opened here, by no process of Spark: what is wrong is an exception of ours, not one of Java's.
    source = LanceDataSource(options)
    reader = source.reader(source.schema())
    if isinstance(filter, pc.Expression):
        dataset = LanceDataset(reader.pinned.open())
        filters.check(filter, dataset.with_row_metadata(*TASK_ROW_METADATA).schema)
    register(spark)
    return reading_frame(spark, reader)


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no SparkContext here."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever letters it has."""
    return "`" + name.replace("`", "``") + "`"


def start_session(
    master: str | None = None, app: str = "lancefs", shows_progress: bool = False
) -> SparkSession:
    """Return the session that is there, or start one.

    Args:
        master: Where Spark runs, for instance `local[2]`; by default what Spark is configured for.
        app: The name that Spark shows.
        shows_progress: Whether Spark shows on stderr how many tasks are done.

    Raises:
        RuntimeError: There is no Java, or one that Spark does not start with.
    """
    require_java()
    # Workers run the Python that runs here, unless another is named.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if shows_progress:
        builder = builder.config("spark.ui.showConsoleProgress", "true")
    if master is not None:
        builder = builder.master(master)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise no_gateway() from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def explained() -> Iterator[None]:
    """Turn Spark's report of an error that a worker raised into the error itself.

    Raises:
        LanceError: What the worker said, of the class that it raised.
    """
    try:
        yield
    except PySparkException as error:
        known = explain(error)
        if known is None:
            raise
        raise known from error


def explain(error: BaseException) -> LanceError | ImportError | None:
    """Find the error of lancefs in what Spark says; None where there is none."""
    found = re.findall(r"(?:^|: )\s*lancefs\.errors\.(\w+): (.*?)\s*$", str(error), re.MULTILINE)
    if not found:
        missing = re.findall(
            r"(?:^|: )\s*ImportError: (.*, which Spark uses, has .*?)\s*$", str(error), re.MULTILINE
        )
        return ImportError(missing[-1]) if missing else None
    name, message = found[-1]
    kind = getattr(errors, name, LanceError)
    return kind(message) if issubclass(kind, LanceError) else LanceError(message)


def _shipped_source() -> type[DataSource]:
    """A class that travels by value, so that a Python without lancefs can say so."""

    make: Callable[..., Any] = rebuild
    release = __version__

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "lancefs"

        def __new__(cls, options: Mapping[str, str]) -> Any:
            pickled = pickle.dumps((options,))
            return make("lancefs.spark.data_source", "LanceDataSource", pickled, release)

    Source.__module__ = "__main__"
    return Source
