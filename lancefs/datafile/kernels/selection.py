"""Selection of the values that a mask keeps."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, empty
from lancefs.datafile.kernels.calls import SLACK, Call, Damaged, c_function, twin_of
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def keep(values: Array, kept: Mask) -> Array:
    """Return the values that a mask keeps.

    Args:
        values: Values of any width.
        kept: Whether to keep each value.
    """
    found: Array = values[kept]
    return found


@twin_of(keep, "bytes number bytes number out number")
def _compiled_keep(call: Call, values: Array, kept: Mask) -> Array:
    out = empty(int(np.count_nonzero(kept)), values.dtype, SLACK)
    call(values, values.itemsize, kept, len(kept), out, len(out))
    return out


def keep_strings(offsets: Array, data: Bytes, kept: Mask) -> tuple[Array, Bytes]:
    """Return the strings that a mask keeps.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]`; int32.
        data: The bytes of the strings.
        kept: Whether to keep each string.

    Returns:
        The offsets of the kept strings, from 0, and their bytes.

    Raises:
        CorruptFile: The offsets descend or leave the data.
    """
    if offsets[0] < 0 or offsets[-1] > len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    starts: Ints = offsets[:-1][kept].astype(np.int64)
    ends: Ints = offsets[1:][kept].astype(np.int64)
    found = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=found[1:])
    return found, gather(data, starts, ends)


_c_keep_strings_size = c_function("keep_strings_size", "offsets bytes number")


@twin_of(keep_strings, "offsets bytes number bytes number out number out number")
def _compiled_keep_strings(
    call: Call, offsets: Array, data: Bytes, kept: Mask
) -> tuple[Array, Bytes]:
    count, room = len(kept), int(np.count_nonzero(kept))
    size = _c_keep_strings_size(offsets, kept, count)
    if size > len(data):
        raise Damaged
    ends, text = empty(room + 1, np.int32), empty(size, np.uint8, SLACK)
    call(offsets, data, len(data), kept, count, ends, room, text, size)
    return ends, text


def keep_lists(offsets: Array, items: int, kept: Mask) -> tuple[Array, Mask]:
    """Return the offsets of the lists that a mask keeps, and which items are in these.

    Args:
        offsets: List i has the items from `offsets[i]` up to `offsets[i + 1]`; int32.
        items: Number of items.
        kept: Whether to keep each list.

    Returns:
        The offsets of the kept lists, from 0 (int32); and a mask of the items between the first and
        the last offset.

    Raises:
        CorruptFile: The offsets descend or leave the items.
    """
    lengths = np.subtract(offsets[1:], offsets[:-1], dtype=np.int64)
    if offsets[0] < 0 or offsets[-1] > items or np.any(lengths < 0):
        raise CorruptFile("the offsets of lists descend or leave their items")
    found = np.zeros(np.count_nonzero(kept) + 1, np.int32)
    np.cumsum(lengths[kept], out=found[1:])
    return found, np.repeat(kept, lengths)


@twin_of(keep_lists, "offsets bytes number out number out number")
def _compiled_keep_lists(call: Call, offsets: Array, items: int, kept: Mask) -> tuple[Array, Mask]:
    start, end = int(offsets[0]), int(offsets[-1])
    if not 0 <= start <= end <= items:
        raise Damaged
    room, within = int(np.count_nonzero(kept)), end - start
    ends, is_kept = empty(room + 1, np.int32), empty(within, np.bool_, SLACK)
    call(offsets, kept, len(kept), ends, room, is_kept, within)
    return ends, is_kept
