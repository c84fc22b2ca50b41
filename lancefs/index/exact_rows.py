"""Exact evaluation of a condition on several columns from indices alone, for counting.

The rows of each fragment are a bitmap, as BITMAP indices have them, or a mask where an index names
rows one by one. They are joined fragment by fragment, so that masks take little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lancefs.datafile.buffers import Ints, Mask
from lancefs.index.predicates import AllOf, ColumnTest, Predicate

if TYPE_CHECKING:
    from pyroaring import BitMap

# A mask of all rows of a fragment takes as long as a bitmap that names one in `_SPARSE` of them.
_SPARSE = 32

FragmentRows: TypeAlias = "BitMap | Mask"


@dataclass(frozen=True, slots=True)
class TestedRows:
    """The rows that pass a test, by the id of their fragment.

    Attributes:
        bitmaps: Offsets of rows.
        offsets: Offsets of further rows.
    """

    bitmaps: dict[int, list[BitMap]] = field(default_factory=dict)
    offsets: dict[int, list[Ints]] = field(default_factory=dict)

    def add_bitmaps(self, bitmaps: Iterable[tuple[int, BitMap]]) -> None:
        """Add rows of fragments."""
        for number, bitmap in bitmaps:
            self.bitmaps.setdefault(number, []).append(bitmap)

    def add_offsets(self, offsets: Iterable[tuple[int, Ints]]) -> None:
        """Add rows of fragments."""
        for number, rows in offsets:
            self.offsets.setdefault(number, []).append(rows)

    @property
    def fragments(self) -> set[int]:
        """Ids of the fragments with rows."""
        return {*self.bitmaps, *self.offsets}

    def bitmap_of(self, fragment_id: int) -> BitMap:
        """Return the rows of a fragment that were added as bitmaps."""
        from pyroaring import BitMap

        bitmaps = self.bitmaps.get(fragment_id, [])
        return bitmaps[0] if len(bitmaps) == 1 else BitMap.union(BitMap(), *bitmaps)

    def of(self, fragment_id: int, length: int) -> FragmentRows:
        """Return the rows of a covered fragment.

        Args:
            fragment_id: Its id.
            length: Its rows, deleted ones included.
        """
        from pyroaring import BitMap

        bitmap, offsets = self.bitmap_of(fragment_id), self.offsets.get(fragment_id, [])
        if sum(map(len, offsets)) * _SPARSE <= length:
            return BitMap.union(bitmap, *(BitMap(rows.astype(np.uint32)) for rows in offsets))
        mask = _mask(bitmap, length)
        for rows in offsets:
            mask[rows] = True
        return mask


def rows_of_fragment(
    predicate: Predicate,
    rows_of_test: Callable[[ColumnTest], TestedRows],
    fragment_id: int,
    length: int,
) -> FragmentRows:
    """Return the rows of a fragment that pass a predicate.

    Args:
        predicate: The predicate.
        rows_of_test: Returns the rows that pass each of its tests.
        fragment_id: The id of a fragment that all tests cover.
        length: Its rows, deleted ones included.
    """
    if isinstance(predicate, ColumnTest):
        return rows_of_test(predicate).of(fragment_id, length)
    join = and_ if isinstance(predicate, AllOf) else or_
    parts = (rows_of_fragment(part, rows_of_test, fragment_id, length) for part in predicate.parts)
    return reduce(lambda left, right: _combine(left, right, join), parts)


def count_live(rows: FragmentRows, deleted: Ints) -> int:
    """Return how many rows of a fragment are not deleted.

    Args:
        rows: The rows.
        deleted: Offsets of the deleted rows.
    """
    if isinstance(rows, np.ndarray):
        return int(np.count_nonzero(rows) - np.count_nonzero(rows[deleted]))
    from pyroaring import BitMap

    return len(rows) - (rows.intersection_cardinality(BitMap(deleted)) if len(deleted) else 0)


def _combine(
    left: FragmentRows, right: FragmentRows, join: Callable[[Any, Any], FragmentRows]
) -> FragmentRows:
    """Return what AND or OR makes of two sets of rows."""
    if isinstance(left, np.ndarray) and not isinstance(right, np.ndarray):
        right = _mask(right, len(left))
    elif isinstance(right, np.ndarray) and not isinstance(left, np.ndarray):
        left = _mask(left, len(right))
    return join(left, right)


def _mask(bitmap: BitMap, length: int) -> Mask:
    mask = np.zeros(length, np.bool_)
    if bitmap:
        mask[np.frombuffer(bitmap.to_array(), np.uint32)] = True
    return mask
