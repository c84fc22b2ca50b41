"""Counts of values, as long as there are few different ones."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.constants import array_of

# Different values that are counted.
_MAX_VALUES = 10_000
# Counts of batches that wait to be added up.
_WAITING = 16


class ValueCounts:
    """Counts how often each value occurs, until there are too many different ones.

    Args:
        size: Bytes that the different values may have.
    """

    def __init__(self, size: int) -> None:
        self._most = size
        self._parts: list[pa.Table] = []
        self._size = 0  # in bytes
        self.is_complete = True

    def add(self, values: pa.Array) -> None:
        """Count values; missing ones are passed over."""
        if not self.is_complete:
            return
        counts = pc.value_counts(values.drop_null())
        self._parts.append(pa.table([counts.field(0), counts.field(1)], ["value", "count"]))
        self._size += self._parts[-1].nbytes
        is_large = len(counts) > _MAX_VALUES or self._size > 2 * self._most
        if is_large or len(self._parts) == _WAITING:
            self._add_up()

    def most_frequent(self) -> pa.Table:
        """Return the columns `value` and `count`, the most frequent value first."""
        if len(self._parts) != 1:
            self._add_up()
        if not self._parts:
            return pa.table({"value": pa.nulls(0), "count": array_of([], pa.int64())})
        return in_order(self._parts[0])

    def _add_up(self) -> None:
        if not self._parts:
            return
        table = pa.concat_tables(self._parts)
        if len(self._parts) > 1:
            grouped = table.group_by("value").aggregate([("count", "sum")])
            table = grouped.rename_columns(["value", "count"])
        self.is_complete = len(table) <= _MAX_VALUES and table.nbytes <= self._most
        self._parts = [table] if self.is_complete else []
        self._size = table.nbytes if self.is_complete else 0


def in_order(counts: pa.Table) -> pa.Table:
    """Return counts of values, the most frequent first; otherwise in the order that they have."""
    return counts.take(pc.sort_indices(counts["count"], [("", "descending")]))
