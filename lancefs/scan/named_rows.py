"""Reading few rows by their offsets, without planning morsels: taken ones, and those of a look-up.

To cut fragments into morsels, to choose their lengths and to start threads for them takes longer
than to read a few rows. A scan reads such rows in one of these ways:

- `take`: rows by their offsets, whatever the filter says;
- `read_named`: few candidates that an index, or a filter on row ids, names: all columns are decoded
  at once, then the filter is evaluated;
- `narrowed`: more candidates, in zones of an index that lie apart: the columns of the filter are
  decoded and it is evaluated; `read_named` reads what passes, if that is little;
- where candidates are too many for these, or their bytes, or the table is remote, they are cut into
  morsels as all rows are (`morsel_reader`, which calls `decode_passing` for few candidates, too).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import batch_bytes
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Mask, TooLarge, limited
from lancefs.datafile.row_ranges import as_ranges, count_rows, is_among, rows_of
from lancefs.scan.decoded_columns import (
    filter_batch,
    mask_columns,
    open_files,
    output_batch,
    read_columns,
)
from lancefs.scan.index_proof import check_claims
from lancefs.scan.mapped_memory import MappedMemory
from lancefs.scan.morsels import decoded_bytes
from lancefs.scan.output_forms import AS_VALUES
from lancefs.scan.request import ScanRequest
from lancefs.storage import counting
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentSource, runs_with

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


def take(request: ScanRequest, source: FragmentSource, offsets: Ints) -> list[pa.RecordBatch]:
    """Read rows by their offsets, whatever the filter says.

    Args:
        request: What the scan is to read.
        source: A fragment, or a run of fragments.
        offsets: Offsets of live rows, ascending, each once.

    Returns:
        One batch; several where the rows turn out to be large.

    Raises:
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    with counting() as counters:
        open_files(source, request.fields)
        batches = _take(request, source, offsets)
    request.stats.add_morsel(source.fragment_ids, len(offsets), counters)
    return batches


