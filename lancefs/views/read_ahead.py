"""Decoding the batches of a view in order, prefetched within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import pyarrow as pa

from lancefs.datafile.arrays import batch_bytes, without_columns
from lancefs.datafile.fields import Field
from lancefs.errors import ArrayTooLarge
from lancefs.scan.mapped_memory import MappedMemory
from lancefs.scan.settings import STREAM_MAPPED_BYTES
from lancefs.threads import THREADS, Threads, prefetch, submit
from lancefs.views.view_batches import Batch, joins, read_in_parts, read_together

# Bytes of decoded batches that may wait for a slow consumer. A larger batch waits alone.
AHEAD = 256 * 1024 * 1024


def read_batches(
    batches: Iterable[Batch], fields: Sequence[Field], schema: pa.Schema
) -> Generator[pa.RecordBatch, None, None]:
    """Yield decoded batches; closing the generator stops the threads.

    Args:
        batches: The batches.
        fields: The columns.
        schema: The schema of the view.

    Raises:
        LanceError: A batch cannot be read.
    """

    def read(group: Sequence[Batch]) -> list[pa.RecordBatch]:
        if not fields:
            rows = [without_columns(one.rows) for one in group]
            return [one.replace_schema_metadata(schema.metadata) for one in rows]
        try:
            parts = read_together(group, fields)
        except ArrayTooLarge:  # unlike a file, a stream may have any batches
            parts = [part for one in group for part in read_in_parts(one, fields)]
        return [pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in parts]

    pool = Threads(THREADS, "lancefs-stream")
    mapped = MappedMemory(STREAM_MAPPED_BYTES)
    most = 1  # the size of the first group is not known, so that nothing is read beside it

    def is_full(under_way: Sequence[Sequence[Batch]]) -> bool:
        return len(under_way) >= most

    def start(group: Sequence[Batch]) -> Callable[[], tuple[Batch, list[pa.RecordBatch]]]:
        return submit(pool, lambda batches: (batches[0], read(batches)), group)

    try:
        for first, decoded in prefetch(_groups(batches, len(fields)), start, is_full):
            most = 1 + min(THREADS, AHEAD // max(1, sum(map(batch_bytes, decoded))))
            yield from decoded
            del decoded
            mapped.watch(first.fragment)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(batches: Iterable[Batch], columns: int) -> Iterator[list[Batch]]:
    """Group batches that are read together; the first batch, which a reader waits for, is alone."""
    group: list[Batch] = []
    is_first = True
    for batch in batches:
        if group and (is_first or not joins(group, batch, columns)):
            yield group
            group, is_first = [], False
        group.append(batch)
    if group:
        yield group
