"""Batches of a scan as the row groups of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator

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
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch_bytes(batch)
        if rows >= GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(group, schema)
            group, rows, size = [], 0, 0
    if group:
        yield pa.Table.from_batches(group, schema)
