"""Calls of the C kernels: NumPy arrays become pointers, and damage becomes an exception.

A compiled twin allocates the outputs, calls its C function and returns the outputs. `twin_of`
declares the C function, and makes the twin the replacement of a NumPy kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from lancefs.datafile.buffers import Array, Ints
from lancefs.datafile.kernels.library import LIBRARY

SLACK = 32  # as SLACK in kernels.h
_TRIES = 8  # of bytes that change all the time; those that do not are refused by both at once
TWINS: dict[str, Callable[..., Any]] = {}  # the name of a NumPy kernel -> its compiled twin

Call: TypeAlias = Callable[..., int]  # a function of the library
P = ParamSpec("P")
R = TypeVar("R")


class Damaged(Exception):
    """The data is damaged; the NumPy kernel raises the error that says how."""


def twin_of(
    reference: Callable[P, R], parameters: str, name: str | None = None
) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    """Make a function the compiled twin of a NumPy kernel: it takes the C function, then the same.

    If the function raises `Damaged`, the NumPy kernel is called with the same arguments, so that
    error messages are the same with and without the library. Where a mapped file is rewritten in
    between, the NumPy kernel may find nothing wrong; then both are tried again.

    Args:
        reference: The NumPy kernel.
        parameters: Those of the C function; see `c_function`.
        name: The name of the C function; None for that of the NumPy kernel.
    """
    call = c_function(name or reference.__name__, parameters)

    def decorate(function: Callable[Concatenate[Call, P], R]) -> Callable[P, R]:
        @wraps(reference)
        def twin(*args: P.args, **kwargs: P.kwargs) -> R:
            for _ in range(_TRIES):
                try:
                    return function(call, *args, **kwargs)
                except Damaged as error:
                    damaged = error
                reference(*args, **kwargs)
            raise AssertionError(f"{reference.__name__}: C refuses what NumPy takes") from damaged

        TWINS[reference.__name__] = twin
        return twin

    return decorate


def c_function(name: str, parameters: str) -> Any:
    """Declare a function of the library.

    Args:
        name: Its name in C, without `lancefs_`.
        parameters: The kinds of its parameters in their order, separated by spaces. Inputs are
            arrays: `bytes` (values of any width), `levels` (uint16), `offsets` (int32), `ints`
            (int64) or `floats` (float32); an array of another dtype, or that is not contiguous, is
            copied. `out` is an array that the function writes. `number` is an int64. None is passed
            as NULL.

    Returns:
        The function. It returns an int and raises `Damaged` for a negative one. None if the library
        is not in use: the twins, which call the function, are not in use either.
    """
    if LIBRARY is None:
        return None
    function: Any = LIBRARY[f"lancefs_{name}"]
    function.restype = ctypes.c_int64
    function.errcheck = _check
    converters = [_PARAMETERS[kind] for kind in parameters.split()]

    def call(*arguments: Any) -> Any:
        # Not by `argtypes`: of a KeyboardInterrupt or a MemoryError in a conversion, ctypes makes
        # an ArgumentError.
        return function(
            *[convert(each) for convert, each in zip(converters, arguments, strict=True)]
        )

    return call


def _check(result: int, function: Any, arguments: tuple[Any, ...]) -> int:
    if result < 0:
        raise Damaged(function.__name__)
    return result


@lru_cache(maxsize=64)
def small(numbers: tuple[int, ...]) -> Ints:
    """Return a few numbers, which many pages share, as an array that nobody changes."""
    return np.array(numbers, np.int64)


class _Copy(ctypes.c_void_p):
    """A pointer to an array that lives as long as the pointer."""

    def __init__(self, array: Array) -> None:
        super().__init__(_buffer(array).address)
        self.array = array


# A page takes dozens of these conversions. pyarrow gives the address of an array in a tenth of the
# time that NumPy takes, and ctypes converts an int to a pointer in half of the time of an int64.
_buffer = pa.py_buffer
_pointer = ctypes.c_void_p.from_param


def _bytes(array: Array | None) -> Any:
    """Convert an input array of any dtype, at any address."""
    if array is None:
        return None
    if array.flags.c_contiguous:
        return _pointer(_buffer(array).address)
    return _Copy(np.ascontiguousarray(array))


def _typed(dtype: DTypeLike) -> Callable[[Array | None], Any]:
    """Make the conversion of an input array of one dtype, whose values are aligned."""
    wanted = np.dtype(dtype)
    width = wanted.itemsize

    def convert(array: Array | None) -> Any:
        if array is None:
            return None
        if array.dtype is wanted and array.flags.c_contiguous:
            address = _buffer(array).address
            if address % width == 0:
                return _pointer(address)
        return _Copy(np.require(array, wanted, ["C", "A"]))

    return convert


def _output(array: Array | None) -> Any:
    return None if array is None else _pointer(_buffer(array).address)


_PARAMETERS: dict[str, Callable[[Any], Any]] = {
    "bytes": _bytes,
    "levels": _typed(np.uint16),
    "offsets": _typed(np.int32),
    "ints": _typed(np.int64),
    "floats": _typed(np.float32),
    "out": _output,
    "number": _pointer if ctypes.sizeof(ctypes.c_void_p) == 8 else ctypes.c_int64,
}
