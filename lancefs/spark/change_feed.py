"""The change feed: what each version did to rows, for streams that follow updates and deletes."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from lancefs.errors import MissingFile, RefNotFound, UnsupportedFeature
from lancefs.lance_dataset import LanceDataset
from lancefs.table.changes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from lancefs.table.flags import ReaderFlags

# What comes after the columns of the table.
FEED = pa.schema([CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP])


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
    if ReaderFlags.STABLE_ROW_IDS not in dataset.manifest.reader_flags:
        raise UnsupportedFeature(
            f"{dataset.uri}: readChangeFeed needs stable row ids, which this table was made "
            "without (enable_stable_row_ids); without the option, appended rows can be streamed"
        )


def changes(dataset: LanceDataset, names: list[str]) -> pa.Table:
    """Return what a version did to rows.

    Args:
        dataset: The version.
        names: Columns of the table, of row metadata (`_rowid`), and of the feed.

    Raises:
        MissingFile: The version before it is gone, or a file of one of them.
    """
    if dataset.version == 1:
        return _all_inserted(dataset, names)
    try:
        found = dataset.changes(dataset.version - 1)
    except RefNotFound as error:
        raise MissingFile(
            f"{dataset.uri}: what version {dataset.version} changed cannot be told, as the version "
            f"before it was cleaned up ({error})"
        ) from error
    lacking = [name for name in names if name not in found.column_names]
    if lacking:
        raise UnsupportedFeature(
            f"{dataset.uri}: version {dataset.version} has no column {lacking[0]!r}, which the "
            "stream reads; start a new stream after the schema change"
        )
    return found.select(names)


def _all_inserted(dataset: LanceDataset, names: list[str]) -> pa.Table:
    own = [name for name in names if name not in FEED.names]
    rows = dataset.to_table(columns=own)
    values = ["insert", dataset.version, dataset.manifest.timestamp]
    for field, value in zip(FEED, values, strict=True):
        column = pa.repeat(pa.scalar(value, field.type), rows.num_rows)
        rows = rows.append_column(field, column)
    return rows.select(names)
