"""Tasks: which rows of which fragments each reads, planned from the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.fields import Field
from lancefs.lance_dataset import LanceDataset
from lancefs.table.batch_rows import MOST_ROWS, batch_rows_for
from lancefs.table.fragments import Fragment
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import OFFSET_BITS, ROW_ADDRESS

# The rows of a fragment, as Lance writes them by default: such a fragment is one task.
ROWS_PER_PARTITION = 1024 * 1024
# Small fragments share a task as long as it stays below this share of a full one.
_MERGE = 8


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive rows of a table: some fragments, or a part of one.

    Attributes:
        first: Position of the first fragment in the manifest.
        last: Position of the last fragment.
        rows: Of the one fragment, the first row and the one after the last, deleted ones counted;
            None for all rows.
    """

    first: int
    last: int
    rows: tuple[int, int] | None = None

    def astuple(self) -> tuple[int, int, tuple[int, int] | None]:
        """The numbers, which is what travels to a task."""
        return self.first, self.last, self.rows


def plan(
    fragments: Sequence[Fragment],
    rows_per_partition: int | None = None,
    positions: Sequence[int] | None = None,
) -> list[Span]:
    """Cut a table into tasks: fragments are split where they are large, joined where small.

    Args:
        fragments: Those of the manifest.
        rows_per_partition: At most this many rows a task; fragments whose writer did not record
            their rows (before 0.8) are never split.
        positions: Only these fragments, ascending; all by default.
    """
    most = rows_per_partition or ROWS_PER_PARTITION
    small = most if rows_per_partition else most // _MERGE
    spans: list[Span] = []
    joined: list[int] = []  # positions of small fragments in a row
    total = 0
    for position in range(len(fragments)) if positions is None else positions:
        rows = fragments[position].physical_rows
        is_small = rows is not None and rows <= small
        goes_on = is_small and joined[-1:] == [position - 1] and total + (rows or 0) <= small
        if joined and not goes_on:
            spans.append(Span(joined[0], joined[-1]))
            joined, total = [], 0
        if is_small:
            joined.append(position)
            total += rows or 0
        elif rows is None or rows <= most:
            spans.append(Span(position, position))
        else:
            spans.extend(Span(position, position, part) for part in _parts(rows, most))
    if joined:
        spans.append(Span(joined[0], joined[-1]))
    return spans


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
        version: Of the table.
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
    return dataset.scanner(names, filter=filter, batch_size=rows, use_index=use_index).to_batches()


def _within(
    dataset: LanceDataset, span: Span, filter: pc.Expression | None
) -> pc.Expression | None:
    """Keep only the rows of a task, by their addresses: a scan does not read the others."""
    if span.rows is None:
        return filter
    base = dataset.fragments[0].id << OFFSET_BITS
    start, end = (pa.scalar(base + row, pa.uint64()) for row in span.rows)
    address = pc.field(ROW_ADDRESS.name)
    within = (address >= start) & (address < end)
    return within if filter is None else within & filter


def _parts(rows: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into as few parts as may be, of about one size, at the ends of batches."""
    size = -(-rows // -(-rows // most))
    size = min(most, -(-size // MOST_ROWS) * MOST_ROWS)
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]
