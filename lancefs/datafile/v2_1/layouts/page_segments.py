"""Segments of the buffer of a page, fetched in few byte ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import in_place
from lancefs.datafile.v2_1.encodings.registry import NO_BYTES
from lancefs.storage import ByteRange, Bytes, Reads

# Above this number of byte ranges, ranges are merged across gaps of at most this many bytes.
_MANY_SPANS = 32
_GAP = 64 * 1024


def fetch_segments(base: int, starts: Ints, ends: Ints) -> Reads[tuple[Bytes, Ints]]:
    """Fetch segments of a buffer, with what lies between those that are close to each other.

    Args:
        base: Where the buffer begins in the file.
        starts: Start of each segment in the buffer: int64, shape (segments,), ascending.
        ends: End of each, at most the start of the next one: int64, shape (segments,).

    Returns:
        Bytes that hold the segments, and where each begins in them.
    """
    spans = _spans(starts, ends)
    buffers = yield [(base + start, base + end) for start, end in spans]
    # Rows without values, such as empty lists, have no bytes.
    data = in_place(buffers) if buffers else NO_BYTES
    if data is not None:
        spans = [(spans[0][0], spans[-1][1])] if spans else []
    else:
        data = np.concatenate(buffers)
    return data, _moved_starts(starts, spans)


def _spans(starts: Ints, ends: Ints) -> list[ByteRange]:
    """Return the byte ranges that hold segments, adjacent ones merged.

    Of many ranges, also those with small gaps between them are merged: the bytes of a gap cost
    nothing in a mapped file, and less than a request in a remote one.
    """
    if not len(starts):
        return []
    gaps = starts[1:] - ends[:-1]
    breaks = np.flatnonzero(gaps)
    if len(breaks) > _MANY_SPANS:
        breaks = np.flatnonzero(gaps > _GAP)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(starts) - 1)
    return list(zip(starts[first].tolist(), ends[last].tolist(), strict=True))


def _moved_starts(starts: Ints, spans: Sequence[ByteRange]) -> Ints:
    """Translate positions in the buffer into positions in the joined spans."""
    if len(spans) <= 1:
        return starts - spans[0][0] if spans else starts
    begins = np.array([start for start, _ in spans], np.int64)
    lengths = np.array([end - start for start, end in spans], np.int64)
    span = np.searchsorted(begins, starts, side="right") - 1
    return starts - begins[span] + (np.cumsum(lengths) - lengths)[span]
