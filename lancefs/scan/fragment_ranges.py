"""Skipping small fragments by their value ranges, compared for all fragments at once.

A table may have thousands of fragments of a few rows each. What scans have seen of a column of
theirs (`value_ranges`) is gathered once for a version, as columns of numbers. Then no reader is
made for a fragment without a row that passes; only its file is asked whether it is still the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import count_rows
from lancefs.forks import cached_property
from lancefs.scan import range_files, value_ranges
from lancefs.scan.value_ranges import Numbers, ZoneRanges, are_outside
from lancefs.storage import File
from lancefs.storage.budget_cache import BudgetCache
from lancefs.storage.open_files import identity_at
from lancefs.table.fragment_readers import FragmentReaders, are_several_local

if TYPE_CHECKING:
    from lancefs.datafile.blocks import Mask, RowRange
    from lancefs.scan.intervals import ValueInterval
    from lancefs.scan.stats import ScanStats
    from lancefs.table.fragment_reader import FragmentReader

# With fewer fragments, gathering would save little; with more, `value_ranges` does not keep all.
_FEWEST, _MOST = 16, 16 * 1024
# Mean rows of many local fragments up to which a column is read in less time than it takes to find
# the ranges of its values, and to ask whether their files are still the same.
_TINY_ROWS = 1024
# Fragments that are looked at before all are: mostly a scan has seen all of a column, or nothing.
_PROBES = 8
# Bytes that a process keeps, and what a fragment takes of them: its bounds, and the path and the
# identity of its file where these are in nobody else's memory.
_BUDGET, _FRAGMENT_BYTES = 16 * 1024 * 1024, 360

_ColumnKey: TypeAlias = tuple["weakref.ref[FragmentReaders]", int]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The ranges of a column in the fragments of a version.

    Attributes:
        seen: The fragments all of whose rows were seen, and lie in one zone.
        low: The least value of each fragment; any number where it was not seen.
        high: The greatest one.
        places: The path of each fragment's file.
        identities: Identity of the bytes of each file; None where it was not seen.
        changes: `value_ranges.count_changes()` when they were gathered.
    """

    seen: Mask
    low: Numbers
    high: Numbers
    places: Sequence[str]
    identities: Sequence[Hashable | None]
    changes: int

    def excludes(self, interval: ValueInterval) -> Mask:
        """Tell which fragments have no value within an interval."""
        return self.seen & are_outside(self.low, self.high, interval)

    def is_current(self, position: int) -> bool:
        """Whether the file of a fragment has the bytes that were seen."""
        return identity_at(self.places[position]) == self.identities[position]


_gathered: BudgetCache[_ColumnKey, _Gathered] = BudgetCache(_BUDGET)


def are_worthwhile(fragments: Sequence[FragmentReader]) -> bool:
    """Return whether to keep the ranges of values in fragments, for later scans to skip some.

    Args:
        fragments: All fragments of a scan.
    """
    if not isinstance(fragments, FragmentReaders):
        return True
    if len(fragments) > _MOST:
        return False  # each would be forgotten before the next scan asks for it
    counts = fragments.row_counts
    if counts is None or not are_several_local(fragments):
        return True
    return int(counts[0].sum()) > _TINY_ROWS * len(fragments)


