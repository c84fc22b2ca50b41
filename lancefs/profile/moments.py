"""The least and the greatest value, the mean and the deviation, summed up batch by batch."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import numbers_of


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
