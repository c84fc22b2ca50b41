"""Materializing a version: its rows as Parquet or Arrow files at a destination, in parallel."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lancefs.arguments import check_list
from lancefs.errors import CorruptFile, LanceError
from lancefs.lance_dataset import LanceDataset
from lancefs.masking import mask_secrets
from lancefs.printable import get_logger
from lancefs.spark.partitions import Span
from lancefs.spark.pinned_version import Pinned, open_table, pin
from lancefs.spark.pipeline.content import Contents
from lancefs.spark.pipeline.destination import (
    DATA,
    LINEAGE,
    MANIFEST,
    PROGRESS,
    TARGET_BYTES,
    Materialized,
    Part,
    Piece,
    Settings,
    label_of,
    parse_manifest,
)
from lancefs.spark.pipeline.jobs import cores_of, run_pieces
from lancefs.spark.pipeline.metrics import Metrics
from lancefs.spark.pipeline.output_check import find_changes
from lancefs.spark.pipeline.output_files import Files, FileState
from lancefs.spark.pipeline.packing import Pack, pack
from lancefs.spark.pipeline.writers import check_partition_columns, write_parts
from lancefs.spark.spark_types import arrow_schema, spark_schema
from lancefs.spark.spark_values import convert
from lancefs.spark.stores import absolute
from lancefs.spark.table_options import TableOptions
from lancefs.spark.task_rows import scan
from lancefs.storage import Store
from lancefs.table.not_a_table import writing_refusal
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, make_ref

logger = get_logger("lancefs.spark")

FORMATS = ("parquet", "arrow")
TYPES = ("arrow", "spark")


def materialize(
    spark: SparkSession,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    ref: Ref | int | str | date | None = None,
    format: str = "parquet",
    partition_by: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    types: str = "arrow",
    target_file_size: int = TARGET_BYTES,
    incremental: bool = False,
    check: bool = False,
    metrics: str | Path | None = None,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    base_paths: Mapping[str, str] | None = None,
) -> Materialized:
    """Write a version of a table as files; readers of the destination see all of it, or none.

    A run that was killed is completed by running it again: what it finished is not written twice.
    One run at a time may write to a destination.

    Args:
        spark: Where the work is done.
        source: The table.
        destination: A directory on any store, which workers reach under the same name.
        ref: The version: a number, a tag, `exp:3`, or a time; the newest by default.
        format: `parquet` or `arrow` (IPC files).
        partition_by: Columns whose values become directories (`city=Graz/`).
        columns: The columns to write; all by default.
        types: `arrow` keeps the types of the table, `spark` writes those that Spark reads.
        target_file_size: About how large files become, in bytes. Consecutive small fragments are
            written together, and rows of a large one as several files; 1 writes at least a file for
            each fragment.
        incremental: Whether files of fragments that have not changed since the version that is
            there are kept, if their sizes and times are those that were recorded.
        check: Whether files that are kept are read, and their checksums compared.
        metrics: A file of this machine to which lines of JSON are appended: one for each task, and
            one for the run.
        storage_options: Options of fsspec for the table's store.
        destination_options: Options of fsspec for the destination's store.
        base_paths: Where the files below base paths of the table are now, by base path.

    Returns:
        What is there now.

    Raises:
        ValueError: An argument makes no sense, or the destination holds something else or is in a
            Lance table.
        LanceError: The table cannot be read.
    """
    began = time.monotonic()
    settings = _settings(format, partition_by, columns, types, target_file_size)
    table = TableOptions(absolute(source), dict(storage_options or {}), moved=base_paths or {})
    version = open_table(table, make_ref(ref=ref))
    dataset = LanceDataset(version)
    files = Files(destination, destination_options)
    _refuse_inside_table(files)
    schema = _schema(dataset, settings)
    check_partition_columns(schema, settings.partition_by)
    found = files.read(MANIFEST)
    before = None if found is None else parse_manifest(files, found)
    shown = mask_secrets(table.url)
    _check_destination(files, before, shown, incremental)
    measured = Metrics(metrics, job="materialize", source=shown, version=dataset.version)

    wanted = _keys(dataset, settings)
    kept = _kept(_known(files, before if incremental else None), wanted)
    if check:
        kept = _sound(spark, files, kept)
    of_kept = {fragment for piece in kept for fragment in piece.fragments}
    todo = [i for i, fragment in enumerate(wanted) if fragment not in of_kept]
    _log_plan(dataset, wanted, of_kept, before, schema)
    packs = pack(dataset.fragments, todo, settings.target_bytes, cores_of(spark))
    written, tasks = _written(spark, files, pin(table, version), settings, packs)
    place = {fragment: position for position, fragment in enumerate(wanted)}
    pieces = tuple(sorted([*kept, *written], key=lambda piece: place[piece.fragments[0]]))
    complete = _complete(files, table, dataset, settings, schema, pieces, before)
    if files.read(MANIFEST) != found:
        raise LanceError(
            f"{files.url}: another run has completed a version meanwhile; run this one again"
        )
    files.write(MANIFEST, complete.to_json())
    files.write(LINEAGE, complete.lineage())
    _tidy(files, complete)
    measured.add(*_lines(written, tasks, complete, time.monotonic() - began))
    logger.info("%s: version %d, %d rows", files.shown, complete.version, complete.rows)
    return complete


def _written(
    spark: SparkSession, files: Files, pinned: Pinned, settings: Settings, packs: list[Pack]
) -> tuple[list[Piece], list[dict[str, Any]]]:
    """Write fragments; return what was written together, and what each task said beside it."""
    where = files.url, files.storage
    tasks = run_pieces(
        spark, f"materialize {pinned}", len(packs), make_writer,
        pinned, where, settings, packs,
    )  # fmt: skip
    return [Piece.from_json(task.pop("piece")) for task in tasks], tasks


def make_writer(
    pinned: Pinned, where: tuple[str, dict[str, Any]], how: Settings, packs: list[Pack]
) -> Callable[[int], Any]:
    """Return what a worker does: write some fragments, and say so."""
    files, version = Files(*where), pinned.open()
    contents, schema = Contents(LanceDataset(version), how), _schema(LanceDataset(version), how)

    def write(number: int) -> dict[str, Any]:
        began = time.monotonic()
        try:
            piece = _write(version, packs[number], contents, schema, files, how)
            files.write(piece.note, piece.to_json().encode())
        except LanceError:
            raise
        except OSError as error:  # disk full, no permission, …
            raise LanceError(f"{files.url} cannot be written: {error}") from error
        seconds = round(time.monotonic() - began, 3)
        host = socket.gethostname()
        return {"piece": asdict(piece), "seconds": seconds, "host": host}

    return write


def _lines(
    written: Sequence[Piece],
    tasks: Sequence[Mapping[str, Any]],
    complete: Materialized,
    seconds: float,
) -> list[dict[str, Any]]:
    """Return the metrics of a run: what each task wrote, and the run."""
    lines = [
        {"event": "task", **_measures([piece]), **task}
        for piece, task in zip(written, tasks, strict=True)
    ]
    of_run = _measures(written)
    kept = len(complete.paths) - of_run["files"]
    return [*lines, {"event": "run", **of_run, "kept_files": kept, "seconds": round(seconds, 3)}]


def _measures(pieces: Sequence[Piece]) -> dict[str, int]:
    """How much was written."""
    parts = [part for piece in pieces for part in piece.parts]
    return {
        "fragments": sum(len(piece.fragments) for piece in pieces),
        "files": len(parts),
        "rows": sum(part.rows for part in parts),
        "bytes": sum(part.size for part in parts),
    }


def _write(
    version: OpenVersion,
    place: Pack,
    contents: Contents,
    schema: pa.Schema,
    files: Files,
    how: Settings,
) -> Piece:
    first, last = place
    fragments = [version.manifest.fragments[position] for position in range(first, last + 1)]
    written = tuple((fragment.id, contents.key(fragment)) for fragment in fragments)
    batches = scan(version, Span(first, last), how.columns)
    if how.types == "spark":
        batches = _converted(batches, schema)
    parts = write_parts(files, label_of(written), batches, schema, how)
    rows = sum(part.rows for part in parts)
    counts = [fragment.num_rows for fragment in fragments]
    if None not in counts and rows != sum(count or 0 for count in counts):
        ids = " to ".join(str(number) for number in sorted({written[0][0], written[-1][0]}))
        raise CorruptFile(f"fragment {ids}: {rows} rows, expected {sum(c or 0 for c in counts)}")
    return Piece(written, rows, parts)


def _converted(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield convert(batch, schema, "error")


def _schema(dataset: LanceDataset, settings: Settings) -> pa.Schema:
    schema = dataset.scanner(settings.columns).projected_schema
    return arrow_schema(spark_schema(schema)) if settings.types == "spark" else schema


def _settings(
    format: str,
    partition_by: Sequence[str],
    columns: Sequence[str] | None,
    types: str,
    target_bytes: int,
) -> Settings:
    for name, value, choices in (("format", format, FORMATS), ("types", types, TYPES)):
        if value not in choices:
            raise ValueError(f"{name} is {value!r}; one of {', '.join(choices)} was expected")
    check_list("columns", columns)
    check_list("partition_by", partition_by)
    if target_bytes <= 0:
        raise ValueError(f"target_file_size is {target_bytes}; a positive number was expected")
    names = None if columns is None else tuple(columns)
    return Settings(format, tuple(partition_by), names, types, target_bytes)


def _refuse_inside_table(files: Files) -> None:
    refusal = writing_refusal(Store(files.fs, files.root))
    if refusal is not None:
        raise ValueError(refusal)


def _check_destination(
    files: Files, before: Materialized | None, source: str, incremental: bool
) -> None:
    if before is not None:
        if incremental and mask_secrets(before.source) != source:
            raise ValueError(
                f"{files.shown} holds a version of {before.source}, which cannot be brought up to "
                f"date from {source}; choose another destination, or leave incremental out"
            )
        return
    own = (DATA, PROGRESS, LINEAGE)  # and what a run that was killed left of the manifest
    tops = sorted({name.split("/")[0] for name in files.names()})
    foreign = [name for name in tops if name not in own and not name.startswith("._")]
    if foreign:
        raise ValueError(
            f"{files.shown} is not empty, and what is there ({foreign[0]}, …) is not from lancefs; "
            "choose another destination"
        )


def _keys(dataset: LanceDataset, settings: Settings) -> list[tuple[int, str]]:
    """The id and the content of each fragment, in the order of the table."""
    contents = Contents(dataset, settings)
    return [(fragment.id, contents.key(fragment)) for fragment in dataset.fragments]


def _known(files: Files, before: Materialized | None) -> list[Piece]:
    """Pieces that are written: of the version before, and of a run that was killed."""
    pieces = [] if before is None else list(before.pieces)
    notes = [name for name in files.names(PROGRESS) if name.endswith(".json")]
    for data in files.read_all(notes):
        try:
            pieces.append(Piece.from_json(json.loads(data)))
        except (ValueError, KeyError, TypeError) as error:
            logger.info("a note in %s/%s is damaged, ignored: %r", files.shown, PROGRESS, error)
    there = files.names(DATA) if pieces else {}
    known = []
    for piece in pieces:
        changed = [part.path for part in piece.parts if not _is_as_written(part, there)]
        if not changed:
            known.append(piece)
            continue
        logger.info("%s was changed or is gone: to be written again", changed[0])
    return known


def _is_as_written(part: Part, there: Mapping[str, FileState]) -> bool:
    found = there.get(part.path)
    return found is not None and (found.size, found.modified) == (part.size, part.modified)


def _kept(known: Sequence[Piece], wanted: Sequence[tuple[int, str]]) -> list[Piece]:
    """Return the pieces all of whose fragments are wanted, each fragment in one piece."""
    place = {fragment: position for position, fragment in enumerate(wanted)}
    kept: list[Piece] = []
    used: set[tuple[int, str]] = set()
    for piece in known:
        start = place.get(piece.fragments[0])
        if start is None or tuple(wanted[start : start + len(piece.fragments)]) != piece.fragments:
            continue
        if used.isdisjoint(piece.fragments):
            kept.append(piece)
            used.update(piece.fragments)
    return kept


def _sound(spark: SparkSession, files: Files, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces whose files have the bytes that were written."""
    parts = [part for piece in pieces for part in piece.parts]
    damaged = {problem.path for problem in find_changes(spark, files, parts)}
    for path in sorted(damaged):
        logger.warning("%s: %s has other bytes than were written: written again", files.shown, path)
    return [piece for piece in pieces if damaged.isdisjoint(part.path for part in piece.parts)]


