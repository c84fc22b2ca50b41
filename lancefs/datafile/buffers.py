"""Arrays of bytes and numbers: their types, and where they are in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]


class _Thread(threading.local):
    """What holds for one thread."""

    pool: pa.MemoryPool | None = None  # Arrow's default one
    most: int | None = None  # bytes that more values may have whose sizes are found out late


_THREAD = _Thread()


class TooLarge(Exception):
    """Values have more bytes than `limited` allows."""


@contextmanager
def limited(most: int | None) -> Iterator[None]:
    """Allow the values that this thread reads so many bytes; None for any.

    What pages say does not tell how many bytes values have that are looked up in a dictionary, or
    decompressed one by one, nor always how long strings are. So rows that are read together may
    turn out to be too many, which is found out before these bytes are made.

    Raises:
        TooLarge: There are more.
    """
    before, _THREAD.most = _THREAD.most, most
    try:
        yield
    finally:
        _THREAD.most = before


def check_size(size: int) -> None:
    """Check that values may have so many bytes, besides those of earlier ones.

    Raises:
        TooLarge: They may not; see `limited`.
    """
    if _THREAD.most is None:
        return
    if size > _THREAD.most:
        raise TooLarge(f"values of {size} bytes")
    _THREAD.most -= size


def spare_memory() -> None:
    """Have this thread take memory, from now on, out of a pool that keeps little for later.

    mimalloc keeps what a thread took and another one gave back: tens of megabytes for each thread
    of a stream, more than the stream itself has in memory. The system's allocator reuses the
    blocks of most streams as quickly, but maps those of whole tables anew, and many of those of a
    stream of one column or two, where mimalloc does not.
    """
    if pa.default_memory_pool().backend_name == "mimalloc":
        _THREAD.pool = pa.system_memory_pool()


def empty(count: int, dtype: Any, slack: int = 0) -> Array:
    """Make an array whose values are still to be written, out of Arrow's memory pool.

    The pool hands out memory that was in use before, where `np.empty` maps fresh pages for every
    large array, which cost several times what it takes to fill them.

    Args:
        count: Values.
        dtype: Of the values.
        slack: Bytes beyond the last value that may be written, too.
    """
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(pa.allocate_buffer(size + slack, memory_pool=_THREAD.pool), dtype, count)


def to_arrow_numbers(values: Array) -> pa.Array:
    """Hand numbers over as an Arrow array, uncopied where they lie side by side.

    `pa.array` would import pandas first, where that is installed: half a process' time to its first
    rows.

    Args:
        values: Of one dimension, integers or floats.
    """
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def in_place(buffers: Sequence[Array]) -> Array | None:
    """Return the bytes from the first buffer to the last, with what lies between them, uncopied.

    Args:
        buffers: The bytes of ranges of one file, ascending and disjoint.

    Returns:
        None where they do not lie in memory as they lie in the file: those of a mapped file do,
        those of a remote one where they came with one request.
    """
    if len(buffers) == 1:
        return buffers[0]
    base = buffers[0].base
    if not isinstance(base, np.ndarray) or any(data.base is not base for data in buffers):
        return None
    start, end = (one.ctypes.data - base.ctypes.data for one in (buffers[0], buffers[-1]))
    whole: Array = base[start : end + len(buffers[-1])]
    return whole


def dtype_of(width: int) -> np.dtype[Any]:
    """Return the dtype for values of `width` bytes: unsigned integers, or void for odd widths."""
    return np.dtype(f"<u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")


def total(counts: Ints) -> int:
    """Return the sum of numbers; of a single one, as small pages have, without a call of NumPy."""
    return int(counts[0]) if len(counts) == 1 else int(counts.sum())
