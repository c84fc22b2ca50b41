"""Summaries of values in bounded memory, to which batches are added one by one.

Extremes, moments (mean and standard deviation), a random sample of the rows, and counts of values.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.constants import array_of

Keys = npt.NDArray[np.float64]
# Rows beyond the limit of a sample that wait to be left out, as a share of it.
_SAMPLE_SLACK = 0.5
# Different values that are counted.
_MAX_VALUES = 10_000
# Counts of batches that wait to be added up.
_MAX_WAITING = 16


class Extremes:
    """Keeps the least and the greatest value; NaN is neither."""

    def __init__(self) -> None:
        self._found: pa.Array | None = None

    def add(self, values: pa.Array) -> None:
        """Add values that can be ordered."""
        if values.null_count == len(values):
            return
        found = _ends(values)
        self._found = (
            found if self._found is None else _ends(pa.concat_arrays([self._found, found]))
        )

    def values(self) -> pa.Array | None:
        """Return the least and the greatest value; None where there was none."""
        return self._found


def _ends(values: pa.Array) -> pa.Array:
    """Return the least and the greatest value, as they are: also decimals of too many digits."""
    ends = pc.min_max(values)
    return pa.concat_arrays([pa.repeat(ends[name], 1) for name in ("min", "max")])


class Moments:
    """Sums up numbers for their mean and their deviation (Chan's way, which loses no digits)."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = 0.0
        self._squares = 0.0  # of the distances from the mean
        self._infinities: set[float] = set()

    def add(self, values: pa.Array) -> None:
        """Add numbers; those that are missing or NaN are passed over."""
        numbers = numbers_of(values.drop_null().cast(pa.float64(), safe=False))
        if pa.types.is_floating(values.type):
            # Infinities are kept apart: the difference of two of them is no number.
            self._infinities.update(numbers[np.isinf(numbers)].tolist())
            numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return
        with np.errstate(invalid="ignore", over="ignore"):
            mean = float(numbers.mean())
            offsets = numbers - mean
            squares = float((offsets * offsets).sum())  # not `dot`, which starts threads
        count = self.count + len(numbers)
        distance = mean - self._mean
        self._mean += distance * len(numbers) / count
        self._squares += squares + distance * distance * self.count * len(numbers) / count
        self.count = count

    @property
    def mean(self) -> float | None:
        """The mean; None without numbers, and of infinities of both signs."""
        if self._infinities:
            return next(iter(self._infinities)) if len(self._infinities) == 1 else None
        return None if not self.count or math.isnan(self._mean) else self._mean

    @property
    def deviation(self) -> float | None:
        """The standard deviation of a sample; None of fewer than two numbers, or of infinities."""
        if self.count < 2 or self._infinities or not math.isfinite(self._squares):
            return None
        return math.sqrt(self._squares / (self.count - 1))


class RowSample:
    """Keeps a sample of values, each row as likely as any other; all rows while they are few.

    Args:
        rows: Rows to keep at most.
        size: Bytes to keep at most; fewer rows are kept where they are long.
    """

    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size
        self._below = 1.0
        self._keys: list[Keys] = []
        self._values: list[pa.Array] = []
        self._held = 0

    @property
    def is_whole(self) -> bool:
        """Whether all rows are kept."""
        return self._below == 1.0

    def add(self, values: pa.Array, keys: Keys) -> None:
        """Add rows.

        Args:
            values: Their values.
            keys: A random number from 0 to 1 for each; the same for all columns of a row.
        """
        kept = np.flatnonzero(keys < self._below)
        self._values.append(values.take(to_arrow_numbers(kept)))
        self._keys.append(keys[kept])
        self._held += self._values[-1].nbytes
        rows = sum(map(len, self._keys))
        if rows > self._rows * (1 + _SAMPLE_SLACK) or self._held > self._size * (1 + _SAMPLE_SLACK):
            self._shrink()

    def values(self) -> pa.Array | None:
        """Return the values of the sample, in the order of the rows; None where none was added."""
        if self._values and (sum(map(len, self._keys)) > self._rows or self._held > self._size):
            self._shrink()
        return pa.concat_arrays(self._values) if self._values else None

    def _shrink(self) -> None:
        """Leave out the rows with the greatest keys, until the others are within the limits."""
        keys, values = np.concatenate(self._keys), pa.concat_arrays(self._values)
        while len(keys) > 1 and (len(keys) > self._rows or values.nbytes > self._size):
            share = min(self._rows / len(keys), self._size / max(values.nbytes, 1), 1)
            left = max(int(len(keys) * share), 1)
            left -= left == len(keys)
            self._below = float(np.partition(keys, left)[left])
            kept = np.flatnonzero(keys < self._below)
            keys, values = keys[kept], values.take(to_arrow_numbers(kept))
        self._keys, self._values, self._held = [keys], [values], values.nbytes


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
        if is_large or len(self._parts) == _MAX_WAITING:
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
