"""Arrays of bytes and numbers: their types, their memory, and the limits on their size.

The bytes of a file tell how large its values are once they are decoded, and they may lie. Memory
whose size follows from such numbers is allowed first: by `check_size` for values that become fewer
where fewer rows are read, by `reserve` for what does not, such as the dictionary of a page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.errors import MemoryLimitExceeded
from lancefs.storage import Bytes

Ints: TypeAlias = npt.NDArray[np.int64]
UInts: TypeAlias = npt.NDArray[np.uint64]  # ids and addresses of rows, and versions
Mask: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]


# Bytes that one read may expand to unless its caller says otherwise: of a view, which cannot cut
# its reads, and of a scan, which can; and the bytes that each column adds, about the size of a
# page. Bytes that expand by at most `_PLAIN_RATIO` are no bomb, and do not count.
MAX_MEMORY = 512 * 1024 * 1024
SCAN_MEMORY = MAX_MEMORY // 2
_COLUMN_MEMORY = 8 * 1024 * 1024
_PLAIN_RATIO = 32
# Bytes that Arrow takes for each item when it picks some lists out of others: the positions of the
# items, even of items without bytes.
PLACE_BYTES = 4


class _Thread(threading.local):
    """The settings of one thread.

    Attributes:
        pool: The memory pool of new arrays; None for Arrow's default pool.
        limit: The last `limited`, which may have ended.
        budget: The last `expanding` that was no part of another one; it may have ended.
    """

    pool: pa.MemoryPool | None = None
    limit: limited | None = None
    budget: expanding | None = None


_THREAD = _Thread()


class TooLarge(Exception):
    """The values of a read have more bytes than its limits allow; fewer rows may fit."""


class _MemoryScope:
    """Code of one thread, in a `with` statement.

    Whether it is inside is told by a lock, which functions of C take and release: in a method of
    ours an interrupt could come before the end is noted, which would then last for ever.
    """

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside = threading.Lock()

    @property
    def __enter__(self) -> Callable[[], bool]:
        self._begin()
        return self._inside.__enter__

    @property
    def __exit__(self) -> Callable[[type[BaseException] | None, Any, Any], None]:
        return self._inside.__exit__

    @property
    def is_inside(self) -> bool:
        """Whether it has begun and not ended."""
        return self._inside.locked()

    def _begin(self) -> None:
        """Have the thread know of it, just before it begins."""
        raise NotImplementedError


class limited(_MemoryScope):  # used as a verb
    """Limit the bytes of the values that this thread decodes.

    The metadata of pages does not give the decoded size of values that are looked up in a
    dictionary or decompressed one by one, nor of all strings. A read may therefore turn out to be
    too large while it decodes: the limit stops it before the bytes are allocated, by `TooLarge`.

    Args:
        most: Bytes; None for no limit.

    Attributes:
        is_limit: Whether it is a limit.
        left: Bytes that are left of it.
        outer: The one around it.
    """

    __slots__ = ("is_limit", "left", "outer")

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self.is_limit, self.left = most is not None, most or 0
        self.outer: limited | None = None

    def _begin(self) -> None:
        self.outer = _innermost()
        _THREAD.limit = self


class expanding(_MemoryScope):  # used as a verb
    """Give a read of this thread a budget of memory, for all that its bytes expand to.

    A read within another one shares the budget of that one.

    Args:
        max_memory: Bytes, all of which count; None for the default, in which bytes count only where
            they are many times as many as in the file.
        columns: Number of columns that are read.
        default: Bytes of the default, without those of the columns.

    Attributes:
        left: Bytes that are left of the budget.
        ratio: How many times as many bytes a byte of a file may expand to for free.
        advice: What the error says if the budget is exceeded.
    """

    __slots__ = ("advice", "left", "ratio")

    def __init__(self, max_memory: int | None, columns: int, default: int = MAX_MEMORY) -> None:
        super().__init__()
        self.left, self.ratio, self.advice = default + columns * _COLUMN_MEMORY, _PLAIN_RATIO, ""
        if max_memory is not None:
            self.left, self.ratio = max_memory, 0
            self.advice = f"max_memory is {max_memory:,}; pass a larger one"

    def _begin(self) -> None:
        if _budget() is None:
            _THREAD.budget = self


def _innermost() -> limited | None:
    """Return the innermost `limited` that this thread is inside of."""
    found = _THREAD.limit
    while found is not None and not found.is_inside:
        found = _THREAD.limit = found.outer
    return found


def _limit() -> limited | None:
    """Return the limit of this thread; None for no limit."""
    found = _innermost()
    return found if found is not None and found.is_limit else None


def _budget() -> expanding | None:
    """Return the budget of the read of this thread; None where none has begun."""
    found = _THREAD.budget
    return found if found is not None and found.is_inside else None


def room(stored: int, is_whole: bool) -> int:
    """Return how many bytes are allowed now.

    Args:
        stored: Bytes of the file that they are decoded from.
        is_whole: Whether `reserve` is to allow them; else `check_size`.
    """
    limit, budget = _limit(), _budget()
    if limit is not None and not is_whole:
        return limit.left
    if budget is None:
        return MAX_MEMORY + _PLAIN_RATIO * stored
    return budget.left + budget.ratio * stored


def check_size(size: int, stored: int = 0) -> None:
    """Allow memory for values of rows; of fewer rows it would be less.

    Args:
        size: Bytes.
        stored: Bytes of the file that they are decoded from.

    Raises:
        TooLarge: The bytes do not fit into what is left of the limit; see `limited`.
        MemoryLimitExceeded: There is no limit, and they do not fit into the budget.
    """
    limit = _limit()
    if limit is None:
        reserve(size, stored)
        return
    if size > limit.left:
        raise TooLarge(f"values of {size} bytes")
    limit.left -= size


def reserve(size: int, stored: int = 0) -> None:
    """Allow memory that a read needs beside the values of its rows; see `expanding`.

    Args:
        size: Bytes.
        stored: Bytes of the file that they are decoded from.

    Raises:
        TooLarge: The bytes do not fit into the budget, and fewer rows may be read: there is a
            limit (see `limited`).
        MemoryLimitExceeded: They do not fit, and there is no limit.
    """
    budget = _budget()
    excess = size - (_PLAIN_RATIO if budget is None else budget.ratio) * stored
    if excess <= 0:
        return
    if excess > (MAX_MEMORY if budget is None else budget.left):
        if _limit() is not None:
            raise TooLarge(f"{size} bytes")
        advice = (budget.advice if budget is not None else "") or (
            "if the table is to be trusted, pass max_memory=, in bytes, where it is opened"
        )
        raise MemoryLimitExceeded(f"{stored:,} bytes would expand to {size:,}, too many; {advice}")
    if budget is not None:
        budget.left -= excess


def use_system_allocator() -> None:
    """Make this thread allocate from the system, which gets freed memory back early.

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