class FragmentRanges:
    """What earlier scans have seen of the columns of a filter, in all fragments of a scan.

    Args:
        fragments: The fragments.
        fields: The columns.
        intervals: By the names of the columns, the intervals within all of which the values of a
            row have to lie.
        stats: Counts what is skipped.
    """

    def __init__(
        self,
        fragments: Sequence[FragmentReader],
        fields: Sequence[Field],
        intervals: Mapping[str, ValueInterval],
        stats: ScanStats,
    ) -> None:
        self._fragments = fragments
        self._fields = fields
        self._intervals = intervals
        self._stats = stats

    @cached_property
    def _known(self) -> Sequence[tuple[ValueInterval, _Gathered]]:
        """The columns of which something was seen; none where gathering would save little."""
        fragments = self._fragments
        if not isinstance(fragments, FragmentReaders) or not _are_gathered(fragments):
            return ()
        found = [
            (self._intervals[field.name], _ranges_in(fragments, field)) for field in self._fields
        ]
        return [(interval, ranges) for interval, ranges in found if ranges is not None]

    @property
    def are_unseen(self) -> bool:
        """Whether earlier scans have most likely seen no value of the columns.

        This is known of local fragments only, of as many as are worth gathering.
        """
        fragments = self._fragments
        is_known = isinstance(fragments, FragmentReaders) and _are_gathered(fragments)
        return is_known and not self._known

    def passing_readers(self) -> FragmentReaders | None:
        """Return the fragments that may hold rows that pass; None where some rows were not seen."""
        fragments, known = self._fragments, self._known
        if not isinstance(fragments, FragmentReaders) or len(known) < len(self._fields):
            return None
        if not all(ranges.seen.all() for _, ranges in known):
            return None
        out = self._excluded_by_column()
        which, passes = out.argmax(axis=0), ~np.logical_or.reduce(out)
        for position in np.flatnonzero(~passes).tolist():
            passes[position] = not known[which[position]][1].is_current(position)
        if passes.all():
            return fragments
        self._stats.fragments_skipped += int(np.count_nonzero(~passes))
        counts = fragments.row_counts
        assert counts is not None  # or nothing is known
        self._stats.rows_skipped += int(counts[0][~passes].sum())
        return fragments.picked(np.flatnonzero(passes))

    def passing(self) -> Iterator[tuple[FragmentReader, Sequence[RowRange] | None]]:
        """Yield the fragments that may hold rows that pass, one by one.

        Yields:
            A fragment, and the ranges of these rows; None for all rows.
        """
        fragments, known = self._fragments, self._known
        if not known or not isinstance(fragments, FragmentReaders):
            yield from self._one_by_one(fragments)
            return
        out = self._excluded_by_column()
        is_seen = np.logical_and.reduce([ranges.seen for _, ranges in known])
        is_excluded = np.logical_or.reduce(out)
        which, lengths = out.argmax(axis=0).tolist(), _physical_rows(fragments)
        for position, is_out in enumerate(is_excluded.tolist()):
            if is_out and known[which[position]][1].is_current(position):
                self._stats.rows_skipped += lengths[position]
                self._stats.fragments_skipped += 1
            elif is_out or is_seen[position]:
                yield fragments.passing(position), None
            else:
                yield from self._one_by_one([fragments.passing(position)])

    def _excluded_by_column(self) -> Mask:
        """Tell which columns exclude which fragments; shape (columns, fragments)."""
        return np.stack([ranges.excludes(interval) for interval, ranges in self._known])

    def _one_by_one(
        self, fragments: Iterable[FragmentReader]
    ) -> Iterator[tuple[FragmentReader, Sequence[RowRange] | None]]:
        for fragment in fragments:
            ranges = value_ranges.find_passing(fragment, self._fields, self._intervals)
            if ranges is not None:
                self._stats.rows_skipped += fragment.physical_rows - count_rows(ranges)
                self._stats.fragments_skipped += not ranges
            if ranges is None or ranges:
                yield fragment, ranges


def forget() -> None:
    """Forget all ranges in memory."""
    _gathered.clear()
    value_ranges.forget()
    range_files.forget()


def _are_gathered(fragments: FragmentReaders) -> bool:
    """Return whether it is worth gathering what is known of a column of fragments."""
    is_fit = _FEWEST <= len(fragments) <= _MOST
    return is_fit and fragments.are_local and fragments.row_counts is not None


def _ranges_in(fragments: FragmentReaders, field: Field) -> _Gathered | None:
    """Return what is known of a column, gathered anew if more may be; None if little is."""
    key, changes = (weakref.ref(fragments), field.id), value_ranges.count_changes()
    known = _gathered.peek(key)
    if known is not None and (known.changes == changes or known.seen.all()):
        return known
    probes = np.linspace(0, len(fragments) - 1, _PROBES).astype(np.int64).tolist()
    if not any(_zones_of(fragments.passing(position), field)[1] for position in probes):
        return None
    gathered = _gather(fragments, field, changes)
    _gathered.put(key, gathered, _FRAGMENT_BYTES * len(fragments))
    return gathered


def _gather(fragments: FragmentReaders, field: Field, changes: int) -> _Gathered:
    found = [_zones_of(fragment, field) for fragment in fragments]
    seen = [
        zones is not None and len(zones.seen) == 1 and zones.seen[0].tolist() == [0, length]
        for (_, zones), length in zip(found, _physical_rows(fragments), strict=True)
    ]
    kind = next((zones.low.dtype for _, zones in found if zones is not None), np.dtype(np.int64))
    low, high = np.zeros(len(seen), kind), np.zeros(len(seen), kind)
    identities: list[Hashable | None] = [None] * len(seen)
    for position, (_, zones) in enumerate(found):
        if zones is not None and seen[position]:
            low[position], high[position] = zones.low[0], zones.high[0]
            identities[position] = zones.identity
    places = ["" if file is None else str(file.place) for file, _ in found]
    return _Gathered(np.array(seen), low, high, places, identities, changes)


def _physical_rows(fragments: FragmentReaders) -> list[int]:
    counts = fragments.row_counts
    assert counts is not None  # or nothing is gathered
    rows: list[int] = counts[0].tolist()
    return rows


def _zones_of(fragment: FragmentReader, field: Field) -> tuple[File | None, ZoneRanges | None]:
    file = value_ranges.file_of(fragment, field)
    return file, None if file is None else value_ranges.zones_of(file, field)
