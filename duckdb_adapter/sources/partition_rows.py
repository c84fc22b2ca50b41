"""Finding the first rows of each partition: `row_number() OVER (PARTITION BY …) <= n`.

More rows than the wanted ones are found: all whose value is null or NaN, and all whose value is one
of the first n distinct values of the partition. So the result does not depend on how rows with
equal values are ordered and numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.sources.column_values import stored_type
from lancefs.datafile.arrays import mask_of, numbers_of, stored_values
from lancefs.datafile.buffers import Ints
from lancefs.datafile.logical_types import decimal64_type
from lancefs.datafile.masks import filtered

# More rows than these, and than this share of the table, are read as quickly with all others.
_MAX_ROWS, _MAX_SHARE = 16 * 1024, 1 / 64
# Bits of the number of a partition, which limit the number of partitions.
_BITS = 20
# Which values are compared as numbers.
_NUMBERS = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_date32,
    pa.types.is_timestamp,
)
_PARTITIONS = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_large_string,
)

# By which rows are in order, of any type of number.
_Ordered: TypeAlias = np.ndarray[Any, Any]
# The partitions of rows, what puts them in order, and their positions.
_Numbered: TypeAlias = tuple[Ints, _Ordered, Ints]


def has_numbers(kind: pa.DataType) -> bool:
    """Whether values of a type are compared as numbers, in the order of DuckDB.

    Decimals are where 64 bits hold them; they are to come so.
    """
    return any(test(kind) for test in _NUMBERS) or decimal64_type(kind) is not None


def makes_partitions(kind: pa.DataType) -> bool:
    """Whether rows are told apart by values of a type as DuckDB tells them apart, or more."""
    return any(test(kind) for test in _PARTITIONS)


def find_first_of_each(
    batches: Iterable[tuple[Sequence[pa.Array], pa.Array]],
    rows: int,
    directions: Sequence[tuple[bool, ...]],
    total: int,
) -> Ints | None:
    """Find the rows that may be among the first ones of their partitions.

    Args:
        batches: The columns of PARTITION BY and last the one of ORDER BY, of types for which
            `makes_partitions` and `has_numbers` hold, with the position of each row, ascending.
        rows: How many rows of each partition are wanted.
        directions: Whether the greatest value comes first; several where that is unknown.
        total: The number of rows of the table.

    Returns:
        Positions, ascending; None where they are too many.
    """
    most = max(_MAX_ROWS, total * _MAX_SHARE)
    partitions: _Partitions | None = None
    ends = [_PartitionAccumulator(rows, descending[0]) for descending in directions]
    others: list[Ints] = []
    count = 0
    for (*keys, values), positions in batches:
        partitions = partitions or _Partitions(len(keys))
        numbers = partitions.numbers(keys, len(values))
        if numbers is None:
            return None
        unordered = pc.is_null(values, nan_is_null=True)
        places = numbers_of(positions)
        if unordered.true_count:
            ordered = ~mask_of(unordered)
            others.append(places[~ordered])
            count += len(others[-1])
            numbers, places = numbers[ordered], places[ordered]
            (values,) = filtered([values], ordered)
        for end in ends:
            end.add(numbers, _numbers_in(values), places)
        if count + max(end.count for end in ends) > most:
            return None
    found = [end.positions for end in ends]
    return np.unique(np.concatenate([*others, *found, np.empty(0, np.int64)]))


class _Partitions:
    """Numbers for the partitions that rows belong to.

    Args:
        columns: How many columns make them.
    """

    def __init__(self, columns: int) -> None:
        self._bits = _BITS // max(columns, 1)
        self._known: list[pa.Array | None] = [None] * columns

    def numbers(self, keys: Sequence[pa.Array], rows: int) -> Ints | None:
        """Return the number of the partition of each row; None where there are too many.

        Args:
            keys: The columns.
            rows: Their length.
        """
        found: Ints = np.zeros(rows if not keys else 1, np.int64)
        for position, key in enumerate(keys):
            encoded = key if pa.types.is_dictionary(key.type) else pc.dictionary_encode(key)
            numbers = self._numbers_of(position, encoded.dictionary)
            if numbers is None:
                return None
            indices = numbers_of(encoded.indices, len(numbers))
            found = (found << self._bits) + np.append(numbers + 1, 0)[indices]  # 0 where it is null
        return found

    def _numbers_of(self, position: int, items: pa.Array) -> Ints | None:
        """Return a number for each value of a column, the same in all batches."""
        known = self._known[position]
        if known is None:
            known = items.slice(0, 0)
        added = items.filter(pc.invert(pc.is_in(items, known)))
        if len(added):
            known = pa.concat_arrays([known, added.unique()])
            if len(known) >= (1 << self._bits) - 1:
                return None
            self._known[position] = known
        numbers: Ints = numbers_of(pc.index_in(items, known)).astype(np.int64)
        return numbers


class _PartitionAccumulator:
    """The rows with the first values of each partition so far.

    Args:
        rows: How many different values are kept.
        descending: Whether the greatest come first.
    """

    def __init__(self, rows: int, descending: bool) -> None:
        self._rows = rows
        self._best = np.maximum if descending else np.minimum
        self._is_within = np.greater_equal if descending else np.less_equal
        self._descending = descending
        self._kept: _Numbered | None = None

    @property
    def count(self) -> int:
        return 0 if self._kept is None else len(self._kept[0])

    @property
    def positions(self) -> Ints:
        return np.empty(0, np.int64) if self._kept is None else self._kept[2]

    def add(self, numbers: Ints, values: _Ordered, positions: Ints) -> None:
        """Keep the rows of some that may be among the first ones of their partitions.

        Args:
            numbers: The number of the partition of each row.
            values: The values that order the rows.
            positions: The positions of the rows, int64, shape (rows,).
        """
        if not (len(numbers) and self._rows):
            return
        numbers, values, positions = self._first(numbers, values, positions)
        if self._kept is not None:  # few rows each, of which the first ones are left again
            kept = self._kept
            numbers, values = np.append(kept[0], numbers), np.append(kept[1], values)
            positions = np.append(kept[2], positions)
            numbers, values, positions = self._first(numbers, values, positions)
        self._kept = numbers, values, positions

    def _first(self, numbers: Ints, values: _Ordered, positions: Ints) -> _Numbered:
        """Return the rows of some with the first different values of their partitions."""
        worst = _worst(values.dtype, self._descending)
        last = np.full(int(numbers.max()) + 1, worst, values.dtype)
        left, of_left = values, numbers
        for round_ in range(self._rows):
            if round_:
                is_after = left != last[of_left]
                left, of_left = left[is_after], of_left[is_after]
                last.fill(worst)
            self._best.at(last, of_left, left)
        is_kept = self._is_within(values, last[numbers])
        return numbers[is_kept], values[is_kept], positions[is_kept]


def _numbers_in(array: pa.Array) -> _Ordered:
    """Return the values of an array without nulls, by which rows are in order."""
    array = array.view(stored_type(array.type))
    kind = array.type
    letter = "f" if pa.types.is_floating(kind) else "i"
    letter = "u" if pa.types.is_unsigned_integer(kind) else letter
    return stored_values(array, f"{letter}{kind.bit_width // 8}")


def _worst(dtype: np.dtype[Any], descending: bool) -> Any:
    """Return the value that comes after all others."""
    if dtype.kind == "f":
        return -np.inf if descending else np.inf
    limits = np.iinfo(dtype)
    return limits.min if descending else limits.max
