"""Errors of an Arrow stream, shown by DuckDB without our traceback.

pyarrow adds a Python traceback to the message of an error that was raised by Python code. A C
stream (the Arrow C stream interface) says its last error in a function of its own, which is
replaced.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

_TRACEBACK = ". Detail: Python exception: "
# What pyarrow puts before messages: the kind of the error, which it adds once more.
_KIND = "Invalid: "
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
# A message must live until the next call on its stream; streams fail rarely, and then end.
_kept: deque[ctypes.Array[ctypes.c_char]] = deque(maxlen=1000)


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def without_traceback(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a reader of the same batches whose errors hold no traceback."""
    stream = _Stream()
    address = ctypes.addressof(stream)
    reader._export_to_c(address)
    replacement = _last_error_of(stream.get_last_error)
    stream.get_last_error = ctypes.cast(replacement, ctypes.c_void_p).value
    return pa.RecordBatchReader._import_from_c(address)


@cache
def _last_error_of(original: int) -> Any:
    """Return the replacement of a C function: the same one for all streams of pyarrow."""
    call: Callable[[int], int | None] = _GetLastError(original)

    @_GetLastError  # type: ignore[untyped-decorator]  # ctypes
    def get_last_error(stream: int) -> int | None:
        found = call(stream)
        if not found:
            return None
        message = ctypes.string_at(found).decode(errors="replace")
        message = message.partition(_TRACEBACK)[0].removeprefix(_KIND)
        text = ctypes.create_string_buffer(message.encode())
        _kept.append(text)
        return ctypes.addressof(text)

    return get_last_error
