"""Texts that no index covers: they are read and split into tokens."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.index.text.analyzers import Analyzer
from lancefs.index.text.fuzzy import FuzzyWord
from lancefs.index.text.positions import WordPlaces
from lancefs.index.text.postings import Postings
from lancefs.index.text.scoring import Scores, length_norms

# Rows whose texts become Python objects at a time.
_ROWS = 4096
# Most tokens for which it is cached whether the query needs them.
_MAX_KNOWN = 64 * 1024


class TextDocuments:
    """Documents with at least one token of a query, and how many documents there are in all.

    Args:
        batches: The texts, and the ids of their rows.
        analyzer: Makes tokens of texts.
        wanted: The tokens of the query.
        with_positions: Whether the places of tokens are kept.
        fuzzy: Words of the query; tokens that are like them are wanted too.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        analyzer: Analyzer,
        wanted: Iterable[str],
        with_positions: bool,
        fuzzy: Sequence[FuzzyWord],
    ) -> None:
        self.count = 0
        self.total_tokens = 0
        self._analyzer = analyzer
        self._wanted = frozenset(wanted)
        self._fuzzy = fuzzy
        self._known: dict[str, bool] = {}
        self._with_positions = with_positions
        self._rows: list[int] = []
        self._lengths: list[int] = []
        self._documents: defaultdict[str, list[int]] = defaultdict(list)
        self._frequencies: defaultdict[str, list[int]] = defaultdict(list)
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for batch in batches:
            for start in range(0, len(batch), _ROWS):
                part = batch.slice(start, _ROWS)
                ids = part.column(1).to_pylist()
                for row_id, text in zip(ids, texts_of(part.column(0)), strict=True):
                    if text is not None:
                        self._add(row_id, text)
        self.row_numbers = np.array(self._rows, np.uint64)
        self.lengths = np.array(self._lengths, np.uint32)

    def norms(self, average_length: np.float32) -> Scores:
        """Return what the length of each document adds to the divisor of its score."""
        return length_norms(self.lengths, average_length)

    def postings(self, tokens: Sequence[str]) -> Mapping[str, Postings]:
        """Return which documents have tokens; a token that none has is left out."""
        return {
            token: Postings(
                np.array(self._documents[token], np.uint32),
                np.array(self._frequencies[token], np.uint32),
            )
            for token in tokens
            if token in self._documents
        }

    def positions(self, token: str) -> WordPlaces:
        """Return where a token is in each of its documents."""
        ends = np.cumsum(self._frequencies[token], dtype=np.int64)
        return WordPlaces(np.concatenate([[0], ends]), np.array(self._places[token], np.int64))

    def read_ahead(self, words: Collection[str]) -> None:
        """Do nothing: all texts were read."""

    def similar(self, word: FuzzyWord, most: int) -> list[str]:
        """Return the tokens that are like a word, at most so many: the first ones in order."""
        return heapq.nsmallest(most, filter(word.matches, self._documents))

    def _wanted_of(self, tokens: Sequence[str]) -> Collection[str]:
        """Return those tokens of a document that are wanted."""
        if not self._fuzzy:
            return self._wanted.intersection(tokens)
        return set(filter(self._is_wanted, tokens))

    def _is_wanted(self, token: str) -> bool:
        found = self._known.get(token)
        if found is None:
            found = token in self._wanted or any(word.matches(token) for word in self._fuzzy)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[token] = found
        return found

    def _add(self, row_id: int, text: str | list[str | None]) -> None:
        """Add the document of a row, if it has tokens."""
        items = [text] if isinstance(text, str) else [one for one in text if one is not None]
        words = [word for item in items for word in self._analyzer.words(item)]
        tokens = [word for word in words if word is not None]
        if not tokens:
            return
        self.count += 1
        self.total_tokens += len(tokens)
        wanted = self._wanted_of(tokens)
        if not wanted:
            return
        number = len(self._rows)
        self._rows.append(row_id)
        self._lengths.append(len(tokens))
        for token in wanted:
            self._documents[token].append(number)
            self._frequencies[token].append(tokens.count(token))
        if self._with_positions:
            for place, word in enumerate(words):
                if word in wanted:
                    self._places[str(word)].append(place)


def texts_of(column: pa.Array) -> list[Any]:
    """Return the texts of rows, or their lists of texts, or None."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    found: list[Any] = column.to_pylist()
    return found
