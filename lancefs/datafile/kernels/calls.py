"""Calling the compiled kernels: where arrays are, and what happens where one finds damage."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints
from lancefs.datafile.kernels.library import LIBRARY

SLACK = 32  # as SLACK in kernels.h
C: Any = LIBRARY


def in_numpy(name: str, *arguments: Any) -> Any:
    """Call the NumPy twin of a kernel, which is rare: they are imported here and not before."""
    from lancefs.datafile.kernels import references

    return getattr(references, name)(*arguments)


def refuse(name: str, *arguments: Any) -> NoReturn:
    """Let the NumPy twin of a kernel say what is wrong with the arguments."""
    in_numpy(name, *arguments)
    raise AssertionError(f"the compiled twin of {name} refuses what NumPy takes")


def ints(array: Ints) -> Ints:
    """Return numbers of 64 bits one after the other."""
    return np.ascontiguousarray(array, np.int64)


@lru_cache(maxsize=64)
def small(numbers: tuple[int, ...]) -> Ints:
    """Return a few numbers, such as many pages have alike, as an array that nobody changes."""
    return np.array(numbers, np.int64)


def plain(array: Array, dtype: Any = None) -> Array:
    """Return values one after the other, as a pointer to them needs."""
    return np.ascontiguousarray(array, dtype)


def aligned(array: Array) -> Array:
    """Return values one after the other, at an address that is a multiple of their width."""
    return np.require(array, requirements=["C", "A"])


def at(array: Array) -> int:
    """Return where an array is in memory."""
    # Of the ways to ask for it the quickest by far, and pages have dozens of arrays.
    address: int = pa.py_buffer(array).address
    return address
