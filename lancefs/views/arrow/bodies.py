"""The bytes of arrays in the body of a message, in a canonical form.

Equal arrays have equal bytes, whatever buffers they come from: offsets begin at 0; padding, bits
after the last value, and values under nulls are zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels import gather
from lancefs.storage import Bytes
from lancefs.views.arrow.ipc_format import aligned
from lancefs.views.arrow.shapes import ArrayNode, Shape, measure, offsets_of, walk


def encode(
    array: pa.Array,
    shape: Shape,
    indices: Sequence[pa.Array] = (),
    into: Bytes | None = None,
) -> Bytes:
    """Return the buffers of an array, one after the other, each padded to the alignment.

    Args:
        array: The array.
        shape: The shape of its type.
        indices: For each dictionary array at or below `array`, the indices to write instead of its
            own: indices into the dictionary of the file.
        into: Memory to write to, exactly as long as the buffers; None to allocate it.
    """
    if into is not None and len(shape.nodes) == 1 and _encode_flat(array, shape.nodes[0], into):
        return into
    arrays = list(walk(array))
    measures = measure(arrays, shape)[None]
    lengths = shape.node_lengths(np.array([len(array)]), measures)
    sizes = shape.buffer_lengths(lengths, measures)[0]
    starts = np.cumsum([0, *map(aligned, sizes.tolist())])
    body = empty(int(starts[-1]), np.uint8) if into is None else into
    assert len(body) == starts[-1]
    buffers = _slice_buffers(body, starts.tolist(), sizes.tolist())
    file_indices = iter(indices)
    for node, child in zip(shape.nodes, arrays, strict=True):
        _write_node(node, next(file_indices) if node.kind == "dictionary" else child, buffers)
    return body


def _encode_flat(array: pa.Array, node: ArrayNode, into: Bytes) -> bool:
    """Write an array of whole bytes or strings; return whether it is one.

    These are most columns, and of small batches the page-by-page path takes longer than the copy.
    """
    is_plain = node.kind == "bytes" or (node.kind == "fixed" and node.width % 8 == 0)
    if not is_plain or isinstance(array, pa.ExtensionArray) or not len(array):
        return False
    count, begin = len(array), aligned((len(array) + 7) // 8)
    size = count * node.width // 8
    if node.kind == "bytes":
        end = begin + (count + 1) * node.width
        offsets, text = shown_text(array)
        np.subtract(offsets, offsets[0], out=into[begin:end].view(f"<i{node.width}"))
        begin, size = aligned(end), len(text)
        into[end:begin] = 0
        into[begin : begin + size] = text
    elif array.buffers()[1] is None:
        return False
    else:
        _write_values(array, node.width, into[begin : begin + size])
    assert begin + aligned(size) == len(into)
    bits = (count + 7) // 8
    _write_validity(array, into[:bits])
    into[bits : aligned(bits)] = 0
    into[begin + size :] = 0
    return True


def shown_text(array: pa.Array) -> tuple[Ints, Bytes]:
    """Return the offsets of strings, as wide as those of the array, and their bytes from the first.

    The bytes of nulls are left out.
    """
    offsets, data = offsets_of(array), np.frombuffer(array.buffers()[2] or b"", np.uint8)
    if array.null_count:
        lengths = np.diff(offsets)
        hidden = np.flatnonzero((lengths != 0) & mask_of(array.is_null()))
        if len(hidden):
            starts = np.append(offsets[0], offsets[hidden + 1]).astype(np.int64)
            ends = np.append(offsets[hidden], offsets[-1]).astype(np.int64)
            shown = np.zeros_like(offsets)
            lengths[hidden] = 0
            np.cumsum(lengths, out=shown[1:])
            return shown, gather(data, starts, ends)
    return offsets, data[int(offsets[0]) : int(offsets[-1])]


def _slice_buffers(body: Bytes, starts: Sequence[int], sizes: Sequence[int]) -> Iterator[Bytes]:
    """Yield the slice of the body for each buffer; clear the padding after it."""
    for start, size, end in zip(starts, sizes, starts[1:], strict=False):
        body[start + size : end] = 0
        yield body[start : start + size]


def _write_node(node: ArrayNode, array: pa.Array, buffers: Iterator[Bytes]) -> None:
    """Write the buffers of one node into the next slices of `buffers`."""
    if node.kind == "null":
        return
    _write_validity(array, next(buffers))
    if node.kind in ("fixed", "dictionary"):
        _write_values(array, node.width, next(buffers))
    if node.kind in ("bytes", "list"):
        offsets = offsets_of(array)
        into = next(buffers)
        into.view(f"<i{node.width}")[:] = offsets - offsets[0]
        if node.kind == "bytes":
            data, into = array.buffers()[2], next(buffers)
            if len(into):
                into[:] = np.frombuffer(data, np.uint8, len(into), int(offsets[0]))


def _write_validity(array: pa.Array, into: Bytes) -> None:
    if array.null_count == 0:
        into[:] = 255
        _clear_bits_after(into, len(array))
    else:
        _write_bits(array.buffers()[0], array.offset, len(array), into)


def _write_values(array: pa.Array, bits: int, into: Bytes) -> None:
    """Write values of fixed width; zeros under nulls."""
    data = array.buffers()[1]
    if not len(into):
        return
    if data is None:
        into[:] = 0
        return
    if bits == 1:
        _write_bits(data, array.offset, len(array), into)
        if array.null_count:
            validity = np.zeros_like(into)
            _write_validity(array, validity)
            into &= validity
        return
    width = bits // 8
    into[:] = np.frombuffer(data, np.uint8, len(into), array.offset * width)
    if array.null_count:
        into.view(_void(width))[mask_of(array.is_null())] = np.zeros(1, _void(width))


def _void(width: int) -> np.dtype[np.void]:
    """Return the type of opaque values of `width` bytes."""
    return np.dtype((np.void, width))


def _write_bits(data: pa.Buffer, offset: int, count: int, into: Bytes) -> None:
    """Write `count` bits of a bitmap, from bit `offset` on."""
    start, shift = divmod(offset, 8)
    if shift == 0:
        into[:] = np.frombuffer(data, np.uint8, len(into), start)
    else:
        source = np.frombuffer(data, np.uint8, (shift + count + 7) // 8, start)
        bits = np.unpackbits(source, bitorder="little")[shift : shift + count]
        into[:] = np.packbits(bits, bitorder="little")
    _clear_bits_after(into, count)


def _clear_bits_after(bits: Bytes, count: int) -> None:
    """Clear the bits of the last byte after the first `count` bits."""
    if count % 8:
        bits[-1] &= (1 << count % 8) - 1
