"""Fusing the results of a vector search and a text search into one ranking."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import UInts
from lancefs.index.text.scoring import Scores
from lancefs.search.nearest_rows import Ranked
from lancefs.search.scored_rows import Scored

# LanceDB's constant for reciprocal rank fusion (`rerankers/rrf.py`); ranks count from 1.
_RANKS_BEFORE = 60
# Values that are all the same, about, say nothing: then each counts as the middle.
_MIN_SPAN = np.finfo(np.float32).eps
_MIDDLE = 0.5

_Shares = npt.NDArray[np.float64]


class FusedRows(NamedTuple):
    """Rows that one or both searches found, the best one first.

    Attributes:
        row_ids: Values of `_rowid`.
        distances: Their distances; NaN where the vector search did not find the row.
        scores: Their scores; NaN where the text search did not find the row.
        fused: Their scores by both searches.
    """

    row_ids: UInts
    distances: Scores
    scores: Scores
    fused: Scores


def by_ranks(nearest: Ranked, texts: Scored, k: int) -> FusedRows:
    """Fuse by ranks: a row has the sum of 1 / (60 + rank) over the searches that found it.

    Args:
        nearest: What the vector search found, the nearest row first.
        texts: What the text search found, the best row first.
        k: How many rows are wanted.
    """
    shares = [
        1 / np.arange(_RANKS_BEFORE + 1, _RANKS_BEFORE + 1 + len(one[0]))
        for one in (nearest, texts)
    ]
    return _fused(nearest, texts, np.concatenate(shares), k)


def by_values(nearest: Ranked, texts: Scored, k: int, alpha: float) -> FusedRows:
    """Fuse by distances and scores, each of them scaled to 0 to 1 over the rows of its search.

    This is what DuckDB's extension `lance` computes (`rust/ffi/search.rs`).

    Args:
        nearest: What the vector search found.
        texts: What the text search found.
        k: How many rows are wanted.
        alpha: The weight of the vector search, from 0 to 1.
    """
    near = np.where(np.isfinite(nearest.distances), 1 - _scaled(nearest.distances), 0)
    shares = [alpha * near, (1 - alpha) * _scaled(texts.scores)]
    return _fused(nearest, texts, np.concatenate(shares), k)


def _scaled(values: Scores) -> _Shares:
    """Return values as shares of the way from the least to the greatest; 0 for infinite ones."""
    is_finite = np.isfinite(values)
    if not is_finite.any():
        return np.zeros(len(values))
    known = values[is_finite].astype(np.float64)
    least, span = known.min(), np.ptp(known)
    shares = np.zeros(len(values))
    shares[is_finite] = (known - least) / span if span >= _MIN_SPAN else _MIDDLE
    return shares


def _fused(nearest: Ranked, texts: Scored, shares: _Shares, k: int) -> FusedRows:
    """Return the best rows; of rows with one score those of the vector search, in its order."""
    every = np.concatenate([nearest.row_ids, texts.row_ids])
    row_ids, first, rows = np.unique(every, return_index=True, return_inverse=True)
    fused = np.bincount(rows, shares, len(row_ids)).astype(np.float32)
    distances, scores = (np.full(len(row_ids), np.nan, np.float32) for _ in range(2))
    distances[rows[: len(nearest.row_ids)]] = nearest.distances
    scores[rows[len(nearest.row_ids) :]] = texts.scores
    best = np.lexsort((first, -fused))[:k]
    return FusedRows(row_ids[best], distances[best], scores[best], fused[best])
