"""Ranges of bytes in any order, and what the offsets of values say (data files 0.1).

A page of n values has n + 1 offsets: value i lies between the offsets i and i + 1. A read takes
ranges of slots from many pages, and the offsets of neighbouring ranges overlap.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, empty, join_bytes
from lancefs.datafile.kernels.calls import Call, Damaged, c_function, twin_of
from lancefs.datafile.kernels.strings import LARGEST, compact_offsets
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# More bytes, or items, than any file has; the sum of two such numbers is an int64.
MOST = 1 << 62


def copy_ranges(data: Bytes, starts: Ints, ends: Ints) -> Bytes:
    """Join ranges of a buffer, which may be in any order and overlap.

    Args:
        data: The buffer: uint8, shape (bytes,).
        starts: Where each range begins: int64, shape (ranges,).
        ends: Where it ends.

    Raises:
        CorruptFile: A range leaves the buffer, or ends before it begins.
    """
    if np.any((starts < 0) | (starts > ends) | (ends > len(data))):
        raise CorruptFile(f"ranges of a buffer leave its {len(data)} bytes")
    _check_sum(ends - starts)
    ranges = zip(starts.tolist(), ends.tolist(), strict=True)
    return join_bytes([data[start:end] for start, end in ranges])


_c_ranges_size = c_function("ranges_size", "number ints ints number")


@twin_of(copy_ranges, "bytes ints ints number out", "gather")
def _compiled_copy_ranges(call: Call, data: Bytes, starts: Ints, ends: Ints) -> Bytes:
    out = empty(_c_ranges_size(len(data), starts, ends, len(starts)), np.uint8)
    call(data, starts, ends, len(starts), out)
    return out


def find_spans(
    data: Bytes, places: Ints, counts: Ints, width: int, limit: int
) -> tuple[Array, Ints, Ints]:
    """Find where values lie, by the offsets of ranges of slots.

    Args:
        data: Bytes that hold the offsets: uint8, shape (bytes,).
        places: Where the first offset of each range is in them: int64, shape (ranges,).
        counts: Number of values of each range, of which there is one more offset.
        width: Bytes of an offset: 4 or 8.
        limit: What no offset is larger than.

    Returns:
        The offsets of all values, from 0 (int32 if they fit), where those of a range follow those
        of the range before; and the first and the last stored offset of each range.

    Raises:
        CorruptFile: The offsets of a range descend, or leave the data or the limit.
    """
    if np.any((counts < 0) | (places < 0) | (counts >= (len(data) - places) // width)):
        raise CorruptFile(f"offsets of values leave their {len(data)} bytes")
    heads = (counts + 1) * width
    stored = copy_ranges(data, places, places + heads).view(f"<i{width}").astype(np.int64)
    lasts = np.cumsum(counts + 1) - 1
    firsts = lasts - counts
    lengths = np.delete(np.diff(stored), lasts[:-1])  # without those between two ranges
    if stored.min(initial=0) < 0 or lengths.min(initial=0) < 0:
        raise CorruptFile("the offsets of values descend")
    starts, ends = stored[firsts], stored[lasts]
    if ends.max(initial=0) > limit:
        raise CorruptFile(f"a value ends at {ends.max()}, beyond the limit of {limit}")
    _check_sum(ends - starts)
    offsets = compact_offsets(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))
    return offsets, starts, ends


@twin_of(find_spans, "bytes number ints ints number number number number out out out")
def _compiled_find_spans(
    call: Call, data: Bytes, places: Ints, counts: Ints, width: int, limit: int
) -> tuple[Array, Ints, Ints]:
    ranges = len(counts)
    values = int(counts.sum()) if ranges != 1 else int(counts[0])
    if not 0 <= values <= ranges * (len(data) // width):
        raise Damaged
    if values > LARGEST:
        return find_spans(data, places, counts, width, limit)
    offsets = empty(values + 1, np.int32)
    starts, ends = np.empty(ranges, np.int64), np.empty(ranges, np.int64)
    where = data, len(data), places, counts, ranges
    size = call(*where, width, limit, values, offsets, starts, ends)
    if size > LARGEST:
        return find_spans(data, places, counts, width, limit)
    return offsets, starts, ends


def _check_sum(lengths: Ints) -> None:
    """Check that lengths, none of them negative, have a sum that an int64 holds."""
    if sum(lengths.tolist()) > MOST:
        raise CorruptFile("values that have more bytes than any file")
