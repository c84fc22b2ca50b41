"""Whether byte strings are UTF-8, which whoever gets an Arrow array of strings relies on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array
from lancefs.storage import Bytes


def is_utf8(offsets: Array, data: Bytes) -> bool:
    """Tell whether all strings are UTF-8.

    They are checked as one text, which is several times as fast; so no border between two strings
    may cut through a character.

    Args:
        offsets: Ascending, and within the data: string i is `data[offsets[i]:offsets[i + 1]]`.
        data: The bytes.
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
