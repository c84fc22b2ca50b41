"""Writing the rows of a piece as files of about one size, in bounded memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.scan.row_groups import row_groups
from lancefs.spark.pipeline.destination import DATA, Part, Settings
from lancefs.spark.pipeline.output_files import Checksum, Files

# Files that are open at once where rows go to many directories.
_OPEN = 100
# What the directory of nulls is called.
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"


def write_parts(
    files: Files, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema, how: Settings
) -> tuple[Part, ...]:
    """Write rows as files of about the target size, in the directories that they belong in.

    Args:
        files: The files of the destination.
        name: How the files are called, before what tells this attempt from others.
        batches: The rows.
        schema: Their columns.
        how: The format, and the columns that become directories.

    Raises:
        UnsupportedFeature: The format cannot hold a column.
    """
    with _Writers(files, name, schema, how) as writers:
        for group in row_groups(batches, schema):
            for directory, rows in _split(group, how.partition_by):
                writers.write(directory, rows)
        return writers.finish()


class _OutputFile:
    """A file that is being written.

    Args:
        files: The files of the destination.
        path: The path of the file below the destination.
        schema: The columns.
        form: `parquet` or `arrow`.

    Raises:
        UnsupportedFeature: The format cannot hold a column.
    """

    def __init__(self, files: Files, path: str, schema: pa.Schema, form: str) -> None:
        self._files = files
        self._path = path
        self._rows = 0
        self._stack = ExitStack()
        self._sink = Checksum(self._stack.enter_context(files.create(path)))
        try:
            if form == "arrow":
                writer: Any = pa.ipc.new_file(self._sink, schema)
            else:
                writer = pq.ParquetWriter(self._sink, schema, compression="zstd")
            self._writer = self._stack.enter_context(writer)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            self.give_up(error)
            raise UnsupportedFeature(
                f"{form} files cannot hold these columns: {error}; leave such columns out "
                "(columns), or write format arrow"
            ) from error

    def write(self, rows: pa.Table) -> int:
        """Add rows; return how many bytes the file has so far."""
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        return self._sink.size

    def finish(self) -> Part:
        """Complete the file, and say what it is."""
        self._stack.close()
        found = self._files.found(self._path)
        checksum = self._sink.text()
        return Part(self._path, self._rows, found.size, checksum, found.modified)

    def give_up(self, error: BaseException) -> None:
        """Leave nothing of the file."""
        self._stack.__exit__(type(error), error, error.__traceback__)


class _Writers:
    """The files that are being written, one for each directory."""

    def __init__(self, files: Files, name: str, schema: pa.Schema, how: Settings) -> None:
        self._files = files
        self._name = name
        self._how = how
        names = [field.name for field in schema if field.name not in how.partition_by]
        self._schema = pa.schema([schema.field(n) for n in names], metadata=schema.metadata)
        self._open: dict[str, _OutputFile] = {}
        self._done: list[Part] = []

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        for writer in self._open.values():
            writer.give_up(error or RuntimeError("not finished"))

    def write(self, directory: str, rows: pa.Table) -> None:
        """Add rows to the file of a directory; a file that is large enough is closed."""
        if directory not in self._open:
            if len(self._open) >= _OPEN:
                self._close(next(iter(self._open)))
            self._open[directory] = self._start(directory)
        size = self._open[directory].write(rows.select(self._schema.names))
        if size >= self._how.target_bytes:
            self._close(directory)

    def finish(self) -> tuple[Part, ...]:
        """Close all files, and say what they are."""
        for directory in list(self._open):
            self._close(directory)
        return tuple(self._done)

    def _start(self, directory: str) -> _OutputFile:
        name = f"{self._name}-{uuid.uuid4().hex[:12]}.{self._how.format}"
        path = "/".join(part for part in (DATA, directory, name) if part)
        return _OutputFile(self._files, path, self._schema, self._how.format)

    def _close(self, directory: str) -> None:
        self._done.append(self._open.pop(directory).finish())


def _split(rows: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[str, pa.Table]]:
    """Divide rows among the directories that they belong in, as Hive names them."""
    if not by:
        yield "", rows
        return
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in by])
    ordered = rows.take(order)  # stable, so that rows of a directory keep their order
    keys = [str(i) for i in range(len(by))]
    columns = [ordered.column(name) for name in by]
    places = pa.table([*columns, np.arange(rows.num_rows)], [*keys, "row"])
    groups = places.group_by(keys).aggregate([("row", "min"), ("row", "count")])
    for group in groups.to_pylist():
        values = [_text(name, group[key]) for name, key in zip(by, keys, strict=True)]
        directories = [f"{quote(n, safe='')}={v}" for n, v in zip(by, values, strict=True)]
        yield "/".join(directories), ordered.slice(group["row_min"], group["row_count"])


def check_partition_columns(schema: pa.Schema, by: tuple[str, ...]) -> None:
    """See that the values of columns can be the names of directories.

    Raises:
        LanceError: One cannot, or it is not there.
    """
    for name in by:
        if name not in schema.names:
            raise LanceError(f"there is no column {name!r} among those that are written")
        kind = schema.field(name).type
        fine = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
        more = (pa.types.is_boolean, pa.types.is_date32)
        if not any(check(kind) for check in (*fine, *more)):
            raise UnsupportedFeature(
                f"column {name} ({kind}) cannot name directories; integers, texts, dates and "
                "booleans can"
            )


def _text(name: str, value: Any) -> str:
    if value is None:
        return NULL_DIRECTORY
    if value in ("", NULL_DIRECTORY):  # Hive has no name for these, and Spark reads them as null
        text = f"the text {value}" if value else "an empty text"
        raise UnsupportedFeature(
            f"column {name} holds {text}, which cannot name a directory; choose other columns to "
            "partition by"
        )
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe=" ")
