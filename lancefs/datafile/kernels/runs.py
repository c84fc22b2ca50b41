"""Runs of equal values, spelled out."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints
from lancefs.errors import CorruptFile


def expand(values: Array, lengths: Array, run_counts: Ints, counts: Ints) -> Array:
    """Repeat each value as often as its run is long.

    Args:
        values: The value of each run.
        lengths: The length of each run, unsigned.
        run_counts: How many runs each chunk has.
        counts: How many values each chunk has; its last runs may reach beyond it.

    Raises:
        CorruptFile: The runs of a chunk do not reach its number of values.
    """
    if len(values) != len(lengths) or np.any(run_counts < 0) or run_counts.sum() != len(lengths):
        raise CorruptFile(f"{len(values)} run values and {len(lengths)} run lengths")
    if np.any(counts < 0):
        raise CorruptFile(f"a chunk of {counts.min()} values")
    longest = counts.max(initial=0)  # a run beyond it is as good as one that reaches it
    clipped = _clip(np.minimum(lengths, longest).astype(np.int64), run_counts, counts)
    return np.repeat(values, clipped)


def _clip(lengths: Ints, runs: Ints, counts: Ints) -> Ints:
    """Cut the runs of each chunk to its number of values."""
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    first = np.cumsum(runs) - runs
    begin = total[first]
    reach = total[first + runs] - begin
    if np.any(reach < counts):
        chunk = int(np.argmax(reach < counts))
        raise CorruptFile(
            f"the runs of chunk {chunk} give {reach[chunk]} of {counts[chunk]} values"
        )
    if np.array_equal(reach, counts):
        return lengths
    limit = np.repeat(begin + counts, runs)
    clipped: Ints = np.minimum(total[1:], limit) - np.minimum(total[:-1], limit)
    return clipped
