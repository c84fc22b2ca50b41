"""`pyarrow.dataset` and `acero`, imported without pandas: half the time to a table's first rows.

While `pyarrow._dataset` is imported it makes one scalar, `True`, and whatever makes scalars or
arrays of Python values imports pandas first, where that is installed, to know its nulls. A boolean
can be made of its byte as well. pandas is imported when the first value asks for it, as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

__all__ = ["acero", "pads"]


@contextmanager
def _true_without_pandas() -> Iterator[None]:
    """Let `pyarrow.lib.scalar` make `True` of a byte for a while, and all else as it does.

    Whoever calls it in the meantime gets the same values as ever, so that it does not matter who
    else imports or computes what. Nor does it where pyarrow asks another function one day: the
    import takes longer then.
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


with _true_without_pandas():
    import pyarrow.acero as acero

    # Not the narrower `pyarrow._dataset`: DuckDB 1.4 asks whether this module was imported before
    # it takes an object for a dataset, and pushes no column and no filter into anything else.
    import pyarrow.dataset as pads
