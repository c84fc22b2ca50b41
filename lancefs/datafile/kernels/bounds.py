"""The minimum and maximum strings of zones, by their first bytes.

The key of a text is its first 32 bytes, with zeros behind a shorter one. Keys order as the texts
do, byte by byte, but that texts with the same key may differ.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

KEY_BYTES = 32
KEY = np.dtype(f"S{KEY_BYTES}")
# What bounds are where there is no text: no key is below the least, or above the most.
MIN_KEY, MAX_KEY = b"", b"\xff" * KEY_BYTES


def text_key(text: str) -> bytes:
    """Return the key of a text as those of arrays are given: without NUL at its end."""
    return text.encode()[:KEY_BYTES].rstrip(b"\0")


def text_bounds(
    offsets: Array, data: Bytes, valid: Mask | None, starts: Ints
) -> tuple[Array, Array]:
    """Return the least and the greatest key of the texts of each zone.

    Args:
        offsets: Text i is `data[offsets[i]:offsets[i + 1]]` (int32 or int64). Offsets ascend within
            the data.
        data: The bytes of the texts.
        valid: Which texts are there; None for all.
        starts: The first text of each zone, ascending; then the number of texts.

    Returns:
        A key for each zone, twice: `MAX_KEY` and `MIN_KEY` for a zone where no text is there.

    Raises:
        CorruptFile: The offsets of a text that is there descend or leave the data.
    """
    low, high = np.full(len(starts) - 1, MAX_KEY, KEY), np.full(len(starts) - 1, MIN_KEY, KEY)
    for zone, (start, end) in enumerate(
        zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ):
        begins, ends = offsets[start:end], offsets[start + 1 : end + 1]
        if valid is not None:
            begins, ends = begins[valid[start:end]], ends[valid[start:end]]
        if (begins < 0).any() or (begins > ends).any() or (ends > len(data)).any():
            raise CorruptFile("the offsets of texts descend or leave their bytes")
        if len(begins):
            keys = np.sort(_keys(begins, ends, data))
            low[zone], high[zone] = keys[0], keys[-1]
    return low, high


@twin_of(text_bounds, "bytes number bytes number bytes ints number out out")
def _compiled_text_bounds(
    call: Call, offsets: Array, data: Bytes, valid: Mask | None, starts: Ints
) -> tuple[Array, Array]:
    zones, width = len(starts) - 1, offsets.dtype.itemsize
    low, high = empty(zones * KEY_BYTES, np.uint8), empty(zones * KEY_BYTES, np.uint8)
    call(offsets, width, data, len(data), valid, starts, zones, low, high)
    return low.view(KEY), high.view(KEY)


def _keys(begins: Array, ends: Array, data: Bytes) -> Array:
    """Return the keys of texts."""
    if not len(data):
        return np.full(len(begins), MIN_KEY, KEY)
    places = begins[:, None] + np.arange(KEY_BYTES)
    letters = data.take(np.minimum(places, len(data) - 1))
    letters[places >= ends[:, None]] = 0
    keys: Array = letters.view(KEY).ravel()
    return keys
