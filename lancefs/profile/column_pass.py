"""One column during a profiling pass: its accumulators, and the profile in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.constants import array_of, scalar_of
from lancefs.profile.accumulators import Extremes, Keys, Moments, RowSample, ValueCounts, in_order
from lancefs.profile.distinct import KEPT, DistinctCount, Hashes
from lancefs.profile.kinds import Kind, as_shown, as_stored, kind_of, lengths_of, norms_of
from lancefs.profile.profiles import (
    GRID,
    PROBABILITIES,
    ColumnProfile,
    Histogram,
    Spread,
    TopValue,
)
from lancefs.short_texts import python_values, readable

_BARS = 20
# Frequent values that are shown, and the share from which on a sample tells of one.
_MAX_TOP, _MAX_FREQUENT = 10, 1000
_MIN_SHARE = 0.001
# Bytes of the values that are counted each.
_MAX_COUNTED = 4 * 1024 * 1024
# Kinds of values whose distinct values are not counted.
_UNCOUNTED = ("list", "vector", "other")


class SpreadPass:
    """The spread of numbers or of times.

    Args:
        data_type: The type of the values.
        kind: How they are profiled: `number` or `time`.
        sample: Keeps a sample of them.
    """

    def __init__(self, data_type: pa.DataType, kind: Kind, sample: RowSample) -> None:
        self._type, self._kind = data_type, kind
        self.sample = sample
        self._extremes, self._moments = Extremes(), Moments()

    def add(self, stored: pa.Array, keys: Keys) -> None:
        """Add values as they are stored."""
        self.sample.add(stored, keys)
        self._extremes.add(stored)
        self._moments.add(stored)

    @property
    def ends(self) -> list[Any]:
        """The least and the greatest value; None for both where there is none."""
        found = self._extremes.values()
        return [None, None] if found is None else _to_python(found, self._type)

    def spread(self) -> Spread | None:
        """Return the statistics of the values; None where there are none."""
        sample = self.sample.values()
        if sample is None or self._extremes.values() is None:
            return None
        ordered = _ordered(sample)
        least, greatest = self.ends
        mean, deviation = self._moments.mean, self._moments.deviation
        if self._kind == "time" and mean is not None:
            (mean,) = self._times([mean])
        return Spread(
            least,
            greatest,
            mean,
            None if self._kind == "time" else deviation,
            self._quantiles(ordered),
            self._histogram(ordered),
            self.sample.is_whole,
            _grid(ordered),
        )

    def _quantiles(self, ordered: pa.Array) -> dict[float, Any]:
        if not len(ordered):
            return {}
        places = [max(int(np.ceil(share * len(ordered))) - 1, 0) for share in PROBABILITIES]
        values = _to_python(ordered.take(array_of(places, pa.int64())), self._type)
        return dict(zip(PROBABILITIES, values, strict=True))

    def _histogram(self, ordered: pa.Array) -> Histogram | None:
        ends = self._extremes.values()
        assert ends is not None
        numbers = _numbers(ordered)
        low, high = _numbers(ends)
        finite = numbers[np.isfinite(numbers)]
        if not np.isfinite([low, high]).all():
            if not len(finite):
                return None
            low, high = finite[0], finite[-1]
        if not len(numbers):
            return None
        edges = _edges(low, high)
        places = np.searchsorted(finite, edges[1:-1])
        counts = np.diff([0, *places.tolist(), len(finite)])
        shares = tuple((counts / len(numbers)).tolist())
        if self._kind == "number":
            return Histogram(tuple(edges.tolist()), shares)
        inner = self._times(edges[1:-1].tolist())
        return Histogram((self.ends[0], *inner, self.ends[1]), shares)

    def _times(self, numbers: Sequence[float]) -> list[Any]:
        """Return times for numbers between the ends, which floats may lie beyond."""
        ends = self._extremes.values()
        assert ends is not None
        least, greatest = ends.to_pylist()
        whole = [min(max(round(number), least), greatest) for number in numbers]
        return _to_python(array_of(whole, ends.type), self._type)


class ColumnPass:
    """Takes the values of a column, batch by batch.

    Args:
        name: The column.
        shown_type: Its type as text.
        data_type: The plain type of its values.
        rows: Rows of a sample.
        size: Bytes of a sample; what is kept for counts is about as large.
        note: Why its values are not read.
    """

    def __init__(
        self,
        name: str,
        shown_type: str,
        data_type: pa.DataType,
        rows: int,
        size: int,
        note: str | None = None,
    ) -> None:
        self.name, self._shown_type, self._type, self._note = name, shown_type, data_type, note
        self.kind = kind_of(data_type)
        self._rows = self._nulls = self._nans = 0
        self._counts = ValueCounts(min(size, _MAX_COUNTED))
        self._distinct = DistinctCount(min(KEPT, max(size // 16, 1024)))
        self._extremes = Extremes()
        sample = RowSample(rows, size)
        self._values: SpreadPass | None = None
        if self.kind in ("number", "time"):
            self._values = SpreadPass(data_type, self.kind, sample)
        self._sample = sample  # of the values, whether they have a spread or not
        self._lengths = SpreadPass(pa.int64(), "number", RowSample(rows, size))
        self._norms = SpreadPass(pa.float64(), "number", RowSample(rows, size))

    def skip(self, rows: int) -> None:
        """Count rows whose values are not read."""
        self._rows += rows

    def add(self, array: pa.Array, keys: Keys) -> pa.Array | None:
        """Add values.

        Args:
            array: The values, of the plain type.
            keys: A random number for each row.

        Returns:
            The values to hash; None where different ones are not counted.
        """
        self._rows += len(array)
        self._nulls += array.null_count
        if self.kind == "vector":
            self._norms.add(norms_of(array), keys)
        lengths = lengths_of(array, self.kind)
        if lengths is not None:
            self._lengths.add(lengths.cast(pa.int64()), keys)
        if self.kind in _UNCOUNTED:
            return None
        stored = as_stored(array, self.kind)
        if pa.types.is_floating(stored.type):
            self._nans += int(pc.sum(pc.is_nan(stored)).as_py() or 0)
        self._counts.add(stored)
        if self._values is not None:
            self._values.add(stored, keys)
        else:
            self._sample.add(stored, keys)
            if self.kind != "bool":
                self._extremes.add(stored)
        return stored

    def add_hashes(self, hashes: Hashes) -> None:
        """Add the hashes of the values that `add` returned."""
        self._distinct.add(hashes)

    def profile(self) -> ColumnProfile:
        """Return the statistics of the values."""
        distinct: tuple[int | None, bool] = None, True
        top: tuple[tuple[TopValue, ...], bool] = (), True
        if self._note is None and self.kind not in _UNCOUNTED:
            distinct, top = self._distinct.count(), self._top()
        least = greatest = None
        values = None if self._values is None else self._values.spread()
        if self._values is not None:
            least, greatest = self._values.ends
        elif (found := self._extremes.values()) is not None:
            least, greatest = _to_python(found, self._type)
        return ColumnProfile(
            name=self.name,
            type=self._shown_type,
            rows=self._rows,
            nulls=self._nulls,
            nans=self._nans,
            distinct=distinct[0],
            is_distinct_exact=distinct[1],
            min=least,
            max=greatest,
            values=values,
            lengths=self._lengths.spread(),
            norms=self._norms.spread(),
            top=top[0][:_MAX_TOP],
            are_top_exact=top[1],
            frequent=top[0],
            note=self._note,
        )

    def _top(self) -> tuple[tuple[TopValue, ...], bool]:
        """Return the most frequent values, and whether they were counted."""
        counts = self._counts.most_frequent()
        if self._counts.is_complete:
            return self._top_values(_frequent(counts), self._rows), True
        sample = self._sample.values()
        assert sample is not None
        found = pc.value_counts(sample.drop_null())
        counts = pa.table([found.field(0), found.field(1)], ["value", "count"])
        least = scalar_of(_MIN_SHARE * len(sample), pa.float64())
        counts = counts.filter(pc.greater_equal(counts["count"], least))
        return self._top_values(in_order(counts).slice(0, _MAX_FREQUENT), len(sample)), False

    def _top_values(self, counts: pa.Table, rows: int) -> tuple[TopValue, ...]:
        values = _to_python(counts["value"].combine_chunks(), self._type) if len(counts) else []
        shares = [count / rows for count in counts["count"].to_pylist()]
        return tuple(
            TopValue(value, round(share * self._rows), share)
            for value, share in zip(values, shares, strict=True)
        )


def _frequent(counts: pa.Table) -> pa.Table:
    """Return all values while there are few, else those that occur more than once."""
    if len(counts) <= _MAX_FREQUENT:
        return counts
    repeated = int(pc.sum(pc.greater(counts["count"], scalar_of(1, pa.int64()))).as_py())
    return counts.slice(0, min(max(repeated, _MAX_TOP), _MAX_FREQUENT))


def _to_python(stored: pa.Array, data_type: pa.DataType) -> list[Any]:
    """Return values of `as_stored` as Python values."""
    if isinstance(stored, pa.ChunkedArray):
        stored = pa.concat_arrays(stored.chunks)
    shown = pa.chunked_array([as_shown(stored, data_type)])
    return python_values(readable(pa.table([shown], ["value"]))["value"])


def _ordered(sample: pa.Array) -> pa.Array:
    """Return the values of a sample in their order, without those that are missing or NaN."""
    values = sample.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    return values.take(pc.sort_indices(values))


def _grid(ordered: pa.Array) -> tuple[float, ...]:
    """Return numbers at even shares of ordered values; all, while there are few.

    Of few values, even shares would give the first and the last one less than theirs.
    """
    numbers = _numbers(ordered)
    if len(numbers) > GRID:
        numbers = numbers[np.linspace(0, len(numbers) - 1, GRID + 1).round().astype(np.int64)]
    return tuple(numbers.tolist())


def _edges(low: float, high: float) -> Any:
    """Return the edges of bars of the same width; of one bar where floats tell no more apart."""
    steps = np.linspace(0, 1, _BARS + 1)
    edges = low * (1 - steps) + high * steps  # the difference of both could be infinite
    edges[[0, -1]] = low, high
    return edges if np.all(edges[1:] > edges[:-1]) else np.array([low, high])


def _numbers(values: pa.Array) -> Any:
    return numbers_of(values.cast(pa.float64(), safe=False))
