"""Full-text search in one column: by an index, and by reading the rows that it does not cover.

Rows of the index are scored by what the index knows of all its documents; rows that it does not
cover by what is known of both, as Lance does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Mask, UInts
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import is_among
from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.index.column_indices import BrokenSegment
from lancefs.index.segments import ColumnIndex, IndexSegment
from lancefs.index.text.analyzers import PLAIN, Analyzer, AnalyzerParams
from lancefs.index.text.fuzzy import FuzzyWord, automatic_distance
from lancefs.index.text.matching import match_all, match_any, match_each, match_phrase
from lancefs.index.text.partitions import Documents
from lancefs.index.text.scoring import Statistics
from lancefs.index.text.text_indices import OpenText, TextIndices
from lancefs.printable import plural
from lancefs.scan.scanner import LanceScanner
from lancefs.search.best_texts import Scored, best_places, joined, not_worse
from lancefs.search.doubtful_postings import check_postings
from lancefs.search.found_rows import FoundRows
from lancefs.search.row_bits import RowBits
from lancefs.search.text_query import LeafQuery, MatchQuery, PhraseQuery
from lancefs.search.texts import TextDocuments
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ID

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# At first, this many rows more than wanted are looked up in the table. If too few of them are live,
# `_MORE` times as many are looked up next.
_SPARE = 16
# With a filter, this many times the documents are looked at that are likely to yield enough rows.
_SPARED = 2
_MORE = 8


@dataclass(frozen=True)
class _Source:
    """Documents that are searched together.

    Attributes:
        documents: The documents, in parts.
        segment: The segment that has them; None where they were read from the table.
        is_indexed: Whether they count among the documents of the index.
    """

    documents: Sequence[Documents]
    segment: IndexSegment | None
    is_indexed: bool


class TextColumn:
    """A column that is searched.

    Args:
        version: The version.
        indices: Its full-text indices, if there are any.
        field: The column.
        queries: All that is looked for in the column.
        rows: Reads columns of rows that may be found, and of others.
        is_filtered: Whether not all rows may be found.
        use_index: Whether indices may be used to find rows; they tell how to split texts anyway.

    Raises:
        LanceError: No segment of the index can be read, so that nobody knows how to split texts.
        ValueError: A phrase is looked for, and the index has no positions.
    """

    def __init__(
        self,
        version: OpenVersion,
        indices: TextIndices | None,
        field: Field,
        queries: Sequence[LeafQuery],
        rows: FoundRows,
        is_filtered: bool,
        use_index: bool,
    ) -> None:
        self.notes: list[str] = []
        self._indices = indices
        self._field = field
        self._rows = rows
        self._is_filtered = is_filtered
        self._fragments: list[int] = version.manifest.fragments.ids.tolist()
        self._has_phrase = any(isinstance(query, PhraseQuery) for query in queries)
        self._use_index = use_index
        self._index, self._opened, params = self._choose()
        self._analyzer = Analyzer(params)
        fuzzy = [one for one in queries if isinstance(one, MatchQuery) and one.is_fuzzy]
        self._fuzzy = {query: self._fuzzy_words(query) for query in fuzzy}
        exact = [query for query in queries if query not in self._fuzzy]
        self._tokens = {query: self._analyzer.tokens(query.query) for query in exact}
        self._wanted = {token.text for found in self._tokens.values() for token in found}
        if not use_index:
            self._opened = []
        self._sources = list(self._make_sources())
        self._similar = {
            (query, is_indexed): self._expand(query, words, is_indexed)
            for query, words in self._fuzzy.items()
            for is_indexed in {source.is_indexed for source in self._sources}
        }
        self._wanted.update(
            token for groups in self._similar.values() for group in groups for token in group
        )
        self._check_doubtful()  # also the tokens that fuzzy words stand for
        self.notes.append(f"tokens: {' '.join(sorted(self._wanted)) or 'none'}")
        if self._has_phrase and not version.files.store.is_local:
            self._read_phrases()
        of_index = self._known_statistics(is_indexed=True)
        is_all = all(source.is_indexed for source in self._sources)
        self._statistics = of_index, of_index if is_all else self._known_statistics(is_indexed=None)
        self._allowed = self._find_allowed() if is_filtered else None

    def _choose(
        self,
    ) -> tuple[ColumnIndex | None, list[tuple[IndexSegment, OpenText]], AnalyzerParams]:
        """Return the index that is used, if any, its segments that can be read, and its analysis.

        Of an index whose segments all turned out to be damaged, or ambiguous, the analysis may be
        known; all texts are read then.
        """
        failed: LanceError | None = None
        has_index = False
        over = self._indices.over(self._field.id) if self._indices is not None else ()
        for index in over:
            assert self._indices is not None
            tried = self._indices.do_each(self._indices.try_to_open, index.segments)
            opened: list[tuple[IndexSegment, OpenText]] = []
            for segment, found in zip(index.segments, tried, strict=True):
                if isinstance(found, LanceError):
                    failed = failed or found
                else:
                    opened.append((segment, found))
            if opened:
                has_index = True
                opened = [one for one in opened if one[1].params == opened[0][1].params]
                needs_positions = self._has_phrase and self._use_index
                if not needs_positions or all(one.has_positions for _, one in opened):
                    return index, opened, opened[0][1].params
            elif (params := self._indices.params(index)) is not None:
                return index, [], params
        if has_index:
            raise ValueError(
                f"a phrase is looked for in {self._field.name!r}, whose full-text index has no "
                "positions; build it with positions (with_position=True), or read all texts "
                "(use_index=False)"
            )
        if failed is not None:
            raise failed
        return None, [], PLAIN

    def _check_doubtful(self) -> None:
        """Look at texts where postings may be those of other tokens.

        Raises:
            BrokenSegment: They are, or their documents are not whole rows.
        """
        for segment, opened in self._opened:
            if opened.is_doubtful:
                try:
                    self._compare_with_texts(segment, opened)
                except LanceError as error:
                    raise BrokenSegment(segment, error) from error

    def _compare_with_texts(self, segment: IndexSegment, opened: OpenText) -> None:
        if pa.types.is_nested(self._field.storage_type):
            raise UnsupportedFeature("releases up to 0.27 took each item of a list for a document")
        assert self._indices is not None
        locate = partial(self._indices.coverage.locate, segment)
        for documents in opened.partitions:
            check_postings(documents, self._wanted, locate, self._texts_of, self._analyzer)

    def _texts_of(self, row_ids: UInts) -> pa.Array:
        scanner = self._rows.scanner([self._field.name], ())
        return scanner.take_ids(row_ids).column(0).combine_chunks()

    def _make_sources(self) -> list[_Source]:
        """Return all documents: of segments, and of rows that must be read."""
        sources = [_Source(one.partitions, segment, True) for segment, one in self._opened]
        segments = self._index.segments if self._index is not None else ()
        of_index = {number for one in segments for number in one.covered.tolist()}
        read = {number for one, _ in self._opened for number in one.covered.tolist()}
        lost = [number for number in self._fragments if number in of_index - read]
        if lost:
            scanner = self._rows.scanner([self._field.name, ROW_ID.name], (), lost)
            sources.append(_Source([self._documents(scanner)], None, True))
        rest = [number for number in self._fragments if number not in of_index]
        if rest:
            some = None if len(rest) == len(self._fragments) else rest
            scanner = self._rows.scanner_of([self._field.name, ROW_ID.name], some)
            sources.append(_Source([self._documents(scanner)], None, False))
        self._note_use(len(lost), len(rest))
        return sources

    def _documents(self, scanner: LanceScanner) -> TextDocuments:
        batches = scanner.to_batches()
        fuzzy = [word for words in self._fuzzy.values() for word in words]
        return TextDocuments(batches, self._analyzer, self._wanted, self._has_phrase, fuzzy)

    def _fuzzy_words(self, query: MatchQuery) -> list[FuzzyWord]:
        """Return the words of a fuzzy query.

        With a fixed distance Lance takes words as they are typed: not in lower case, no stems.
        """
        analyzer = self._analyzer if query.fuzziness is None else Analyzer(PLAIN)
        return [
            FuzzyWord(
                token.text,
                automatic_distance(token.text) if query.fuzziness is None else query.fuzziness,
                query.prefix_length,
            )
            for token in analyzer.tokens(query.query)
        ]

    def _expand(
        self, query: MatchQuery, words: Sequence[FuzzyWord], is_indexed: bool
    ) -> list[list[str]]:
        """Return the tokens that each word of a fuzzy query stands for.

        These are the first ones in order of all documents, as in Lance, for the documents of the
        index those that the index has. Words that come late in the query get what is left over.
        """
        left = query.max_expansions
        groups = []
        for word in words:
            found: set[str] = set()
            for source in self._sources if left else ():
                if source.is_indexed or not is_indexed:
                    found.update(_similar_in(source, word, left))
            groups.append(sorted(found)[:left])
            left -= len(groups[-1])
        return groups

    def _known_statistics(self, is_indexed: bool | None) -> Statistics:
        """Return the statistics of the documents of the index, or of all documents for None."""
        wanted = [one for one in self._sources if is_indexed in (None, one.is_indexed)]
        parts = [(source, documents) for source in wanted for documents in source.documents]

        def count(part: tuple[_Source, Documents]) -> dict[str, int]:
            source, documents = part
            try:
                found = documents.postings(list(self._wanted))
            except LanceError as error:
                raise _broken(source, error) from error
            return {token: len(one.documents) for token, one in found.items()}

        statistics = Statistics()
        for (_, documents), counts in zip(parts, self._do_each(count, parts), strict=True):
            statistics.add(documents.count, documents.total_tokens, counts)
        return statistics

    def _read_phrases(self) -> None:
        """Read the words of phrases with their positions, which are kept; see `read_ahead`.

        The requests of all parts are under way together.
        """
        phrases = [
            words
            for query, tokens in self._tokens.items()
            if isinstance(query, PhraseQuery) and len(words := {one.text for one in tokens}) > 1
        ]

        def read(part: tuple[_Source, Documents]) -> None:
            source, documents = part
            try:
                for words in phrases:
                    documents.read_ahead(words)
            except LanceError as error:
                raise _broken(source, error) from error

        self._do_each(read, [(one, own) for one in self._sources for own in one.documents])

    def _do_each(self, do: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Do the same work on several sources, or their parts; see `ColumnIndices.do_each`."""
        if self._indices is None:
            return [do(item) for item in items]
        return self._indices.do_each(do, items)

    def _find_allowed(self) -> RowBits:
        """Return the rows of the index that may be found."""
        segments = self._index.segments if self._index is not None else ()
        covered = sorted({number for one in segments for number in one.covered.tolist()})
        there = [number for number in self._fragments if number in set(covered)]
        return self._rows.allowed(there) if there else RowBits()

    def most_rows(self, query: LeafQuery) -> int:
        """Return how many rows a query finds at most, those included that may not be found."""
        count = self._statistics[1].documents_with
        if query in self._fuzzy:
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

        def find_in(source: _Source) -> Scored:
            try:
                return self._find_in(source, query, most, among)
            except LanceError as error:
                raise _broken(source, error) from error

        parts = self._do_each(find_in, self._sources)
        found = joined(parts)
        if not isinstance(query, MatchQuery) or query.boost == 1:
            return found
        boost = np.float32(query.boost)
        if among is None and k is not None and _may_tie(parts, boost, k):
            return self.find(query, None)
        return Scored(found.row_ids, found.scores * boost)

    def _find_in(
        self, source: _Source, query: LeafQuery, k: int | None, among: UInts | None
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
        self, source: _Source, query: LeafQuery, most: int | None, among: UInts | None
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
        self, source: _Source, documents: Documents, query: LeafQuery, most: int | None
    ) -> Scored:
        """Return the documents that a query finds, by their row numbers."""
        statistics = self._statistics[0 if source.is_indexed else 1]
        if query in self._fuzzy:
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
        self, source: _Source, documents: Documents, query: LeafQuery, among: UInts
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
        self, source: _Source, documents: Documents, query: LeafQuery, most: int | None
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

    def _names_row_ids(self, source: _Source) -> bool:
        """Tell whether the row numbers of a source are row ids."""
        if source.segment is None or self._indices is None:
            return True
        return self._indices.coverage.has_row_ids(source.segment)

    def _live(self, source: _Source, found: Scored, k: int | None) -> Scored:
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

    def _are_allowed(self, source: _Source, found: Scored) -> Mask:
        assert self._allowed is not None
        segment, numbers = source.segment, found.row_ids
        coverage = self._indices.coverage if self._indices is not None else None
        if segment is None or coverage is None or coverage.has_row_ids(segment):
            return self._allowed.has(numbers)
        which, row_ids = coverage.locate(segment, numbers)
        mask = np.zeros(len(numbers), np.bool_)
        mask[which] = self._allowed.has(row_ids)
        return mask

    def _note_use(self, lost: int, rest: int) -> None:
        if self._index is not None and self._opened:
            parts = sum(len(one.partitions) for _, one in self._opened)
            count = sum(one.count for _, own in self._opened for one in own.partitions)
            self.notes.append(
                f"index {self._index.name} over {self._field.name}: {plural(count, 'document')} in "
                f"{plural(parts, 'partition')}, {len(self._opened)} of "
                f"{plural(len(self._index.segments), 'segment')} used"
            )
        for number, what in ((lost, "whose index is not used"), (rest, "that no index covers")):
            if number:
                self.notes.append(f"texts of {plural(number, 'fragment')} {what} were read")


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


def _broken(source: _Source, error: LanceError) -> Exception:
    return error if source.segment is None else BrokenSegment(source.segment, error)


def _similar_in(source: _Source, word: FuzzyWord, most: int) -> set[str]:
    """Return tokens of a source that are like a word: at least its first ones, so many."""
    try:
        return {token for one in source.documents for token in one.similar(word, most)}
    except LanceError as error:
        raise _broken(source, error) from error
