"""Exporting a version as files, each written completely or not at all.

A file is written under another name and gets its own when it is complete. So an export that was
interrupted goes on with the fragments that have no file yet.

    _lancefs_export.json          what is exported: table, version, columns, condition, format
    part-00000-<fragment>.parquet
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from lancefs.cli.exits import UNREADABLE, Failure
from lancefs.cli.render.rows import write_csv, write_ndjson, write_tsv
from lancefs.cli.render.xlsx import write_xlsx
from lancefs.datafile.logical_types import has_type
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.row_groups import GROUP_ROWS, row_groups
from lancefs.scan.scanner import LanceScanner
from lancefs.storage import Store
from lancefs.views.arrow import arrow_file

JOURNAL = "_lancefs_export.json"
_UNFINISHED = ".unfinished-"


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be written.

    Attributes:
        name: The version, for the journal.
        dataset: The rows.
        columns: Names of the columns, in order.
        filter: Rows to write; all where it is None.
        store: The destination.
        form: `parquet`, `arrow`, `csv`, `tsv`, `ndjson` or `xlsx`.
        selection: What else decides about the contents, for the journal.
        use_index: Whether the filter may be looked up in the indices of the table.
    """

    name: str
    dataset: LanceDataset
    columns: list[str]
    filter: str | None
    store: Store
    form: str
    selection: Mapping[str, Any]
    use_index: bool

    def scanner(self, fragments: Sequence[int] | None = None) -> LanceScanner:
        """Return what reads the rows, of all fragments or of those with some ids."""
        return self.dataset.scanner(
            self.columns, self.filter, fragments=fragments, use_index=self.use_index
        )


@dataclass(slots=True)
class Written:
    """What is there in the end: files, of which some were kept from before, rows, bytes."""

    files: int = 0
    kept: int = 0
    rows: int = 0
    size: int = 0


def export_file(work: Export, on_rows: Callable[[int], None], overwrite: bool) -> Written:
    """Write all rows into one file.

    Args:
        work: What, and where to.
        on_rows: Called with the number of rows that were written.
        overwrite: Whether a file that is there may be replaced.

    Raises:
        Failure: There is such a file, or the format cannot hold a column.
    """
    store, path = work.store, work.store.root
    if store.ask(lambda: store.fs.exists(path), "") and not overwrite:
        raise Failure(f"{store.url()} exists; --overwrite replaces it")
    folder = os.path.dirname(path)
    if store.is_local and not os.path.isdir(folder):
        raise Failure(f"{folder}: there is no such folder to write {os.path.basename(path)} into")
    with _complete(store, path) as sink:
        rows = _write(work.form, work.scanner(), sink, on_rows)
    return Written(1, 0, rows, int(store.fs.size(path)))


def export_folder(work: Export, on_rows: Callable[[int], None], overwrite: bool) -> Written:
    """Write one file a fragment into a folder, but for those that are there; see `export_file`."""
    # A table without fragments gets a file too, which tells the columns.
    numbers: list[int | None] = [fragment.id for fragment in work.dataset.fragments]
    done = _begin(work, overwrite)
    written = Written()
    counts: dict[str, int] = {}
    for position, number in enumerate(numbers or [None]):
        name = f"part-{position:05}-{number or 0}.{work.form}"
        path = work.store.full(name)
        if name in done:
            counts[name] = done[name]
            written.kept += 1
            on_rows(counts[name])
        else:
            with _complete(work.store, path) as sink:
                scanner = work.scanner(None if number is None else [number])
                counts[name] = _write(work.form, scanner, sink, on_rows)
            _write_journal(work, counts)
        written.files += 1
        written.rows += counts[name]
        written.size += int(work.store.fs.size(path))
    _write_journal(work, counts, is_complete=True)
    return written


