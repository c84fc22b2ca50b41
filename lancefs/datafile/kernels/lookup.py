"""Lookups of the values of a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Mask, check_size, empty
from lancefs.datafile.kernels.calls import SLACK, Call, Damaged, c_function, twin_of
from lancefs.datafile.kernels.strings import LARGEST, compact_offsets
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def take(items: Array, indices: Array) -> Array:
    """Look up values of one width.

    Args:
        items: The values of the dictionary.
        indices: Unsigned integers.

    Raises:
        CorruptFile: An index is beyond the items.
    """
    _check(indices, len(items))
    return items[indices]


@twin_of(take, "bytes number number bytes number number out")
def _compiled_take(call: Call, items: Array, indices: Array) -> Array:
    if not items.itemsize:  # values of no bytes, of which there is no memory to write to
        return take(items, indices)
    out, count = empty(len(indices), items.dtype), len(indices)
    call(items, len(items), items.itemsize, indices, indices.itemsize, count, out)
    return out


def take_strings(
    offsets: Array, data: Bytes, indices: Array, valid: Mask | None
) -> tuple[Array, Bytes]:
    """Look up strings.

    Args:
        offsets: Item i of the dictionary is `data[offsets[i]:offsets[i + 1]]`.
        data: The bytes of the items.
        indices: Unsigned integers.
        valid: Which indices are not null; a null gives no bytes. None if no index is null.

    Returns:
        The offsets of the strings, from 0 (int32 if they fit), and their bytes.

    Raises:
        CorruptFile: An index is beyond the items, or the offsets are damaged.
        TooLarge: The strings have more bytes than `limited` allows.
    """
    _check(indices, len(offsets) - 1)
    if np.any(offsets[1:] < offsets[:-1]) or offsets[0] < 0 or offsets[-1] > len(data):
        raise CorruptFile("the offsets of a dictionary descend or leave its bytes")
    lengths = np.diff(offsets)[indices]
    check_size(int((lengths if valid is None else lengths[valid]).sum(dtype=np.int64)))
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    items = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    mask = None if valid is None else ~valid
    _, ends, text = items.take(pa.array(indices, mask=mask)).buffers()
    found = np.frombuffer(ends, np.int64)[: len(indices) + 1]
    size = int(found[-1])
    return compact_offsets(found), np.frombuffer(text or b"", np.uint8)[:size]


_c_take_strings_size = c_function("take_strings_size", "offsets number number offsets bytes number")


@twin_of(take_strings, "offsets bytes number number offsets bytes number out out number")
def _compiled_take_strings(
    call: Call, offsets: Array, data: Bytes, indices: Array, valid: Mask | None
) -> tuple[Array, Bytes]:
    if len(data) > LARGEST or indices.itemsize > 4:
        return take_strings(offsets, data, indices, valid)
    if offsets.dtype != np.int32:
        if int(offsets.min()) < 0 or int(offsets.max()) > len(data):
            raise Damaged
        offsets = offsets.astype(np.int32)
    lookup = indices.astype(np.uint32, copy=False).view(np.int32), valid, len(indices)
    items = len(offsets) - 1
    size = _c_take_strings_size(offsets, len(data), items, *lookup)
    check_size(size)
    if size > LARGEST:
        return take_strings(offsets, data, indices, valid)
    ends, text = empty(len(indices) + 1, np.int32), empty(size, np.uint8, SLACK)
    call(offsets, data, len(data), items, *lookup, ends, text, size)
    return ends, text


def _check(indices: Array, items: int) -> None:
    if len(indices) and int(indices.max()) >= items:
        raise CorruptFile(f"index {int(indices.max())} into a dictionary of {items} items")
