"""Fragment reuse: how compactions moved rows that indices know by their old addresses.

A compaction may leave the indices as they are and record which rows of the old fragments survived.
These rows, fragment after fragment in the order of the record, are the rows of the new fragments.

Format page: fragment reuse index (`docs/src/format/index/system/frag_reuse.md`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints, UInts, reserve
from lancefs.datafile.row_ranges import is_among
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.forks import cached_property
from lancefs.index.row_sets import fragments_of
from lancefs.proto import table_pb2
from lancefs.table.indices import Index
from lancefs.table.row_metadata import OFFSET_BITS

_ADDRESS_BYTES = 8


class _Digest(NamedTuple):
    """A fragment before or after a compaction, and its rows, deleted ones included."""

    fragment_id: int
    rows: int


class _Group:
    """Fragments that a compaction made into others.

    Args:
        version: The version of the table that the compaction read.
        survivors: The addresses of the rows that survived, as a Roaring treemap.
        old: The fragments before, in the order in which their rows were written.
        new: The fragments after, in the order of their rows.
    """

    def __init__(
        self, version: int, survivors: bytes, old: Sequence[_Digest], new: Sequence[_Digest]
    ) -> None:
        self.version = version
        self._survivors = survivors
        self._old, self._new = old, new
        self.old = [one.fragment_id for one in old]
        self.new = [one.fragment_id for one in new]
        self.old_ids = np.unique(np.array(self.old, np.int64))
        self.new_ids = np.unique(np.array(self.new, np.int64))

    def follow(self, addresses: UInts) -> tuple[Ints, UInts]:
        """Return which rows live, and their new addresses; those of other fragments stay.

        Raises:
            CorruptFile: The treemap is damaged, or does not fit to the fragments.
        """
        moved = is_among(fragments_of(addresses), self.old_ids)
        if not moved.any():
            return np.arange(len(addresses)), addresses
        survivors, wanted = self._read_survivors(), addresses[moved]
        at = np.searchsorted(survivors, wanted)
        alive = np.append(survivors, np.uint64(0))[at] == wanted
        alive &= at < len(survivors)
        rows = self._positions(survivors, wanted[alive], at[alive])
        return (
            np.concatenate([np.flatnonzero(~moved), np.flatnonzero(moved)[alive]]),
            np.concatenate([addresses[~moved], self._addresses_at(rows)]),
        )

    def _read_survivors(self) -> UInts:
        """Return the addresses of the rows that survived, ascending."""
        from pyroaring import BitMap64

        try:
            bitmap = BitMap64.deserialize(self._survivors)
        except (ValueError, IndexError) as error:
            raise CorruptFile(f"not a Roaring treemap: {error}") from error
        rows = sum(one.rows for one in self._new)
        if len(bitmap) != rows:
            raise CorruptFile(f"{len(bitmap)} rows survived a compaction that left {rows}")
        reserve(2 * _ADDRESS_BYTES * rows, len(self._survivors))
        return np.frombuffer(bitmap.to_array(), np.uint64)

    def _positions(self, survivors: UInts, wanted: UInts, at: Ints) -> Ints:
        """Return the position of each wanted row among the survivors in the order of writing."""
        bounds = [number << OFFSET_BITS for number in self.old]
        firsts = np.searchsorted(survivors, np.array(bounds, np.uint64))
        limits = np.array([bound + (1 << OFFSET_BITS) - 1 for bound in bounds], np.uint64)
        counts = np.searchsorted(survivors, limits, side="right") - firsts
        if counts.sum() != len(survivors):
            raise CorruptFile("rows survived a compaction that were in none of its fragments")
        shifts = (np.cumsum(counts) - counts) - firsts
        order = np.argsort(self.old)
        which = order[np.searchsorted(np.array(self.old)[order], fragments_of(wanted))]
        positions: Ints = at + shifts[which]
        return positions

    def _addresses_at(self, rows: Ints) -> UInts:
        """Return the addresses of the rows at some positions in the new fragments."""
        ends = np.array(list(accumulate(one.rows for one in self._new)), np.int64)
        which = np.searchsorted(ends, rows, side="right")
        ids = np.array(self.new, np.uint64)
        starts = ends - np.array([one.rows for one in self._new], np.int64)
        return (ids[which] << np.uint64(OFFSET_BITS)) + (rows - starts[which]).astype(np.uint64)


class FragmentReuse:
    """The compactions of a table whose rows indices know by their old addresses.

    Args:
        indices: All indices of the version.
        fragments: Ids of the fragments of the version, ascending.

    Raises:
        UnsupportedFeature: A compaction is recorded in a way that this release does not read.
        CorruptFile: A record is damaged, or names a fragment that is still there.
    """

    def __init__(self, indices: Iterable[Index], fragments: Ints) -> None:
        self._fragments = fragments
        self._groups = [
            _group(version.dataset_version, group)
            for index in indices
            if index.reuse is not None
            for version in _versions(index)
            for group in version.groups
        ]
        for group in self._groups:
            alive = group.old_ids[is_among(group.old_ids, fragments)]
            if len(alive):  # its rows would be looked for elsewhere
                raise CorruptFile(
                    f"fragment {alive[0]} is in the version, and a compaction has made it into "
                    "others; index the columns anew"
                )

    def __bool__(self) -> bool:
        return bool(self._groups)

    def translate(self, addresses: UInts) -> UInts:
        """Return the addresses that rows have now, in any order; dead rows are left out.

        Raises:
            CorruptFile: A record is damaged.
        """
        return self.follow(addresses)[1]

    def follow(self, addresses: UInts) -> tuple[Ints, UInts]:
        """Return which rows live, and the addresses that they have now, in any order.

        Raises:
            CorruptFile: A record is damaged.
        """
        which: Ints = np.arange(len(addresses))
        for group in self._groups:
            kept, addresses = group.follow(addresses)
            which = which[kept]
        return which, addresses

    def knows_all_moves(self, version: int) -> bool:
        """Tell whether the rows of an index can be followed to the fragments of this version.

        A compaction that rewrites the indices does not look into this record: it takes the
        addresses in their files for new ones. Where such a compaction followed one of the record,
        Lance 14 loses the rows of the indices that are older than the record.

        Args:
            version: The version of the table that the index was built from.
        """
        left = [(group, gone) for group, gone in self._compactions if group.version >= version]
        known = set(chain.from_iterable(group.old for group, _ in left))
        return all(map(known.issuperset, (gone for _, gone in left)))

    @cached_property
    def _compactions(self) -> Sequence[tuple[_Group, Sequence[int]]]:
        """Each compaction, and those of its new fragments that are not in this version any more."""
        return [
            (group, group.new_ids[~is_among(group.new_ids, self._fragments)].tolist())
            for group in self._groups
        ]

    def covered(self, fragments: Ints) -> tuple[Ints, Ints]:
        """Return which fragments hold the rows of some fragments now.

        Args:
            fragments: Ids of the fragments that an index covers.

        Returns:
            The ids of these fragments and of those that they became, ascending; and the latter.
        """
        # Sets, as there may be thousands of compactions, and of segments.
        covered, became = set(fragments.tolist()), set[int]()
        for group in self._groups:
            if group.old and covered.issuperset(group.old):
                covered.update(group.new)
                became.update(group.new)
        return _ascending(covered), _ascending(became)


def _ascending(numbers: Collection[int]) -> Ints:
    return np.sort(np.fromiter(numbers, np.int64, len(numbers)))


def _versions(index: Index) -> Sequence[table_pb2.FragmentReuseIndexDetails.Version]:
    assert index.reuse is not None
    if index.index_version not in (None, 0) or len(index.reuse.transitions):
        raise UnsupportedFeature(
            f"the fragment reuse index has version {index.index_version}; this release of lancefs "
            "reads version 0"
        )
    return index.reuse.legacy_versions


def _group(version: int, message: table_pb2.FragmentReuseIndexDetails.Group) -> _Group:
    old, new = (
        [_Digest(one.id, one.physical_rows) for one in digests]
        for digests in (message.old_fragments, message.new_fragments)
    )
    for digest in (*old, *new):
        if digest.fragment_id >> OFFSET_BITS or digest.rows >> OFFSET_BITS:
            raise CorruptFile(
                f"a compaction names fragment {digest.fragment_id}, {digest.rows} rows"
            )
    for digests in (old, new):
        if len({one.fragment_id for one in digests}) != len(digests):
            raise CorruptFile("a compaction names a fragment twice")
    return _Group(version, message.changed_row_addrs, old, new)
