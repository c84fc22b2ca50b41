"""Values that a mask keeps, one after the other."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def keep(values: Array, kept: Mask) -> Array:
    """Return the values that are kept.

    Args:
        values: Of one width.
        kept: For each of them.
    """
    found: Array = values[kept]
    return found


def keep_strings(offsets: Array, data: Bytes, kept: Mask) -> tuple[Array, Bytes]:
    """Return the strings that are kept.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]`; int32.
        data: Their bytes.
        kept: For each string.

    Returns:
        The offsets of the strings that are kept, from 0, and their bytes.

    Raises:
        CorruptFile: The offsets descend or leave their bytes.
    """
    if offsets[0] < 0 or offsets[-1] > len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    starts: Ints = offsets[:-1][kept].astype(np.int64)
    ends: Ints = offsets[1:][kept].astype(np.int64)
    found = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=found[1:])
    return found, gather(data, starts, ends)
