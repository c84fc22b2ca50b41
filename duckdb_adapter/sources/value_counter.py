"""Counting the rows with each combination of values of some columns, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.datafile.buffers import Array, Ints
from lancefs.datafile.constants import array_of, scalar_of
from lancefs.datafile.kernels import add_positions, count_sums
from lancefs.table.string_cache import MAX_VALUES

# As many as DuckDB computes a function of once each, if they are in a dictionary; null is one.
MAX_COMBINATIONS = MAX_VALUES + 1
# Largest dictionary, in bytes, that is kept.
_MAX_BYTES = 1024 * 1024
# Largest span of whole numbers that are counted.
_MAX_RANGE = 64 * 1024
_UNKNOWN = -1


class _NumberCodes:
    """Positions of whole numbers, in the order in which they were met; null is one of them."""

    def __init__(self) -> None:
        self.values: dict[int | None, int] = {}
        self._least = 0
        # The positions of the numbers from the least one on.
        self._positions = np.empty(0, np.int32)

    def learn(self, array: pa.Array) -> bool:
        """Give positions to all values of an array; returns whether they are few."""
        present = numbers_of(array.drop_null() if array.null_count else array)
        known = [value for value in self.values if value is not None]
        if len(present):
            known += [int(present.min()), int(present.max())]
        if array.null_count:
            self.values.setdefault(None, len(self.values))
        if known and max(known) - min(known) >= _MAX_RANGE:
            return False
        if len(present):
            places = np.bincount((present.astype(np.int64) - min(known)).astype(np.int32))
            for place in np.flatnonzero(places).tolist():
                self.values.setdefault(min(known) + place, len(self.values))
        self._make_table()
        return len(self.values) <= MAX_VALUES

    def _make_table(self) -> None:
        numbers = [value for value in self.values if value is not None]
        self._least, most = (min(numbers), max(numbers)) if numbers else (0, -1)
        self._positions = np.full(most - self._least + 1, _UNKNOWN, np.int32)
        for value in numbers:
            self._positions[value - self._least] = self.values[value]

    def add(self, array: pa.Array, stride: int, sums: Array) -> Array | None:
        """Add the positions of values, times a stride; None where a value has none."""
        numbers = numbers_of(array)
        if not array.null_count:
            return add_positions(numbers, self._least, self._positions * np.int32(stride), sums)
        if None not in self.values:
            return None
        is_null = mask_of(array.is_null())
        found: Array | None = sums.copy()
        if not is_null.all():
            # Below the nulls may be any number: one that has a position stands there.
            numbers = np.where(is_null, numbers.dtype.type(self._least), numbers)
            found = add_positions(numbers, self._least, self._positions * np.int32(stride), sums)
        if found is not None:
            found[is_null] = sums[is_null] + self.values[None] * stride
        return found


class StringCodes:
    """Positions of the items of dictionaries, in the order in which they were met.

    Args:
        values: The items that are known at first, with None if values may be missing.
    """

    def __init__(self, values: Iterable[str | None] = ()) -> None:
        self.values = {value: position for position, value in enumerate(values)}
        # All of them in the order of their positions, as Arrow looks them up.
        self._known: pa.Array | None = None
        # The last items, which many batches share, and their positions, then that of null.
        self._last: tuple[pa.Array, Array] | None = None

    def learn(self, array: pa.DictionaryArray) -> bool:
        """Give positions to all items of an array; returns whether they are few."""
        items = array.dictionary
        if len(items) > MAX_VALUES or items.nbytes > _MAX_BYTES:
            return False
        for value in items.to_pylist():
            self.values.setdefault(value, len(self.values))
        if array.indices.null_count:
            self.values.setdefault(None, len(self.values))
        self._known = self._last = None
        return len(self.values) <= MAX_VALUES

    def add(self, array: pa.DictionaryArray, stride: int, sums: Array) -> Array | None:
        """Add the positions of values, times a stride; None where a value has none."""
        positions = self._positions_of(array.dictionary) * np.int32(stride)
        codes = numbers_of(array.indices, len(array.dictionary))
        return add_positions(codes, 0, positions, sums)

    def _positions_of(self, items: pa.Array) -> Array:
        if self._last is None or not self._last[0].equals(items):
            if self._known is None or self._known.type != items.type:
                self._known = array_of([*self.values], items.type)
            found = pc.fill_null(pc.index_in(items, self._known), scalar_of(_UNKNOWN, pa.int32()))
            of_null = self.values.get(None, _UNKNOWN)
            self._last = items, np.append(numbers_of(found), np.int32(of_null))
        return self._last[1]


class ValueCounter:
    """Counts rows by the values of some columns.

    Args:
        are_encoded: Whether each column comes dictionary-encoded; whole numbers otherwise.
    """

    def __init__(self, are_encoded: Sequence[bool]) -> None:
        self._columns = [StringCodes() if each else _NumberCodes() for each in are_encoded]
        self._counts = np.zeros(1, np.int64)
        self._sizes = [1] * len(are_encoded)

    def add(self, arrays: Sequence[pa.Array]) -> bool:
        """Count the rows of a batch; returns whether there are still few combinations."""
        sums = self._sums(arrays)
        if sums is None:
            learned = [one.learn(array) for one, array in zip(self._columns, arrays, strict=True)]
            sizes = [max(len(column.values), 1) for column in self._columns]
            if not all(learned) or prod(sizes) > MAX_COMBINATIONS:
                return False
            self._grow(sizes)
            sums = self._sums(arrays)
            assert sums is not None
        self._counts += count_sums(sums, len(self._counts))
        return True

    def _sums(self, arrays: Sequence[pa.Array]) -> Array | None:
        """Return the number of the combination of each row; None where a value is new."""
        sums: Array | None = np.zeros(len(arrays[0]), np.int32)
        for column, stride, array in zip(
            self._columns, strides_of(self._sizes), arrays, strict=True
        ):
            sums = None if sums is None else column.add(array, stride, sums)
        return sums

    def _grow(self, sizes: list[int]) -> None:
        """Make place for more values of columns."""
        places, counts = self.combinations()
        self._counts, self._sizes = np.zeros(prod(sizes), np.int64), sizes
        if len(counts):
            strides = strides_of(sizes)
            of_combinations = (
                place * stride for place, stride in zip(places, strides, strict=True)
            )
            self._counts[sum(of_combinations)] = counts

    def values(self) -> list[list[Any]]:
        """Return the values of each column, also of dictionaries that no row has."""
        return [list(column.values) for column in self._columns]

    def combinations(self) -> tuple[list[Ints], Ints]:
        """Return the combinations that there are, by the places of their values, and their rows."""
        numbers = np.flatnonzero(self._counts)
        places = [
            numbers // stride % size
            for stride, size in zip(strides_of(self._sizes), self._sizes, strict=True)
        ]
        return places, self._counts[numbers]


def strides_of(sizes: Sequence[int]) -> list[int]:
    """Return what the position of each column counts for in the number of a combination."""
    return [prod(sizes[place + 1 :]) for place in range(len(sizes))]
