"""The rows of a view in order, read ahead as far as a budget of memory allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from lancefs.datafile.arrays import without_columns
from lancefs.datafile.fields import Field
from lancefs.scan.mapped_memory import STREAM_BYTES, Mapped
from lancefs.threads import THREADS, handed_to
from lancefs.views.view_batches import Batch, joins, read_together

# What batches that wait for a slow reader may take together. One that is larger waits alone.
AHEAD = 256 * 1024 * 1024


def read_batches(
    batches: Iterable[Batch], fields: Sequence[Field], schema: pa.Schema
) -> Generator[pa.RecordBatch, None, None]:
    """Yield batches; closing the generator stops the readers.

    Args:
        batches: Which ones.
        fields: Their columns.
        schema: Of the rows.

    Raises:
        LanceError: One cannot be read.
    """

    def read(group: Sequence[Batch]) -> list[pa.RecordBatch]:
        if not fields:
            rows = [without_columns(one.rows) for one in group]
            return [one.replace_schema_metadata(schema.metadata) for one in rows]
        return [
            pa.RecordBatch.from_arrays(arrays, schema=schema)
            for arrays in read_together(group, fields)
        ]

    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="lancefs-stream")
    pending: deque[tuple[Batch, Callable[[], list[pa.RecordBatch]]]] = deque()
    mapped = Mapped(STREAM_BYTES)
    left = _groups(batches, len(fields))
    ahead = 0  # the first group, of which the size is not known, is read alone
    try:
        while True:
            for group in left:
                pending.append((group[0], handed_to(pool, read, group)))
                if len(pending) > ahead:
                    break
            if not pending:
                return
            first, result = pending.popleft()
            found = result()
            ahead = min(THREADS, AHEAD // max(1, sum(one.nbytes for one in found)))
            yield from found
            del found, result
            mapped.watch(first.fragment)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(batches: Iterable[Batch], columns: int) -> Iterator[list[Batch]]:
    """Group batches that are read together; the first one, for which somebody waits, is alone."""
    group: list[Batch] = []
    is_first = True
    for batch in batches:
        if group and (is_first or not joins(group, batch, columns)):
            yield group
            group, is_first = [], False
        group.append(batch)
    if group:
        yield group
