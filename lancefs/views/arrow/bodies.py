"""The bytes of arrays as they stand in a file: the same for the same values, whatever lay around.

Offsets count from 0, bits and bytes after the last value are zero, and so are values under nulls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.buffers import empty
from lancefs.storage import Bytes
from lancefs.views.arrow.ipc_format import aligned
from lancefs.views.arrow.shapes import Node, Shape, measure, offsets_of, walk


def encode(
    array: pa.Array,
    shape: Shape,
    indices: Sequence[pa.Array] = (),
    into: Bytes | None = None,
) -> Bytes:
    """Return the buffers of an array, one after the other, each padded.

    Args:
        array: The array.
        shape: Of its type.
        indices: In place of those of each dictionary in it, as they are in the file.
        into: Where to write them: as many bytes as they take. New memory where it is None.
    """
    arrays = list(walk(array))
    found = measure(arrays, shape)
    lengths = shape.node_lengths(np.array([len(array)]), found[None])
    sizes = shape.buffer_lengths(lengths, found[None])[0]
    starts = np.cumsum([0, *map(aligned, sizes.tolist())])
    body = empty(int(starts[-1]), np.uint8) if into is None else into
    assert len(body) == starts[-1]
    room = _rooms(body, starts.tolist(), sizes.tolist())
    mapped = iter(indices)
    for node, one in zip(shape.nodes, arrays, strict=True):
        _write(node, next(mapped) if node.kind == "dictionary" else one, room)
    return body


def _rooms(body: Bytes, starts: Sequence[int], sizes: Sequence[int]) -> Iterator[Bytes]:
    """Yield where each buffer is written; what follows it is cleared."""
    for start, size, end in zip(starts, sizes, starts[1:], strict=False):
        body[start + size : end] = 0
        yield body[start : start + size]


def _write(node: Node, array: pa.Array, room: Iterator[Bytes]) -> None:
    """Write the buffers of one node."""
    if node.kind == "null":
        return
    _write_validity(array, next(room))
    if node.kind in ("fixed", "dictionary"):
        _write_values(array, node.width, next(room))
    if node.kind in ("bytes", "list"):
        offsets = offsets_of(array)
        into = next(room)
        into.view(f"<i{node.width}")[:] = offsets - offsets[0]
        if node.kind == "bytes":
            data, into = array.buffers()[2], next(room)
            if len(into):
                into[:] = np.frombuffer(data, np.uint8, len(into), int(offsets[0]))


def _write_validity(array: pa.Array, into: Bytes) -> None:
    if array.null_count == 0:
        into[:] = 255
        _cut_bits(into, len(array))
    else:
        _write_bits(array.buffers()[0], array.offset, len(array), into)


def _write_values(array: pa.Array, bits: int, into: Bytes) -> None:
    data = array.buffers()[1]
    if not len(into):
        return
    if data is None:
        into[:] = 0
        return
    if bits == 1:
        _write_bits(data, array.offset, len(array), into)
        if array.null_count:
            valid = np.zeros_like(into)
            _write_validity(array, valid)
            into &= valid
        return
    width = bits // 8
    into[:] = np.frombuffer(data, np.uint8, len(into), array.offset * width)
    if array.null_count:
        into.view(_void(width))[mask_of(array.is_null())] = np.zeros(1, _void(width))


def _void(width: int) -> np.dtype[np.void]:
    return np.dtype((np.void, width))


def _write_bits(data: pa.Buffer, offset: int, count: int, into: Bytes) -> None:
    start, shift = divmod(offset, 8)
    if shift == 0:
        into[:] = np.frombuffer(data, np.uint8, len(into), start)
    else:
        held = np.frombuffer(data, np.uint8, (shift + count + 7) // 8, start)
        bits = np.unpackbits(held, bitorder="little")[shift : shift + count]
        into[:] = np.packbits(bits, bitorder="little")
    _cut_bits(into, count)


def _cut_bits(bits: Bytes, count: int) -> None:
    """Clear the bits after the last one."""
    if count % 8:
        bits[-1] &= (1 << count % 8) - 1
