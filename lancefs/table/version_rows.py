"""Rows of one version, by their fragments and offsets, and reading what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Mask
from lancefs.datafile.buffers import Ints, UInts, to_arrow_numbers
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import CorruptFile
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import LAST_UPDATED_AT, ROW_ID
from lancefs.table.row_values import encode_rows
from lancefs.threads import in_threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Rows whose values are decoded at once.
ROWS_AT_ONCE = 64 * 1024
# Decoding this many unwanted rows costs about as much as decoding one more range of rows.
_GAP = 128
# Numbers are looked up in a table with an entry for each number from the least to the greatest, if
# it has at most this many entries for each of them.
_MAX_SPAN = 8
# Parts of a remote version that are read together.
_REQUESTS = 32
_NONE: Ints = np.empty(0, np.int64)


@dataclass(slots=True)
class VersionRows:
    """Rows of one version.

    Attributes:
        fragments: Position of each row's fragment in the version, shape (n,).
        offsets: Offset of each row in its fragment, shape (n,).
        commits: Version that inserted, updated or deleted each row, shape (n,); 0 if not known.
    """

    fragments: Ints
    offsets: Ints
    commits: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, which: Ints | Mask) -> VersionRows:
        """Return some of the rows, by their places or by a mask."""
        return VersionRows(self.fragments[which], self.offsets[which], self.commits[which])

    def drop(self, which: Ints) -> VersionRows:
        """Return the rows at all other places."""
        is_left = np.ones(len(self), np.bool_)
        is_left[which] = False
        return self.take(is_left)

    @property
    def is_in_order(self) -> bool:
        """Whether the rows are in scan order, as most are: to tell takes a tenth of sorting."""
        steps, within = np.diff(self.fragments), np.diff(self.offsets)
        return bool(((steps > 0) | ((steps == 0) & (within >= 0))).all())

    def order(self) -> Ints | None:
        """Return the permutation that sorts the rows into scan order; None if they are in it."""
        return None if self.is_in_order else np.lexsort((self.offsets, self.fragments))

    def reordered(self, order: Ints | None) -> VersionRows:
        """Return the rows in the order that `order` gave."""
        return self if order is None else self.take(order)

    def groups(self) -> Iterator[tuple[int, slice]]:
        """Yield the position of each fragment, and the slice of its consecutive rows."""
        edges = np.flatnonzero(np.diff(self.fragments)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(self)] if len(self) else []):
            yield int(self.fragments[start]), slice(start, end)


def concatenated(parts: Sequence[VersionRows]) -> VersionRows:
    """Return the rows of all parts, one part after the other."""
    return VersionRows(
        np.concatenate([_NONE, *(part.fragments for part in parts)]),
        np.concatenate([_NONE, *(part.offsets for part in parts)]),
        np.concatenate([_NONE, *(part.commits for part in parts)]),
    )


def in_order(parts: Sequence[VersionRows]) -> VersionRows:
    """Return the rows of all parts in scan order."""
    rows = concatenated(parts)
    return rows.reordered(rows.order())


def rows_at(position: int, offsets: Ints, commit: int = 0) -> VersionRows:
    """Return rows of one fragment.

    Args:
        position: Position of the fragment in scan order.
        offsets: Offsets of the rows in its data files.
        commit: The version that inserted, updated or deleted the rows; 0 if not known.
    """
    return VersionRows(np.full(len(offsets), position), offsets, np.full(len(offsets), commit))


def live_rows(version: OpenVersion, position: int) -> VersionRows:
    """Return the live rows of a fragment.

    Args:
        version: The version.
        position: Position of the fragment in scan order.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    reader = version.readers[position]
    return rows_at(position, reader.live_offsets())


