"""Partitions of a full-text index: documents, tokens, and the postings of each token.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Array, Ints, UInts
from lancefs.errors import CorruptFile, locating
from lancefs.index.files import IndexReader
from lancefs.index.text.fuzzy import FuzzyWord
from lancefs.index.text.positions import PositionsReader, WordPlaces
from lancefs.index.text.postings import Numbers32, PostingFormat, Postings, decode_postings
from lancefs.index.text.scoring import Scores, length_norms, rounded_lengths
from lancefs.index.text.token_maps import ListedTokens, TokenMap, TransducerTokens
from lancefs.storage.budget_cache import BudgetCache

if TYPE_CHECKING:
    from lancefs.index.text.listed_postings import ListedPostings
    from lancefs.index.text.unindexed_texts import TextDocuments

# Bytes of postings, and of places of words, that a process keeps.
_BUDGET = 128 * 1024 * 1024
_PLACES_BUDGET = 64 * 1024 * 1024
# The columns of the postings of a token.
_POSTING = ("_posting", "_length")
# Memory of the open files of a partition, about.
_READERS_BYTES = 32 * 1024
# Tokens whose numbers a partition remembers.
_MAX_KNOWN = 128

_POSTINGS: BudgetCache[tuple[object, int], Postings] = BudgetCache(_BUDGET)
_PLACES: BudgetCache[tuple[object, int], WordPlaces] = BudgetCache(_PLACES_BUDGET)


# Documents with their tokens: of a partition, or of texts that were read from the table itself.
Documents: TypeAlias = "TextPartition | TextDocuments"


class TextPartition:
    """One partition of a segment, open.

    Args:
        row_numbers: The row of each document.
        lengths: How many tokens each document has.
        tokens: The numbers of tokens.
        postings: The postings of each number.
        key: Tells the partition from any other one.
        rounds_lengths: Whether scores count rounded lengths; the average is of exact ones.
    """

    def __init__(
        self,
        row_numbers: UInts,
        lengths: Numbers32,
        tokens: TokenMap,
        postings: BlockPostings | ListedPostings,
        key: object,
        rounds_lengths: bool = False,
    ) -> None:
        self.row_numbers = row_numbers
        self.lengths = rounded_lengths(lengths) if rounds_lengths else lengths
        self.total_tokens = int(lengths.sum(dtype=np.uint64))
        self._tokens = tokens
        self._postings = postings
        self._key = key
        self._numbers: dict[str, int | None] = {}  # of tokens that were looked for
        self._norms: tuple[np.float32, Scores] | None = None

    @property
    def count(self) -> int:
        """How many documents there are."""
        return len(self.lengths)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        own = self.row_numbers.nbytes + 2 * self.lengths.nbytes  # lengths, and norms
        return own + self._tokens.cost + self._postings.cost + _READERS_BYTES

    @property
    def has_positions(self) -> bool:
        """Whether it has the positions of tokens in documents."""
        return self._postings.has_positions

    def norms(self, average_length: np.float32) -> Scores:
        """Return what the length of each document adds to the divisor of its score.

        Those of the latest average are kept: it changes with the version of the table.
        """
        latest = self._norms
        if latest is None or latest[0] != average_length:
            latest = self._norms = average_length, length_norms(self.lengths, average_length)
        return latest[1]

    def postings(self, tokens: Sequence[str]) -> Mapping[str, Postings]:
        """Return which documents have tokens; a token that none has is left out.

        Raises:
            CorruptFile: A file is damaged.
        """
        numbers = {token: self._number(token) for token in tokens}
        known = {token: number for token, number in numbers.items() if number is not None}
        kept = {number: _POSTINGS.peek((self._key, number)) for number in known.values()}
        missing = sorted(number for number, found in kept.items() if found is None)
        with locating(self._postings.url, "postings"):
            found = dict(zip(missing, self._postings.read(missing), strict=True))
        for number, read in found.items():
            _POSTINGS.put((self._key, number), read, read.cost)
        every = {**kept, **found}
        return {token: one for token, number in known.items() if (one := every[number]) is not None}

    def positions(self, token: str) -> WordPlaces:
        """Return where a token is in each of its documents.

        Raises:
            CorruptFile: A file is damaged.
        """
        number = self._number(token)
        assert number is not None
        postings = self.postings([token])[token]

        def read() -> WordPlaces:
            with locating(self._postings.url, "positions"):
                return self._postings.read_positions(number, postings)

        return _PLACES.get((self._key, number), read, lambda found: found.cost)

    def read_ahead(self, words: Collection[str]) -> None:
        """Read the postings of the words of a phrase with their positions, if all are there.

        From a store, this takes half of the rounds of requests; both are kept.

        Raises:
            CorruptFile: A file is damaged.
        """
        numbers = [number for word in words if (number := self._number(word)) is not None]
        missing = sorted(one for one in numbers if _PLACES.peek((self._key, one)) is None)
        if len(numbers) < len(words) or not missing:
            return
        with locating(self._postings.url, "positions"):
            read = self._postings.read_both(missing)
        for number, (postings, places) in zip(missing, read, strict=True):
            _POSTINGS.put((self._key, number), postings, postings.cost)
            _PLACES.put((self._key, number), places, places.cost)

    def similar(self, word: FuzzyWord, most: int) -> list[str]:
        """Return the tokens that are like a word, at most so many: the first ones in order.

        Raises:
            CorruptFile: The token map is damaged.
            ValueError: The walk over the token map would be too long.
        """
        return self._tokens.similar(word, most)

    def _number(self, token: str) -> int | None:
        try:
            return self._numbers[token]
        except KeyError:
            pass
        number = self._tokens.get(token)
        known = self._postings.num_tokens
        if number is not None and not 0 <= number < known:
            error = CorruptFile(
                f"the postings of {known} tokens; the token map has number {number}"
            )
            error.path = self._postings.url
            raise error
        if len(self._numbers) >= _MAX_KNOWN:
            self._numbers.clear()
        self._numbers[token] = number
        return number


class BlockPostings:
    """Postings in blocks, a row for each token.

    Args:
        reader: The file.
        format: How the blocks are stored.
        num_documents: How many documents there are.
    """

    def __init__(self, reader: IndexReader, format: PostingFormat, num_documents: int) -> None:
        self._reader = reader
        self._format = format
        self._num_documents = num_documents

    @property
    def url(self) -> str:
        """URL of the file, for errors."""
        return self._reader.url

    @property
    def num_tokens(self) -> int:
        """How many tokens it has postings of; their numbers are below."""
        return self._reader.num_rows

    @property
    def has_positions(self) -> bool:
        """Whether it has the positions of tokens in documents."""
        return PositionsReader.is_in(self._reader)

    @property
    def cost(self) -> int:
        """Memory in bytes: none, since the reader caches what is read."""
        return 0

    def read(self, numbers: Sequence[int]) -> list[Postings]:
        """Read the postings of tokens in the same rounds of requests."""
        if not numbers:
            return []
        read = self._reader.read_parts(_POSTING, [[(number, number + 1)] for number in numbers])
        return [self._decode(*columns) for columns in read]

    def read_positions(self, number: int, postings: Postings) -> WordPlaces:
        """Read where a token is in each of its documents."""
        positions = PositionsReader(self._reader, self._format.block_size)
        columns = self._reader.read(positions.columns, [(number, number + 1)])
        return positions.decode(columns, postings.frequencies)

    def read_both(self, numbers: Sequence[int]) -> list[tuple[Postings, WordPlaces]]:
        """Read the postings of tokens, and where they are, in the same rounds of requests."""
        positions = PositionsReader(self._reader, self._format.block_size)
        names = [*_POSTING, *positions.columns]
        found = []
        for columns in self._reader.read_parts(names, [[(one, one + 1)] for one in numbers]):
            postings = self._decode(*columns[: len(_POSTING)])
            places = positions.decode(columns[len(_POSTING) :], postings.frequencies)
            found.append((postings, places))
        return found

    def _decode(self, blocks: pa.Array, lengths: pa.Array) -> Postings:
        if lengths.null_count or not pa.types.is_integer(lengths.type):
            raise self._reader.damage("the numbers of documents are missing")
        data, offsets = blocks_of(self._reader, blocks)
        length = int(lengths[0].as_py())
        return decode_postings(data, offsets, length, self._num_documents, self._format)


def blocks_of(reader: IndexReader, lists: pa.Array) -> tuple[Array, Ints]:
    """Return the bytes of the blocks of one row, and where each of them begins and the last ends.

    Raises:
        CorruptFile: The row is no list of bytes.
    """
    is_list = pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)
    if not is_list or lists.null_count or not pa.types.is_large_binary(lists.type.value_type):
        raise reader.damage(f"blocks are {lists.type}; a list of large_binary was expected")
    values = lists.flatten()
    if values.null_count:
        raise reader.damage("a block is missing")
    _, offsets, data = values.buffers()
    found = np.frombuffer(offsets or bytes(8), np.int64, len(values) + 1, values.offset * 8)
    return np.frombuffer(data or b"", np.uint8), found


def read_documents(reader: IndexReader) -> tuple[UInts, Numbers32]:
    """Return the row of each document, and how many tokens it has.

    Raises:
        CorruptFile: The file is damaged.
    """
    row_ids, lengths = reader.read(["_rowid", "_num_tokens"])
    return _numbers(reader, row_ids, np.uint64), _numbers(reader, lengths, np.uint32)


def _numbers(reader: IndexReader, values: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    if values.null_count or values.type != pa.from_numpy_dtype(dtype):
        raise reader.damage(f"numbers are {values.type}; {np.dtype(dtype)} was expected")
    return numbers_of(values)


def read_tokens(reader: IndexReader, format: str) -> TokenMap:
    """Return the numbers of tokens.

    Args:
        reader: The file.
        format: How they are stored: `fst` or `arrow`.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFeature: They are stored in another way.
    """
    with locating(reader.url, "tokens"):
        if format == "arrow":
            return ListedTokens(*reader.read(["_token", "_token_id"]))
        if format != "fst":
            raise reader.unsupported(f"tokens stored as {format[:40]!r}")
        (data,) = reader.read(["_token_fst_bytes"])
        if len(data) != 1 or data.null_count or not pa.types.is_large_binary(data.type):
            raise reader.damage(f"{len(data)} token maps of type {data.type}; one was expected")
        return TransducerTokens(data[0].as_buffer().to_pybytes())
