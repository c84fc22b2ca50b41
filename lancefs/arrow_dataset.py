"""`pyarrow.dataset` and `pyarrow.acero`, imported without pandas.

When `pyarrow._dataset` is imported, it converts one Python value, `True`, to a scalar. The first
conversion of a value imports pandas, where that is installed, so that Arrow knows the null values
of pandas. This import is about 40 % of the time that a new process needs for the first rows of a
table. A scalar from the bytes of a boolean needs no conversion; pandas is imported later, when some
value is converted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

__all__ = ["acero", "pads"]


@contextmanager
def _make_true_without_pandas() -> Iterator[None]:
    """Replace `pyarrow.lib.scalar`, for a while, by a function that makes `True` of its byte.

    Other threads may call the replacement, or keep a reference to it: it returns the same values
    as the original, to which it passes every call but `scalar(True)`. Where another release of
    pyarrow calls another function, the import imports pandas, and takes longer.
    """
    scalar = pa.lib.scalar
    true = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\x01")])[0]

    def scalar_or_true(value: Any, *args: Any, **options: Any) -> pa.Scalar:
        return true if value is True and not (args or options) else scalar(value, *args, **options)

    pa.lib.scalar = scalar_or_true
    try:
        yield
    finally:
        pa.lib.scalar = scalar


with _make_true_without_pandas():
    import pyarrow.acero as acero

    # Not the narrower `pyarrow._dataset`: DuckDB 1.4 takes an object for a dataset, and pushes
    # columns and filters into it, only where this module was imported.
    import pyarrow.dataset as pads
