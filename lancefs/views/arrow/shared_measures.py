"""The measures of a table's batches, as all its views and versions share them.

A table with a hundred thousand fragments has as many batches: their measures are columns of
numbers, which are looked up and recorded for many batches at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.forks import Lock

# Estimated memory of what identifies a batch.
_BATCH_BYTES = 200


class SharedMeasures:
    """The measures of batches of one table, by column. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._places: dict[bytes, int] = {}
        self._columns: dict[str, Ints] = {}  # may have fewer rows than there are places

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        with self._lock:
            columns = sum(column.nbytes for column in self._columns.values())
            return _BATCH_BYTES * len(self._places) + columns

    def places(self, identities: Sequence[bytes]) -> Ints:
        """Return the place of each batch among all batches, which is a new one for new batches.

        Args:
            identities: What identifies each batch: see `Batches.identities`.

        Returns:
            The places, of shape (batches,).
        """
        with self._lock:
            places = self._places
            return np.array([places.setdefault(one, len(places)) for one in identities], np.int64)

    def known(self, column: str, places: Ints, num_measures: int) -> Ints:
        """Return the measures of a column in some batches.

        Args:
            column: The column as text.
            places: Places of the batches.
            num_measures: Number of measures of the column.

        Returns:
            The measures, of shape (batches, num_measures); -1 if unknown.
        """
        found = np.full((len(places), num_measures), -1, np.int64)
        with self._lock:
            known = self._columns.get(column)
            if known is not None:
                is_held = places < len(known)
                found[is_held] = known[places[is_held]]
        return found

    def record(self, column: str, places: Ints, measures: Ints) -> None:
        """Record measures of a column in some batches.

        Args:
            column: The column as text.
            places: Places of the batches.
            measures: The measures, of shape (batches, num_measures); -1 if unknown.
        """
        with self._lock:
            held = self._columns.get(column)
            if held is None or len(held) <= places.max(initial=-1):
                held = self._columns[column] = self._grown(held, measures.shape[1])
            held[places] = np.where(measures >= 0, measures, held[places])

    def _grown(self, held: Ints | None, num_measures: int) -> Ints:
        """Return a column with a row for each batch, and with room for some more."""
        size = len(self._places) if held is None else len(self._places) * 5 // 4
        grown = np.full((size, num_measures), -1, np.int64)
        if held is not None:
            grown[: len(held)] = held
        return grown
