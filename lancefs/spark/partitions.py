"""Tasks: which rows of which fragments each reads, planned from the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancefs.table.batch_rows import MAX_ROWS, fixed_row_bytes
from lancefs.table.fragments import Fragment

# The rows of a fragment, as Lance writes them by default: such a fragment is one task.
ROWS_PER_PARTITION = 1024 * 1024
# Bytes of data files that a task reads, as Spark itself cuts files (`maxPartitionBytes`).
BYTES_PER_PARTITION = 128 * 1024 * 1024
# Small fragments share a task as long as it stays below this share of a full one.
_MERGE = 8
# Parts of a fragment begin at multiples of this many rows, where they are longer.
_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive rows of a table: some fragments, or a part of one.

    Attributes:
        first: Position of the first fragment in the manifest.
        last: Position of the last fragment.
        rows: The first row of the one fragment and the row after the last, deleted ones counted;
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
    bytes_per_partition: int | None = None,
    types: Sequence[pa.DataType] | None = None,
) -> list[Span]:
    """Cut a table into tasks: fragments are split where they are large, joined where small.

    Args:
        fragments: Those of the manifest.
        rows_per_partition: At most this many rows a task; fragments whose writer did not record
            their rows (before 0.8) are never split.
        positions: Only these fragments, ascending; all by default.
        bytes_per_partition: At most about this many bytes of data files a task, where the manifest
            has their sizes.
        types: Types of the columns that are read; all by default.
    """
    most = rows_per_partition or ROWS_PER_PARTITION
    small = most if rows_per_partition else most // _MERGE
    most_bytes = bytes_per_partition or BYTES_PER_PARTITION
    small_bytes = most_bytes if bytes_per_partition else most_bytes // _MERGE
    row_bytes = None if types is None else fixed_row_bytes(types)
    spans: list[Span] = []
    joined: list[int] = []  # positions of small fragments in a row
    total = total_bytes = 0
    for position in range(len(fragments)) if positions is None else positions:
        rows = fragments[position].physical_rows
        size = _bytes_to_read(fragments[position], row_bytes)
        is_small = rows is not None and rows <= small and size <= small_bytes
        has_room = total + (rows or 0) <= small and total_bytes + size <= small_bytes
        if joined and not (is_small and has_room and joined[-1] == position - 1):
            spans.append(Span(joined[0], joined[-1]))
            joined, total, total_bytes = [], 0, 0
        if is_small:
            joined.append(position)
            total, total_bytes = total + (rows or 0), total_bytes + size
        elif rows is None or (rows <= most and size <= most_bytes):
            spans.append(Span(position, position))
        else:
            count = max(-(-rows // most), -(-size // most_bytes))
            spans.extend(Span(position, position, part) for part in _parts(rows, count, most))
    if joined:
        spans.append(Span(joined[0], joined[-1]))
    return spans


def bytes_to_read(fragments: Sequence[Fragment], types: Sequence[pa.DataType]) -> int:
    """Estimate the bytes that reading columns takes; 0 where the manifest does not tell.

    Args:
        fragments: Those of the manifest.
        types: Types of the columns.
    """
    row_bytes = fixed_row_bytes(types)
    return sum(_bytes_to_read(fragment, row_bytes) for fragment in fragments)


def restrict_spans(
    spans: Sequence[Span],
    fragments: Sequence[Fragment],
    candidates: Mapping[int, Sequence[tuple[int, int]] | None] | None,
) -> list[Span]:
    """Leave out the tasks that would find no rows.

    Args:
        spans: The tasks.
        fragments: Those of the manifest.
        candidates: What `LanceScanner.candidates` returned.
    """
    if candidates is None:
        return list(spans)

    def has_rows(span: Span, position: int) -> bool:
        number = fragments[position].id
        ranges = candidates.get(number, ())
        if ranges is None or span.rows is None:
            return number in candidates
        first, end = span.rows
        return any(start < end and first < stop for start, stop in ranges)

    return [
        span
        for span in spans
        if any(has_rows(span, position) for position in range(span.first, span.last + 1))
    ]


def _bytes_to_read(fragment: Fragment, row_bytes: float | None) -> int:
    """Estimate the bytes that reading a fragment takes; 0 where the manifest does not tell."""
    size = fragment.size or 0
    if row_bytes is None or fragment.physical_rows is None:
        return size
    return min(size, int(row_bytes * fragment.physical_rows))


def _parts(rows: int, count: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into about so many parts of about one size, at the ends of batches or chunks."""
    size = -(-rows // count)
    unit = next((unit for unit in (MAX_ROWS, _CHUNK) if size >= unit), 1)
    size = min(most, -(-size // unit) * unit)
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]
