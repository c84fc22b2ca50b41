"""Arrow IPC streams: the `.arrows` views, which are encoded batch by batch while they are read."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pyarrow as pa


def encode_stream(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Generator[memoryview, None, None]:
    """Yield the bytes of an Arrow IPC stream; take the next batch only when its bytes are needed.

    Args:
        schema: The schema of the rows.
        batches: The rows; they become the record batches of the stream.
    """
    sink = _Sink()
    with pa.ipc.new_stream(sink, schema) as writer:
        yield from sink.take()
        for batch in batches:
            writer.write_batch(batch)
            yield from sink.take()
    yield from sink.take()


class _Sink:
    """A file-like object for a pyarrow writer that keeps the written buffers without a copy."""

    closed = False

    def __init__(self) -> None:
        self._written: list[memoryview] = []

    def write(self, data: pa.Buffer | bytes) -> int:
        self._written.append(memoryview(data))
        return len(self._written[-1])

    def flush(self) -> None:
        """Do nothing: the sink holds no data back."""

    def take(self) -> list[memoryview]:
        """Return the buffers written since the last call."""
        buffers, self._written = self._written, []
        return buffers
