"""Counts of rows by the positions of their values."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, empty
from lancefs.datafile.kernels.calls import Call, twin_of

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


@twin_of(add_positions, "bytes number number number offsets number offsets out")
def _compiled_add_positions(
    call: Call, numbers: Array, base: int, positions: Array, sums: Array
) -> Array | None:
    assert positions.dtype == sums.dtype == np.int32
    assert len(numbers) == len(sums)
    width = numbers.itemsize if numbers.dtype.kind == "i" else -numbers.itemsize
    found, rows = empty(len(sums), np.int32), len(numbers)
    known = call(numbers, width, rows, base, positions, len(positions), sums, found)
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


@twin_of(count_sums, "offsets number out")
def _compiled_count_sums(call: Call, sums: Array, size: int) -> Ints:
    counts = np.zeros((size, _APART), np.int64)
    call(sums, len(sums), counts)
    found: Ints = counts.sum(axis=1)
    return found
