"""Arrays of bytes and numbers: their types, their memory, and a limit on their size."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.storage import Bytes

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]


class _Thread(threading.local):
    """The settings of one thread.

    Attributes:
        pool: The memory pool of new arrays; None for Arrow's default pool.
        most: Bytes that are left of the limit; None for no limit (see `limited`).
    """

    pool: pa.MemoryPool | None = None
    most: int | None = None


_THREAD = _Thread()


class TooLarge(Exception):
    """The values of a read have more bytes than `limited` allows."""


@contextmanager
def limited(most: int | None) -> Iterator[None]:
    """Limit the bytes of the values that this thread decodes.

    The metadata of pages does not give the decoded size of values that are looked up in a
    dictionary or decompressed one by one, nor of all strings. A read may therefore turn out to be
    too large while it decodes: the limit stops it before the bytes are allocated.

    Args:
        most: Bytes; None for no limit.

    Raises:
        TooLarge: The values have more bytes.
    """
    before, _THREAD.most = _THREAD.most, most
    try:
        yield
    finally:
        _THREAD.most = before


def check_size(size: int) -> None:
    """Check that values of a size still fit into the limit, and subtract the size from it.

    Args:
        size: Bytes.

    Raises:
        TooLarge: They do not fit; see `limited`.
    """
    if _THREAD.most is None:
        return
    if size > _THREAD.most:
        raise TooLarge(f"values of {size} bytes")
    _THREAD.most -= size


def spare_memory() -> None:
    """Make this thread allocate from a pool that returns freed memory early.

    mimalloc keeps memory that one thread allocated and another one freed: tens of megabytes for
    each thread of a stream, more than the batches of the stream. The system's allocator reuses the
    blocks of most streams as fast. It is slower for whole tables, and for streams of one or two
    columns, whose blocks it maps anew.
    """
    if pa.default_memory_pool().backend_name == "mimalloc":
        _THREAD.pool = pa.system_memory_pool()


def empty(count: int, dtype: Any, slack: int = 0) -> Array:
    """Allocate an uninitialized array from Arrow's memory pool.

    The pool reuses memory, whereas `np.empty` maps fresh pages for every large array, which costs
    several times as much as filling them.

    Args:
        count: Number of values.
        dtype: The type of the values.
        slack: Bytes after the last value that may be written to as well.
    """
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(pa.allocate_buffer(size + slack, memory_pool=_THREAD.pool), dtype, count)


def to_arrow_numbers(values: Array) -> pa.Array:
    """Return numbers as an Arrow array; contiguous numbers are not copied.

    `pa.array` would import pandas, if it is installed: half of the time that a new process needs
    for its first rows.

    Args:
        values: Integers or floats, one-dimensional.
    """
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def in_place(buffers: Sequence[Array]) -> Array | None:
    """Return the bytes from the first buffer to the last, gaps included, without a copy.

    Args:
        buffers: The bytes of ranges of one file, ascending and disjoint.

    Returns:
        None where the buffers do not lie in memory as in the file. The buffers of a mapped file do,
        and those of a remote file that came with one request.
    """
    if len(buffers) == 1:
        return buffers[0]
    base = buffers[0].base
    if not isinstance(base, np.ndarray) or any(data.base is not base for data in buffers):
        return None
    start, last = (data.ctypes.data - base.ctypes.data for data in (buffers[0], buffers[-1]))
    whole: Array = base[start : last + len(buffers[-1])]
    return whole


def dtype_of(width: int) -> np.dtype[Any]:
    """Return the dtype for values of `width` bytes: unsigned integers, or void for other widths."""
    return np.dtype(f"<u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")


def total(counts: Ints) -> int:
    """Return the sum of numbers; avoid NumPy for the single number that small pages have."""
    return int(counts[0]) if len(counts) == 1 else int(counts.sum())


def join_bytes(pieces: Sequence[Bytes]) -> Bytes:
    """Join any number of byte arrays; return a single one uncopied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
