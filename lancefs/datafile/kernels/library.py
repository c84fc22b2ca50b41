"""The library of C kernels: where it is, whether it fits, and which kernels are used without it.

The environment variable `LANCEFS_KERNELS` chooses the kernels: empty for the library if there is
one, else NumPy; `numpy` for NumPy; `compiled` for the library or an ImportError; or the path of
another build of the library, such as one with a sanitizer.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

INTERFACE = 50  # as LANCEFS_INTERFACE in kernels.h
VARIABLE = "LANCEFS_KERNELS"


class KernelReport(NamedTuple):
    """Which kernels decode.

    Attributes:
        name: `compiled` or `numpy`.
        reason: Why these kernels are in use; for `compiled` the path of the library.
    """

    name: str
    reason: str


def kernels_in_use() -> KernelReport:
    """Tell whether the compiled kernels decode, or the slower ones in NumPy, and why."""
    return _REPORT


def _load() -> tuple[ctypes.CDLL | None, KernelReport]:
    choice = os.environ.get(VARIABLE, "")
    if choice == "numpy":
        return None, KernelReport("numpy", f"{VARIABLE}=numpy")
    path = _built() if choice in ("", "compiled") else Path(choice)
    try:
        if path is None:
            raise OSError("they were not built, which takes a C compiler when lancefs is installed")
        return _open(path), KernelReport("compiled", str(path))
    except (OSError, AttributeError) as error:
        if choice:
            raise ImportError(
                f"{VARIABLE}={choice}, but there are no such kernels: {error}"
            ) from error
        logging.getLogger("lancefs").warning(
            "lancefs, imported from %s, decodes with NumPy, which takes several times as long as "
            "its compiled kernels: %s. Set %s=numpy to silence this warning.",
            Path(__file__).parents[2],
            error,
            VARIABLE,
        )
        return None, KernelReport("numpy", str(error))


def _built() -> Path | None:
    """Return the library that was installed with this package or built into the checkout."""
    here = Path(__file__).parent
    paths = (here / f"_native{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def _open(path: Path) -> ctypes.CDLL:
    if sys.byteorder != "little":
        raise OSError("they are written for little-endian machines")
    library = ctypes.CDLL(str(path))
    if library.lancefs_interface() != INTERFACE:
        raise OSError(f"{path} was built for another release of lancefs; install it again")
    return library


LIBRARY, _REPORT = _load()
