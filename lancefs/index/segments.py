"""Segments of indices: which fragments each of them covers, and where its rows are.

A segment names rows by addresses or by row ids, which its kind and version decide. Its files may
still hold rows that were deleted, moved or rewritten since: a row counts only in a fragment that
the segment's own list of fragments names.

Format page: indices (`docs/src/format/index/index.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lancefs.datafile.buffers import Ints, UInts
from lancefs.datafile.row_ranges import is_among
from lancefs.errors import CorruptFile
from lancefs.forks import cached_property
from lancefs.index.fragment_reuse import FragmentReuse
from lancefs.index.row_sets import (
    RowSet,
    fragments_of,
    highest_of_fragments,
    of_addresses,
)
from lancefs.printable import get_logger
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragments import REPLACED_FIELD, Fragment
from lancefs.table.indices import Index, IndexFile, segments_by_name
from lancefs.table.manifest import Manifest
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import OFFSET_BITS

if TYPE_CHECKING:
    from pyroaring import BitMap64

logger = get_logger(__name__)

# Bytes of sets of the live rows of segments, which are kept for each version.
_LIVE_IDS_BYTES = 32 * 1024 * 1024

# Kind -> by version of the index, whether its row numbers are row ids in tables with stable row
# ids; otherwise they are addresses. Other kinds and versions are not used.
HOLDS_ROW_IDS: Mapping[str, Mapping[int, bool]] = {
    "BTree": {0: True, 1: False},
    "Bitmap": {0: True, 1: False},
    "LabelList": {0: True, 1: True, 2: False},
    "NGram": {0: True, 1: False},
    "ZoneMap": {0: False},
    "BloomFilter": {0: False},
}
# The same for indices over vectors, of all kinds.
VECTORS_HOLD_ROW_IDS: Mapping[int, bool] = {0: True, 1: True, 2: True}
# The same for full-text indices.
TEXTS_HOLD_ROW_IDS: Mapping[int, bool] = {0: True, 1: True, 2: True, 3: True}


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """A segment that can be asked.

    Attributes:
        index: What the manifest says of it.
        covered: Ids of the fragments of this version that it covers, ascending.
        holds_row_ids: Whether its row numbers are stable row ids.
    """

    index: Index
    covered: Ints
    holds_row_ids: bool

    def file(self, name: str) -> IndexFile:
        """Return what the manifest says of a file; where it says nothing, the size is unknown."""
        known = [file for file in self.index.files if file.path == name]
        return known[0] if known else IndexFile(name, None)


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """An index over one column, with the segments of this version that can be asked.

    Attributes:
        name: Its name.
        kind: Its kind.
        field_id: The column.
        segments: The segments.
        metric: How an index over vectors compares them, if the manifest tells; its files do.
    """

    name: str
    kind: str
    field_id: int
    segments: tuple[IndexSegment, ...]
    metric: str | None


class Coverage:
    """Tells which fragments segments cover, and finds the rows that they name.

    Args:
        version: The version.
        indices: All its indices.

    Raises:
        UnsupportedFeature: Compactions are recorded in a way that this release does not read.
        CorruptFile: What the manifest says of compactions is damaged.
    """

    def __init__(self, version: OpenVersion, indices: Sequence[Index]) -> None:
        self._row_index = version.row_index
        self._is_stable = version.row_metadata.is_stable
        self._fragments = version.manifest.fragments
        self._ids = np.sort(self._fragments.ids)
        self._limits = _Limits(version.manifest)
        self._reuse = FragmentReuse(indices, self._ids)
        self._rewritten: dict[int, bool] = {}  # `_may_be_rewritten`
        self._overlaid = list(_overlaid(version))
        self._fields = version.manifest.fields
        self._live_ids: BudgetCache[bytes, BitMap64] = BudgetCache(_LIVE_IDS_BYTES)
        self._complete: set[str] = set()  # ids of segments that `_check_complete` has let pass

    def scalar_indices(self, indices: Sequence[Index]) -> Iterator[ColumnIndex]:
        """Yield the indices that filters can be looked up in."""
        for own in segments_by_name(indices).values():
            known = HOLDS_ROW_IDS.get(own[0].type or "")
            if known is not None:
                yield from self._column_index(own, known)

    def vector_indices(self, indices: Sequence[Index]) -> Iterator[ColumnIndex]:
        """Yield the indices over vectors, of any kind."""
        for own in segments_by_name(indices).values():
            if is_over_vectors(own[0]):
                yield from self._column_index(own, VECTORS_HOLD_ROW_IDS)

    def text_indices(self, indices: Sequence[Index]) -> Iterator[ColumnIndex]:
        """Yield the full-text indices whose documents are rows."""
        for own in segments_by_name(indices).values():
            is_of_rows = not own[0].details.get("document_granularity")
            if own[0].type == "Inverted" and is_of_rows:
                yield from self._column_index(own, TEXTS_HOLD_ROW_IDS)

    def _column_index(
        self, own: Sequence[Index], known: Mapping[int, bool]
    ) -> Iterator[ColumnIndex]:
        """Yield the index of some segments, if it can be asked.

        Args:
            own: The segments, of one name.
            known: By version, whether row numbers are row ids in tables with stable row ids.
        """
        first = own[0]
        if {index.field_ids for index in own} != {first.field_ids} or len(first.field_ids) != 1:
            return
        segments = tuple(
            IndexSegment(index, self._covered(index), self._is_stable and known[version])
            for index in own
            if index.type == first.type and (version := index.index_version or 0) in known
        )
        if self._may_overlap(first.name, segments):
            metric = str(first.details.get("metric_type", "l2")).lower() if first.details else None
            yield ColumnIndex(first.name, first.type or "", first.field_ids[0], segments, metric)

    def rows_of(self, segment: IndexSegment, numbers: UInts, entries: int | None) -> RowSet:
        """Return the rows of this version that a segment names; arguments as for `addresses_of`.

        Raises:
            CorruptFile: The segment names a row twice, or a row that cannot be.
        """
        return of_addresses(self.addresses_of(segment, numbers, entries), segment.covered)

    def rows_of_ranges(self, segment: IndexSegment, starts: UInts, ends: UInts) -> RowSet:
        """Return the rows of this version in ranges of addresses that a segment names.

        Args:
            segment: The segment, which has addresses.
            starts: The first address of each range, ascending.
            ends: The address after the last one of each range; ranges are disjoint.

        Raises:
            CorruptFile: The segment names a row that cannot be.
        """
        name, last = segment.index.name, ends - np.uint64(1)
        self._limits.check_fragments(name, last)
        self._limits.check_offsets(name, last)
        own = is_among(fragments_of(starts), segment.covered)
        if (fragments_of(starts) != fragments_of(last)).any():
            raise CorruptFile(f"the index {name} names a range of rows of two fragments")
        return RowSet(segment.covered, starts[own], ends[own])

    def addresses_of(self, segment: IndexSegment, numbers: UInts, entries: int | None) -> UInts:
        """Return the addresses of rows that a segment names, ascending.

        Some may be in fragments that it does not cover.

        Args:
            segment: The segment.
            numbers: The row numbers that it holds, in any order.
            entries: Rows that the whole segment holds; None where that is not known.

        Raises:
            CorruptFile: The segment names a row twice, or a row that cannot be, or it holds fewer
                rows than live in the fragments that it covers.
        """
        ordered, name = _ascending(numbers), segment.index.name
        _check_once(name, ordered)
        if segment.holds_row_ids:
            self._limits.check_ids(name, ordered)
            return self._addresses_of_ids(ordered)
        self._limits.check_fragments(name, ordered)
        addresses = ordered
        if self._reuse:
            addresses = _ascending(self._reuse.translate(ordered))
            _check_once(name, addresses)  # others may have moved to where rows are
        self._limits.check_offsets(name, addresses)
        if not self._reuse:
            self._check_complete(segment, entries)
            self._limits.check_covered(segment, addresses, entries)
        return addresses

    def locate(self, segment: IndexSegment, numbers: UInts) -> tuple[Ints, UInts]:
        """Find the live rows of this version that a segment names, in fragments that it covers.

        Args:
            segment: The segment.
            numbers: Row numbers that it holds, in any order.

        Returns:
            Which of the numbers are such rows, and their row ids.

        Raises:
            CorruptFile: The segment names a row twice, or a row that cannot be.
        """
        order = numbers.argsort(kind="stable")
        ordered, name = numbers[order], segment.index.name
        _check_once(name, ordered)
        if segment.holds_row_ids:
            self._limits.check_ids(name, ordered)
            found = self._row_index.find_ids(ordered)
        else:
            self._limits.check_fragments(name, ordered)
            if self._reuse:
                lives, addresses = self._reuse.follow(ordered)
                ascending = np.argsort(addresses, kind="stable")
                order, ordered = order[lives[ascending]], addresses[ascending]
                _check_once(name, ordered)
            self._limits.check_offsets(name, ordered)
            found = self._row_index.find_addresses(ordered)
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        fragments = np.array([one.reader.fragment.id for one in found], np.int64)
        is_own = is_among(fragments, segment.covered).tolist()
        own = [one.which for one, covers in zip(found, is_own, strict=True) if covers]
        which = own[0] if len(own) == 1 else np.concatenate([np.empty(0, np.int64), *own])
        return order[which], ordered[which]

    def check_fragments(self, segment: IndexSegment, fragments: Iterable[int]) -> None:
        """Refuse fragments that never were, in a segment that names rows by their addresses.

        Raises:
            CorruptFile: There is such a fragment.
        """
        highest = max(fragments, default=0) << OFFSET_BITS
        self._limits.check_fragments(segment.index.name, np.array([highest], np.uint64))

    def check_ids(self, segment: IndexSegment, highest: int) -> None:
        """Refuse ids that no row ever had, in a segment that names rows by their ids.

        Args:
            segment: The segment.
            highest: The highest id.

        Raises:
            CorruptFile: No row ever had it.
        """
        self._limits.check_ids(segment.index.name, np.array([highest], np.uint64))

    def check_highest(self, segment: IndexSegment, addresses: UInts) -> None:
        """Refuse rows that cannot be, in a segment that names rows by the addresses that they have.

        Args:
            segment: The segment.
            addresses: The highest address of each fragment, ascending.

        Raises:
            CorruptFile: There is such a row.
        """
        self._limits.check_fragments(segment.index.name, addresses)
        self._limits.check_offsets(segment.index.name, addresses)

    def live_rows(self, segment: IndexSegment) -> Ints | None:
        """Return the live rows of each covered fragment; None if the manifest lacks a number."""
        counts = None if self._reuse else self.row_counts(segment)
        return None if counts is None else counts[0] - counts[1]

    def live_ids(self, segment: IndexSegment) -> BitMap64:
        """Return the stable ids of the live rows of the fragments that a segment covers.

        Raises:
            LanceError: They cannot be read, or two rows have the same id.
        """
        covered = segment.covered
        return self._live_ids.get(
            covered.tobytes(), lambda: self._row_index.live_ids(covered.tolist()), _set_bytes
        )

    def row_counts(self, segment: IndexSegment) -> tuple[Ints, Ints] | None:
        """Return the rows of each covered fragment, deleted ones included, and its deleted rows.

        None if the manifest lacks a number.
        """
        counts = self._fragments.row_counts
        if counts is None:
            return None
        order = np.argsort(self._fragments.ids, kind="stable")
        positions = order[np.searchsorted(self._ids, segment.covered)]
        return counts[0][positions], counts[1][positions]

    def _check_complete(self, segment: IndexSegment, entries: int | None) -> None:
        """Refuse a segment with fewer rows than live in the fragments that it covers.

        Args:
            segment: The segment.
            entries: Rows that it holds, with those without a value; None where that is not known.
        """
        if entries is None or segment.index.uuid in self._complete:
            return
        live = self.live_rows(segment)
        if live is not None and entries < int(live.sum()):
            raise CorruptFile(
                f"the index {segment.index.name} holds {entries} rows; {int(live.sum())} live in "
                "the fragments that it covers"
            )
        self._complete.add(segment.index.uuid)

    def has_addresses(self, segment: IndexSegment) -> bool:
        """Tell whether a segment names rows by the addresses that they have in this version."""
        return not segment.holds_row_ids and not self._reuse

    def has_row_ids(self, segment: IndexSegment) -> bool:
        """Tell whether the row numbers of a segment are values of `_rowid` in this version."""
        return segment.holds_row_ids or not (self._is_stable or self._reuse)

    def _addresses_of_ids(self, row_ids: UInts) -> UInts:
        parts = [np.empty(0, np.uint64)]
        for found in self._row_index.find_ids(row_ids):
            base = np.uint64(found.reader.fragment.id << OFFSET_BITS)
            parts.append(found.offsets.astype(np.uint64) + base)
        return _ascending(np.concatenate(parts))

    def _covered(self, index: Index) -> Ints:
        """Return the fragments of this version that a segment covers."""
        if index.fragment_ids is None or not self._reuse.knows_all_moves(index.dataset_version):
            return np.empty(0, np.int64)
        own = np.sort(np.fromiter(index.fragment_ids, np.int64, len(index.fragment_ids)))
        fragments, became = self._reuse.covered(own)
        covered = fragments[is_among(fragments, self._ids)]
        rewritten = [number for number in became.tolist() if self._may_be_rewritten(number)]
        changed = [
            *rewritten,
            *self._overlaid_since(index),
            *self._with_rewritten_lists(index, covered),
        ]
        return np.setdiff1d(covered, changed) if changed else covered

    def _overlaid_since(self, index: Index) -> Iterator[int]:
        """Yield the fragments with values of indexed columns that a segment does not know yet."""
        if not self._overlaid:
            return
        nodes = [node for field in self._fields for node in field.walk()]
        # A list or a struct may be overlaid by the columns below it.
        indexed = {
            below.id for node in nodes if node.id in index.field_ids for below in node.walk()
        }
        for fragment in self._overlaid:
            if any(
                overlay.committed_version > index.dataset_version
                and not indexed.isdisjoint(overlay.file.fields)
                for overlay in fragment.overlays
            ):
                yield fragment.id

    def _with_rewritten_lists(self, index: Index, covered: Ints) -> Iterator[int]:
        """Yield the fragments whose lists may have been rewritten in place since they were indexed.

        From 2.1 on, data files name the items of lists, while an index names the lists. Lance 14
        looks for the same names, and so leaves such a fragment among those that the index covers.
        """
        lists = set(index.field_ids)
        nodes = [node for field in self._fields for node in field.walk() if node.id in lists]
        items = {item.id for node in nodes for below in node.children for item in below.walk()}
        if not items:
            return
        for number in np.intersect1d(covered, self._fragments.with_replaced_fields).tolist():
            fragment = self._fragments[self._fragments.positions[number]]
            if _is_rewritten(fragment, lists, items):
                yield number

    def _may_be_rewritten(self, fragment_id: int) -> bool:
        """Tell whether a column of a fragment may have been rewritten since a compaction.

        The lists of fragments of indices name the fragments before the compaction, so that they
        cannot say that a column was rewritten in place after it: it then has a file of its own.
        """
        known = self._rewritten.get(fragment_id)
        if known is None:
            position = self._fragments.positions.get(fragment_id)
            known = position is not None and len(self._fragments[position].files) > 1
            self._rewritten[fragment_id] = known
        return known

    def _may_overlap(self, name: str, segments: Sequence[IndexSegment]) -> bool:
        """Tell whether segments may cover the fragments that they say they cover.

        Of an index without stable row ids no two segments cover the same fragment; releases before
        0.22 wrote lists of fragments that are wrong, and that overlap.
        """
        if self._is_stable:
            return True
        ids = [segment.index.fragment_ids or frozenset() for segment in segments]
        if sum(map(len, ids)) == len(frozenset().union(*ids)):
            return True
        logger.warning("index %s: its segments overlap, so that it is not used", name)
        return False


class _Limits:
    """The rows that a version may have: what lies beyond is damage.

    A row that an index names need not be in a fragment that it covers: the fragment may have been
    rewritten since, and a compaction may have moved its rows on, also in the files of the index.

    Args:
        manifest: The manifest of the version.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._next_row_id = manifest.next_row_id
        self._fragments = manifest.fragments
        ids = self._fragments.ids
        self._last_fragment = max(manifest.max_fragment_id or 0, int(ids.max(initial=0)))

    def check_ids(self, name: str, row_ids: UInts) -> None:
        """Refuse row ids, ascending, that no row ever had."""
        if len(row_ids) and int(row_ids[-1]) >= self._next_row_id:
            raise CorruptFile(
                f"the index {name} names the row id {row_ids[-1]}; the next new one would be "
                f"{self._next_row_id}"
            )

    def check_fragments(self, name: str, addresses: UInts) -> None:
        """Refuse addresses, ascending, in fragments that never were."""
        if len(addresses) and int(addresses[-1]) >> OFFSET_BITS > self._last_fragment:
            raise CorruptFile(
                f"the index {name} names a row of fragment {int(addresses[-1]) >> OFFSET_BITS}; "
                f"the last one is {self._last_fragment}"
            )

    def check_offsets(self, name: str, addresses: UInts) -> None:
        """Refuse addresses, ascending, behind the last row of a fragment."""
        counts = self._rows
        if counts is None or not len(addresses):
            return
        ids, rows = counts
        addresses = highest_of_fragments(addresses)
        numbers = fragments_of(addresses)
        at = np.minimum(ids.searchsorted(numbers), len(ids) - 1)
        offsets = addresses & np.uint64((1 << OFFSET_BITS) - 1)
        beyond = (ids[at] == numbers) & (offsets >= rows[at])
        if beyond.any():
            first = int(beyond.argmax())
            raise CorruptFile(
                f"the index {name} names row {offsets[first]} of fragment {numbers[first]}, which "
                f"has {rows[at][first]}"
            )

    def check_covered(self, segment: IndexSegment, addresses: UInts, entries: int | None) -> None:
        """Refuse rows of fragments that a segment does not cover, if it can name none of these.

        That is so where it holds no more rows than live in the fragments that it covers.

        Args:
            segment: The segment.
            addresses: The rows, ascending.
            entries: Rows that the segment holds; None where that is not known.
        """
        addresses = highest_of_fragments(addresses)
        outside = ~is_among(fragments_of(addresses), segment.covered)
        counts = self._fragments.row_counts
        if not outside.any() or counts is None or entries is None:
            return
        rows, deleted = counts
        is_own = is_among(self._fragments.ids, segment.covered)
        if entries <= int((rows - deleted)[is_own].sum()):
            number = int(addresses[outside.argmax()]) >> OFFSET_BITS
            raise CorruptFile(
                f"the index {segment.index.name} names a row of fragment {number}, which it does "
                "not cover"
            )

    @cached_property
    def _rows(self) -> tuple[Ints, UInts] | None:
        """The ids of the fragments, ascending, and their rows; None where data files tell."""
        counts = self._fragments.row_counts
        if counts is None or not len(self._fragments):
            return None
        order = np.argsort(self._fragments.ids)
        return self._fragments.ids[order], counts[0][order].astype(np.uint64)


