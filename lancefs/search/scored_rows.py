"""Rows with scores: top-k selection, and combining the results of several queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints, Mask, UInts
from lancefs.index.text.scoring import Scores

# Up to this number of rows, sorting all takes no longer than selecting the best.
_FEW = 256


class Scored(NamedTuple):
    """Rows, each of them once, in any order.

    Attributes:
        row_ids: Values of `_rowid`.
        scores: Their scores.
    """

    row_ids: UInts
    scores: Scores

    def only(self, mask: Mask) -> Scored:
        """Return those rows that a mask names."""
        return Scored(self.row_ids[mask], self.scores[mask])


NOTHING = Scored(np.empty(0, np.uint64), np.empty(0, np.float32))


def best(found: Scored, k: int | None) -> Scored:
    """Return the best rows, the best one first; of rows with one score, those with lower ids.

    Args:
        found: The rows.
        k: How many; None for all.
    """
    if k is not None and len(found.scores) > _FEW:
        which = best_places(found.row_ids, found.scores, k)
        found = Scored(found.row_ids[which], found.scores[which])
    order = np.lexsort((found.row_ids, -found.scores))[:k]
    return Scored(found.row_ids[order], found.scores[order])


def best_places(numbers: UInts, scores: Scores, k: int) -> Ints:
    """Return where the `k` best rows are, in any order; of rows with one score, the lower numbers.

    Args:
        numbers: The rows.
        scores: Their scores.
        k: How many.
    """
    if len(scores) <= k:
        return np.arange(len(scores))
    if len(scores) <= _FEW:
        return np.lexsort((numbers, -scores))[:k]
    limit = _last_of(scores, k)
    better, equal = np.flatnonzero(scores > limit), np.flatnonzero(scores == limit)
    missing = k - len(better)
    if len(equal) > missing:
        equal = equal[np.argpartition(numbers[equal], missing - 1)[:missing]]
    return np.concatenate([better, equal])


def not_worse(numbers: UInts, scores: Scores, k: int) -> Ints:
    """Return where the `k` best rows are, and all that are as good as the last of them.

    Args:
        numbers: The rows.
        scores: Their scores.
        k: How many.
    """
    if len(scores) <= k:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= _last_of(scores, k))


def _last_of(scores: Scores, k: int) -> np.float32:
    """Return the least of the `k` best of more scores."""
    last: np.float32 = np.partition(scores, len(scores) - k)[len(scores) - k]
    return last


def joined(parts: Sequence[Scored]) -> Scored:
    """Return the rows of several parts, no two of which have the same row."""
    if len(parts) == 1:
        return parts[0]
    every = [NOTHING, *parts]
    return Scored(
        np.concatenate([one.row_ids for one in every]),
        np.concatenate([one.scores for one in every]),
    )


def added(parts: Sequence[Scored]) -> Scored:
    """Return the rows of any part, with the sum of their scores."""
    return _grouped(parts, np.add)


def maxima(parts: Sequence[Scored]) -> Scored:
    """Return the rows of any part, with the best of their scores."""
    return _grouped(parts, np.maximum)


def in_all(parts: Sequence[Scored]) -> Scored:
    """Return the rows of all parts, with the sum of their scores."""
    first, *others = parts
    for other in others:
        found = scores_in(other, first.row_ids)
        first = Scored(first.row_ids, first.scores + found).only(~np.isnan(found))
    return first


def scores_in(found: Scored, row_ids: UInts) -> Scores:
    """Return the scores that rows have in another set; NaN for rows that the set lacks."""
    ordered, scores = found
    if not (ordered[1:] > ordered[:-1]).all():
        order = np.argsort(ordered)
        ordered, scores = ordered[order], scores[order]
    result = np.full(len(row_ids), np.nan, np.float32)
    if len(ordered):
        at = np.minimum(np.searchsorted(ordered, row_ids), len(ordered) - 1)
        result = np.where(ordered[at] == row_ids, scores[at], result)
    return result


def _grouped(parts: Sequence[Scored], join: np.ufunc) -> Scored:
    every = joined(parts) if parts else NOTHING
    order = np.argsort(every.row_ids, kind="stable")
    row_ids, scores = every.row_ids[order], every.scores[order]
    if not len(row_ids):
        return NOTHING
    starts = np.flatnonzero(np.append(True, row_ids[1:] != row_ids[:-1]))
    return Scored(row_ids[starts], join.reduceat(scores, starts))
