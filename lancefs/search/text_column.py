"""Full-text search in one column: in an index, and in texts that were read (`text_sources`).

Rows of the index are scored by what the index knows of all its documents; rows that it does not
cover by what is known of both, as Lance does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lancefs.datafile.buffers import UInts
from lancefs.datafile.row_ranges import is_among
from lancefs.index.column_indices import reading
from lancefs.index.segments import IndexSegment
from lancefs.index.text.analyzers import TextToken
from lancefs.index.text.matching import match_all, match_any, match_each, match_phrase
from lancefs.index.text.partitions import Documents
from lancefs.index.text.scoring import Statistics
from lancefs.index.text.text_indices import TextIndices
from lancefs.search.row_bits import RowBits
from lancefs.search.scored_rows import Scored, best_places, joined, not_worse
from lancefs.search.text_query import LeafQuery, MatchQuery, PhraseQuery

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# At first, this many rows more than wanted are looked up in the table. If too few of them are live,
# `_MORE` times as many are looked up next.
_SPARE = 16
# With a filter, this many times the documents are looked at that are likely to yield enough rows.
_SPARED = 2
_MORE = 8


@dataclass(frozen=True)
class TextSource:
    """Documents that are searched together.

    Attributes:
        documents: The documents, in parts.
        segment: The segment that has them; None where they were read from the table.
        is_indexed: Whether they count among the documents of the index.
    """

    documents: Sequence[Documents]
    segment: IndexSegment | None
    is_indexed: bool


@dataclass(frozen=True)
class TextColumn:
    """A column that is searched.

    Attributes:
        indices: The full-text indices of the version, if there are any.
        sources: All documents.
        tokens: The tokens of each query that is not fuzzy.
        similar: For each fuzzy query, and for documents of the index or others, the tokens that
            each of its words stands for.
        statistics: Of the documents of the index, and of all documents.
        allowed: The rows of the index that may be found; None for all.
        notes: How rows are found, for `explain`.
    """

    indices: TextIndices | None
    sources: Sequence[TextSource]
    tokens: Mapping[LeafQuery, Sequence[TextToken]]
    similar: Mapping[tuple[LeafQuery, bool], Sequence[Sequence[str]]]
    statistics: tuple[Statistics, Statistics]
    allowed: RowBits | None
    notes: Sequence[str]

    def most_rows(self, query: LeafQuery) -> int:
        """Return how many rows a query finds at most, those included that may not be found."""
        count = self.statistics[1].documents_with
        if query not in self.tokens:  # it is fuzzy
            groups = self.similar.get((query, False)) or self.similar.get((query, True)) or []
            sizes = [sum(map(count, group)) for group in groups]
        else:
            sizes = [count(token.text) for token in self.tokens[query]]
        has_all = isinstance(query, PhraseQuery) or query.needs_all
        return min(sizes, default=0) if has_all else sum(sizes)

    def find(self, query: LeafQuery, k: int | None, among: UInts | None = None) -> Scored:
        """Return the rows that a query finds.

        Args:
            query: One of the queries that were given.
            k: How many of the best ones are needed; None for all.
            among: Row ids, ascending, beside which no rows are needed, though some may come out;
                None for all rows. All of these are needed, whatever `k` is.

        Raises:
            BrokenSegment: A segment turned out to be damaged.
        """
        most = None if among is not None else k

        def find_in(source: TextSource) -> Scored:
            with reading(source.segment):
                return self._find_in(source, query, most, among)

        parts = do_each(self.indices, find_in, self.sources)
        found = joined(parts)
        if not isinstance(query, MatchQuery) or query.boost == 1:
            return found
        boost = np.float32(query.boost)
        if among is None and k is not None and _may_tie(parts, boost, k):
            return self.find(query, None)
        return Scored(found.row_ids, found.scores * boost)

    def _find_in(
        self, source: TextSource, query: LeafQuery, k: int | None, among: UInts | None
    ) -> Scored:
        """Return the rows of a source that a query finds, at least the best `k` of them.

        The best documents are looked for first; more of them where their rows are gone.
        """
        count = sum(one.count for one in source.documents)
        most = k + _SPARE if k is not None and source.segment is not None else None
        if most is not None and self.allowed is not None:
            most *= _SPARED * count // max(self.allowed.num_rows, 1) + 1
        while True:
            if most is not None and most >= count:
                most = None
            found = self._live(source, self._matches(source, query, most, among), k)
            if most is None or (k is not None and len(found.row_ids) >= k):
                return found
            most *= _MORE

    def _matches(
        self, source: TextSource, query: LeafQuery, most: int | None, among: UInts | None
    ) -> Scored:
        """Return what a query finds by its row numbers, at least the best `most`."""
        if among is None or not self._names_row_ids(source):
            parts = [self._match(source, one, query, most) for one in source.documents]
        else:
            parts = [self._match_among(source, one, query, among) for one in source.documents]
        found = joined(parts)
        if source.is_indexed and self.allowed is not None:
            segment, numbers = source.segment, found.row_ids
            if segment is None or self.indices is None:
                found = found.only(self.allowed.has(numbers))
            else:
                coverage = self.indices.coverage
                found = found.only(self.allowed.has_rows(coverage, segment, numbers))
        return found

    def _match(
        self, source: TextSource, documents: Documents, query: LeafQuery, most: int | None
    ) -> Scored:
        """Return the documents that a query finds, by their row numbers."""
        statistics = self.statistics[0 if source.is_indexed else 1]
        if query not in self.tokens:  # it is fuzzy
            return self._match_fuzzy(source, documents, query, most)
        tokens = self.tokens[query]
        if isinstance(query, PhraseQuery):
            numbers, scores = match_phrase(documents, tokens, query.slop, statistics, most)
        else:
            match = match_all if query.needs_all else match_any
            words = [token.text for token in tokens]
            numbers, scores = match(documents, words, statistics, most)
        return Scored(documents.row_numbers[numbers], scores)

    def _match_among(
        self, source: TextSource, documents: Documents, query: LeafQuery, among: UInts
    ) -> Scored:
        """Return what `_match` does, for some rows; the row numbers of the source are row ids."""
        numbers = documents.row_numbers
        is_ordered = bool((numbers[1:] > numbers[:-1]).all())
        is_any = isinstance(query, MatchQuery) and not query.needs_all and not query.is_fuzzy
        if not (is_any and is_ordered and len(numbers) < 1 << 32):
            found = self._match(source, documents, query, None)
            return found.only(is_among(found.row_ids, among))
        at = numbers.searchsorted(among[is_among(among, numbers)]).astype(np.uint32)
        words = [token.text for token in self.tokens[query]]
        statistics = self.statistics[0 if source.is_indexed else 1]
        which, scores = match_any(documents, words, statistics, None, at)
        return Scored(numbers[which], scores)

    def _match_fuzzy(
        self, source: TextSource, documents: Documents, query: LeafQuery, most: int | None
    ) -> Scored:
        """Return the documents that a fuzzy query finds, by their row numbers.

        Any of the tokens that a word stands for is as good as the word itself. A token that several
        words stand for counts for each of them.
        """
        assert isinstance(query, MatchQuery)
        statistics = self.statistics[0 if source.is_indexed else 1]
        groups = self.similar[query, source.is_indexed]
        if query.needs_all:
            numbers, scores = match_each(documents, groups, statistics)
        else:
            tokens = [token for group in groups for token in group]
            numbers, scores = match_any(documents, tokens, statistics, most)
        return Scored(documents.row_numbers[numbers], scores)

    def _names_row_ids(self, source: TextSource) -> bool:
        """Tell whether the row numbers of a source are row ids."""
        if source.segment is None or self.indices is None:
            return True
        return self.indices.coverage.has_row_ids(source.segment)

    def _live(self, source: TextSource, found: Scored, k: int | None) -> Scored:
        """Return the rows that are there, at least the best `k` of them; None for all."""
        if source.segment is None:
            return found
        assert self.indices is not None
        coverage = self.indices.coverage
        wanted = len(found.row_ids) if k is None else k + _SPARE
        # Equal scores are chosen by row ids, which may not be known yet.
        choose = best_places if coverage.has_row_ids(source.segment) else not_worse
        while True:
            places = choose(found.row_ids, found.scores, wanted)
            which, row_ids = coverage.locate(source.segment, found.row_ids[places])
            if len(places) == len(found.row_ids) or (k is not None and len(which) >= k):
                return Scored(row_ids, found.scores[places][which])
            wanted *= _MORE


def do_each(
    indices: TextIndices | None, do: Callable[[_Item], _Result], items: Sequence[_Item]
) -> list[_Result]:
    """Do the same work on several sources, or their parts; see `ColumnIndices.do_each`.

    Args:
        indices: The full-text indices; None where there are none.
        do: The work.
        items: The sources, or parts.
    """
    return [do(item) for item in items] if indices is None else indices.do_each(do, items)


def _may_tie(parts: Sequence[Scored], boost: np.float32, k: int) -> bool:
    """Tell whether a row that was left out may be as good as the best `k`, once scores are boosted.

    Args:
        parts: The best rows of several sources; those that are left out have lower scores, or the
            same as the last one and higher row ids.
        boost: What scores are multiplied with.
        k: How many of all rows are wanted.
    """
    scores = joined(parts).scores if parts else np.empty(0, np.float32)
    if len(scores) < k:
        return False
    limit = np.partition(scores, len(scores) - k)[len(scores) - k] * boost
    lowest = [one.scores.min() for one in parts if len(one.scores)]
    return any(np.nextafter(one, np.float32(-1)) * boost >= limit for one in lowest)
