"""Where everything lies in an Arrow IPC file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancefs.views.arrow import ipc_format
from lancefs.views.arrow.ipc_format import ALIGNMENT
from lancefs.views.arrow.shapes import Numbers, Shape


@dataclass(frozen=True, slots=True)
class Layout:
    """An Arrow IPC file: its head, the batches one after the other, its tail.

    Attributes:
        shapes: Of the columns.
        head: The bytes before the first batch: the schema and the dictionaries.
        tail: The bytes after the last batch.
        rows: Of each batch.
        starts: Where each batch begins; then where the tail does.
        message: Length of the message before the values of a batch.
        nodes: Length of each node in each batch.
        buffers: Length of each buffer in each batch, without padding.
        offsets: Where in the values of its batch each buffer begins; then where the last one ends.
        columns: Which buffer is the first one of each column; then how many there are.
    """

    shapes: tuple[Shape, ...]
    head: bytes
    tail: bytes
    rows: Numbers
    starts: Numbers
    message: int
    nodes: Numbers
    buffers: Numbers
    offsets: Numbers
    columns: Numbers

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return int(self.starts[-1]) + len(self.tail)

    @property
    def cost(self) -> int:
        """The bytes of memory that this takes, about."""
        arrays = (self.rows, self.starts, self.nodes, self.buffers, self.offsets)
        return len(self.head) + len(self.tail) + sum(array.nbytes for array in arrays)

    def batch_message(self, batch: int, null_counts: Numbers) -> bytes:
        """Return what stands before the values of a batch.

        Args:
            batch: Which one.
            null_counts: Of its nodes.
        """
        nodes = np.stack([self.nodes[batch], null_counts], 1)
        buffers = np.stack([self.offsets[batch, :-1], self.buffers[batch]], 1)
        body = int(self.offsets[batch, -1])
        return ipc_format.batch_message(int(self.rows[batch]), nodes, buffers, body)

    def values_start(self, batch: int) -> int:
        """Return where in the file the values of a batch begin."""
        return int(self.starts[batch]) + self.message

    def column_bounds(self, batch: int) -> list[int]:
        """Return where in the file the values of each column of a batch begin; then the end."""
        bounds: list[int] = (self.offsets[batch, self.columns] + self.values_start(batch)).tolist()
        return bounds

    def is_inside_a_buffer(self, position: int) -> bool:
        """Whether a position in the file is neither the beginning of anything nor padding."""
        batch = int(np.searchsorted(self.starts, position, "right")) - 1
        if not 0 <= batch < len(self.rows) or position < self.values_start(batch):
            return False
        within = position - self.values_start(batch)
        buffer = int(np.searchsorted(self.offsets[batch], within, "right")) - 1
        if buffer >= self.buffers.shape[1]:
            return False
        return 0 < within - int(self.offsets[batch, buffer]) < int(self.buffers[batch, buffer])


def lay_out(
    schema: pa.Schema,
    shapes: Sequence[Shape],
    rows: Numbers,
    measures: Sequence[Numbers],
    dictionaries: Sequence[bytes] = (),
) -> Layout:
    """Lay a file out.

    Args:
        schema: Of the rows.
        shapes: Of the columns.
        rows: Of each batch.
        measures: Of each column in all batches; null counts do not matter.
        dictionaries: The messages of dictionaries, each followed by its values.
    """
    lengths = [
        shape.node_lengths(rows, measured) for shape, measured in zip(shapes, measures, strict=True)
    ]
    sizes = [
        shape.buffer_lengths(length, measured)
        for shape, length, measured in zip(shapes, lengths, measures, strict=True)
    ]
    nothing = np.empty((len(rows), 0), np.int64)
    nodes, buffers = np.concatenate([nothing, *lengths], 1), np.concatenate([nothing, *sizes], 1)
    padded = -(-buffers // ALIGNMENT) * ALIGNMENT
    offsets = np.concatenate([np.zeros((len(rows), 1), np.int64), np.cumsum(padded, 1)], 1)
    message = ipc_format.batch_size(nodes.shape[1], buffers.shape[1])
    begin = ipc_format.head(schema)
    places = _places(len(begin), [_parts(one) for one in dictionaries])
    head = b"".join([begin, *dictionaries])
    starts = np.cumsum(np.concatenate([[len(head)], offsets[:, -1] + message]))
    batches = np.stack([starts[:-1], np.full(len(rows), message), offsets[:, -1]], 1)
    return Layout(
        tuple(shapes),
        head,
        ipc_format.tail(schema, places, batches),
        rows,
        starts,
        message,
        nodes,
        buffers,
        offsets,
        np.cumsum([0, *(shape.buffers for shape in shapes)]),
    )


def _parts(message: bytes) -> tuple[int, int]:
    """Return the lengths of a message and of what follows it."""
    length = 8 + int.from_bytes(message[4:8], "little")
    return length, len(message) - length


def _places(start: int, parts: Sequence[tuple[int, int]]) -> Numbers:
    """Return where messages that follow each other lie: start, length, length of the body."""
    found = np.array(parts, np.int64).reshape(-1, 2)
    ends = start + np.cumsum(found.sum(1))
    return np.column_stack([ends - found.sum(1), found])
