"""The documents that match a query of words, and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints, Mask
from lancefs.datafile.kernels import find_common, follow_words, sum_scores
from lancefs.index.text.analyzers import TextToken
from lancefs.index.text.partitions import Documents
from lancefs.index.text.postings import Numbers32, Postings
from lancefs.index.text.scoring import SATURATION, Scores, Statistics, length_norms, weights

# Scores are added in one array of all documents if it has at most this many entries a posting.
_DENSE = 8
# A sum of bounds is less than a score for certain if it is below this share of it.
_ROUNDED = 1 - 1e-4
# Documents of a part; the best score of each part is found first.
_PART = 256
# A slop that is as good as any larger one.
_MAX_SLOP = 1 << 40
# For a phrase, this many times the wanted number of documents are looked at first; if too few of
# them have it, this many times as many again.
_TRIED = 8

_NOTHING = np.empty(0, np.int64), np.empty(0, np.float32)


def match_any(
    documents: Documents,
    tokens: Sequence[str],
    statistics: Statistics,
    most: int | None = None,
    among: Numbers32 | None = None,
) -> tuple[Ints, Scores]:
    """Return the documents that have any token of a query, and their scores.

    Args:
        documents: The documents.
        tokens: The tokens; one that is there twice counts twice.
        statistics: What is known of all documents.
        most: How many of the best ones are needed, with all that are as good as the last of them;
            further ones may be left out. None for all.
        among: The documents that may be returned, ascending; None for all.
    """
    counts = Counter(tokens)
    listed = documents.postings(list(counts))
    found = {token: one for token, one in listed.items() if len(one.documents)}
    if not found:
        return _NOTHING
    factors = {token: np.float32(counts[token]) * statistics.rarity(token) for token in found}
    if among is not None:
        own = [among[find_common(among, one.documents)[0]] for one in found.values()]
        some = _in_any(own)
        return some.astype(np.int64), _scores_of_any(documents, some, found, factors, statistics)
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
    candidates = parts[0] if len(parts) == 1 else _in_any(parts)
    scores = _scores_of_any(documents, candidates, found, factors, statistics)
    return candidates.astype(np.int64), scores


def _in_any(parts: Sequence[Numbers32]) -> Numbers32:
    """Return the numbers of any part, ascending; `np.unique` takes several times as long."""
    every = np.concatenate(parts)
    every.sort()
    is_new = np.empty(len(every), np.bool_)
    is_new[:1] = True
    np.not_equal(every[1:], every[:-1], out=is_new[1:])
    return every[is_new]


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
    documents: Documents, tokens: Sequence[str], statistics: Statistics, most: int | None = None
) -> tuple[Ints, Scores]:
    """Return the documents that have all tokens of a query, and their scores; see `match_any`."""
    counts = Counter(tokens)
    if len(counts) == 1:
        return match_any(documents, tokens, statistics, most)
    found = documents.postings(list(counts))
    if len(found) < len(counts) or not counts:
        return _NOTHING
    best = _NOTHING
    for common, scores in _with_all(documents, found, counts, statistics, most):
        best = common.numbers.astype(np.int64), scores
        if most is not None and len(scores) >= most:
            break
    return best


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
    documents: Documents,
    tokens: Sequence[TextToken],
    slop: int,
    statistics: Statistics,
    most: int | None,
) -> tuple[Ints, Scores]:
    """Return the documents that have the tokens of a query in their order, and their scores.

    Args:
        documents: The documents.
        tokens: The tokens.
        slop: How many other words may be between two of them.
        statistics: What is known of all documents.
        most: How many of the best ones are needed; see `match_any`.
    """
    counts = Counter(token.text for token in tokens)
    found = documents.postings(list(counts))
    if len(found) < len(counts) or not counts:
        return _NOTHING
    numbers, own = _NOTHING
    for common, scores in _with_all(documents, found, counts, statistics, most):
        which = np.arange(len(scores))
        if len(tokens) > 1:
            which = _with_phrase(documents, common, scores, tokens, slop, most)
        numbers, own = common.numbers[which].astype(np.int64), scores[which]
        if most is not None and len(numbers) >= most:
            break
    return numbers, own


def _with_all(
    documents: Documents,
    found: Mapping[str, Postings],
    counts: Mapping[str, int],
    statistics: Statistics,
    most: int | None,
) -> Iterator[tuple[_Common, Scores]]:
    """Yield documents that have all tokens, with their scores: more of them each time.

    Where tokens are frequent, those are looked up first that have the best scores for any of the
    tokens: no other document has a better one. All documents come last.
    """
    fewest = min(len(one.documents) for one in found.values())
    tried = len(documents.lengths) if most is None else _TRIED * most
    if fewest * _DENSE >= len(documents.lengths) and tried * _TRIED < len(documents.lengths):
        factors = [np.float32(counts[token]) * statistics.rarity(token) for token in found]
        postings = [(one.documents, one.frequencies) for one in found.values()]
        norms = documents.norms(statistics.average_length)
        total = sum_scores(postings, factors, norms, SATURATION)
        while tried * _TRIED < len(total):
            least = _least(total, tried)
            common = _common(found, np.flatnonzero(total >= least).astype(np.uint32))
            yield common, total[common.numbers]
            tried *= _TRIED
    common = _common(found)
    yield common, _scores_of(documents, found, common, counts, statistics)


def _with_phrase(
    documents: Documents,
    common: _Common,
    scores: Scores,
    tokens: Sequence[TextToken],
    slop: int,
    most: int | None,
) -> Ints:
    """Return which documents have a phrase: the words of those with the best scores come first."""
    tried = len(scores) if most is None else _TRIED * most
    while 0 < tried < len(scores):
        which = np.flatnonzero(scores >= np.partition(scores, -tried)[-tried])
        passed = which[_has_phrase(documents, common.at(which), tokens, slop)]
        if most is not None and len(passed) >= most:
            return passed
        tried *= _TRIED
    return (
        np.flatnonzero(_has_phrase(documents, common, tokens, slop)) if len(scores) else _NOTHING[0]
    )


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
        has, at = find_common(numbers, one.documents)
        total[has] += factors[token] * weights(one.frequencies[at], norms[has])
    return total


class _Common(NamedTuple):
    """The documents that have all tokens.

    Attributes:
        numbers: Their numbers, ascending.
        places: Where they are among all documents of each token.
    """

    numbers: Numbers32
    places: Mapping[str, Ints]

    def at(self, which: Ints) -> _Common:
        """Return some of the documents, by their positions."""
        places = {token: own[which] for token, own in self.places.items()}
        return _Common(self.numbers[which], places)


def _scores_of(
    documents: Documents,
    found: Mapping[str, Postings],
    common: _Common,
    counts: Mapping[str, int],
    statistics: Statistics,
) -> Scores:
    """Return the scores of documents that have all tokens."""
    norms = length_norms(documents.lengths[common.numbers], statistics.average_length)
    total = np.zeros(len(common.numbers), np.float32)
    for token, places in common.places.items():
        weight = np.float32(counts[token]) * statistics.rarity(token)
        total += weight * weights(found[token].frequencies[places], norms)
    return total


def _common(found: Mapping[str, Postings], among: Numbers32 | None = None) -> _Common:
    """Return the documents that have all tokens, among some documents, or among all."""
    rarest, *others = sorted(found.values(), key=lambda one: len(one.documents))
    numbers = rarest.documents
    if among is not None:
        numbers, others = among, [rarest, *others]
    for other in others:
        if not len(numbers):
            break
        numbers = numbers[find_common(numbers, other.documents)[0]]
    if not len(numbers):
        return _Common(numbers, dict.fromkeys(found, np.empty(0, np.int64)))
    places = {token: find_common(numbers, one.documents)[1] for token, one in found.items()}
    return _Common(numbers, places)


def _has_phrase(
    documents: Documents, common: _Common, tokens: Sequence[TextToken], slop: int
) -> Mask:
    """Tell which documents have the tokens in their order.

    A token's place less its place in the query is where the phrase would begin. From one token to
    the next one it may grow by `slop`: a place counts if such a place of the token before does.
    """
    found: tuple[Ints, Ints] | None = None
    for token in tokens:
        lists, own = documents.positions(token.text), common.places[token.text]
        found = follow_words(lists, own, found, token.position, min(slop, _MAX_SLOP))
    assert found is not None
    return np.diff(found[0]) > 0
