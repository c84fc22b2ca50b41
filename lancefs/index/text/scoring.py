"""BM25 scores of documents.

A score is the sum over the tokens of the query of what the rarity of the token says, times what its
frequency in the document says, which counts less in long documents. All is computed with 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float32]

_K1 = np.float32(1.2)
_B = np.float32(0.75)
# What a token adds to a score is less than its rarity times this.
SATURATION = _K1 + np.float32(1)


@dataclass
class Statistics:
    """What is known of all documents.

    Attributes:
        documents: How many there are.
        tokens: How many tokens they have.
        with_token: How many documents have each token of the query.
    """

    documents: int = 0
    tokens: int = 0
    with_token: dict[str, int] = field(default_factory=dict)

    def add(self, documents: int, tokens: int, with_token: Mapping[str, int]) -> None:
        """Add other documents."""
        self.documents += documents
        self.tokens += tokens
        for token, count in with_token.items():
            self.with_token[token] = self.with_token.get(token, 0) + count

    def documents_with(self, token: str) -> int:
        """Return how many documents have a token."""
        return self.with_token.get(token, 0)

    def rarity(self, token: str) -> np.float32:
        """Return the weight of a token."""
        count = np.float32(self.documents_with(token))
        half, documents = np.float32(0.5), np.float32(self.documents)
        weight: np.float32 = np.log((documents - count + half) / (count + half) + np.float32(1))
        return weight

    @property
    def average_length(self) -> np.float32:
        """Tokens of a document."""
        return np.float32(self.tokens) / np.float32(max(1, self.documents))


def rounded_lengths(lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return lengths with their four highest bits alone, as indices with long blocks score them.

    Args:
        lengths: Tokens of each document.
    """
    bits = np.frexp(lengths.astype(np.float64))[1]
    dropped = np.maximum(bits - 4, 0).astype(np.uint32)
    rounded: npt.NDArray[np.uint32] = lengths >> dropped << dropped
    return rounded


def length_norms(lengths: npt.NDArray[np.uint32], average: np.float32) -> Scores:
    """Return what the length of each document adds to the divisor of its score.

    Args:
        lengths: Tokens of each document.
        average: Tokens of a document.
    """
    if not average:
        return np.full(len(lengths), _K1, np.float32)
    norms: Scores = _K1 * (np.float32(1) - _B + _B * lengths.astype(np.float32) / average)
    return norms


def weights(frequencies: npt.NDArray[np.uint32], norms: Scores) -> Scores:
    """Return what the frequencies of a token say.

    Args:
        frequencies: How often each document has it.
        norms: See `length_norms`.
    """
    counts = frequencies.astype(np.float32)
    found: Scores = SATURATION * counts / (counts + norms)
    return found
