"""Values of a dictionary, looked up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Mask, check_size
from lancefs.datafile.kernels.strings import narrowed
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def take(items: Array, indices: Array) -> Array:
    """Look up values of one width.

    Args:
        items: The values that there are.
        indices: Unsigned integers.

    Raises:
        CorruptFile: An index is beyond the items.
    """
    _check(indices, len(items))
    return items[indices]


def take_strings(
    offsets: Array, data: Bytes, indices: Array, valid: Mask | None
) -> tuple[Array, Bytes]:
    """Look up strings.

    Args:
        offsets: Of the strings that there are: string i is `data[offsets[i]:offsets[i + 1]]`.
        data: Their bytes.
        indices: Unsigned integers.
        valid: Which of them are not null, and so have bytes; None where all are.

    Returns:
        The offsets of the strings, from 0 (int32 where they fit), and their bytes.

    Raises:
        CorruptFile: An index is beyond the strings, or their offsets are damaged.
        TooLarge: The strings have more bytes than may be; see `limited`.
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
    return narrowed(found), np.frombuffer(text or b"", np.uint8)[:size]


def _check(indices: Array, items: int) -> None:
    if len(indices) and int(indices.max()) >= items:
        raise CorruptFile(f"index {int(indices.max())} into a dictionary of {items} items")
