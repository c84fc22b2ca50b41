"""What a full-text search in one column looks at: an index, and the rows that it does not cover.

Opening it reads files: segments of the index, the texts of rows that no segment covers, and what is
counted in all of them. `text_column` searches what is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from lancefs.datafile.buffers import UInts
from lancefs.datafile.fields import Field
from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.index.column_indices import reading
from lancefs.index.segments import ColumnIndex, IndexSegment
from lancefs.index.text.analyzers import PLAIN, Analyzer, AnalyzerParams
from lancefs.index.text.fuzzy import FuzzyWord, automatic_distance
from lancefs.index.text.partitions import Documents
from lancefs.index.text.scoring import Statistics
from lancefs.index.text.text_indices import OpenText, TextIndices
from lancefs.index.text.unindexed_texts import TextDocuments
from lancefs.printable import plural
from lancefs.scan.scanner import LanceScanner
from lancefs.search.doubtful_postings import check_postings
from lancefs.search.found_rows import FoundRows
from lancefs.search.row_bits import RowBits
from lancefs.search.text_column import TextColumn, TextSource, do_each
from lancefs.search.text_query import LeafQuery, MatchQuery, PhraseQuery
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ID


class TextOpener:
    """Opens what is searched in a column.

    Args:
        version: The version.
        indices: Its full-text indices, if there are any.
        field: The column.
        queries: All that is looked for in the column.
        rows: Reads columns of rows that may be found, and of others.
        is_filtered: Whether not all rows may be found.
        use_index: Whether indices may be used to find rows; they tell how to split texts anyway.
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
        self._indices = indices
        self._field = field
        self._queries = queries
        self._rows = rows
        self._is_filtered = is_filtered
        self._is_local = version.files.store.is_local
        self._fragments: list[int] = version.manifest.fragments.ids.tolist()
        self._has_phrase = any(isinstance(query, PhraseQuery) for query in queries)
        self._use_index = use_index
        self._notes: list[str] = []

    def open(self) -> TextColumn:
        """Open segments of the index, and read the texts of rows that they do not cover.

        Raises:
            LanceError: No segment of the index can be read, so that nobody knows how to split
                texts.
            BrokenSegment: A segment turned out to be damaged.
            ValueError: A phrase is looked for, and the index has no positions.
        """
        self._index, self._opened, params = self._choose()
        self._analyzer = Analyzer(params)
        fuzzy = [one for one in self._queries if isinstance(one, MatchQuery) and one.is_fuzzy]
        self._fuzzy = {query: self._fuzzy_words(query) for query in fuzzy}
        exact = [query for query in self._queries if query not in self._fuzzy]
        self._tokens = {query: self._analyzer.tokens(query.query) for query in exact}
        self._wanted = {token.text for found in self._tokens.values() for token in found}
        if not self._use_index:
            self._opened = []
        self._sources = list(self._make_sources())
        similar: dict[tuple[LeafQuery, bool], list[list[str]]] = {
            (query, is_indexed): self._expand(query, words, is_indexed)
            for query, words in self._fuzzy.items()
            for is_indexed in {source.is_indexed for source in self._sources}
        }
        self._wanted.update(
            token for groups in similar.values() for group in groups for token in group
        )
        self._check_doubtful()  # also the tokens that fuzzy words stand for
        self._notes.append(f"tokens: {' '.join(sorted(self._wanted)) or 'none'}")
        if self._has_phrase and not self._is_local:
            self._read_phrases()
        of_index = self._known_statistics(is_indexed=True)
        is_all = all(source.is_indexed for source in self._sources)
        return TextColumn(
            self._indices,
            self._sources,
            self._tokens,
            similar,
            (of_index, of_index if is_all else self._known_statistics(is_indexed=None)),
            self._find_allowed() if self._is_filtered else None,
            self._notes,
        )

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
                with reading(segment):
                    self._compare_with_texts(segment, opened)

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

    def _make_sources(self) -> list[TextSource]:
        """Return all documents: of segments, and of rows that must be read."""
        sources = [TextSource(one.partitions, segment, True) for segment, one in self._opened]
        segments = self._index.segments if self._index is not None else ()
        of_index = {number for one in segments for number in one.covered.tolist()}
        read = {number for one, _ in self._opened for number in one.covered.tolist()}
        lost = [number for number in self._fragments if number in of_index - read]
        if lost:
            scanner = self._rows.scanner([self._field.name, ROW_ID.name], (), lost)
            sources.append(TextSource([self._documents(scanner)], None, True))
        rest = [number for number in self._fragments if number not in of_index]
        if rest:
            some = None if len(rest) == len(self._fragments) else rest
            scanner = self._rows.scanner_of([self._field.name, ROW_ID.name], some)
            sources.append(TextSource([self._documents(scanner)], None, False))
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

        def count(part: tuple[TextSource, Documents]) -> dict[str, int]:
            source, documents = part
            with reading(source.segment):
                found = documents.postings(list(self._wanted))
            return {token: len(one.documents) for token, one in found.items()}

        statistics = Statistics()
        for (_, documents), counts in zip(parts, do_each(self._indices, count, parts), strict=True):
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

        def read(part: tuple[TextSource, Documents]) -> None:
            source, documents = part
            with reading(source.segment):
                for words in phrases:
                    documents.read_ahead(words)

        do_each(self._indices, read, [(one, own) for one in self._sources for own in one.documents])

    def _find_allowed(self) -> RowBits:
        """Return the rows of the index that may be found."""
        segments = self._index.segments if self._index is not None else ()
        covered = sorted({number for one in segments for number in one.covered.tolist()})
        there = [number for number in self._fragments if number in set(covered)]
        return self._rows.allowed(there) if there else RowBits()

    def _note_use(self, lost: int, rest: int) -> None:
        if self._index is not None and self._opened:
            parts = sum(len(one.partitions) for _, one in self._opened)
            count = sum(one.count for _, own in self._opened for one in own.partitions)
            self._notes.append(
                f"index {self._index.name} over {self._field.name}: {plural(count, 'document')} in "
                f"{plural(parts, 'partition')}, {len(self._opened)} of "
                f"{plural(len(self._index.segments), 'segment')} used"
            )
        for number, what in ((lost, "whose index is not used"), (rest, "that no index covers")):
            if number:
                self._notes.append(f"texts of {plural(number, 'fragment')} {what} were read")


def _similar_in(source: TextSource, word: FuzzyWord, most: int) -> set[str]:
    """Return tokens of a source that are like a word: at least its first ones, so many."""
    with reading(source.segment):
        return {token for one in source.documents for token in one.similar(word, most)}
