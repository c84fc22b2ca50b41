"""Which documents a query of words finds, and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from lancefs.datafile.buffers import Ints, Mask
from lancefs.index.text.analyzers import TextToken
from lancefs.index.text.partitions import Documents
from lancefs.index.text.postings import Numbers32, Postings
from lancefs.index.text.scoring import Scores, Statistics, length_norms, weights

# Scores of all documents are added in one array where that is no larger than so many postings.
_DENSE = 8
# Bits of a place of a word; documents are above.
_PLACE_BITS = 33

_NOTHING = np.empty(0, np.int64), np.empty(0, np.float32)


def match_any(
    documents: Documents, tokens: Sequence[str], statistics: Statistics
) -> tuple[Ints, Scores]:
    """Return the documents that have any token of a query, and their scores.

    Args:
        documents: The documents.
        tokens: The tokens; one that is there twice counts twice.
        statistics: What is known of all documents.
    """
    counts = Counter(tokens)
    found = documents.postings(list(counts))
    parts = {
        token: np.float32(counts[token]) * _scores(documents, token, one, statistics)
        for token, one in found.items()
    }
    if len(found) < 2:
        for token, one in found.items():
            return one.documents.astype(np.int64), parts[token]
        return _NOTHING
    size = len(documents.lengths)
    if size <= _DENSE * sum(len(one.documents) for one in found.values()):
        total, is_there = np.zeros(size, np.float32), np.zeros(size, np.bool_)
        for token, one in found.items():
            total[one.documents] += parts[token]
            is_there[one.documents] = True
        numbers = np.flatnonzero(is_there)
        return numbers, total[numbers]
    numbers, places = np.unique(
        np.concatenate([one.documents for one in found.values()]), return_inverse=True
    )
    scores = np.bincount(places, np.concatenate(list(parts.values())), len(numbers))
    return numbers.astype(np.int64), scores.astype(np.float32)


def match_all(
    documents: Documents, tokens: Sequence[str], statistics: Statistics
) -> tuple[Ints, Scores]:
    """Return the documents that have all tokens of a query, and their scores; see `match_any`."""
    counts = Counter(tokens)
    found = documents.postings(list(counts))
    if len(found) < len(counts) or not counts:
        return _NOTHING
    numbers = _common(found)
    return numbers.astype(np.int64), _scores_of(documents, numbers, found, counts, statistics)


def match_phrase(
    documents: Documents, tokens: Sequence[TextToken], slop: int, statistics: Statistics
) -> tuple[Ints, Scores]:
    """Return the documents that have the tokens of a query in their order.

    Args:
        documents: The documents.
        tokens: The tokens.
        slop: How many other words may be between two of them.
        statistics: What is known of all documents.
    """
    counts = Counter(token.text for token in tokens)
    found = documents.postings(list(counts))
    if len(found) < len(counts) or not counts:
        return _NOTHING
    numbers = _common(found)
    if len(tokens) > 1 and len(numbers):
        numbers = numbers[_has_phrase(documents, numbers, found, tokens, slop)]
    return numbers.astype(np.int64), _scores_of(documents, numbers, found, counts, statistics)


def _scores(documents: Documents, token: str, postings: Postings, statistics: Statistics) -> Scores:
    """Return what a token adds to the scores of its documents."""
    lengths = documents.lengths[postings.documents]
    norms = length_norms(lengths, statistics.average_length)
    return statistics.rarity(token) * weights(postings.frequencies, norms)


def _scores_of(
    documents: Documents,
    numbers: Numbers32,
    found: Mapping[str, Postings],
    counts: Mapping[str, int],
    statistics: Statistics,
) -> Scores:
    """Return the scores of documents that have all tokens."""
    norms = length_norms(documents.lengths[numbers], statistics.average_length)
    total = np.zeros(len(numbers), np.float32)
    for token, one in found.items():
        frequencies = one.frequencies[np.searchsorted(one.documents, numbers)]
        weight = np.float32(counts[token]) * statistics.rarity(token)
        total += weight * weights(frequencies, norms)
    return total


def _common(found: Mapping[str, Postings]) -> Numbers32:
    """Return the documents that have all tokens."""
    first, *others = sorted((one.documents for one in found.values()), key=len)
    for other in others:
        at = np.minimum(np.searchsorted(other, first), max(0, len(other) - 1))
        first = first[other[at] == first] if len(other) else first[:0]
    return first


def _has_phrase(
    documents: Documents,
    numbers: Numbers32,
    found: Mapping[str, Postings],
    tokens: Sequence[TextToken],
    slop: int,
) -> Mask:
    """Tell which documents have the tokens in their order.

    A token's place less its place in the query is where the phrase would begin. From one token to
    the next one it may grow by `slop`: a place counts if such a place of the token before does.
    """
    keys = np.empty(0, np.int64)
    for count, token in enumerate(tokens):
        own = _beginnings(documents, numbers, found[token.text], token)
        if count:
            at = np.searchsorted(keys, own, side="right") - 1
            own = own[(at >= 0) & (own - keys[np.maximum(at, 0)] <= slop)]
        keys = own
        if not len(keys):
            break
    mask = np.zeros(len(numbers), np.bool_)
    mask[keys >> _PLACE_BITS] = True
    return mask


def _beginnings(
    documents: Documents, numbers: Numbers32, postings: Postings, token: TextToken
) -> Ints:
    """Return where a phrase would begin for each place of a token, ascending.

    The upper bits tell which of the documents it is.
    """
    positions = documents.positions(token.text)
    lists = np.searchsorted(postings.documents, numbers)
    counts = postings.frequencies[lists].astype(np.int64)
    ranks = np.repeat(np.arange(len(numbers)), counts)
    within = np.arange(len(ranks)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = positions.places[np.repeat(positions.starts[lists], counts) + within]
    # Room for a beginning before the first word, and between documents.
    middle = (1 << _PLACE_BITS - 1) - token.position
    beginnings: Ints = (ranks << _PLACE_BITS) + places + middle
    return beginnings
