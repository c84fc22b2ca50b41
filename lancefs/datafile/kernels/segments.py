"""Joining segments of a buffer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints, empty, to_arrow_numbers
from lancefs.datafile.kernels.calls import Call, c_function, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def gather(data: Bytes, starts: Ints, ends: Ints) -> Bytes:
    """Join the segments `data[starts[i]:ends[i]]`, which must ascend and not overlap.

    Raises:
        CorruptFile: A segment leaves `data`, or begins before the end of the previous one.
    """
    if len(starts) == 0:
        return data[:0]
    bounds = np.column_stack((starts, ends)).reshape(-1).astype(np.int64, copy=False)
    if bounds[0] < 0 or bounds[-1] > len(data) or np.any(bounds[1:] < bounds[:-1]):
        raise CorruptFile(f"segments of a buffer overlap or leave its {len(data)} bytes")
    if len(starts) == 1 or np.array_equal(starts[1:], ends[:-1]):
        return data[bounds[0] : bounds[-1]]
    # Every second value of this Arrow array is a segment; Arrow copies them with memcpy.
    base = pa.py_buffer(data)
    segments = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), base]
    )
    wanted = segments.take(to_arrow_numbers(np.arange(0, len(bounds) - 1, 2)))
    return np.frombuffer(wanted.buffers()[2], dtype=np.uint8)[: int(np.sum(ends - starts))]


_c_gather_size = c_function("gather_size", "number ints ints number")


@twin_of(gather, "bytes ints ints number out")
def _compiled_gather(call: Call, data: Bytes, starts: Ints, ends: Ints) -> Bytes:
    count = len(starts)
    if count == 0:
        return data[:0]
    size = _c_gather_size(len(data), starts, ends, count)
    start, end = int(starts[0]), int(ends[-1])
    if size == end - start:  # no gaps
        return data[start:end]
    out = empty(size, np.uint8)
    call(data, starts, ends, count, out)
    return out


def places_of(counts: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Find the chunk of each wanted value, and its position among the values of the chunk.

    Args:
        counts: Number of values in each chunk.
        wanted: Positions among the values of all chunks, ascending and unique.

    Raises:
        CorruptFile: The positions do not ascend, or the chunks have fewer values.
    """
    stops = np.cumsum(counts)
    total = int(stops[-1]) if len(stops) else 0
    if len(wanted) and (wanted[0] < 0 or wanted[-1] >= total or np.any(wanted[1:] <= wanted[:-1])):
        raise CorruptFile(f"positions that do not ascend among {total} values")
    chunk = np.searchsorted(stops, wanted, side="right")
    return chunk, wanted - (stops - counts)[chunk]


def check_chunks(data: Bytes, starts: Ints, ends: Ints) -> None:
    """Check that chunks ascend within a buffer and do not overlap.

    Raises:
        CorruptFile: A chunk leaves the buffer, or begins before the end of the previous one.
    """
    bounds = np.column_stack((starts, ends)).reshape(-1)
    if len(bounds) and (
        bounds[0] < 0 or bounds[-1] > len(data) or np.any(bounds[1:] < bounds[:-1])
    ):
        raise CorruptFile(f"chunks overlap or leave their buffer of {len(data)} bytes")
