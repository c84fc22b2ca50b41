"""Claims of indices: conditions that all rows returned by an index must pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Mask
from lancefs.index.predicates import AllOf, AnyOf, ColumnTest, Predicate
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


def passing(predicate: Predicate, values_of: Callable[[int], pa.Array]) -> Mask:
    """Return which rows pass a predicate.

    Args:
        predicate: The predicate, with at least one part where it has parts.
        values_of: Returns the values of a column, by field id.
    """
    if isinstance(predicate, ColumnTest):
        return predicate.passes(values_of(predicate.field_id))
    masks = [passing(part, values_of) for part in predicate.parts]
    is_all = isinstance(predicate, AllOf)
    passed: Mask = (np.logical_and if is_all else np.logical_or).reduce(masks)
    return passed
