"""`HybridSearch`: the rows that match best by their vectors and by their texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import FixedWidth
from lancefs.datafile.buffers import UInts, to_arrow_numbers
from lancefs.forks import cached_property
from lancefs.index.text.scoring import Scores
from lancefs.printable import plural
from lancefs.search.found_rows import FoundRows, WantedRows
from lancefs.search.nearest_rows import Ranked
from lancefs.search.scored_rows import Scored
from lancefs.search.text_search import SCORE, TextSearch
from lancefs.search.vector_search import DISTANCE, VectorSearch
from lancefs.table.open_version import OpenVersion

# LanceDB's constant for reciprocal rank fusion (`rerankers/rrf.py`); ranks count from 1.
_RANKS_BEFORE = 60
# Values that are all the same, about, say nothing: then each counts as the middle.
_MIN_SPAN = np.finfo(np.float32).eps
_MIDDLE = 0.5

_Shares = npt.NDArray[np.float64]
# The names that LanceDB and DuckDB's extension `lance` give to these.
RELEVANCE = pa.field("_relevance_score", pa.float32())
HYBRID_SCORE = pa.field("_hybrid_score", pa.float32())


class HybridSearch:
    """A search by vectors and texts; made by `LanceDataset.hybrid_search`.

    Args:
        version: The version of the table.
        vectors: The search by vectors.
        texts: The search by texts.
        k: How many rows.
        alpha: The weight of the search by vectors, from 0 to 1; None to fuse by ranks.
        rows: Which rows may be found, and what is returned of them.

    Raises:
        ColumnNotFound: A column is not in the table, or the table has no row ids.
        InvalidFilter: The text of the filter cannot be parsed.
        TypeError: An argument has another type than described.
        ValueError: An argument makes no sense.
    """

    def __init__(
        self,
        version: OpenVersion,
        vectors: VectorSearch,
        texts: TextSearch,
        k: int,
        alpha: float | None,
        rows: WantedRows,
    ) -> None:
        given: object = alpha
        if given is not None and not (isinstance(given, int | float) and 0 <= given <= 1):
            raise ValueError(f"alpha is {alpha!r}; a number from 0 to 1 was expected, or None")
        if vectors.is_batch:
            raise ValueError("q has several vectors; a hybrid search is for one")
        self._vectors = vectors
        self._texts = texts
        self._k = k
        self._alpha = alpha
        self._fused_score = RELEVANCE if alpha is None else HYBRID_SCORE
        self._found = FoundRows(version, rows, [DISTANCE, SCORE, self._fused_score])

    def __repr__(self) -> str:
        return f"<HybridSearch: {plural(self._k, 'row')} of {self._vectors!r} and {self._texts!r}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._found.schema

    def to_table(self) -> pa.Table:
        """Search, and read the rows that were found.

        Returns:
            The best rows, the best one first; of rows with the same score those that the search by
            vectors found, the nearest one first.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
            ImportError: The index holds stems of words, and snowballstemmer is not installed.
        """
        fused = self._fused
        columns = {
            DISTANCE.name: _or_null(fused.distances),
            SCORE.name: _or_null(fused.scores),
            self._fused_score.name: to_arrow_numbers(fused.fused),
        }
        return self._found.table(fused.row_ids, columns)

    def explain(self) -> str:
        """Tell how the rows are found; the search is done for it, and kept for `to_table`."""
        how = "ranks" if self._alpha is None else f"distances and scores, alpha {self._alpha:g}"
        count = plural(len(self._fused.row_ids), "row")
        notes = [self._vectors.explain(), self._texts.explain(), f"fused by {how}: {count}"]
        return "\n".join(notes)

    @cached_property
    def _fused(self) -> FusedRows:
        """The best rows by both searches."""
        (nearest,), texts = self._vectors.found, self._texts.found
        if self._alpha is None:
            return by_ranks(nearest, texts, self._k)
        return by_values(nearest, texts, self._k, self._alpha)


def _or_null(values: npt.NDArray[np.float32]) -> pa.Array:
    """Return numbers as an Arrow array; null where there is none, which NaN stands for."""
    known = ~np.isnan(values)
    return to_arrow(FixedWidth(32, values), pa.float32(), None if known.all() else known)


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
