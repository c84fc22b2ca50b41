"""Reading few rows that indices or a filter on row ids select, without planning morsels.

A look-up finds a few rows of some fragments. To cut fragments into morsels, to choose their lengths
and to start threads for them takes longer than to read such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancefs.datafile.arrays import batch_bytes
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import TooLarge
from lancefs.datafile.row_ranges import as_ranges, count_rows, is_among, rows_of
from lancefs.scan.morsel_reader import MorselReader
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import runs_with

# Ranges of so many rows on average are zones of an index that lie apart: shorter ones are rows that
# it names, and of longer ones, which are neighbours, many rows may pass.
_LEAST_ZONE_ROWS = 1024
_MOST_ZONE_ROWS = 32 * 1024
# Rows whose filter is tested in less time than it takes to plan morsels, and to start threads.
_ZONED_ROWS = 1024 * 1024

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.index.claims import IndexClaim
    from lancefs.scan.conditions import Condition


def fits(candidates: Mapping[int, Sequence[RowRange] | None], most: int) -> bool:
    """Tell whether the rows that may pass a filter are known and few.

    Args:
        candidates: By fragment id, ranges of rows; None for all rows of the fragment.
        most: The greatest number of rows, and of fragments, that is few.
    """
    if len(candidates) > most:
        return False
    rows = 0
    for ranges in candidates.values():
        if ranges is None:
            return False
        rows += count_rows(ranges)
    return rows <= most


def narrowed(
    reader: MorselReader,
    condition: Condition,
    named: Sequence[tuple[FragmentReader, Sequence[RowRange]]],
    most: int,
) -> list[tuple[FragmentReader, Sequence[RowRange]]] | None:
    """Return which of some named rows pass a filter, where these are few of many.

    Args:
        reader: Decodes the columns of the filter.
        condition: The filter.
        named: Fragments in scan order, with the ranges of rows that may pass, deleted ones too.
        most: Number of rows that is few.

    Returns:
        The fragments with rows that pass, and these; None for more than `most`, and where named
        rows take so much memory that they have to be read part by part.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    found: list[tuple[FragmentReader, Sequence[RowRange]]] = []
    for fragment, ranges in named:
        try:
            offsets = reader.passing(fragment, condition, ranges)
        except TooLarge:
            return None
        most -= len(offsets)
        if most < 0:
            return None
        if len(offsets):
            found.append((fragment, as_ranges(offsets)))
    return found


def are_zones(candidates: Mapping[int, Sequence[RowRange] | None]) -> bool:
    """Tell whether rows that may pass are zones that lie apart, but not so many that threads pay.

    Args:
        candidates: By fragment id, ranges of rows; None for all rows of the fragment.
    """
    rows = ranges = 0
    for own in candidates.values():
        if own is None:
            return False
        rows, ranges = rows + count_rows(own), ranges + len(own)
    is_long = ranges * _LEAST_ZONE_ROWS <= rows <= ranges * _MOST_ZONE_ROWS
    return is_long and rows <= _ZONED_ROWS


def read_named(
    reader: MorselReader,
    condition: Condition,
    named: Sequence[tuple[FragmentReader, Sequence[RowRange]]],
    claims_in: Callable[[int], Sequence[IndexClaim]],
    batch_rows: int,
) -> list[pa.RecordBatch] | None:
    """Read few named rows, and return those that pass a filter.

    Args:
        reader: Decodes them.
        condition: The filter.
        named: Fragments in scan order, with the ranges of rows that may pass, deleted ones too.
        claims_in: Returns what is true for the named rows of a fragment, by its id, unless an index
            is wrong.
        batch_rows: Rows of a batch at most.

    Returns:
        The rows; None if they take so much memory that they have to be read part by part.

    Raises:
        WrongIndex: A row is not what an index says of it; all rows were tested, or none returned.
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    parts = [(fragment, _live_rows(fragment, ranges)) for fragment, ranges in named]
    some = [part for part in parts if len(part[1])]
    # The bytes of one batch are limited where it is read.
    request = reader.request
    is_limited = len(some) > 1 and not request.is_collected
    most = request.settings.stream_bytes if is_limited else None
    batches, size = [], 0
    try:
        for source, offsets in runs_with(some, batch_rows) if len(some) > 1 else some:
            batches.append(reader.find(source, condition, offsets, claims_in))
            size += 0 if most is None else batch_bytes(batches[-1])
            if most is not None and size > most:
                return None
    except TooLarge:
        return None
    return batches


def _live_rows(fragment: FragmentReader, ranges: Sequence[RowRange]) -> Ints:
    """Return the offsets of the rows in some ranges that are in a fragment, and not deleted."""
    offsets, deleted = rows_of(ranges), fragment.deleted
    offsets = offsets[: offsets.searchsorted(fragment.physical_rows)]
    return offsets[~is_among(offsets, deleted)] if len(deleted) else offsets
