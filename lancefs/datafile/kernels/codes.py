"""Sums of the numbers that codes choose from tables."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, empty
from lancefs.datafile.kernels.calls import c_function, twin_of


def sum_codes(tables: Array, codes: Array) -> Array:
    """Sum for each row the numbers that its codes choose.

    Args:
        tables: A row of 256 numbers (float32) for each part.
        codes: A row of codes (uint8) for each part: one for each row.

    Returns:
        The sums (float32), added part after part.
    """
    sums = np.zeros(codes.shape[1], np.float32)
    for table, part in zip(tables, codes, strict=True):
        sums += table[part]
    return sums


_c_sum_codes = c_function("sum_codes", "floats number bytes number out")


@twin_of(sum_codes)
def _compiled_sum_codes(tables: Array, codes: Array) -> Array:
    assert tables.shape == (len(codes), 256)
    sums = empty(codes.shape[1], np.float32)
    _c_sum_codes(tables, len(codes), codes, codes.shape[1], sums)
    return sums
