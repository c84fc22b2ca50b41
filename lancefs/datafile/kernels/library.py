"""The library of compiled kernels: where it is, whether it fits, and what is used without it.

`LANCEFS_KERNELS` says what is wanted: nothing for the library where there is one and NumPy
elsewhere, `numpy` for NumPy, `compiled` for the library or an ImportError, or the path of another
build of the library (one with a sanitizer, say).
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

INTERFACE = 12  # as LANCEFS_INTERFACE in kernels.h
VARIABLE = "LANCEFS_KERNELS"

_Pointer, _Size, _Int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_CODES: dict[str, Any] = {"p": _Pointer, "q": _Size, "i": _Int}
# The parameters of each function: pointers, 64-bit sizes, and ints. All return a 64-bit number.
_PARAMETERS = {
    "interface": "",
    "open_chunks": "pqipqpqpqpppp",
    "find_buffers": "pqppqpqppp",
    "unpack": "pqpppqipq",
    "unpack_at": "pqpppqpqip",
    "read_widths": "pqppqip",
    "unpack_buffers": "pqpppqiipq",
    "tally_levels": "pqqp",
    "find_rows": "pqqpqp",
    "find_items": "pqppqppq",
    "split_lists": "ppqpqppppp",
    "measure_segments": "qppq",
    "join_segments": "pppqp",
    "fsst_measure": "pqp",
    "fsst_decode": "pqpqpppqp",
    "fsst_lengths": "pqpqpp",
    "lz4": "pqpppqpq",
    "join_chunks": "pqpppqipqpq",
    "find_strings": "pqpppqipqpp",
    "measure_strings": "pqqpipq",
    "take_strings": "ppqqpipqppq",
    "take_fixed": "pqqpiqp",
    "expand_runs": "pipiqppqpq",
    "join_streams": "pqpppqipq",
    "is_utf8": "pqpq",
    "keep_fixed": "pqpqpq",
    "measure_kept": "ppq",
    "keep_strings": "ppqpqpqpq",
    "within": "pqpp",
}


class KernelReport(NamedTuple):
    """Which kernels decode.

    Attributes:
        name: `compiled` or `numpy`.
        reason: Why these; for `compiled` the path of the library.
    """

    name: str
    reason: str


def kernels_in_use() -> KernelReport:
    """Tell whether the compiled kernels decode, or the slower ones in NumPy, and why."""
    return _REPORT


def _load() -> tuple[ctypes.CDLL | None, KernelReport]:
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "numpy":
        return None, KernelReport("numpy", f"{VARIABLE}=numpy")
    path = _built() if wanted in ("", "compiled") else Path(wanted)
    try:
        if path is None:
            raise OSError("they were not built, which takes a C compiler when lancefs is installed")
        return _open(path), KernelReport("compiled", str(path))
    except (OSError, AttributeError) as error:
        if wanted:
            raise ImportError(
                f"{VARIABLE}={wanted}, but there are no such kernels: {error}"
            ) from error
        logging.getLogger("lancefs").warning(
            "lancefs decodes with NumPy, which takes several times as long as its compiled "
            "kernels: %s. Set %s=numpy to silence this warning.",
            error,
            VARIABLE,
        )
        return None, KernelReport("numpy", str(error))


def _built() -> Path | None:
    """Return the library that was installed with this package, or built into the checkout."""
    here = Path(__file__).parent
    paths = (here / f"_native{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def _open(path: Path) -> ctypes.CDLL:
    if sys.byteorder != "little":
        raise OSError("they are written for little-endian machines")
    library = ctypes.CDLL(str(path))
    for name, parameters in _PARAMETERS.items():
        function = getattr(library, f"lancefs_{name}")
        function.argtypes = [_CODES[code] for code in parameters]
        function.restype = _Size
    found = library.lancefs_interface()
    if found != INTERFACE:
        raise OSError(f"{path} was built for another release of lancefs; install it again")
    return library


LIBRARY, _REPORT = _load()
