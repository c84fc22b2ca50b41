"""Morsels: the rows that a scan decodes together, and the batch that comes of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import array_bytes, batch_bytes
from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.logical_types import is_list
from lancefs.datafile.row_ranges import RowRanges, between, bounds_of, count_rows, is_among, rows_of
from lancefs.datafile.v2_1.levels import LEVEL_BYTES
from lancefs.table.fragment_run import FragmentSource

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.index.claims import IndexClaim


class Morsel(NamedTuple):
    """Consecutive rows of a fragment, or of a run of small fragments, decoded together.

    Attributes:
        fragment: The fragment or the run.
        start: Offset of the first row in the data files, deleted rows counted.
        end: Offset after the last row.
        candidates: Ranges of rows that the filter may keep, ascending; None for all rows.
        max_rows: Rows that morsels here may have, by the estimate of their bytes; None without an
            estimate.
        estimated_bytes: Decoded bytes of its rows, estimated from page descriptions; 0 without an
            estimate.
        has_few_candidates: Whether its candidates are named, and so few that they are decoded at
            once: the number of rows between them does not count.
        claims: What is true for its candidates, unless an index is wrong.
    """

    fragment: FragmentSource
    start: int
    end: int
    candidates: Sequence[RowRange] | None = None
    max_rows: int | None = None
    estimated_bytes: float = 0
    has_few_candidates: bool = False
    claims: tuple[IndexClaim, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows, deleted ones included."""
        return self.end - self.start

    def count_candidates(self) -> int:
        """Return how many rows the filter may keep, deleted ones included."""
        if self.candidates is None:
            return self.rows
        return count_rows(self._own_candidates(self.candidates))

    @property
    def ranges(self) -> list[RowRange]:
        """All rows of the morsel, as one range."""
        return [(self.start, self.end)]

    def head(self, rows: int) -> Morsel:
        """Return the first rows; all where there are fewer."""
        return self._replace(end=min(self.start + rows, self.end))

    def limit(self, rows: int) -> Morsel:
        """Return the same rows, where morsels may have no more rows than `rows`."""
        return self._replace(max_rows=rows if self.max_rows is None else min(rows, self.max_rows))

    def trim(self) -> Morsel:
        """Return the rows from the first candidate to the last one; no rows without a candidate."""
        if self.candidates is None:
            return self
        own = self._own_candidates(self.candidates).bounds
        start, end = (int(own[0, 0]), int(own[-1, 1])) if len(own) else (self.end, self.end)
        return self._replace(start=start, end=end)

    def after(self, done: Morsel) -> Morsel | None:
        """Return the rows after those that were decoded; None if all were."""
        return self._replace(start=done.end) if done.end < self.end else None

    def live_candidates(self) -> Mask | None:
        """Return which rows are candidates and not deleted; None where all are."""
        deleted = self.fragment.deleted
        first, last = np.searchsorted(deleted, (self.start, self.end)) if len(deleted) else (0, 0)
        if first == last and self._are_all_candidates():
            return None
        mask = np.full(self.rows, self.candidates is None)
        if self.candidates is not None:
            mask[rows_of(self._own_candidates(self.candidates)) - self.start] = True
        mask[deleted[first:last] - self.start] = False
        return mask

    def _are_all_candidates(self) -> bool:
        """Tell whether there are no candidates, or one range of them that holds all rows."""
        if self.candidates is None or len(self.candidates) != 1:
            return self.candidates is None
        ((start, end),) = self.candidates
        return start <= self.start and self.end <= end

    def candidate_rows(self) -> Ints:
        """Return the offsets of the candidates that are not deleted, without a mask of all rows."""
        assert self.candidates is not None
        offsets, deleted = rows_of(self._own_candidates(self.candidates)), self.fragment.deleted
        return offsets[~is_among(offsets, deleted)] if len(deleted) else offsets

    def _own_candidates(self, candidates: Sequence[RowRange]) -> RowRanges:
        """Return the parts of the candidates that lie in the morsel."""
        low = bisect_right(candidates, self.start, key=lambda each: each[1])
        high = bisect_left(candidates, self.end, key=lambda each: each[0])
        bounds = bounds_of(candidates[low:high])  # each has a row of the morsel
        return between(np.maximum(bounds[:, 0], self.start), np.minimum(bounds[:, 1], self.end))


class DecodedMorsel(NamedTuple):
    """What was decoded of a morsel.

    Attributes:
        morsel: The rows that were decoded: the morsel that was asked for, or its beginning.
        batch: The rows to return.
        mask: Which rows of the morsel are in the batch; None for all.
        size: Bytes of all that was decoded, rows that are not in the batch included.
    """

    morsel: Morsel
    batch: pa.RecordBatch
    mask: Mask | None
    size: int

    @property
    def held_bytes(self) -> int:
        """Bytes that are held as long as the morsel is."""
        return batch_bytes(self.batch) + (0 if self.mask is None else len(self.mask))


def decoded_bytes(arrays: Mapping[int, pa.Array]) -> int:
    """Return the bytes of arrays, and of the levels that lists among them were made of.

    Decimals of 64 bits count as those of 128 that pages have. So the estimates of morsels, which
    know the pages, stay right, and morsels even, for which no memory is given back.
    """
    return sum(_stored_bytes(array) + _level_bytes(array) for array in arrays.values())


def _stored_bytes(array: pa.Array) -> int:
    size = array_bytes(array)
    is_decimal64 = pa.types.is_decimal(array.type) and array.type.bit_width == 64
    return size + 8 * len(array) if is_decimal64 else size


def _level_bytes(array: pa.Array, is_item: bool = False) -> int:
    data_type = array.type
    if not (data_type.num_fields or is_item):
        return 0
    if pa.types.is_struct(data_type):
        members = [array.field(index) for index in range(data_type.num_fields)]
        return sum(_level_bytes(member, is_item) for member in members)
    if is_list(data_type):
        return _level_bytes(array.values, is_item=True)
    return LEVEL_BYTES * len(array) if is_item else 0