def in_own_memory(array: pa.Array) -> pa.Array:
    """Return a copy of an array that outlives all memory pools of Arrow.

    What is kept for later reads may be decoded in a pool that a user of Arrow has set, and drops.

    Args:
        array: The array.
    """
    if array.type.num_fields:
        stream = pa.BufferOutputStream(memory_pool=pa.system_memory_pool())
        batch = pa.RecordBatch.from_arrays([array], ["values"])
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        return pa.ipc.open_stream(stream.getvalue()).read_next_batch().column(0)
    copies = [buffer and pa.py_buffer(buffer.to_pybytes()) for buffer in array.buffers()]
    return pa.Array.from_buffers(array.type, len(array), copies, array.null_count, array.offset)


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


def number_dtype(data_type: pa.DataType) -> np.dtype[Any]:
    """Return the dtype for numbers of a type; `to_pandas_dtype` may import pandas.

    Args:
        data_type: Integers or floats.
    """
    is_signed = pa.types.is_signed_integer(data_type)
    kind = "f" if pa.types.is_floating(data_type) else "i" if is_signed else "u"
    return np.dtype(f"<{kind}{data_type.bit_width // 8}")


def total(counts: Ints) -> int:
    """Return the sum of numbers; avoid NumPy for the single number that small pages have."""
    return int(counts[0]) if len(counts) == 1 else int(counts.sum())


def join_bytes(pieces: Sequence[Bytes]) -> Bytes:
    """Join any number of byte arrays; return a single one uncopied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
