"""Full-text search in one column: in an index, and in texts that were read (`text_sources`).

Rows of the index are scored by what the index knows of all its documents; rows that it does not
cover by what is known of both, as Lance does it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Mask, UInts
from lancefs.datafile.row_ranges import is_among
from lancefs.errors import LanceError
from lancefs.index.text.matching import match_all, match_any, match_each, match_phrase
from lancefs.index.text.partitions import Documents
from lancefs.search.best_texts import Scored, best_places, joined, not_worse
from lancefs.search.text_query import LeafQuery, MatchQuery, PhraseQuery
from lancefs.search.text_sources import OpenTexts, TextSource, broken, do_each

# At first, this many rows more than wanted are looked up in the table. If too few of them are live,
# `_MORE` times as many are looked up next.
_SPARE = 16
# With a filter, this many times the documents are looked at that are likely to yield enough rows.
_SPARED = 2
_MORE = 8


class TextColumn:
    """A column that is searched.

    Args:
        opened: What is searched.

    Attributes:
        notes: How rows are found, for `explain`.
    """

    def __init__(self, opened: OpenTexts) -> None:
        self.notes = opened.notes
        self._indices = opened.indices
        self._sources = opened.sources
        self._tokens = opened.tokens
        self._similar = opened.similar
        self._statistics = opened.statistics
        self._allowed = opened.allowed

    def most_rows(self, query: LeafQuery) -> int:
        """Return how many rows a query finds at most, those included that may not be found."""
        count = self._statistics[1].documents_with
        if query not in self._tokens:  # it is fuzzy
            groups = self._similar.get((query, False)) or self._similar.get((query, True)) or []
            sizes = [sum(map(count, group)) for group in groups]
        else:
            sizes = [count(token.text) for token in self._tokens[query]]
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
            try:
                return self._find_in(source, query, most, among)
            except LanceError as error:
                raise broken(source, error) from error

        parts = do_each(self._indices, find_in, self._sources)
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
        if most is not None and self._allowed is not None:
            most *= _SPARED * count // max(self._allowed.num_rows, 1) + 1
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
        if source.is_indexed and self._allowed is not None:
            found = found.only(self._are_allowed(source, found))
        return found

    def _match(
        self, source: TextSource, documents: Documents, query: LeafQuery, most: int | None
    ) -> Scored:
        """Return the documents that a query finds, by their row numbers."""
        statistics = self._statistics[0 if source.is_indexed else 1]
        if query not in self._tokens:  # it is fuzzy
            return self._match_fuzzy(source, documents, query, most)
        tokens = self._tokens[query]
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
        words = [token.text for token in self._tokens[query]]
        statistics = self._statistics[0 if source.is_indexed else 1]
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
        statistics = self._statistics[0 if source.is_indexed else 1]
        groups = self._similar[query, source.is_indexed]
        if query.needs_all:
            numbers, scores = match_each(documents, groups, statistics)
        else:
            tokens = [token for group in groups for token in group]
            numbers, scores = match_any(documents, tokens, statistics, most)
        return Scored(documents.row_numbers[numbers], scores)

    def _names_row_ids(self, source: TextSource) -> bool:
        """Tell whether the row numbers of a source are row ids."""
        if source.segment is None or self._indices is None:
            return True
        return self._indices.coverage.has_row_ids(source.segment)

    def _live(self, source: TextSource, found: Scored, k: int | None) -> Scored:
        """Return the rows that are there, at least the best `k` of them; None for all."""
        if source.segment is None:
            return found
        assert self._indices is not None
        coverage = self._indices.coverage
        wanted = len(found.row_ids) if k is None else k + _SPARE
        # Equal scores are chosen by row ids, which may not be known yet.
        choose = best_places if coverage.has_row_ids(source.segment) else not_worse
        while True:
            places = choose(found.row_ids, found.scores, wanted)
            which, row_ids = coverage.locate(source.segment, found.row_ids[places])
            if len(places) == len(found.row_ids) or (k is not None and len(which) >= k):
                return Scored(row_ids, found.scores[places][which])
            wanted *= _MORE

    def _are_allowed(self, source: TextSource, found: Scored) -> Mask:
        assert self._allowed is not None
        segment, numbers = source.segment, found.row_ids
        coverage = self._indices.coverage if self._indices is not None else None
        if segment is None or coverage is None or coverage.has_row_ids(segment):
            return self._allowed.has(numbers)
        which, row_ids = coverage.locate(segment, numbers)
        mask = np.zeros(len(numbers), np.bool_)
        mask[which] = self._allowed.has(row_ids)
        return mask


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
