"""Counts of rows by the positions of their values."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, empty
from lancefs.datafile.kernels.calls import c_function, twin_of

# Rows that follow each other are counted apart, as APART in tallies.c.
_APART = 4


def add_positions(numbers: Array, base: int, positions: Array, sums: Array) -> Array | None:
    """Add to the sum of each row the position of its number.

    Args:
        numbers: Integers of at most 64 bits, but not uint64, a row each.
        base: The number of the first position.
        positions: The positions of the numbers from `base` on (int32); negative for numbers that
            have none.
        sums: The sums so far (int32).

    Returns:
        The sums (int32); None where a number has no position.
    """
    # Differences that are no int64 become numbers that are beyond all positions.
    places = numbers.astype(np.int64).view(np.uint64) - np.array(base, np.int64).view(np.uint64)
    if len(places) and places.max() >= len(positions):
        return None
    found = positions[places]
    return None if found.min(initial=0) < 0 else sums + found


_c_add_positions = c_function(
    "add_positions", "bytes number number number number offsets number offsets out"
)


@twin_of(add_positions)
def _compiled_add_positions(
    numbers: Array, base: int, positions: Array, sums: Array
) -> Array | None:
    assert positions.dtype == sums.dtype == np.int32
    assert len(numbers) == len(sums)
    numbers = np.require(numbers, requirements=["C", "A"])
    of_numbers = numbers, numbers.itemsize, numbers.dtype.kind == "i", len(numbers)
    found = empty(len(sums), np.int32)
    known = _c_add_positions(*of_numbers, base, positions, len(positions), sums, found)
    return found if known == len(sums) else None


def count_sums(sums: Array, size: int) -> Ints:
    """Count rows by their sums.

    Args:
        sums: One for each row (int32), none of them negative.
        size: A number that is greater than all of them.

    Returns:
        How many rows have each sum (int64).
    """
    return np.bincount(sums, minlength=size).astype(np.int64, copy=False)


_c_count_sums = c_function("count_sums", "offsets number out")


@twin_of(count_sums)
def _compiled_count_sums(sums: Array, size: int) -> Ints:
    counts = np.zeros((size, _APART), np.int64)
    _c_count_sums(sums, len(sums), counts)
    found: Ints = counts.sum(axis=1)
    return found
