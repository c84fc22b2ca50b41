"""The change feed: what each version did to rows, for streams that follow updates and deletes.

A version that only adds rows is read as any rows are, by tasks of some fragments. What another
version changed is found by comparing it with the one before, in shares of the row ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from lancefs.errors import MissingFile, RefNotFound, UnsupportedFeature
from lancefs.lance_dataset import LanceDataset
from lancefs.spark.partitions import BYTES_PER_PARTITION, ROWS_PER_PARTITION
from lancefs.table.changes import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    INSERT,
    IdShare,
    read_changes,
)
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import Manifest
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_METADATA

# What comes after the columns of the table.
FEED = pa.schema([CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP])
# Runs of consecutive row ids in each share: many, so that all shares get as many changes.
_RUNS = 16


def with_feed(schema: spark.StructType) -> spark.StructType:
    """Return columns as Spark sees them, with those of the change feed."""
    added = [
        spark.StructField(CHANGE_TYPE.name, spark.StringType(), False),
        spark.StructField(COMMIT_VERSION.name, spark.LongType(), False),
        spark.StructField(COMMIT_TIMESTAMP.name, spark.TimestampType(), False),
    ]
    return spark.StructType([*schema.fields, *added])


def without_feed(schema: spark.StructType) -> spark.StructType:
    """Return columns as Spark sees them, without those of the change feed."""
    kept = [field for field in schema.fields if field.name not in FEED.names]
    return spark.StructType(kept)


def require_stable_row_ids(dataset: LanceDataset) -> None:
    """Refuse a table in which a row cannot be followed through its versions.

    Raises:
        UnsupportedFeature: The table has no stable row ids.
    """
    if not _is_stable(dataset.manifest):
        raise UnsupportedFeature(
            f"{dataset.uri}: readChangeFeed needs stable row ids, which this table was made "
            "without (enable_stable_row_ids); without the option, appended rows can be streamed"
        )


def require_columns(uri: str, manifest: Manifest, names: Sequence[str]) -> None:
    """Refuse a version that lacks a column of the stream.

    Args:
        uri: The URI of the table.
        manifest: The manifest of the version.
        names: The columns of the stream.

    Raises:
        UnsupportedFeature: It lacks one.
    """
    known = {*(field.name for field in manifest.fields), *ROW_METADATA, *FEED.names}
    lacking = [name for name in names if name not in known]
    if lacking:
        raise UnsupportedFeature(
            f"{uri}: version {manifest.version} has no column {lacking[0]!r}, which the "
            "stream reads; start a new stream after the schema change"
        )


def shares(
    manifest: Manifest, before: Manifest, rows_per_task: int | None, bytes_per_task: int | None
) -> list[IdShare | None]:
    """Divide the comparison of two versions among tasks.

    Args:
        manifest: The manifest of a version.
        before: The manifest of the version before it.
        rows_per_task: At most about this many rows are compared by a task.
        bytes_per_task: At most about this many bytes of data files are read by a task.

    Returns:
        The shares; None is the whole.
    """
    if not (_is_stable(manifest) and _is_stable(before)):
        return [None]
    old = {fragment.id: fragment for fragment in before.fragments}
    compared = [_compared(one, old.pop(one.id, None)) for one in manifest.fragments]
    compared += [_compared(one, None) for one in old.values()]
    rows, size = (sum(one) for one in zip((0, 0), *compared, strict=True))
    most, most_bytes = rows_per_task or ROWS_PER_PARTITION, bytes_per_task or BYTES_PER_PARTITION
    count = max(1, -(-rows // most), -(-size // most_bytes))
    run = max(1, rows // (count * _RUNS))
    return [IdShare(number, count, run) for number in range(count)]


def inserted(
    batches: Iterator[pa.RecordBatch], version: int, time: datetime, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Put the columns of the feed to rows that a version added.

    Args:
        batches: The rows, without these columns.
        version: The version.
        time: When it was committed.
        names: The columns that are wanted, in order.
    """
    values = dict(zip(FEED.names, (INSERT, version, time), strict=True))
    for batch in batches:
        arrays: list[Any] = [
            pa.repeat(pa.scalar(values[name], FEED.field(name).type), batch.num_rows)
            if name in values
            else batch.column(name)
            for name in names
        ]
        yield pa.record_batch(arrays, names=list(names))


def changes(version: OpenVersion, names: Sequence[str], share: IdShare | None) -> pa.Table:
    """Return what a version did to rows.

    Args:
        version: The version.
        names: Columns of the table, of row metadata (`_rowid`), and of the feed.
        share: The rows that are compared; None for all.

    Raises:
        MissingFile: The version before it is gone, or a file of one of them.
    """
    number = version.manifest.version
    try:
        before = version.at(number - 1)
    except RefNotFound as error:
        raise cannot_be_told(version.uri, number, error) from error
    return read_changes(before, version, share=share).select(list(names))


def cannot_be_told(uri: str, version: int, error: object) -> MissingFile:
    """Say that the version before one is gone."""
    return MissingFile(
        f"{uri}: what version {version} changed cannot be told, as the version "
        f"before it was cleaned up ({error})"
    )


def _is_stable(manifest: Manifest) -> bool:
    return ReaderFlags.STABLE_ROW_IDS in manifest.reader_flags


def _compared(fragment: Fragment, before: Fragment | None) -> tuple[int, int]:
    """Estimate rows and bytes that are compared of a fragment; 0 where nothing is known."""
    rows, size = fragment.physical_rows or 0, fragment.size or 0
    if fragment == before:
        return 0, 0
    if before is None or (fragment.files, fragment.overlays) != (before.files, before.overlays):
        return rows, size
    deleted, deleted_before = fragment.num_deleted, before.num_deleted
    if deleted is None or deleted_before is None or not rows:
        return rows, size
    changed = abs(deleted - deleted_before)
    return changed, size * changed // rows
