"""NGRAM indices: for each trigram of letters or digits, the rows whose strings contain it.

Lance makes texts lower case and takes accents away before it looks for the three. Windows of a
wanted text are used only if they are ASCII letters and digits already: a text that holds the wanted
one holds these side by side, whatever becomes of the others. So no table of accents is needed here.

Format page: n-gram index (`docs/src/format/index/scalar/ngram.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import and_, or_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Ints, UInts
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import locating
from lancefs.index.address_maps import expanded, read_treemap
from lancefs.index.contents import Leaf, Substring, Wanted, evaluate
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILES = ("ngram_postings.lance",)

_LETTERS = {letter: at for at, letter in enumerate("0123456789abcdefghijklmnopqrstuvwxyz", 1)}
_SPAN = len(_LETTERS) + 1
_WINDOW = 3
_NULL = 0  # the token of rows without a text
# Most windows (of three letters) that are looked up for one text, and for one filter.
_MAX_WINDOWS = 16
_MAX_POSTINGS = 256
# The share of the texts that is assumed to hold any given three letters in a row.
_SHARE = 1 / 64
# Memory of the open file, about.
_READER_BYTES = 8 * 1024


class NGram:
    """One segment of an NGRAM index, open: its tokens are in memory.

    Args:
        file: The file of the tokens and their rows.
        rows: Rows of the table, by which the rows of a token are estimated.

    Raises:
        CorruptFile: The file is damaged.
    """

    entries = None

    def __init__(self, file: IndexReader, rows: int) -> None:
        self._file = file
        self._rows = rows
        tokens = file.read_keys("tokens", "posting_list")
        if not pa.types.is_uint32(tokens.type) or tokens.null_count:
            raise file.damage("tokens of type uint32 were expected")
        self._tokens = numbers_of(tokens).astype(np.int64)
        if (self._tokens[1:] <= self._tokens[:-1]).any():
            raise file.damage("the tokens are not in order")
        if len(self._tokens) and self._tokens[-1] >= _SPAN**_WINDOW:
            raise file.damage(f"the token {self._tokens[-1]} stands for no three letters")

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return 2 * self._tokens.nbytes + _READER_BYTES  # with the places of their bitmaps

    def is_exact_for(self, test: ColumnTest) -> bool:
        """Whether all rows that it finds for a test pass; otherwise they may pass."""
        return False

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the positions of the tokens to read for a test; None if it has no answer."""
        data_type = test.data_type
        is_text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
        if not is_text or test.contents is None:
            return None
        tokens = _tokens_of(test.contents)
        if tokens is None or len(tokens) > _MAX_POSTINGS:
            return None
        if test.keeps_null:
            tokens = tokens | {_NULL}
        pages: Ints = np.flatnonzero(np.isin(self._tokens, list(tokens)))
        return pages

    def rows_in(self, pages: Ints) -> int:
        """Return how many rows hold some tokens, which only their bitmaps would tell."""
        return int(self._rows * _SHARE) if len(pages) else 0

    def find(self, pages: Ints, test: ColumnTest, most: int) -> UInts | None:
        """Return the numbers of the rows that may pass a test; None for more than `most`.

        Args:
            pages: The positions of the tokens of the test.
            test: The test.
            most: Number of rows.

        Raises:
            CorruptFile: The index is damaged.
        """
        from pyroaring import BitMap64

        assert test.contents is not None
        with locating(self._file.url):
            postings = self._read_postings(pages)

            def rows_of(leaf: Leaf) -> BitMap64 | None:
                tokens = _windows_of(leaf)
                if not tokens:
                    return None
                known = [postings.get(token, BitMap64()) for token in tokens]
                return BitMap64.intersection(*known)

            rows = evaluate(test.contents, rows_of, and_, or_, BitMap64())
            assert rows is not None  # as in `pages_for`
            if test.keeps_null:
                rows = rows | postings.get(_NULL, BitMap64())
            return expanded(rows) if len(rows) <= most else None

    def _read_postings(self, pages: Ints) -> dict[int, BitMap64]:
        """Return the rows of some tokens."""
        if not len(pages):
            return {}
        (array,) = self._file.read(["posting_list"], as_ranges(pages))
        is_binary = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
        if not is_binary or array.null_count:
            raise self._file.damage("a bitmap for each token was expected")
        tokens = self._tokens[pages].tolist()
        return {
            token: read_treemap(data) for token, data in zip(tokens, array.to_pylist(), strict=True)
        }


def _tokens_of(content: Wanted) -> frozenset[int] | None:
    """Return the tokens that are read for a content; None if it limits no rows."""

    def of_leaf(leaf: Leaf) -> frozenset[int] | None:
        return frozenset(_windows_of(leaf)) or None

    return evaluate(content, of_leaf, or_, or_, frozenset[int]())


def _windows_of(leaf: Leaf) -> Sequence[int]:
    """Return tokens of a wanted text, as many as are worth a look-up."""
    if not isinstance(leaf, Substring):
        return ()
    tokens = [
        token
        for start in range(len(leaf.text) - _WINDOW + 1)
        if (token := _token(leaf.text[start : start + _WINDOW], leaf.ignores_case)) is not None
    ]
    tokens = list(dict.fromkeys(tokens))
    step = -(-len(tokens) // _MAX_WINDOWS) if tokens else 1
    return tokens[::step]


def _token(window: str, ignores_case: bool) -> int | None:
    """Return the token of three characters; None if they may be others in the index."""
    # Arrow makes `i` of the Turkish capital I with a dot; Lance keeps the dot, as a character.
    if not (window.isascii() and window.isalnum()) or (ignores_case and "i" in window):
        return None
    token = 0
    for letter in window.lower():
        token = token * _SPAN + _LETTERS[letter]
    return token
