"""The rows of a task.

Kept apart from how tasks are planned: the processes in which Spark plans decode nothing, and what
decodes takes long to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.fields import Field
from lancefs.lance_dataset import LanceDataset
from lancefs.spark.partitions import Span
from lancefs.table.batch_rows import batch_rows_for
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import OFFSET_BITS, ROW_ADDRESS, ROW_OFFSET


def scan(
    version: OpenVersion,
    span: Span,
    names: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    batch_rows: int | None = None,
    fields: Sequence[Field] | None = None,
    use_index: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a task.

    Args:
        version: The version of the table.
        span: The rows.
        names: The columns, in order; all by default.
        filter: Rows to keep.
        batch_rows: At most this many rows a batch.
        fields: What the columns are that are named, if not those of this version.
        use_index: Whether the filter may be looked up in the indices of the table.

    Raises:
        MissingFile: A file of the table is gone.
        CorruptFile: A file of the table is damaged.
        UnsupportedFeature: A file uses something that this release does not read.
    """
    dataset = LanceDataset(version.part(span.first, span.last, fields))
    filter = _within(dataset, span, filter)
    columns = dataset.scanner(names).projected_schema
    rows = batch_rows or batch_rows_for(dataset.fragments[0], columns.types)
    if span.rows is not None:
        rows = min(rows, span.rows[1] - span.rows[0])
    found = dataset.scanner(names, filter=filter, batch_size=rows, use_index=use_index).to_batches()
    if ROW_OFFSET.name not in columns.names:
        return found
    before, at = _rows_before(version, span.first), columns.names.index(ROW_OFFSET.name)
    return (batch.set_column(at, columns.field(at), _plus(batch[at], before)) for batch in found)


def _rows_before(version: OpenVersion, first: int) -> int:
    """Count the live rows before a fragment."""
    ends = version.manifest.fragments.live_ends
    if ends is None:  # written by a Lance that did not record them
        return sum(reader.num_rows for reader in version.readers[:first])
    return int(ends[first - 1]) if first else 0


def _plus(positions: pa.Array, before: int) -> pa.Array:
    return pc.add_checked(positions, pa.scalar(before, positions.type))


def _within(
    dataset: LanceDataset, span: Span, filter: pc.Expression | None
) -> pc.Expression | None:
    """Keep only the rows of a task, by their addresses: a scan does not read the others."""
    if span.rows is None:
        return filter
    base = dataset.fragments[0].id << OFFSET_BITS
    # From bytes: `pa.scalar` imports pandas, which takes a good part of the time of a small task.
    start, end = to_arrow_numbers(np.array(span.rows, np.uint64) + np.uint64(base))
    address = pc.field(ROW_ADDRESS.name)
    within = (address >= start) & (address < end)
    return within if filter is None else within & filter