def ids_of(version: OpenVersion, rows: VersionRows) -> UInts:
    """Return the row ids of rows.

    Args:
        version: The version.
        rows: The rows, in any order.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    order = rows.order()
    ordered = rows.reordered(order)
    ids = np.empty(len(rows), np.uint64)
    for position, part in ordered.groups():
        reader = version.readers[position]
        found = version.row_metadata.at(ROW_ID, reader, ordered.offsets[part])
        ids[part if order is None else order[part]] = found
    return ids


def paired_ids(versions: Sequence[OpenVersion], rows: Sequence[VersionRows]) -> tuple[Ints, Ints]:
    """Find the rows of two versions that have the same stable row id.

    Args:
        versions: The versions, which have stable row ids.
        rows: Rows of each.

    Returns:
        The positions of the rows of each pair, among those of the one version and of the other,
        ascending among these.

    Raises:
        CorruptFile: Two rows of a version have the same id.
    """
    old, new = (ids_of(version, own) for version, own in zip(versions, rows, strict=True))
    tables = NumberPlaces.of(old), NumberPlaces.of(new)
    for version, table in zip(versions, tables, strict=True):
        if (twice := table.twice()) is not None:
            raise CorruptFile(f"{version.manifest.path}: two rows have the stable id {twice}")
    return tables[0].pairs(new)


class NumberPlaces(NamedTuple):
    """Where numbers are in an array.

    Attributes:
        ids: The numbers; ascending if there are no `places`.
        least: The least one.
        places: The position of each number from the least to the greatest one, -1 for those that
            are not in the array: such a table takes less time than sorting. None if the numbers are
            far apart, or if there are none.
        order: Without `places`, the position of each of the ascending numbers in the array.
    """

    ids: UInts
    least: np.uint64
    places: Ints | None
    order: Ints

    @classmethod
    def of(cls, ids: UInts) -> NumberPlaces:
        """Return where numbers are."""
        if len(ids):
            least = ids.min()
            span = int(ids.max()) - int(least) + 1
            if span <= _MAX_SPAN * len(ids):
                places = np.full(span, -1)
                places[ids - least] = np.arange(len(ids))
                return cls(ids, least, places, _NONE)
        order = np.argsort(ids)
        return cls(ids[order], np.uint64(0), None, order)

    def find(self, wanted: UInts) -> Ints:
        """Return a position of each wanted number; -1 for numbers that are not in the array."""
        if self.places is not None:
            shifted = wanted - self.least  # those below it become large
            is_known = shifted < len(self.places)
            return np.where(is_known, self.places[np.where(is_known, shifted, 0)], -1)
        if not len(self.ids):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[at] == wanted, self.order[at], -1)

    def pairs(self, others: UInts) -> tuple[Ints, Ints]:
        """Find the numbers that others share; both have each number once.

        Returns:
            Their positions here and among the others, ascending among these.
        """
        found = self.find(others)
        in_others = np.flatnonzero(found >= 0)
        return found[in_others], in_others

    def twice(self) -> int | None:
        """Return a number that the array has twice; None if it has each once."""
        if self.places is not None:
            again = self.ids[self.find(self.ids) != np.arange(len(self.ids))]
        else:
            again = self.ids[1:][self.ids[1:] == self.ids[:-1]]
        return int(again[0]) if len(again) else None


def versions_of(version: OpenVersion, rows: VersionRows, which: Field = LAST_UPDATED_AT) -> Ints:
    """Return the versions that created or last updated rows; 0 where they are not recorded.

    Args:
        version: The version.
        rows: The rows, in any order.
        which: The row metadata to read: of creations or updates.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    versions = np.zeros(len(rows), np.int64)
    for position, part in rows.groups():
        sequence = version.row_metadata.versions(which, version.readers[position])
        if sequence is not None:
            versions[part] = sequence.at(rows.offsets[part]).astype(np.int64)
    return versions


def read_rows(
    version: OpenVersion, fields: Sequence[Field], rows: VersionRows
) -> list[pa.ChunkedArray]:
    """Read columns of rows, in the types that readers see.

    Args:
        version: The version.
        fields: The columns.
        rows: The rows, in any order.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    order = rows.order()

    def read(part: tuple[FragmentReader, Ints]) -> list[pa.Array]:
        arrays = _values(part[0], fields, part[1])
        return [present(array, one) for array, one in zip(arrays, fields, strict=True)]

    read_parts = for_each(version, read, list(_split(version, rows.reordered(order))))
    parts = [list(arrays) for arrays in zip(*read_parts, strict=True)] or [[] for _ in fields]
    columns = [
        pa.chunked_array(part, one.to_arrow().type) for part, one in zip(parts, fields, strict=True)
    ]
    if order is None:
        return columns
    back = to_arrow_numbers(np.argsort(order))
    return [column.take(back) for column in columns]


def encoded_rows(
    version: OpenVersion, fields: Sequence[Field], rows: VersionRows
) -> pa.LargeBinaryArray:
    """Return each row's values of some columns as one binary value, for comparison.

    Args:
        version: The version.
        fields: The columns.
        rows: The rows, in any order.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    order = rows.order()

    def encode(part: tuple[FragmentReader, Ints]) -> pa.LargeBinaryArray:
        return encode_rows(_values(part[0], fields, part[1], "bytes"), len(part[1]))

    parts = for_each(version, encode, list(_split(version, rows.reordered(order))))
    encoded = pa.concat_arrays(parts) if parts else pa.nulls(0, pa.large_binary())
    return encoded if order is None else encoded.take(to_arrow_numbers(np.argsort(order)))


def for_each(
    version: OpenVersion, do: Callable[[_Item], _Result], items: Sequence[_Item]
) -> list[_Result]:
    """Call a function for parts of a version; where it is remote, they wait for it together.

    Args:
        version: The version.
        do: The function.
        items: Its arguments.
    """
    return in_threads(do, items, 1 if version.files.store.is_local else _REQUESTS, "lancefs-rows")


def _split(version: OpenVersion, rows: VersionRows) -> Iterator[tuple[FragmentReader, Ints]]:
    """Split sorted rows into parts of one fragment each, small enough to decode at once."""
    for position, part in rows.groups():
        offsets = rows.offsets[part]
        if _are_scattered(offsets) and len(offsets) <= ROWS_AT_ONCE:
            yield version.readers[position], offsets
            continue
        edges = np.flatnonzero(np.diff(offsets // ROWS_AT_ONCE)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(offsets)]):
            yield version.readers[position], offsets[start:end]


def _values(
    reader: FragmentReader, fields: Sequence[Field], offsets: Ints, blobs: Blobs = "descriptors"
) -> list[pa.Array]:
    """Read columns of some rows of a fragment; rows in small gaps are decoded and dropped."""
    if not fields:
        return []
    if _are_scattered(offsets):
        return reader.read(fields, as_ranges(offsets), blobs)
    first, end = int(offsets[0]), int(offsets[-1]) + 1
    arrays = reader.read(fields, [(first, end)], blobs)
    if end - first == len(offsets):
        return arrays
    picked = to_arrow_numbers(offsets - first)
    return [array.take(picked) for array in arrays]


def _are_scattered(offsets: Ints) -> bool:
    """Tell whether the gaps between rows are so large that decoding ranges is cheaper."""
    runs = int(np.count_nonzero(np.diff(offsets) != 1)) + 1
    return runs * _GAP < int(offsets[-1] - offsets[0])
