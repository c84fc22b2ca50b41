"""Builds the compiled kernels; everything else about the package is in pyproject.toml.

The kernels are a plain library, which knows nothing of Python and is loaded with ctypes. Setuptools
builds it like an extension module, named for the limited API, so that one wheel serves every Python
from 3.11. Where there is no C compiler the package is installed without it, decodes with NumPy, and
says so (`lancefs.kernels_in_use()`).

`CFLAGS` is honoured: `make kernels` turns warnings into errors. `LANCEFS_PURE=1` leaves the kernels
out, which makes the wheel for platforms that have none of their own.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("lancefs/datafile/kernels")
IS_PURE = os.environ.get("LANCEFS_PURE", "") not in ("", "0")


class BuildLibrary(build_ext):
    """Build a library without the entry point that Python calls in a module."""

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return what to export beyond what the source marks."""
        return []


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[]
    if IS_PURE
    else [
        Extension(
            "lancefs.datafile.kernels._native",
            sources=sorted(str(path) for path in SOURCE.glob("*.c")),
            depends=[str(path) for path in SOURCE.glob("*.h")],
            extra_compile_args=(
                ["/O2"]
                if sys.platform == "win32"
                else ["-std=c11", "-O3", "-g0", "-fvisibility=hidden"]
            ),
            py_limited_api=True,
            optional=True,
        )
    ],
    exclude_package_data={"": ["*.c", "*.h"]},
    options={} if IS_PURE else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