def _complete(
    files: Files,
    table: TableOptions,
    dataset: LanceDataset,
    settings: Settings,
    schema: pa.Schema,
    pieces: tuple[Piece, ...],
    before: Materialized | None,
) -> Materialized:
    now = {part.path for piece in pieces for part in piece.parts}
    old = () if before is None else tuple(path for path in before.paths if path not in now)
    if before is not None and not old:  # the same files: readers of the version before are safe
        old = before.previous
    return Materialized(
        files=files,
        source=mask_secrets(table.url),
        version=dataset.version,
        branch=dataset.branch,
        committed=dataset.manifest.timestamp.isoformat(),
        settings=settings,
        schema=schema,
        pieces=pieces,
        previous=old,
    )


def _tidy(files: Files, complete: Materialized) -> None:
    """Remove what no complete version needs: first the notes of this run, then files."""
    files.remove(sorted(files.names(PROGRESS)))
    needed = {*complete.paths, *complete.previous}
    extra = sorted(name for name in files.names(DATA) if name not in needed)
    files.remove(extra)
    if extra:
        logger.info("%s: removed %d files of earlier versions or runs", files.shown, len(extra))


def _log_plan(
    dataset: LanceDataset,
    wanted: Sequence[tuple[int, str]],
    kept: Set[tuple[int, str]],
    before: Materialized | None,
    schema: pa.Schema,
) -> None:
    if before is not None and not before.schema.equals(schema):
        logger.info("the columns have changed since version %d: all is written", before.version)
    pieces = () if before is None else before.pieces
    old = {number: key for piece in pieces for number, key in piece.fragments}
    reasons: Counter[str] = Counter()
    for fragment, key in wanted:
        if (fragment, key) not in kept:
            changed = "beside a changed one" if old.get(fragment) == key else "changed"
            reason = changed if fragment in old else "to be written"
        elif old.get(fragment) == key:
            reason = f"not changed since version {before.version if before else 0}, kept"
        else:
            reason = "written by a run that did not end, kept"
        reasons[reason] += 1
        logger.debug("fragment %d: %s", fragment, reason)
    said = "; ".join(f"{count} {reason}" for reason, count in reasons.items()) or "no fragments"
    logger.info("version %d: %s", dataset.version, said)