def _is_rewritten(fragment: Fragment, lists: Set[int], items: Set[int]) -> bool:
    """Tell whether items of lists may replace others in a fragment.

    Args:
        fragment: The fragment.
        lists: The ids of the fields of the lists.
        items: Those of the fields below.
    """
    files = [frozenset(file.fields) for file in fragment.files]
    replaced = [REPLACED_FIELD in fields for fields in files]
    return any(
        items & fields and not lists & fields and any(replaced[:at])
        for at, fields in enumerate(files)
    )


def is_over_vectors(index: Index) -> bool:
    """Tell whether an index is one over vectors, of any kind."""
    return (index.type or "").partition("_")[0] in ("Vector", "IVF")


def _set_bytes(rows: BitMap64) -> int:
    """Return the memory of a set, about."""
    sizes = rows.get_statistics()
    lists = sizes["n_bytes_array_containers"] + sizes["n_bytes_run_containers"]
    return lists + sizes["n_bytes_bitset_containers"]


def _ascending(numbers: UInts) -> UInts:
    """Return numbers in order, without work where they are."""
    return numbers if (numbers[1:] >= numbers[:-1]).all() else np.sort(numbers)


def _check_once(name: str, numbers: UInts) -> None:
    """Refuse numbers of rows, ascending, of which an index names one twice."""
    if (numbers[1:] == numbers[:-1]).any():
        raise CorruptFile(f"the index {name} names a row twice")


def _overlaid(version: OpenVersion) -> Iterator[Fragment]:
    """Yield the fragments with overlays."""
    if ReaderFlags.DATA_OVERLAYS in version.manifest.reader_flags:
        yield from (one for one in version.manifest.fragments if one.overlays)
