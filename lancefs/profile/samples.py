"""Samples of rows in bounded memory: the rows with the least of random numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.buffers import to_arrow_numbers

Keys = npt.NDArray[np.float64]

# Rows beyond the limit that wait to be left out, as a share of it.
_SLACK = 0.5


class RowSample:
    """Keeps a sample of values, each row as likely as any other; all rows while they are few.

    Args:
        rows: Rows to keep at most.
        size: Bytes to keep at most; fewer rows are kept where they are long.
    """

    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size
        self._below = 1.0
        self._keys: list[Keys] = []
        self._values: list[pa.Array] = []
        self._held = 0

    @property
    def is_whole(self) -> bool:
        """Whether all rows are kept."""
        return self._below == 1.0

    def add(self, values: pa.Array, keys: Keys) -> None:
        """Add rows.

        Args:
            values: Their values.
            keys: A random number from 0 to 1 for each; the same for all columns of a row.
        """
        kept = np.flatnonzero(keys < self._below)
        self._values.append(values.take(to_arrow_numbers(kept)))
        self._keys.append(keys[kept])
        self._held += self._values[-1].nbytes
        rows = sum(map(len, self._keys))
        if rows > self._rows * (1 + _SLACK) or self._held > self._size * (1 + _SLACK):
            self._shrink()

    def values(self) -> pa.Array | None:
        """Return the values of the sample, in the order of the rows; None where none was added."""
        if self._values and (sum(map(len, self._keys)) > self._rows or self._held > self._size):
            self._shrink()
        return pa.concat_arrays(self._values) if self._values else None

    def _shrink(self) -> None:
        """Leave out the rows with the greatest keys, until the others are within the limits."""
        keys, values = np.concatenate(self._keys), pa.concat_arrays(self._values)
        while len(keys) > 1 and (len(keys) > self._rows or values.nbytes > self._size):
            share = min(self._rows / len(keys), self._size / max(values.nbytes, 1), 1)
            left = max(int(len(keys) * share), 1)
            left -= left == len(keys)
            self._below = float(np.partition(keys, left)[left])
            kept = np.flatnonzero(keys < self._below)
            keys, values = keys[kept], values.take(to_arrow_numbers(kept))
        self._keys, self._values, self._held = [keys], [values], values.nbytes
