"""ZONEMAP indices: the least and the greatest value of each zone of some thousand rows.

Zones whose bounds exclude the wanted values are left out; the rows of the others may pass.

Format page: zone map index (`docs/src/format/index/scalar/zonemap.md`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.buffers import Ints, Mask, to_arrow_numbers
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest, KeyInterval
from lancefs.index.sort_keys import SortKeys, as_keys, has_keys, sort_keys
from lancefs.index.zones import COLUMNS, Zones

FILES = ("zonemap.lance",)

# Memory of the open file, about, and of a zone.
_READER_BYTES = 8 * 1024
_ZONE_BYTES = 128


class ZoneMap(Zones):
    """One segment of a ZONEMAP index, open: all zones are in memory.

    Args:
        file: The file of the zones.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFeature: The values are of a type that is not compared here.
    """

    def __init__(self, file: IndexReader) -> None:
        self.data_type = file.column_type("min")
        if not has_keys(self.data_type):
            raise file.unsupported(f"a ZONEMAP index over values of type {self.data_type}")
        minima, maxima, nulls, *numbers = file.read(["min", "max", "null_count", *COLUMNS])
        super().__init__(file, *numbers)
        if maxima.type != self.data_type:
            raise file.damage("bounds of one type were expected")
        counts = file.counts("null_count", nulls)
        self._null_counts = counts
        self._has_null = counts > 0
        self._set_bounds(minima, maxima)
        most = self._lengths - self._known  # a bound is the value of a row
        if (counts > most).any():
            zone = int((counts > most).argmax())
            raise file.damage(
                f"{counts[zone]} missing values in a zone; at most {most[zone]} may be"
            )
        # Zones with values and without bounds: of NaN only, or of types of which Lance has none.
        self._is_open |= ~self._known & (counts < self._lengths)
        if "nan_count" in file.names:
            (nans,) = file.read(["nan_count"])
            self._is_open |= file.counts("nan_count", nans, missing=1) > 0

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        boxed = int(self._lows.dtype == object)
        return len(self._starts) * _ZONE_BYTES * (1 + boxed) + _READER_BYTES

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the zones that may hold values that pass a test; None if it has no answer."""
        if test.intervals is None or test.data_type != self.data_type:
            return None
        wanted = self._overlapping(test.intervals) if test.intervals else np.zeros_like(self._known)
        wanted &= self._known
        if test.intervals:
            wanted |= self._is_open
        if test.keeps_null:
            wanted |= self._has_null
        zones: Ints = np.flatnonzero(wanted)
        return zones

    def missing_in(self, fragments: Ints, rows: Ints) -> tuple[Mask, int]:
        """Count the missing values of fragments of which each row lies in one zone.

        Args:
            fragments: Ids of fragments, ascending.
            rows: How many rows each of them has, none of which is deleted.

        Returns:
            Which of the fragments these are, and their missing values.
        """
        at, is_own = self._among(fragments)
        zoned = np.bincount(at, self._lengths[is_own], len(fragments)) == rows
        zoned &= self._rows_of(fragments) == rows
        missing = np.bincount(at, self._null_counts[is_own], len(fragments))
        return zoned, int(missing[zoned].sum())

    def _set_bounds(self, minima: pa.Array, maxima: pa.Array) -> None:
        """Keep the sort keys of the bounds, of zones that have any."""
        self._known: Mask = mask_of(minima.is_valid()) & mask_of(maxima.is_valid())
        if (self._known != mask_of(minima.is_valid())).any():
            raise self._file.damage("a zone with one bound")
        rows = to_arrow_numbers(np.flatnonzero(self._known))
        self._lows, self._highs = (sort_keys(one.take(rows)) for one in (minima, maxima))
        self._is_open: Mask = np.zeros(len(minima), np.bool_)  # zones whose bounds say nothing
        if pa.types.is_floating(self.data_type):
            is_nan = np.isnan(self._lows) | np.isnan(self._highs)
            self._is_open[np.flatnonzero(self._known)[is_nan]] = True
        if (self._lows > self._highs).any():  # NaN is neither
            raise self._file.damage("a zone ends before it begins")

    def _overlapping(self, intervals: Sequence[KeyInterval]) -> Mask:
        """Return the zones whose bounds overlap one of some intervals."""
        found = np.zeros(len(self._lows), np.bool_)
        closed = [one for one in intervals if None not in one]
        for low, high in intervals:
            if low is None or high is None:
                above = True if low is None else self._highs >= self._key(low)
                below = True if high is None else self._lows <= self._key(high)
                found |= np.logical_and(above, below)
        if closed:
            closed.sort(key=lambda one: one[0])
            lows = as_keys([low for low, _ in closed], self._lows.dtype)
            highs = np.maximum.accumulate(as_keys([high for _, high in closed], self._lows.dtype))
            at = np.searchsorted(lows, self._highs, side="right")
            found |= (at > 0) & (highs[np.maximum(at - 1, 0)] >= self._lows)
        wanted = np.zeros(len(self._known), np.bool_)
        wanted[self._known] = found
        return wanted

    def _key(self, value: object) -> SortKeys:
        """Return a key as an array of one: of bytes alone, NumPy cuts NULs off at the end."""
        return as_keys([value], self._lows.dtype)
