"""The bytes of many small batches at once.

A batch of a few hundred rows takes much longer in Python, column by column, than its bytes do. The
columns of batches that follow each other are therefore prepared whole, and then only copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of, valid_slots
from lancefs.datafile.buffers import Ints, Mask, empty
from lancefs.storage import Bytes
from lancefs.views.arrow.arrow_layout import Layout
from lancefs.views.arrow.bodies import shown_text
from lancefs.views.arrow.shapes import ArrayNode, Shape


def are_plain(shapes: Sequence[Shape]) -> bool:
    """Tell whether all columns are numbers, booleans or strings, which `encode_batches` takes."""
    nodes = [shape.nodes[0] for shape in shapes if len(shape.nodes) == 1]
    return len(nodes) == len(shapes) and all(node.kind in ("fixed", "bytes") for node in nodes)


def encode_batches(
    arrays: Sequence[pa.Array], layout: Layout, first: int, null_counts: Ints
) -> Bytes:
    """Return the bytes of batches that follow each other: their messages and their bodies.

    Args:
        arrays: The rows of all of these batches, as an array for each column.
        layout: The layout of the file; see `are_plain`.
        first: Number of the first batch.
        null_counts: Null counts of each node in each batch, of shape (batches, nodes).
    """
    last = first + len(null_counts)
    start = int(layout.starts[first])
    data = empty(int(layout.starts[last]) - start, np.uint8)
    data[:] = 0  # padding
    into = data.data
    heads = layout.starts[first:last] - start
    messages = layout.batch_messages(range(first, last), null_counts)
    _copy(into, heads, messages, [messages.shape[1]] * len(messages))
    rows = layout.rows[first:last]
    places = layout.buffer_offsets[first:last, :-1] + (heads + layout.message)[:, None]
    lengths = layout.buffer_lengths[first:last]
    for array, shape, buffer in zip(arrays, layout.shapes, layout.first_buffers, strict=False):
        for number, source in enumerate(_buffers(array, shape.nodes[0], rows), int(buffer)):
            _copy(into, places[:, number], source, lengths[:, number].tolist())
    return data


def _copy(into: memoryview, places: Ints, source: Bytes, lengths: Sequence[int]) -> None:
    """Copy parts of a buffer that follow each other to their places."""
    data, start = source.reshape(-1).data, 0
    for place, length in zip(places.tolist(), lengths, strict=True):
        into[place : place + length] = data[start : start + length]
        start += length


def _buffers(array: pa.Array, node: ArrayNode, rows: Ints) -> Iterator[Bytes]:
    """Yield each buffer of an array as those of its parts, one after the other, without padding.

    Args:
        array: The array.
        node: The node of its type.
        rows: Length of each part.
    """
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    valid = valid_slots(array)
    yield _packed(np.ones(len(array), np.bool_) if valid is None else valid, rows)
    if node.kind == "bytes":
        offsets, text = shown_text(array)
        yield _rebased(offsets, rows).view(np.uint8)
        yield text
    elif node.width == 1:
        values = mask_of(array)
        yield _packed(values if valid is None else values & valid, rows)
    else:
        yield _values(array, node.width // 8, valid)


def _values(array: pa.Array, width: int, valid: Mask | None) -> Bytes:
    """Return values of `width` bytes each; zeros under nulls."""
    size, data = len(array) * width, array.buffers()[1]
    if data is None or not size:
        return np.zeros(size, np.uint8)
    values = np.frombuffer(data, np.uint8, size, array.offset * width)
    if valid is None:
        return values
    values = values.copy()
    values.reshape(-1, width)[~valid] = 0
    return values


def _packed(bits: Mask, rows: Ints) -> Bytes:
    """Return bits as bytes; each part begins with a byte."""
    if not (rows % 8).any():
        return np.packbits(bits, bitorder="little")
    sizes = -(-rows // 8) * 8
    gaps = np.cumsum(sizes) - sizes - (np.cumsum(rows) - rows)
    padded = np.zeros(int(sizes.sum()), np.bool_)
    padded[np.arange(len(bits)) + np.repeat(gaps, rows)] = bits
    return np.packbits(padded, bitorder="little")


def _rebased(offsets: Ints, rows: Ints) -> Ints:
    """Return the offsets of each part, from 0, one more than it has strings."""
    ends = np.cumsum(np.append(0, rows)).tolist()
    parts = [offsets[low : high + 1] - offsets[low] for low, high in pairwise(ends)]
    joined: Ints = np.concatenate(parts)
    return joined
