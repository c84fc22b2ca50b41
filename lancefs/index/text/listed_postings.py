"""Postings as releases of Lance from 0.20 to 0.27 wrote them: a row for each document of a token.

A segment of theirs is one partition in three files. `tokens.lance` lists the tokens and their
numbers, and says how texts were split into them. `docs.lance` lists the documents, in any order.
`invert.lance` has the postings of all tokens, one after another: the rows, ascending for each
token, how often they have it, and, if asked for, where.

Source: the writer of these releases (`rust/lance-index/src/scalar/inverted/builder.rs`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, UInts
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.index.files import IndexReader
from lancefs.index.text.analyzers import AnalyzerParams, params_of_json
from lancefs.index.text.partitions import TextPartition, read_documents, read_tokens
from lancefs.index.text.positions import WordPlaces
from lancefs.index.text.postings import Numbers32, Postings

TOKENS, DOCUMENTS, POSTINGS = LISTED_FILES = ("tokens.lance", "docs.lance", "invert.lance")

_ROWS, _FREQUENCIES, _POSITIONS = "_rowid", "_frequency", "_position"


def listed_params(tokens: IndexReader) -> AnalyzerParams:
    """Return how a segment makes tokens of texts.

    Args:
        tokens: The file of tokens.

    Raises:
        CorruptFile: The parameters are not what they should be.
        UnsupportedFeature: The file does not tell, or this release cannot do what it tells.
    """
    text = tokens.metadata.get("tokenizer")
    if text is None:
        raise UnsupportedFeature("a full-text index of a release before 0.20; build it anew")
    return params_of_json(text)


def listed_partition(
    documents: IndexReader, tokens: IndexReader, postings: IndexReader, key: object
) -> TextPartition:
    """Return the one partition of a segment.

    Args:
        documents: The file of documents.
        tokens: The file of tokens.
        postings: The file of postings.
        key: Tells the segment from any other one.

    Raises:
        CorruptFile: A file is damaged.
    """
    rows, lengths = read_documents(documents)
    order = np.argsort(rows, kind="stable")
    rows, lengths = rows[order], lengths[order]
    if (rows[1:] == rows[:-1]).any():
        raise documents.damage("it names a row twice")
    token_map = read_tokens(tokens, "arrow")
    listed = ListedPostings(postings, tokens.num_rows, rows, lengths)
    return TextPartition(rows, lengths, token_map, listed, key)


class ListedPostings:
    """Postings in rows, those of a token after those of the one before.

    Args:
        reader: The file.
        num_tokens: How many tokens there are.
        rows: The row of each document, ascending.
        lengths: How many tokens each document has.

    Raises:
        CorruptFile: The file does not tell where the postings of each token begin.
    """

    def __init__(
        self, reader: IndexReader, num_tokens: int, rows: UInts, lengths: Numbers32
    ) -> None:
        self._reader = reader
        self._rows = rows
        self._lengths = lengths
        self._starts = _starts(reader, num_tokens)

    @property
    def url(self) -> str:
        """URL of the file, for errors."""
        return self._reader.url

    @property
    def num_tokens(self) -> int:
        """How many tokens it has postings of; their numbers are below."""
        return len(self._starts) - 1

    @property
    def has_positions(self) -> bool:
        """Whether it has the positions of tokens in documents."""
        return _POSITIONS in self._reader.names

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self._starts.nbytes

    def read(self, numbers: Sequence[int]) -> list[Postings]:
        """Read the postings of tokens in the same rounds of requests.

        Raises:
            CorruptFile: They name a row that is no document, or one that cannot have the token.
        """
        if not numbers:
            return []
        parts = [self._range(number) for number in numbers]
        read = self._reader.read_parts([_ROWS, _FREQUENCIES], parts)
        return [self._postings(rows, frequencies) for rows, frequencies in read]

    def read_positions(self, number: int, postings: Postings) -> WordPlaces:
        """Read where a token is in each of its documents.

        Raises:
            CorruptFile: There are more or less of them than its documents have the token.
        """
        (lists,) = self._reader.read([_POSITIONS], self._range(number))
        return self._places(lists, postings)

    def read_both(self, numbers: Sequence[int]) -> list[tuple[Postings, WordPlaces]]:
        """Read the postings of tokens, and where they are, in the same rounds of requests.

        Raises:
            CorruptFile: As `read` and `read_positions` do.
        """
        parts = [self._range(number) for number in numbers]
        found = []
        read = self._reader.read_parts([_ROWS, _FREQUENCIES, _POSITIONS], parts)
        for rows, frequencies, lists in read:
            postings = self._postings(rows, frequencies)
            found.append((postings, self._places(lists, postings)))
        return found

    def _places(self, lists: pa.Array, postings: Postings) -> WordPlaces:
        if not pa.types.is_list(lists.type) or lists.null_count:
            raise CorruptFile(f"positions are {lists.type}; lists of int32 were expected")
        values = lists.flatten()
        if values.type != pa.int32() or values.null_count:
            raise CorruptFile(f"positions are {values.type}; int32 was expected")
        counts = numbers_of(lists.value_lengths())
        if not np.array_equal(counts, postings.frequencies):
            raise CorruptFile("a document has other positions than it has the token")
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        places = numbers_of(values).astype(np.int64)
        ascends = np.diff(places, prepend=-1) > 0
        ascends[starts[:-1]] = True  # each document has at least one place, and begins anew
        if (places < 0).any() or not ascends.all():
            raise CorruptFile("the positions in a document do not ascend")
        return WordPlaces(starts, places)

    def _range(self, number: int) -> list[RowRange]:
        """Return the rows with the postings of a token, of which there may be none any more."""
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        return [(start, end)] if start < end else []

    def _postings(self, rows: pa.Array, frequencies: pa.Array) -> Postings:
        if rows.type != pa.uint64() or frequencies.type != pa.float32():
            raise CorruptFile(f"rows are {rows.type}, and their frequencies {frequencies.type}")
        if rows.null_count or frequencies.null_count:
            raise CorruptFile("a row or a frequency is missing")
        documents = self._documents(numbers_of(rows))
        counts: npt.NDArray[np.float32] = numbers_of(frequencies)
        # Comparing refuses NaN, too.
        if not ((counts >= 1) & (counts <= self._lengths[documents])).all():
            raise CorruptFile("a document has a token more often than it has tokens, or never")
        if (counts % 1).any():
            raise CorruptFile("a document has a part of a token")
        return Postings(documents, counts.astype(np.uint32))

    def _documents(self, rows: UInts) -> Numbers32:
        """Return the documents of rows."""
        if (rows[1:] <= rows[:-1]).any():
            raise CorruptFile("the rows of a token do not ascend")
        found = np.searchsorted(self._rows, rows)
        known = found < len(self._rows)
        if not known.all() or (self._rows[found] != rows).any():
            raise CorruptFile("a token is in a row that is no document")
        return found.astype(np.uint32)


def _starts(reader: IndexReader, num_tokens: int) -> Ints:
    """Return where the postings of each token begin, and where those of the last one end."""
    text = reader.metadata.get("offsets", b"")
    if text.count(b",") != max(0, num_tokens - 1):  # before it takes many times its memory
        raise reader.damage(f"its offsets are not those of {num_tokens} tokens")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise reader.damage(f"its offsets are no JSON: {error}") from error
    most = reader.num_rows
    is_list = isinstance(found, list) and len(found) == num_tokens
    if not is_list or not all(type(one) is int and 0 <= one <= most for one in found):
        raise reader.damage(f"its offsets are no list of {num_tokens} numbers up to {most}")
    starts = np.array([*found, most], np.int64)
    if starts[0] or (starts[1:] < starts[:-1]).any():
        raise reader.damage("its offsets do not ascend from 0")
    return starts
