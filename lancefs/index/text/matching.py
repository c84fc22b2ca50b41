"""Which documents a query of words finds, and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints, Mask
from lancefs.datafile.kernels import sum_scores
from lancefs.index.text.analyzers import TextToken
from lancefs.index.text.partitions import Documents
from lancefs.index.text.postings import Numbers32, Postings
from lancefs.index.text.scoring import SATURATION, Scores, Statistics, length_norms, weights

# Scores of all documents are added in one array where that is no larger than so many postings.
_DENSE = 8
# A sum of bounds is less than a score for certain if it is below this share of it.
_ROUNDED = 1 - 1e-4
# Documents of a part, of which the best score is found first.
_PART = 256
# Places of all documents up to which a table is made of those where a phrase may go on.
_MOST_SEEN = 16 * 1024 * 1024

_NOTHING = np.empty(0, np.int64), np.empty(0, np.float32)


def match_any(
    documents: Documents, tokens: Sequence[str], statistics: Statistics, most: int | None = None
) -> tuple[Ints, Scores]:
    """Return the documents that have any token of a query, and their scores.

    Args:
        documents: The documents.
        tokens: The tokens; one that is there twice counts twice.
        statistics: What is known of all documents.
        most: How many of the best ones are needed, with all that are as good as the last of them;
            further ones may be left out. None for all.
    """
    counts = Counter(tokens)
    listed = documents.postings(list(counts))
    found = {token: one for token, one in listed.items() if len(one.documents)}
    if not found:
        return _NOTHING
    factors = {token: np.float32(counts[token]) * statistics.rarity(token) for token in found}
    chosen = found if most is None else _decisive(documents, found, factors, most, statistics)
    size = sum(len(one.documents) for one in chosen.values())
    if len(documents.lengths) <= _DENSE * size and all(factors.values()):
        postings = [(one.documents, one.frequencies) for one in found.values()]
        total = sum_scores(
            postings, list(factors.values()), documents.norms(statistics.average_length), SATURATION
        )
        least = np.float32(0) if most is None else _least(total, most)
        numbers = np.flatnonzero(total >= least if least else total)
        return numbers, total[numbers]
    parts = [one.documents for one in chosen.values()]
    candidates = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
    scores = _scores_of_any(documents, candidates, found, factors, statistics)
    return candidates.astype(np.int64), scores


def _decisive(
    documents: Documents,
    found: Mapping[str, Postings],
    factors: Mapping[str, np.float32],
    most: int,
    statistics: Statistics,
) -> Mapping[str, Postings]:
    """Return the tokens of which each of the `most` best documents has at least one.

    What a token adds to a score is less than its factor times the saturation. Tokens whose bounds
    together do not reach the score that `most` documents have for a single token alone decide
    nothing: documents with none but these are left out.
    """
    order = sorted(found, key=lambda token: factors[token], reverse=True)
    bounds = {token: float(factors[token]) * float(SATURATION) for token in order}
    reached, left = 0.0, sum(bounds.values())
    chosen: dict[str, Postings] = {}
    for token in order:
        if reached and left < reached * _ROUNDED:
            break
        postings = chosen[token] = found[token]
        left -= bounds[token]
        is_rare = _DENSE * len(postings.documents) < len(documents.lengths)
        if is_rare and len(postings.documents) >= most and token != order[-1]:
            one = {token: postings}
            scores = _scores_of_any(documents, postings.documents, one, factors, statistics)
            reached = max(reached, float(np.partition(scores, -most)[-most]))
    return chosen


def _least(scores: Scores, most: int) -> np.float32:
    """Return a score, above 0, that at least `most` documents reach; 0 if fewer have any.

    No better than the score of the document of rank `most`, and most often close to it: the best
    score of each of some parts of all documents is looked at first.
    """
    whole = len(scores) // _PART * _PART
    if whole // _PART < 2 * most:
        limit = scores
    else:
        best = scores[:whole].reshape(-1, _PART).max(axis=1)
        bound = np.partition(best, -most)[-most]
        limit = scores[scores >= bound]
    return np.float32(0) if len(limit) < most else np.float32(np.partition(limit, -most)[-most])


def match_all(
    documents: Documents, tokens: Sequence[str], statistics: Statistics
) -> tuple[Ints, Scores]:
    """Return the documents that have all tokens of a query, and their scores; see `match_any`."""
    counts = Counter(tokens)
    found = documents.postings(list(counts))
    if len(found) < len(counts) or not counts:
        return _NOTHING
    common = _common(found)
    return common.numbers.astype(np.int64), _scores_of(documents, common, counts, statistics)


def match_each(
    documents: Documents, groups: Sequence[Sequence[str]], statistics: Statistics
) -> tuple[Ints, Scores]:
    """Return the documents that have a token of each group, and their scores.

    All tokens that a document has count, as for `match_any`.

    Args:
        documents: The documents.
        groups: The tokens.
        statistics: What is known of all documents.
    """
    if not groups:
        return _NOTHING
    every = [token for group in groups for token in group]
    numbers, scores = match_any(documents, every, statistics)
    found = documents.postings(list(dict.fromkeys(every)))
    has_all = np.ones(len(numbers), np.bool_)
    for group in groups:
        has_one = np.zeros(len(numbers), np.bool_)
        for token in group:
            if token in found:
                has_one |= np.isin(numbers, found[token].documents, assume_unique=True)
        has_all &= has_one
    return numbers[has_all], scores[has_all]


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
    common = _common(found)
    if len(tokens) > 1 and len(common.numbers):
        common = common.kept(_has_phrase(documents, common, tokens, slop))
    return common.numbers.astype(np.int64), _scores_of(documents, common, counts, statistics)


def _scores_of_any(
    documents: Documents,
    numbers: Numbers32,
    found: Mapping[str, Postings],
    factors: Mapping[str, np.float32],
    statistics: Statistics,
) -> Scores:
    """Return the scores of documents, ascending, that may lack some of the tokens."""
    norms = length_norms(documents.lengths[numbers], statistics.average_length)
    total = np.zeros(len(numbers), np.float32)
    for token, one in found.items():
        if one.documents is numbers:
            total += factors[token] * weights(one.frequencies, norms)
            continue
        at = np.minimum(np.searchsorted(one.documents, numbers), len(one.documents) - 1)
        has = np.flatnonzero(one.documents[at] == numbers)
        total[has] += factors[token] * weights(one.frequencies[at[has]], norms[has])
    return total


class _Common(NamedTuple):
    """The documents that have all tokens.

    Attributes:
        numbers: Their numbers, ascending.
        frequencies: How often each of them has each token.
        lists: Where they are among all documents of each token.
    """

    numbers: Numbers32
    frequencies: Mapping[str, Numbers32]
    lists: Mapping[str, Ints]

    def kept(self, mask: Mask) -> _Common:
        """Return those of the documents that a mask keeps."""
        return _Common(
            self.numbers[mask],
            {token: own[mask] for token, own in self.frequencies.items()},
            {token: own[mask] for token, own in self.lists.items()},
        )


def _scores_of(
    documents: Documents, common: _Common, counts: Mapping[str, int], statistics: Statistics
) -> Scores:
    """Return the scores of documents that have all tokens."""
    norms = length_norms(documents.lengths[common.numbers], statistics.average_length)
    total = np.zeros(len(common.numbers), np.float32)
    for token, frequencies in common.frequencies.items():
        weight = np.float32(counts[token]) * statistics.rarity(token)
        total += weight * weights(frequencies, norms)
    return total


def _common(found: Mapping[str, Postings]) -> _Common:
    """Return the documents that have all tokens."""
    (_, rarest), *others = sorted(found.items(), key=lambda each: len(each[1].documents))
    numbers, last = rarest.documents, dict[str, Ints]()
    for token, other in others:
        last = {token: _places_in(other.documents, numbers)}
        numbers = other.documents[last[token]]
    lists = {
        token: last[token] if token in last else _places_in(one.documents, numbers)
        for token, one in found.items()
    }
    return _Common(
        numbers, {token: found[token].frequencies[at] for token, at in lists.items()}, lists
    )


def _places_in(documents: Numbers32, numbers: Numbers32) -> Ints:
    """Return the places of those documents that are among some numbers; both ascend."""
    if not len(documents) or not len(numbers):
        return np.empty(0, np.int64)
    if _DENSE * len(numbers) < len(documents):
        at = np.minimum(np.searchsorted(documents, numbers), len(documents) - 1)
        found: Ints = at[documents[at] == numbers]
        return found
    is_wanted = np.zeros(max(int(documents[-1]), int(numbers[-1])) + 1, np.bool_)
    is_wanted[numbers] = True
    return np.flatnonzero(is_wanted[documents])


def _has_phrase(
    documents: Documents, common: _Common, tokens: Sequence[TextToken], slop: int
) -> Mask:
    """Tell which documents have the tokens in their order.

    A token's place less its place in the query is where the phrase would begin. From one token to
    the next one it may grow by `slop`: a place counts if such a place of the token before does.
    """
    beginnings = [_beginnings(documents, common, token) for token in tokens]
    count = len(common.numbers)
    lowest = min(int(places.min(initial=0)) for _, places in beginnings)
    highest = max(int(places.max(initial=0)) for _, places in beginnings)
    slop = min(slop, highest - lowest)
    room = highest - lowest + slop + 1  # of each document, so that none reaches into the next one
    keys, *others = (ranks * room + (places - lowest) for ranks, places in beginnings)
    for own in others:
        keys = _following(keys, own, slop, count * room)
    mask = np.zeros(count, np.bool_)
    mask[keys // room] = True
    return mask


def _following(keys: Ints, own: Ints, slop: int, end: int) -> Ints:
    """Return those of some keys that follow a key within a distance; all ascend.

    Args:
        keys: The keys that are followed.
        own: The keys that follow.
        slop: The distance at most.
        end: What all keys are less than.
    """
    if not slop and end <= _MOST_SEEN:
        is_key = np.zeros(end, np.bool_)
        is_key[keys] = True
        return own[is_key[own]]
    if not len(keys):
        return keys
    at = np.searchsorted(keys, own, side="right") - 1
    return own[(at >= 0) & (own - keys[np.maximum(at, 0)] <= slop)]


def _beginnings(documents: Documents, common: _Common, token: TextToken) -> tuple[Ints, Ints]:
    """Return where a phrase would begin for each place of a token in documents.

    Returns:
        Which of the documents it is, ascending; and the place in it, ascending in each document.
    """
    positions = documents.positions(token.text)
    counts = common.frequencies[token.text].astype(np.int64)
    starts = positions.starts[common.lists[token.text]]
    if (counts == 1).all():
        return np.arange(len(counts)), positions.places[starts] - token.position
    ranks = np.repeat(np.arange(len(counts)), counts)
    shifts = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return ranks, positions.places[np.arange(len(ranks)) + shifts] - token.position