def _begin(work: Export, overwrite: bool) -> dict[str, int]:
    """Prepare the folder; return the rows of the files that are complete, by name.

    Raises:
        Failure: There is something else in it.
    """
    store = work.store
    names = set(store.names())
    earlier = _read_journal(store) if JOURNAL in names else None
    parts = {name for name in names if name.startswith(("part-", _UNFINISHED))}
    for name in names if overwrite else ():
        if name in parts or name == JOURNAL:
            store.fs.rm_file(store.full(name))
    if overwrite or not names:
        store.fs.makedirs(store.root, exist_ok=True)
        _write_journal(work, {})
        return {}
    if earlier is None:
        raise Failure(f"{store.url()} is not empty; choose another folder")
    if earlier["export"] != _identity(work):
        raise Failure(
            f"{store.url()} holds another export, of {earlier['export'].get('table')}; choose "
            "another folder, or --overwrite replaces it"
        )
    for name in parts:
        if name.startswith(_UNFINISHED):
            store.fs.rm_file(store.full(name))
    return {name: rows for name, rows in earlier["files"].items() if name in names}


def _identity(work: Export) -> dict[str, Any]:
    return {"table": work.name, "format": work.form, **work.selection}


def _read_journal(store: Store) -> dict[str, Any]:
    try:
        said = json.loads(store.fs.cat_file(store.full(JOURNAL)))
        if {"export", "files"} <= said.keys():
            return dict(said)
    except (ValueError, AttributeError):
        pass  # said below, with what to do
    raise Failure(f"{store.url(JOURNAL)} is damaged; --overwrite starts over", UNREADABLE)


def _write_journal(work: Export, files: Mapping[str, int], is_complete: bool = False) -> None:
    said = {"export": _identity(work), "complete": is_complete, "files": dict(files)}
    with _complete(work.store, work.store.full(JOURNAL)) as sink:
        sink.write(json.dumps(said, indent=1).encode())


@contextmanager
def _complete(store: Store, path: str) -> Iterator[IO[bytes]]:
    """Open a file that has its name only once it is complete."""
    parent, _, name = path.rpartition("/")
    if parent:
        store.fs.makedirs(parent, exist_ok=True)
    beside = f"{parent}/{_UNFINISHED}{uuid.uuid4().hex[:8]}-{name}"
    try:
        try:
            sink = store.fs.open(beside, "wb")
        except OSError as error:  # names a file that nobody asked for
            reason = error.strerror or str(error)
            raise Failure(
                f"{parent}: nothing can be written there: {reason}", UNREADABLE
            ) from error
        with sink:
            yield sink
        store.fs.mv(beside, path)
    except BaseException:
        if store.fs.exists(beside):
            store.fs.rm_file(beside)
        raise


def _write(
    form: str,
    scanner: LanceScanner,
    sink: IO[bytes],
    on_rows: Callable[[int], None],
) -> int:
    """Write rows in a format; return how many."""
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in scanner.to_batches():
            yield batch
            rows += batch.num_rows
            on_rows(batch.num_rows)

    try:
        _FORMATS[form](scanner.projected_schema, counted(), sink)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise Failure(
            f"{form} cannot hold these columns: {error}; leave such columns out (-c), or choose "
            "--format arrow"
        ) from error
    return rows


def _write_parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch], sink: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    coarse = [field.name for field in schema if has_type(field.type, _is_coarse)]
    if coarse:  # Arrow's error is that of a file that cannot be written
        raise pa.ArrowInvalid(f"decimals of negative scale are in {', '.join(coarse)}")
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in row_groups(batches, schema):
            writer.write_table(table, row_group_size=GROUP_ROWS * 2)


def _is_coarse(data_type: pa.DataType) -> bool:
    """Return whether values are decimals of negative scale, or items of a dictionary of them."""
    if pa.types.is_dictionary(data_type):
        return has_type(data_type.value_type, _is_coarse)
    return bool(pa.types.is_decimal(data_type) and data_type.scale < 0)


_FORMATS: Mapping[str, Callable[[pa.Schema, Iterator[pa.RecordBatch], IO[bytes]], None]] = {
    "arrow": arrow_file.write,
    "parquet": _write_parquet,
    "csv": write_csv,
    "tsv": write_tsv,
    "ndjson": write_ndjson,
    "xlsx": write_xlsx,
}
