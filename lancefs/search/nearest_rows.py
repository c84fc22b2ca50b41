"""Keeping the nearest rows of a vector search in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import UInts
from lancefs.datafile.kernels import keep_nearest
from lancefs.index.vectors.distances import Floats

# Least rows that are collected before the nearest of them are chosen.
_WAITING = 4096
# Most rows that are kept in order for each of several queries, where each new row is inserted into
# its place. For one query, it takes less to collect more rows and to choose the nearest of them.
_FEW = 512


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

    def __init__(self, k: int, lowest: float | None, limit: float | None) -> None:
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


class BestOfQueries:
    """Keeps the nearest rows for each of several queries.

    Args:
        queries: How many queries there are.
        k: How many rows, for each.
        lowest: The least distance that counts.
        limit: All distances that count are below it; None for no limit.
    """

    def __init__(self, queries: int, k: int, lowest: float | None, limit: float | None) -> None:
        self._k = k
        self._bounds = lowest, limit
        is_few = queries > 1 and k <= _FEW
        self._many = [BestRows(k, lowest, limit) for _ in range(0 if is_few else queries)]
        room = (queries if is_few else 0, k)
        self._distances, self._row_ids = np.zeros(room, np.float32), np.zeros(room, np.uint64)
        self._sizes = np.zeros(room[0], np.int64)

    def worst(self, some: Sequence[int]) -> Floats:
        """Return a distance for each of some queries: no row that is farther is among the nearest.

        Args:
            some: Positions of the queries.
        """
        if self._many:
            return np.array([self._many[one].worst for one in some], np.float32)
        is_full = self._sizes[some] == self._k
        return np.where(is_full, self._distances[some, -1], np.float32(np.inf))

    def add(self, some: Sequence[int], row_ids: UInts, distances: Floats) -> None:
        """Add rows for some queries; those without a distance (NaN) are left out.

        Args:
            some: Positions of the queries, each once.
            row_ids: The ids of the rows, each added once.
            distances: Their distances, in a row for each of the queries.
        """
        if self._many:
            for one, own in zip(some, distances, strict=True):
                self._many[one].add(row_ids, own)
            return
        lowest, limit = self._bounds
        if lowest is not None:
            distances = np.where(distances >= np.float32(lowest), distances, np.float32(np.nan))
        if limit is not None:
            distances = np.where(distances < np.float32(limit), distances, np.float32(np.nan))
        known = self._distances[some], self._row_ids[some], self._sizes[some]
        kept = keep_nearest(distances, row_ids, *known)
        self._distances[some], self._row_ids[some], self._sizes[some] = kept

    def ranked(self, one: int) -> Ranked:
        """Return the nearest rows of those that were added for a query."""
        if self._many:
            return self._many[one].ranked()
        size = int(self._sizes[one])
        return Ranked(self._row_ids[one, :size], self._distances[one, :size])


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
