"""Claims of indices: conditions that all rows returned by an index must pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from lancefs.index.predicates import AllOf, AnyOf, Predicate
from lancefs.index.segments import IndexSegment


class IndexClaim(NamedTuple):
    """A condition that is true for each live row that an answer names in some fragments.

    Attributes:
        fragments: Ids of the fragments.
        predicate: The condition.
        segments: The segments that say so.
    """

    fragments: frozenset[int]
    predicate: Predicate
    segments: tuple[IndexSegment, ...]


def of_any(parts: Sequence[Sequence[IndexClaim]]) -> tuple[IndexClaim, ...]:
    """Return what is claimed of the rows of any of several answers.

    Args:
        parts: The claims of each answer.
    """
    if not all(parts):
        return ()
    every = [claim for part in parts for claim in part]
    fragments = reduce(frozenset.intersection, (claim.fragments for claim in every))
    predicate = AnyOf(tuple(AllOf(tuple(claim.predicate for claim in part)) for part in parts))
    segments = tuple(segment for claim in every for segment in claim.segments)
    return (IndexClaim(fragments, predicate, segments),) if fragments else ()
