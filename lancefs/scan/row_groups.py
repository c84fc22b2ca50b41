"""Batches of a scan in groups, such as the row groups of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lancefs.datafile.arrays import batch_bytes

# A row group ends after the first batch that reaches one of these.
GROUP_ROWS = 256 * 1024
_GROUP_BYTES = 64 * 1024 * 1024


def row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Join batches into tables of the size of a Parquet row group.

    Args:
        batches: Batches of the schema.
        schema: Schema of the tables.

    Yields:
        Tables with `GROUP_ROWS` rows or 64 MiB, and up to one batch more; the last may be smaller.
    """
    for group in grouped(batches, GROUP_ROWS, _GROUP_BYTES):
        yield pa.Table.from_batches(group, schema)


def grouped(
    batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int
) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches that follow each other in groups.

    Args:
        batches: The batches.
        most_rows: A group ends with the batch that makes it so many rows,
        most_bytes: or so many bytes.
    """
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch_bytes(batch)
        if rows >= most_rows or size >= most_bytes:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group