def _take(request: ScanRequest, source: FragmentSource, offsets: Ints) -> list[pa.RecordBatch]:
    most = 2 * request.settings.table_bytes if len(offsets) > 1 else None
    try:
        with limited(most), request.memory_budget():
            ranges = as_ranges(offsets)
            columns = read_columns(request, source, request.fields, ranges, request.forms)
    except TooLarge:
        half = len(offsets) // 2
        return _take(request, source, offsets[:half]) + _take(request, source, offsets[half:])
    return [output_batch(request, source, columns, len(offsets))]


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
    request: ScanRequest,
    mapped: MappedMemory,
    condition: Condition,
    named: Sequence[tuple[FragmentReader, Sequence[RowRange]]],
    most: int,
) -> list[tuple[FragmentReader, Sequence[RowRange]]] | None:
    """Return which of some named rows pass a filter, where these are few of many.

    Args:
        request: What the scan is to read.
        mapped: Gives mapped bytes of files back.
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
            offsets = _find_passing(request, mapped, fragment, condition, ranges)
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
    request: ScanRequest,
    mapped: MappedMemory,
    condition: Condition,
    named: Sequence[tuple[FragmentReader, Sequence[RowRange]]],
    claims_in: Callable[[int], Sequence[IndexClaim]],
) -> list[pa.RecordBatch] | None:
    """Read few named rows, and return those that pass a filter.

    Args:
        request: What the scan is to read.
        mapped: Gives mapped bytes of files back.
        condition: The filter.
        named: Fragments in scan order, with the ranges of rows that may pass, deleted ones too.
        claims_in: Returns what is true for the named rows of a fragment, by its id, unless an index
            is wrong.

    Returns:
        The rows; None if they take so much memory that they have to be read part by part.

    Raises:
        WrongIndex: A row is not what an index says of it; all rows were tested, or none returned.
        LanceError: A file is missing or damaged, or has what this release does not read.
    """
    parts = [(fragment, _live_rows(fragment, ranges)) for fragment, ranges in named]
    some = [part for part in parts if len(part[1])]
    # The bytes of one batch are limited where it is read.
    is_limited = len(some) > 1 and not request.is_collected
    most = request.settings.stream_bytes if is_limited else None
    batches, size = [], 0
    try:
        for source, offsets in runs_with(some, request.batch_rows) if len(some) > 1 else some:
            with counting() as counters, limited(request.morsel_bytes), request.memory_budget():
                batch, _, _ = decode_passing(request, source, condition, offsets, claims_in)
            request.stats.add_morsel(source.fragment_ids, len(offsets), counters)
            mapped.watch(source)
            batches.append(batch)
            size += 0 if most is None else batch_bytes(batch)
            if most is not None and size > most:
                return None
    except TooLarge:
        return None
    return batches


def decode_passing(
    request: ScanRequest,
    source: FragmentSource,
    condition: Condition,
    offsets: Ints,
    claims_in: Callable[[int], Sequence[IndexClaim]],
) -> tuple[pa.RecordBatch, Mask, int]:
    """Decode all columns of few rows, which mostly pass the filter, and keep those that do.

    Args:
        request: What the scan is to read.
        source: A fragment, or a run of fragments.
        condition: The filter.
        offsets: Offsets of live rows, ascending, each once, at least one.
        claims_in: Returns what is true for the rows in a fragment, by its id, unless an index
            is wrong.

    Returns:
        The rows that pass, which of the given ones these are, and the bytes that were decoded.

    Raises:
        WrongIndex: A row is not what an index says of it.
        LanceError: As `read` does.
    """
    ranges = as_ranges(offsets)
    columns = read_columns(request, source, request.all_fields(), ranges, AS_VALUES)
    size = decoded_bytes(columns)
    passed = condition.evaluate(filter_batch(request, columns, len(offsets)))
    if not passed.all():
        start = 0
        for reader, local in source.parts(ranges):
            part = slice(start, start := start + count_rows(local))
            own = {id: column[part] for id, column in columns.items()}
            number = reader.fragment.id
            check_claims(claims_in(number), number, own, passed[part])
        columns = mask_columns(columns, passed)
    # Of few rows, this is quicker than to use stored dictionaries.
    for id in columns.keys() & request.forms.dictionary:
        columns[id] = columns[id].dictionary_encode()
    return output_batch(request, source, columns, int(np.count_nonzero(passed))), passed, size


def _find_passing(
    request: ScanRequest,
    mapped: MappedMemory,
    fragment: FragmentReader,
    condition: Condition,
    ranges: Sequence[RowRange],
) -> Ints:
    """Return the offsets of the live rows in some ranges that pass the filter.

    Args:
        fragment: A fragment.
        condition: The filter.
        ranges: Ranges of its rows, ascending and disjoint.

    Raises:
        TooLarge: The rows have more bytes than a morsel may have.
        LanceError: As `read` does.
    """
    offsets, deleted = rows_of(ranges), fragment.deleted
    offsets = offsets[: offsets.searchsorted(fragment.physical_rows)]
    live = ~is_among(offsets, deleted) if len(deleted) else None
    with counting() as counters, limited(request.morsel_bytes), request.memory_budget():
        own = as_ranges(offsets)
        columns = read_columns(request, fragment, request.filter_fields, own, AS_VALUES)
        passed = condition.evaluate(filter_batch(request, columns, len(offsets)), live)
    request.stats.add_morsel(fragment.fragment_ids, len(offsets), counters)
    mapped.watch(fragment)
    passing: Ints = offsets[passed if live is None else passed & live]
    return passing


def _live_rows(fragment: FragmentReader, ranges: Sequence[RowRange]) -> Ints:
    """Return the offsets of the rows in some ranges that are in a fragment, and not deleted."""
    offsets, deleted = rows_of(ranges), fragment.deleted
    offsets = offsets[: offsets.searchsorted(fragment.physical_rows)]
    return offsets[~is_among(offsets, deleted)] if len(deleted) else offsets
