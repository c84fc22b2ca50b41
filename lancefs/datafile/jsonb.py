"""JSON columns: JSONB bytes in the file, JSON text for readers.

Format pages: JSONB (`docs/src/format/table/jsonb.md`) and the crate's README and constants.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, mask_of
from lancefs.datafile.kernels import write_json
from lancefs.errors import UnsupportedFeature

_LARGEST = 2**31 - 1  # bytes of a string array


def to_text(array: pa.Array) -> pa.Array:
    """Convert JSONB values to JSON text.

    Args:
        array: JSONB values, as binary or large binary. A value of no bytes, which a null struct has
            below it, becomes `null`.

    Returns:
        A string array of the same length; nulls stay null.

    Raises:
        CorruptFile: The bytes are not JSONB. (Lance shows such bytes as if they were the text.)
        UnsupportedFeature: The text exceeds the 2 GiB of a string array.
    """
    valid = mask_of(array.is_valid()) if array.null_count else None
    _, offsets, values = array.buffers()
    if not len(array):
        return pa.nulls(0, pa.string())
    number = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    width = np.dtype(number).itemsize
    bounds = np.frombuffer(offsets, number, len(array) + 1, array.offset * width).astype(np.int64)
    data = np.frombuffer(values if values is not None else b"", np.uint8)
    ends, text = write_json(bounds, data, valid)
    if ends[-1] > _LARGEST:
        raise UnsupportedFeature("more than 2 GiB of JSON text in one batch; read smaller batches")
    buffers = [bitmap(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(array), buffers)
