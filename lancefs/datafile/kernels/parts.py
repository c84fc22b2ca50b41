"""Substring search in strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Mask
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def holds(offsets: Array, data: Bytes, part: bytes, any_case: bool = False) -> Mask:
    """Tell which strings hold a text, which may be empty.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]` (int32). Offsets ascend within the
            data.
        data: The bytes of the strings.
        part: The bytes of the text.
        any_case: Whether its small letters of ASCII stand for the capital ones, too.

    Raises:
        CorruptFile: The offsets descend or leave the data.
    """
    import pyarrow.compute as pc  # not needed to open tables

    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    if any_case:
        codes = np.frombuffer(data, np.uint8)
        is_capital = (codes >= ord("A")) & (codes <= ord("Z"))
        data = np.where(is_capital, codes | 0x20, codes)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    strings = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    found = pc.match_substring(strings, part)
    mask: Mask = np.array(found.cast(pa.uint8())).view(np.bool_)  # a copy: callers change it
    return mask


@twin_of(holds, "offsets number bytes number bytes number number out")
def _compiled_holds(
    call: Call, offsets: Array, data: Bytes, part: bytes, any_case: bool = False
) -> Mask:
    count = len(offsets) - 1
    found = np.zeros(count, np.bool_)
    wanted = np.frombuffer(part, np.uint8)
    call(offsets, count, data, len(data), wanted, len(wanted), any_case, found)
    return found
