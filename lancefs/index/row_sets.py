"""Sets of rows that an index names, and the fragments about which it says so.

Rows are ranges of addresses; an address is the id of a fragment in the upper half and the offset of
a row in the lower one. In a fragment that a set does not cover, every row counts as a member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lancefs.datafile.buffers import Ints, UInts
from lancefs.datafile.row_ranges import RowRanges, between, is_among
from lancefs.forks import cached_property
from lancefs.table.row_index import slices_by_fragment
from lancefs.table.row_metadata import OFFSET_BITS

_BITS = np.uint64(OFFSET_BITS)
_OFFSETS = np.uint64((1 << OFFSET_BITS) - 1)
_ONE = np.uint64(1)


def fragments_of(addresses: UInts) -> Ints:
    """Return the id of the fragment of each address."""
    return (addresses >> _BITS).astype(np.int64)


def highest_of_fragments(addresses: UInts) -> UInts:
    """Return the highest address in each fragment.

    Args:
        addresses: Addresses, ascending.
    """
    if not len(addresses) or addresses[0] >> _BITS == addresses[-1] >> _BITS:
        return addresses[-1:]
    fragments = addresses >> _BITS
    highest: UInts = addresses[np.append(fragments[1:] != fragments[:-1], True)]
    return highest


def offsets_by_fragment(addresses: UInts, covered: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield some fragments with rows among some addresses, and the offsets of these rows.

    Args:
        addresses: Addresses, ascending.
        covered: Ids of the fragments, ascending.
    """
    own = set(covered.tolist())
    for number, start, end in slices_by_fragment(addresses):
        if number in own:
            yield number, (addresses[start:end] & _OFFSETS).astype(np.int64)


class RowSet:
    """Rows that may pass a predicate.

    Args:
        covered: Ids of the fragments whose rows are known, ascending.
        starts: First address of each range, ascending; all in covered fragments.
        ends: Address after the last one of each range; ranges are disjoint.
    """

    def __init__(self, covered: Ints, starts: UInts, ends: UInts) -> None:
        self.covered = covered
        self.starts = starts
        self.ends = ends

    @cached_property
    def num_rows(self) -> int:
        """Number of rows in covered fragments."""
        return int((self.ends - self.starts).sum())

    def ranges_of(self, fragment_id: int) -> RowRanges:
        """Return the rows of a covered fragment, as ranges of offsets."""
        base = np.uint64(fragment_id << OFFSET_BITS)
        first, last = self.starts.searchsorted(np.array([base, base | _OFFSETS], np.uint64))
        starts, ends = self.starts[first:last] - base, self.ends[first:last] - base
        return between(starts.astype(np.int64), ends.astype(np.int64))

    @cached_property
    def fragments(self) -> Ints:
        """Ids of covered fragments with rows in the set, ascending."""
        numbers = fragments_of(self.starts)
        return numbers if len(numbers) < 2 else np.unique(numbers)

    def within(self, fragments: Ints) -> RowSet:
        """Return the set with fewer covered fragments.

        Args:
            fragments: Ids of the fragments that stay, ascending.
        """
        keep = is_among(fragments_of(self.starts), fragments)
        return RowSet(
            np.intersect1d(self.covered, fragments, assume_unique=True),
            self.starts[keep],
            self.ends[keep],
        )

    def without(self, fragments: Ints) -> RowSet:
        """Return the set without some fragments, ascending, which it covers no more."""
        return self.within(np.setdiff1d(self.covered, fragments, assume_unique=True))


def of_addresses(addresses: UInts, covered: Ints) -> RowSet:
    """Return the set of rows with some addresses.

    Args:
        addresses: Addresses, ascending, each once; those outside of the fragments are left out.
        covered: Ids of the fragments that are covered, ascending.
    """
    rows, highest = addresses, highest_of_fragments(addresses)
    if not (is_among(fragments_of(highest), covered) & (highest & _OFFSETS != _OFFSETS)).all():
        known = is_among(fragments_of(addresses), covered) & (addresses & _OFFSETS != _OFFSETS)
        rows = addresses[known]
    begins = np.empty(len(rows), np.bool_)
    begins[:1] = True
    np.not_equal(rows[1:] - _ONE, rows[:-1], out=begins[1:])
    if begins.all():  # no row follows on another one, or there is none
        return RowSet(covered, rows, rows + _ONE)
    last = np.append(begins[1:], True)
    return RowSet(covered, rows[begins], rows[last] + _ONE)


def union(sets: Sequence[RowSet]) -> RowSet:
    """Return the rows of any of some sets, in the fragments that all of them cover."""
    if len(sets) == 1:
        return sets[0]
    covered = sets[0].covered
    for one in sets[1:]:
        covered = np.intersect1d(covered, one.covered, assume_unique=True)
    return _merged([one.within(covered) for one in sets], covered)


def join(sets: Sequence[RowSet]) -> RowSet:
    """Return the rows of any of some sets, each of which covers a part of the rows."""
    if len(sets) == 1:
        return sets[0]
    covered = np.unique(np.concatenate([one.covered for one in sets]))
    return _merged(sets, covered)


def intersection(left: RowSet, right: RowSet) -> RowSet:
    """Return the rows of both sets; in a fragment that one set covers, the rows of that one."""
    if np.array_equal(left.covered, right.covered):
        return _common(left, right, left.covered)
    both = np.intersect1d(left.covered, right.covered, assume_unique=True)
    common = _common(left.within(both), right.within(both), both)
    return join([common, left.without(both), right.without(both)])


def _common(left: RowSet, right: RowSet, covered: Ints) -> RowSet:
    """Return the rows that are in both of two sets."""
    few, many = (left, right) if len(left.starts) <= len(right.starts) else (right, left)
    firsts = many.ends.searchsorted(few.starts, "right")
    counts = np.maximum(many.starts.searchsorted(few.ends, "left") - firsts, 0)
    own = np.flatnonzero(counts)
    if len(own) == len(counts) and (counts == 1).all():
        ours, theirs = own, firsts
    else:
        counts = counts[own]
        ours = np.repeat(own, counts)
        within = np.arange(len(ours)) - np.repeat(np.cumsum(counts) - counts, counts)
        theirs = np.repeat(firsts[own], counts) + within
    starts = np.maximum(few.starts[ours], many.starts[theirs])
    ends = np.minimum(few.ends[ours], many.ends[theirs])
    return RowSet(covered, starts, ends)


def _merged(sets: Sequence[RowSet], covered: Ints) -> RowSet:
    """Return the rows that are in any of some sets; ranges that touch become one."""
    starts = np.concatenate([one.starts for one in sets])
    order = starts.argsort(kind="stable")  # quick for the ordered starts of few sets
    starts, ends = starts[order], np.concatenate([one.ends for one in sets])[order]
    if not len(starts):
        return RowSet(covered, starts, ends)
    reached = np.maximum.accumulate(ends)
    begins = np.append(True, starts[1:] > reached[:-1])
    return RowSet(covered, starts[begins], reached[np.append(begins[1:], True)])
