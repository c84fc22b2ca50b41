"""Intersection of the documents of several tokens, and phrase matching by their positions."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, Ints, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.errors import CorruptFile


def find_common(few: Array, many: Array) -> tuple[Ints, Ints]:
    """Find the numbers that are in both of two sequences.

    Args:
        few: Ascending numbers (uint32).
        many: Others.

    Returns:
        For each number that both have, ascending, its place in each of them.
    """
    if not len(many):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(many, few), len(many) - 1)
    own = np.flatnonzero(many[at] == few)
    return own, at[own]


@twin_of(find_common, "bytes number bytes number out out")
def _compiled_find_common(call: Call, few: Array, many: Array) -> tuple[Ints, Ints]:
    assert few.dtype == many.dtype == np.uint32
    if len(few) > len(many):
        theirs, own = _compiled_find_common(many, few)
        return own, theirs
    found = empty(len(few), np.int64), empty(len(few), np.int64)
    count = call(few, len(few), many, len(many), *found)
    return found[0][:count], found[1][:count]


def follow_words(
    lists: tuple[Ints, Ints],
    documents: Ints,
    before: tuple[Ints, Ints] | None,
    shift: int,
    slop: int,
) -> tuple[Ints, Ints]:
    """Find where words of documents follow others.

    Args:
        lists: Where the list of places of each document begins among all places, and where the last
            one ends; and the places, ascending in each list.
        documents: Which of the lists are looked at; each of them once.
        before: For each of these the places that are followed, in the same form, ascending in each
            list. None for all places of the lists.
        shift: What is taken off each place of `lists` first.
        slop: How far a place may be after the last one of `before` that is not above it.

    Returns:
        The places that follow others, less `shift`, in the same form: a list for each document.

    Raises:
        CorruptFile: There is no such list, or it leaves the places, or overlaps others.
    """
    starts, places = lists
    if ((documents < 0) | (documents >= len(starts) - 1)).any():
        raise CorruptFile(f"a document of a token, of {len(starts) - 1} documents")
    firsts, counts = starts[documents], starts[documents + 1] - starts[documents]
    leaves = ((firsts < 0) | (counts < 0) | (counts > len(places) - firsts)).any()
    if leaves or counts.sum() > len(places):
        raise CorruptFile(f"places of a word leave the {len(places)} places of all documents")
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    shifts = np.repeat(firsts - ends[:-1], counts)
    own = places[np.arange(len(shifts)) + shifts] - shift
    if before is None:
        return ends, own
    ranks = np.repeat(np.arange(len(counts)), counts)
    before_starts, before_places = before
    before_ranks = np.repeat(np.arange(len(counts)), np.diff(before_starts))
    lowest = min(own.min(initial=0), before_places.min(initial=0))
    highest = max(own.max(initial=0), before_places.max(initial=0))
    slop = min(slop, int(highest - lowest))
    room = highest - lowest + slop + 1  # of each document, so that none reaches into the next one
    keys = before_ranks * room + (before_places - lowest)
    own_keys = ranks * room + (own - lowest)
    at = np.searchsorted(keys, own_keys, side="right") - 1
    follows = at >= 0
    follows[follows] = own_keys[follows] - keys[at[follows]] <= slop
    kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(follows)])
    return kept[ends], own[follows]


@twin_of(follow_words, "ints ints ints ints ints ints out out")
def _compiled_follow_words(
    call: Call,
    lists: tuple[Ints, Ints],
    documents: Ints,
    before: tuple[Ints, Ints] | None,
    shift: int,
    slop: int,
) -> tuple[Ints, Ints]:
    known = (None, None) if before is None else before
    size = 0 if before is None else len(before[1])
    sizes = len(lists[0]) - 1, len(lists[1]), len(documents), size, shift, slop
    starts, places = empty(len(documents) + 1, np.int64), empty(len(lists[1]), np.int64)
    numbers = np.array(sizes, np.int64)
    count = call(*lists, documents, *known, numbers, starts, places)
    return starts, places[:count]
