"""The nearest rows of those that a search has looked at, however many these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import UInts
from lancefs.index.vectors.distances import Floats

# Least rows that are collected before the nearest of them are chosen.
_WAITING = 4096


class Ranked(NamedTuple):
    """Rows, the nearest one first; of rows with the same distance, the one with the lower id.

    Attributes:
        row_ids: Values of `_rowid`.
        distances: Their distances.
    """

    row_ids: UInts
    distances: Floats


class BestRows:
    """Keeps the nearest rows of those that are added.

    Args:
        k: How many.
        lowest: The least distance that counts.
        limit: All distances that count are below it; None for no limit.

    Attributes:
        worst: No row that is farther is among the nearest.
    """

    def __init__(self, k: int, lowest: float | None = None, limit: float | None = None) -> None:
        self._k = k
        self._lowest = lowest
        self._limit = limit
        self.worst = np.float32(np.inf)
        self._parts: list[Ranked] = []
        self._waiting = 0

    def add(self, row_ids: UInts, distances: Floats) -> None:
        """Add rows; those without a distance (NaN) are left out.

        Args:
            row_ids: Their ids, each added once.
            distances: Their distances.
        """
        counts = distances <= self.worst  # not NaN
        if self._lowest is not None:
            counts &= distances >= np.float32(self._lowest)
        if self._limit is not None:
            counts &= distances < np.float32(self._limit)
        positions = np.flatnonzero(counts)
        if not len(positions):
            return
        self._parts.append(Ranked(row_ids[positions], distances[positions]))
        self._waiting += len(positions)
        if self._waiting > self._k + max(self._k, _WAITING):
            self._choose()

    def ranked(self) -> Ranked:
        """Return the nearest rows of those that were added."""
        self._choose()
        return self._parts[0]

    def _choose(self) -> None:
        best = nearest_of(self._parts, self._k)
        self._parts, self._waiting = [best], len(best.row_ids)
        if self._waiting == self._k:
            self.worst = best.distances[-1]


def nearest_of(parts: Sequence[Ranked], k: int) -> Ranked:
    """Return the nearest rows of several parts, in which each row is once.

    Args:
        parts: The parts, in any order.
        k: How many.
    """
    row_ids = np.concatenate([np.empty(0, np.uint64), *(part.row_ids for part in parts)])
    distances = np.concatenate([np.empty(0, np.float32), *(part.distances for part in parts)])
    if len(distances) > k:
        near = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
        row_ids, distances = row_ids[near], distances[near]
    order = np.lexsort((row_ids, distances))[:k]
    return Ranked(row_ids[order], distances[order])
