"""Membership of strings in a set of strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Mask
from lancefs.datafile.kernels.calls import c_function, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# Bits that tell most strings from the texts, for each of these, and at least.
_BITS = 16
_LEAST_BITS = 4096


class TextSet:
    """Texts that strings are looked up in, once or many times.

    Args:
        offsets: Text i is `data[offsets[i]:offsets[i + 1]]`. Two may be the same.
        data: The bytes of the texts.

    Attributes:
        table: What the compiled kernel has made of the texts; None before its first call.
    """

    __slots__ = ("data", "offsets", "table")

    def __init__(self, offsets: Array, data: Bytes) -> None:
        self.offsets, self.data = offsets, data
        self.table: tuple[Bytes, int, Array, int] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1


def among(offsets: Array, data: Bytes, texts: TextSet) -> Mask:
    """Tell which strings are one of some texts.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]` (int32). Offsets ascend within the
            data.
        data: The bytes of the strings.
        texts: The texts.

    Raises:
        CorruptFile: The offsets descend or leave the data.
    """
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    import pyarrow.compute as pc  # not needed to open tables

    found = pc.is_in(_binary(offsets, data), value_set=_binary(texts.offsets, texts.data))
    mask: Mask = np.array(found.cast(pa.uint8())).view(np.bool_)  # a copy: callers change it
    return mask


def _binary(offsets: Array, data: Bytes) -> pa.Array:
    """Return strings as values of Arrow."""
    ends = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    buffers = [None, ends, pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


_c_among = c_function(
    "among", "offsets number bytes number ints number bytes out number out number out"
)


@twin_of(among)
def _compiled_among(offsets: Array, data: Bytes, texts: TextSet) -> Mask:
    count, table, added = len(offsets) - 1, texts.table, 0
    if table is None:
        table, added = _empty_table(len(texts)), len(texts)
    found = np.zeros(count, np.bool_)
    _c_among(offsets, count, data, len(data), texts.offsets, added, texts.data, *table, found)
    texts.table = table  # complete; a thread that began before made one of its own
    return found


def _empty_table(texts: int) -> tuple[Bytes, int, Array, int]:
    """Return the table of the kernel, with room for some texts."""
    slots = np.zeros(_power_of_two(2 * texts + 1), np.int32)
    bits = _power_of_two(max(_BITS * texts, _LEAST_BITS))
    return np.zeros(bits // 8, np.uint8), bits - 1, slots, len(slots) - 1


def _power_of_two(least: int) -> int:
    """Return the least power of two that is not below a positive number."""
    return 1 << (least - 1).bit_length()
