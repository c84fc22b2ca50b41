"""Arrow IPC streams: the `.arrows` views, which flow while they are made."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pyarrow as pa


def encode_stream(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Generator[memoryview, None, None]:
    """Yield the bytes of an Arrow IPC stream, the next batch read only when it is needed.

    Args:
        schema: Of the rows.
        batches: The rows; they are the batches of the stream.
    """
    sink = _Sink()
    with pa.ipc.new_stream(sink, schema) as writer:
        yield from sink.take()
        for batch in batches:
            writer.write_batch(batch)
            yield from sink.take()
    yield from sink.take()


class _Sink:
    """What a pyarrow writer writes to; keeps its buffers, without copying them."""

    closed = False

    def __init__(self) -> None:
        self._written: list[memoryview] = []

    def write(self, data: pa.Buffer | bytes) -> int:
        self._written.append(memoryview(data))
        return len(self._written[-1])

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> list[memoryview]:
        """Return what was written since this was last asked."""
        taken, self._written = self._written, []
        return taken
