"""Files mapped into memory without a descriptor that stays open.

Python's `mmap` duplicates the descriptor of each file that it maps (until 3.13, which can be told
not to), so that a table with a thousand files would take a thousand descriptors. The operating
system needs none once a file is mapped: it is called directly.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np

from lancefs.storage.byte_ranges import Bytes


class Mapping:
    """A mapping of a whole file, which is undone when no array refers to it any more.

    Args:
        address: Where it begins in memory.
        size: Its length in bytes.
    """

    __slots__ = ("__array_interface__", "_address", "_size", "_unmap")

    def __init__(self, address: int, size: int) -> None:
        self._address = address
        self._size = size
        self._unmap = _C.munmap  # kept, as modules lose their names before the last objects go
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._unmap(self._address, self._size)

    def release(self) -> None:
        """Give back the memory of the mapping; the bytes are loaded anew when they are touched."""
        _C.madvise(self._address, self._size, mmap.MADV_DONTNEED)


def map_descriptor(descriptor: int, size: int) -> Bytes:
    """Map a file into memory.

    Args:
        descriptor: The open file; it may be closed afterwards.
        size: The length of the file in bytes, not 0.

    Returns:
        The bytes of the file, read-only. The mapping lives as long as arrays refer to it.

    Raises:
        OSError: The operating system refused.
    """
    if _C is None:
        return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), dtype=np.uint8)
    address = _C.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return np.asarray(Mapping(address, size))


def release(mapped: Bytes) -> None:
    """Give back the memory of a mapping; its bytes are loaded anew when they are touched.

    Args:
        mapped: All bytes of a file, from `map_descriptor`.
    """
    owner: Any = mapped.base
    if isinstance(owner, Mapping):
        owner.release()


def _c_library() -> Any:
    """Return the C library with the three functions; None where there are no such functions."""
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


_C = _c_library()
_FAILED = ctypes.c_void_p(-1).value
