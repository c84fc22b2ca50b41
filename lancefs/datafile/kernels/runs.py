"""Expansion of runs of equal values."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, empty
from lancefs.datafile.kernels.calls import Call, Damaged, twin_of
from lancefs.errors import CorruptFile

# Far more values than any file has; two such numbers still add up to an int64.
_MAX_VALUES = 1 << 62


def expand(values: Array, lengths: Array, run_counts: Ints, counts: Ints) -> Array:
    """Repeat each value by the length of its run.

    Args:
        values: The value of each run.
        lengths: The length of each run, unsigned.
        run_counts: Number of runs in each chunk.
        counts: Number of values in each chunk. The last runs of a chunk may reach beyond it.

    Raises:
        CorruptFile: The runs of a chunk do not reach its number of values.
    """
    if len(values) != len(lengths) or np.any(run_counts < 0) or run_counts.sum() != len(lengths):
        raise CorruptFile(f"{len(values)} run values and {len(lengths)} run lengths")
    if np.any(counts < 0):
        raise CorruptFile(f"a chunk of {counts.min()} values")
    longest = counts.max(initial=0)  # no run needs to be longer; this also keeps sums small
    clipped = np.minimum(lengths, longest).astype(np.int64)
    # `np.repeat` writes beyond its memory where the sum of the counts wraps.
    if max(clipped.sum(dtype=np.float64), counts.sum(dtype=np.float64)) >= _MAX_VALUES:
        raise CorruptFile(f"runs of {clipped.sum(dtype=np.float64):.0f} values")
    clipped = _clip(clipped, run_counts, counts)
    return np.repeat(values, clipped)


@twin_of(expand, "bytes number bytes number number ints ints number out number")
def _compiled_expand(
    call: Call, values: Array, lengths: Array, run_counts: Ints, counts: Ints
) -> Array:
    runs, room = len(lengths), int(counts.sum())
    if len(values) != runs or int(run_counts.sum()) != runs:
        raise Damaged
    if not 0 <= room <= int(lengths.sum(dtype=np.float64)):
        raise Damaged
    out, width, length_width = empty(room, values.dtype), values.itemsize, lengths.itemsize
    chunks = len(counts)
    call(values, width, lengths, length_width, runs, run_counts, counts, chunks, out, room)
    return out


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
