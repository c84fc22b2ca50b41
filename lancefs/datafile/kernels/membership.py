"""Strings that are one of some texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Mask
from lancefs.datafile.kernels.calls import c_function, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# Bits that tell most strings from the keys, for each of these, and at least.
_BITS = 16
_LEAST_BITS = 4096


def among(offsets: Array, data: Bytes, key_offsets: Array, key_data: Bytes) -> Mask:
    """Tell which strings are one of some keys.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]` (int32). Offsets ascend within the
            data.
        data: The bytes of the strings.
        key_offsets: Key i is `key_data[key_offsets[i]:key_offsets[i + 1]]`. Two may be the same.
        key_data: The bytes of the keys.

    Raises:
        CorruptFile: The offsets descend or leave the data.
    """
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    import pyarrow.compute as pc  # not needed by whoever only opens tables

    found = pc.is_in(_binary(offsets, data), value_set=_binary(key_offsets, key_data))
    mask: Mask = np.array(found.cast(pa.uint8())).view(np.bool_)  # which callers change
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
def _compiled_among(offsets: Array, data: Bytes, key_offsets: Array, key_data: Bytes) -> Mask:
    count, keys = len(offsets) - 1, len(key_offsets) - 1
    found = np.zeros(count, np.bool_)
    slots = np.zeros(_power_of_two(2 * keys + 1), np.int32)
    bits = _power_of_two(max(_BITS * keys, _LEAST_BITS))
    table = np.zeros(bits // 8, np.uint8), bits - 1, slots, len(slots) - 1
    _c_among(offsets, count, data, len(data), key_offsets, keys, key_data, *table, found)
    return found


def _power_of_two(least: int) -> int:
    """Return the least power of two that is not below a positive number."""
    return 1 << (least - 1).bit_length()
