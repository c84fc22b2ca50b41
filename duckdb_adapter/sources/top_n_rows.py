"""Where the rows are whose values come first, in the order that DuckDB may put them in.

Missing values and NaN come first or last as settings say, and rows with the same value are put in
order by other columns. So the rows that are found are more than the wanted ones: all that have no
value or NaN, and all with the same value as the last of the wanted ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.buffers import Ints

# More rows than these are read as quickly with all others.
_MOST_ROWS = 16 * 1024


def is_ordered(kind: pa.DataType) -> bool:
    """Whether Arrow and DuckDB order values of a type alike, whatever DuckDB's settings are."""
    tests = (
        pa.types.is_integer,
        pa.types.is_float32,
        pa.types.is_float64,
        pa.types.is_decimal128,
        pa.types.is_date32,
        pa.types.is_timestamp,
    )
    return any(test(kind) for test in tests)


def find_first(
    batches: Iterable[tuple[pa.Array, pa.Array]], rows: int, descending: tuple[bool, ...]
) -> Ints | None:
    """Find the rows that may be among the first ones.

    Args:
        batches: All values of a column of a type that `is_ordered`, with the position of each,
            ascending.
        rows: How many rows are wanted.
        descending: Whether the greatest value comes first; both where that is unknown.

    Returns:
        Positions, ascending; None where they are too many.
    """
    ends = [_End(rows, each) for each in descending] if rows else []
    others: list[Ints] = []
    count = 0
    for values, positions in batches:
        unordered = pc.is_null(values, nan_is_null=True)
        if unordered.true_count:
            others.append(positions.filter(unordered).to_numpy())
            count += len(others[-1])
            ordered = pc.invert(unordered)
            values, positions = values.filter(ordered), positions.filter(ordered)
        for end in ends:
            end.add(values, positions)
        if count > _MOST_ROWS or any(end.count > _MOST_ROWS for end in ends):
            return None
    found = [end.positions for end in ends]
    return np.unique(np.concatenate([*others, *found, np.empty(0, np.int64)]))


class _End:
    """The least or the greatest values so far."""

    def __init__(self, rows: int, descending: bool) -> None:
        self._rows = rows
        self._compare = pc.greater_equal if descending else pc.less_equal
        self._order = [("values", "descending" if descending else "ascending")]  # of an array, too
        self._kept: pa.Table | None = None
        self._last: pa.Scalar | None = None

    @property
    def count(self) -> int:
        return 0 if self._kept is None else len(self._kept)

    @property
    def positions(self) -> Ints:
        found: Ints = np.empty(0, np.int64)
        return found if self._kept is None else self._kept["positions"].to_numpy()

    def add(self, values: pa.Array, positions: pa.Array) -> None:
        """Keep those of some values that may be among the first ones."""
        if self._last is not None:
            is_kept = self._compare(values, self._last)
            if not is_kept.true_count:
                return
            values, positions = values.filter(is_kept), positions.filter(is_kept)
        if len(values) > self._rows:  # quicker than among the rows of a table
            first = pc.select_k_unstable(values, k=self._rows, sort_keys=self._order)
            is_kept = self._compare(values, values[first[-1].as_py()])
            values, positions = values.filter(is_kept), positions.filter(is_kept)
        added = pa.table({"values": values, "positions": positions})
        kept = added if self._kept is None else pa.concat_tables([self._kept, added])
        if len(kept) >= self._rows:
            first = pc.select_k_unstable(kept, k=self._rows, sort_keys=self._order)
            self._last = kept["values"][first[-1].as_py()]
            kept = kept.filter(self._compare(kept["values"], self._last))
        self._kept = kept.combine_chunks()
