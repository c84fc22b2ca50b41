"""The layout of an Arrow IPC file: the position of every message and buffer in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.storage import Bytes
from lancefs.views.arrow import ipc_format
from lancefs.views.arrow.ipc_format import ALIGNMENT
from lancefs.views.arrow.shapes import Shape


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a file: head, record batches, tail.

    The head holds the schema and the dictionaries. Each record batch is a message, of the same
    length in all batches, followed by its body: the buffers of all columns.

    Attributes:
        shapes: Shape of each column.
        head: Bytes before the first batch.
        tail: Bytes after the last batch: the end-of-stream marker and the footer.
        rows: Number of rows of each batch, of shape (batches,).
        starts: Position in the file of each batch, then of the tail, of shape (batches + 1,).
        message: Length in bytes of the message of a batch.
        node_lengths: Length (slots) of each node in each batch, of shape (batches, nodes).
        buffer_lengths: Length in bytes, without padding, of each buffer in each batch, of shape
            (batches, buffers).
        buffer_offsets: Offset in the body of each buffer in each batch, then the length of the
            body, of shape (batches, buffers + 1).
        first_buffers: Number of the first buffer of each column, then the number of all buffers,
            of shape (columns + 1,).
    """

    shapes: tuple[Shape, ...]
    head: bytes
    tail: bytes
    rows: Ints
    starts: Ints
    message: int
    node_lengths: Ints
    buffer_lengths: Ints
    buffer_offsets: Ints
    first_buffers: Ints

    @property
    def size(self) -> int:
        """Length of the file in bytes."""
        return int(self.starts[-1]) + len(self.tail)

    @property
    def cost(self) -> int:
        """Estimated memory of the layout in bytes."""
        arrays = (
            self.rows,
            self.starts,
            self.node_lengths,
            self.buffer_lengths,
            self.buffer_offsets,
        )
        return len(self.head) + len(self.tail) + sum(array.nbytes for array in arrays)

    def batch_messages(self, batches: range, null_counts: Ints) -> Bytes:
        """Return the messages of batches that follow each other, of shape (batches, `message`).

        Args:
            batches: Numbers of the batches.
            null_counts: Null counts of each node in each batch, of shape (batches, nodes).
        """
        chosen = slice(batches.start, batches.stop)
        offsets = self.buffer_offsets[chosen]
        nodes = np.stack([self.node_lengths[chosen], null_counts], 2)
        buffers = np.stack([offsets[:, :-1], self.buffer_lengths[chosen]], 2)
        return ipc_format.batch_messages(self.rows[chosen], nodes, buffers, offsets[:, -1])

    def body_start(self, batch: int) -> int:
        """Return the position in the file of the body of a batch."""
        return int(self.starts[batch]) + self.message

    def column_bounds(self, batch: int) -> list[int]:
        """Return the positions in the file of the columns of a batch, then of the body's end."""
        starts = self.buffer_offsets[batch, self.first_buffers] + self.body_start(batch)
        bounds: list[int] = starts.tolist()
        return bounds

    def is_inside_a_buffer(self, position: int) -> bool:
        """Return whether a position in the file is after the first byte of a buffer's values.

        Positions in messages and in padding are not.
        """
        batch = int(np.searchsorted(self.starts, position, "right")) - 1
        if not 0 <= batch < len(self.rows) or position < self.body_start(batch):
            return False
        offset = position - self.body_start(batch)
        buffer = int(np.searchsorted(self.buffer_offsets[batch], offset, "right")) - 1
        if buffer >= self.buffer_lengths.shape[1]:
            return False
        start, length = self.buffer_offsets[batch, buffer], self.buffer_lengths[batch, buffer]
        return 0 < offset - int(start) < int(length)


def lay_out(
    schema: pa.Schema,
    shapes: Sequence[Shape],
    rows: Ints,
    measures: Sequence[Ints],
    dictionaries: Sequence[bytes],
) -> Layout:
    """Compute the layout of a file.

    Args:
        schema: The schema of the file.
        shapes: Shape of each column.
        rows: Number of rows of each batch, of shape (batches,).
        measures: For each column its measures in all batches, of shape (batches, num_measures).
            Null counts have no influence and may be unknown.
        dictionaries: For each dictionary its message and body.
    """
    nodes, buffers = _lengths(shapes, rows, measures)
    offsets = _offsets(buffers)
    message = ipc_format.batch_size(nodes.shape[1], buffers.shape[1])
    schema_bytes = ipc_format.head(schema)
    dictionary_blocks = _locate(len(schema_bytes), dictionaries)
    head = b"".join([schema_bytes, *dictionaries])
    starts = np.cumsum(np.concatenate([[len(head)], offsets[:, -1] + message]))
    batch_blocks = np.stack([starts[:-1], np.full(len(rows), message), offsets[:, -1]], 1)
    return Layout(
        shapes=tuple(shapes),
        head=head,
        tail=ipc_format.tail(schema, dictionary_blocks, batch_blocks),
        rows=rows,
        starts=starts,
        message=message,
        node_lengths=nodes,
        buffer_lengths=buffers,
        buffer_offsets=offsets,
        first_buffers=np.cumsum([0, *(shape.num_buffers for shape in shapes)]),
    )


def _lengths(shapes: Sequence[Shape], rows: Ints, measures: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return the lengths of the nodes and of the buffers of all columns in each batch.

    The tables of a view of many batches are large: nothing as large as them is made beside them.
    """
    nodes = np.empty((len(rows), sum(len(shape.nodes) for shape in shapes)), np.int64)
    buffers = np.empty((len(rows), sum(shape.num_buffers for shape in shapes)), np.int64)
    node = buffer = 0
    for shape, measured in zip(shapes, measures, strict=True):
        own = nodes[:, node : node + len(shape.nodes)]
        own[:] = shape.node_lengths(rows, measured)
        buffers[:, buffer : buffer + shape.num_buffers] = shape.buffer_lengths(own, measured)
        node, buffer = node + len(shape.nodes), buffer + shape.num_buffers
    return nodes, buffers


def _offsets(lengths: Ints) -> Ints:
    """Return the offset of each buffer in its batch, then the length of the batch's body.

    Args:
        lengths: Lengths of the buffers, of shape (batches, buffers).
    """
    offsets = np.zeros((lengths.shape[0], lengths.shape[1] + 1), np.int64)
    ends = offsets[:, 1:]
    np.add(lengths, ALIGNMENT - 1, out=ends)
    ends &= -ALIGNMENT  # a power of two
    np.cumsum(ends, axis=1, out=ends)
    return offsets


def _locate(start: int, dictionaries: Sequence[bytes]) -> Ints:
    """Return the position, the message's length and the body's length of each dictionary.

    Args:
        start: Position in the file of the first dictionary; the others follow it.
        dictionaries: For each dictionary its message and body.
    """
    messages = [8 + int.from_bytes(data[4:8], "little") for data in dictionaries]
    totals = [len(data) for data in dictionaries]
    lengths = np.array([messages, totals], np.int64).reshape(2, -1).T
    ends = start + np.cumsum(lengths[:, 1])
    return np.column_stack([ends - lengths[:, 1], lengths[:, 0], lengths[:, 1] - lengths[:, 0]])
