"""Where the rows are whose values come first, in the order that DuckDB may put them in.

Missing values and NaN come first or last as settings say, and rows with the same value are put in
order by other columns. So the rows that are found are more than the wanted ones: all that have no
value or NaN, and all with the same value as the last of the wanted ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Ints

# More rows than these are read as quickly with all others.
_MOST_ROWS = 16 * 1024

# The columns that order rows, and the positions of these.
KeyedRows: TypeAlias = tuple[Sequence[pa.Array], pa.Array]


def is_ordered(kind: pa.DataType) -> bool:
    """Whether Arrow and DuckDB order values of a type alike, whatever DuckDB's settings are.

    Texts they do where DuckDB compares them by their bytes, which is a setting.
    """
    tests = (
        pa.types.is_integer,
        pa.types.is_float32,
        pa.types.is_float64,
        pa.types.is_decimal128,
        pa.types.is_date32,
        pa.types.is_timestamp,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(test(kind) for test in tests)


def find_first(
    batches: Iterable[KeyedRows], rows: int, directions: Sequence[tuple[bool, ...]]
) -> Ints | None:
    """Find the rows that may be among the first ones.

    Args:
        batches: All values of the columns that order rows, of types that `is_ordered`, with the
            position of each row, ascending.
        rows: How many rows are wanted.
        directions: Whether the greatest value of each column comes first; several where that is
            unknown.

    Returns:
        Positions, ascending; None where they are too many.
    """
    ends = [FirstEnd(rows, each) for each in directions] if rows else []
    others: list[Ints] = []
    count = 0
    for keys, positions in batches:
        unordered = reduce(pc.or_, [pc.is_null(key, nan_is_null=True) for key in keys])
        if unordered.true_count:
            others.append(numbers_of(positions.filter(unordered)))
            count += len(others[-1])
            keys, positions = _filtered(keys, positions, pc.invert(unordered))
        for end in ends:
            end.add(keys, positions)
        if count > _MOST_ROWS or any(end.count > _MOST_ROWS for end in ends):
            return None
    found = [end.positions for end in ends]
    return np.unique(np.concatenate([*others, *found, np.empty(0, np.int64)]))


class FirstEnd:
    """The rows that come first of those so far, in one order.

    Args:
        rows: How many are wanted.
        descending: Whether the greatest value of each column comes first.

    Attributes:
        last: The values of the last of the wanted rows; None as long as there are fewer.
    """

    def __init__(self, rows: int, descending: Sequence[bool]) -> None:
        self._rows = rows
        self._descending = descending
        self._kept: pa.Table | None = None
        self.last: tuple[pa.Scalar, ...] | None = None

    @property
    def count(self) -> int:
        """How many rows are kept."""
        return 0 if self._kept is None else len(self._kept)

    @property
    def positions(self) -> Ints:
        """The positions of the rows that are kept."""
        found: Ints = np.empty(0, np.int64)
        return found if self._kept is None else numbers_of(self._kept["positions"].combine_chunks())

    def add(self, keys: Sequence[pa.Array], positions: pa.Array) -> None:
        """Keep those of some rows that may be among the first ones.

        Args:
            keys: The columns that order them, without nulls and NaN.
            positions: Of the rows.
        """
        if self.last is not None:
            is_kept = self._comes_first(keys[0], self.last[0])
            if not is_kept.true_count:
                return
            keys, positions = _filtered(keys, positions, is_kept)
        if len(positions) > self._rows:  # quicker than among the rows of a table
            last = self._nth(keys[0])
            keys, positions = _filtered(keys, positions, self._comes_first(keys[0], last))
        names = [str(number) for number in range(len(keys))]
        added = pa.table([*keys, positions], [*names, "positions"])
        kept = added if self._kept is None else pa.concat_tables([self._kept, added])
        if len(kept) >= self._rows:
            directions = ["descending" if each else "ascending" for each in self._descending]
            order = list(zip(names, directions, strict=True))
            first = pc.select_k_unstable(kept, k=self._rows, sort_keys=order)[-1].as_py()
            self.last = tuple(kept[name][first] for name in names)
            kept = kept.filter(self._is_within([kept[name] for name in names], self.last))
        self._kept = kept.combine_chunks()

    def _nth(self, values: pa.Array) -> pa.Scalar:
        """Return the value of the last row that is wanted, by the first column alone."""
        order = [("values", "descending" if self._descending[0] else "ascending")]
        first = pc.select_k_unstable(values, k=self._rows, sort_keys=order)
        return values[first[-1].as_py()]

    def _comes_first(self, values: pa.Array, last: pa.Scalar, column: int = 0) -> pa.Array:
        """Whether values of a column come before one, or are the same."""
        is_within = pc.greater_equal if self._descending[column] else pc.less_equal
        return is_within(values, last)

    def _is_within(self, keys: Sequence[pa.ChunkedArray], last: Sequence[pa.Scalar]) -> pa.Array:
        """Whether rows come before one, or are put in the same place."""
        *others, final = range(len(keys))
        found = self._comes_first(keys[final], last[final], final)
        for column in reversed(others):
            is_before = pc.greater if self._descending[column] else pc.less
            is_same = pc.and_(pc.equal(keys[column], last[column]), found)
            found = pc.or_(is_before(keys[column], last[column]), is_same)
        return found


def _filtered(keys: Sequence[pa.Array], positions: pa.Array, mask: pa.Array) -> KeyedRows:
    return [key.filter(mask) for key in keys], positions.filter(mask)
