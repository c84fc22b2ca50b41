"""Validation of UTF-8, which readers of Arrow string arrays rely on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def is_utf8(offsets: Array, data: Bytes) -> bool:
    """Tell whether all strings are UTF-8.

    The joined text is validated, which is several times as fast as to validate single strings. Then
    no string may begin inside a character.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]`. Offsets ascend within the data.
        data: The bytes of the strings.
    """
    text = data[int(offsets[0]) : int(offsets[-1])]
    ends = pa.py_buffer(np.array([0, len(text)], np.int64))
    whole = pa.py_buffer(np.ascontiguousarray(text))
    joined = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, whole])
    try:
        joined.validate(full=True)
    except pa.ArrowInvalid:
        return False
    starts = offsets[:-1][offsets[:-1] < offsets[-1]]
    return not np.any(data[starts] & 0xC0 == 0x80)


@twin_of(is_utf8, "offsets number bytes number")
def _compiled_is_utf8(call: Call, offsets: Array, data: Bytes) -> bool:
    if offsets.dtype != np.int32:
        return is_utf8(offsets, data)
    try:
        return bool(call(offsets, len(offsets) - 1, data, len(data)))
    except Damaged:  # NumPy trusts the offsets
        raise CorruptFile("the offsets of strings descend or leave their bytes") from None
