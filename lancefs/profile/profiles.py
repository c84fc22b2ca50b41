"""Profiles of tables and columns: what `LanceDataset.describe` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancefs.printable import as_html, plural
from lancefs.short_texts import cell
from lancefs.showing import html_table

if TYPE_CHECKING:
    from lancefs.profile.drift import ColumnDrift

# The shares of values at or below each quantile.
PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
# Steps of the shares by which distributions are compared: to half a percent.
GRID = 200
_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of values between minimum and maximum.

    Attributes:
        edges: The bounds of the bars, one more than there are bars. A bar includes its lower bound;
            the last bar includes its upper bound, too.
        shares: The share of the values in each bar, from 0 to 1.
    """

    edges: tuple[Any, ...]
    shares: tuple[float, ...]

    @property
    def bars(self) -> str:
        """The bars as text: one character each, a blank for a bar without values."""
        most = max(self.shares, default=0) or 1
        return "".join(_BARS[ceil(share / most * (len(_BARS) - 1))] for share in self.shares)


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of numbers or times, without NaN; infinities are included.

    Attributes:
        min: The minimum; None if there are no values, like all that follow.
        max: The maximum.
        mean: The mean; for times, a time.
        deviation: The standard deviation; None for times.
        quantiles: The quantiles, by their probability, one of `PROBABILITIES`.
        histogram: The histogram; None if all values are infinite or missing.
        is_exact: Whether quantiles and histogram are computed from all values, not from a sample;
            the others always are.
        grid: Quantiles at even probabilities, by which distributions are compared; all values if
            there are few. Times are the numbers that they are stored as.
    """

    min: Any
    max: Any
    mean: Any
    deviation: float | None
    quantiles: Mapping[float, Any]
    histogram: Histogram | None
    is_exact: bool
    grid: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class TopValue:
    """A frequent value.

    Attributes:
        value: The value.
        count: Number of rows that have it.
        share: Share of all rows that have it, from 0 to 1.
    """

    value: Any
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The profile of a column, or of a member of a struct.

    Attributes:
        name: The name of the column; for a member of a struct its path, `user.age`.
        type: The Arrow type.
        rows: Number of rows.
        nulls: Number of nulls.
        nans: Number of NaN; 0 for types without NaN.
        distinct: Number of distinct values, an estimate unless `is_distinct_exact`; None for lists,
            structs and blobs.
        is_distinct_exact: Whether `distinct` is exact.
        min: The minimum of numbers, times, strings and binary values.
        max: The maximum.
        values: The distribution of numbers and times.
        lengths: The distribution of the lengths of strings (in characters), binary values (in
            bytes) and lists (in items).
        norms: The distribution of the Euclidean norms of vectors.
        top: The most frequent values, most frequent first; if not `are_top_exact`, those with an
            estimated share of at least 0.1 %.
        are_top_exact: Whether the frequencies were counted; otherwise they are estimated from a
            sample of the rows.
        frequent: More of the most frequent values, by which distributions are compared: all values
            if there are up to 1,000.
        note: Why the column has no profile; None if it has one.
    """

    name: str
    type: str
    rows: int
    nulls: int = 0
    nans: int = 0
    distinct: int | None = None
    is_distinct_exact: bool = True
    min: Any = None
    max: Any = None
    values: Spread | None = None
    lengths: Spread | None = None
    norms: Spread | None = None
    top: tuple[TopValue, ...] = ()
    are_top_exact: bool = True
    frequent: tuple[TopValue, ...] = field(default=(), repr=False)
    note: str | None = None

    @property
    def has_all_values(self) -> bool:
        """Whether `frequent` has all values, with their shares of all rows."""
        return self.are_top_exact and self.distinct == len(self.frequent)

    @property
    def null_share(self) -> float:
        """The share of missing values; 0 without rows."""
        return self.nulls / self.rows if self.rows else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as a dict of Python values."""
        found: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("name", "type", "rows", "nulls", "null_share", "nans", "distinct")
        }
        found |= {"is_distinct_exact": self.is_distinct_exact, "min": self.min, "max": self.max}
        for name in ("values", "lengths", "norms"):
            spread = getattr(self, name)
            found[name] = None if spread is None else _spread_as_dict(spread)
        found["top"] = [{"value": o.value, "count": o.count, "share": o.share} for o in self.top]
        return found | {"are_top_exact": self.are_top_exact, "note": self.note}


@dataclass(frozen=True, slots=True)
class TableProfile:
    """The profile of a table; `LanceDataset.describe` returns it.

    Attributes:
        name: The table and the version.
        rows: Number of rows that were read.
        total: Number of rows that there are; greater than `rows` if a sample was read.
        columns: The profiles of the columns by name, members of structs after their structs.
    """

    name: str
    rows: int
    total: int
    columns: Mapping[str, ColumnProfile]

    def __repr__(self) -> str:
        return f"<{self._title()}; to_table() has a row for each column>"

    def _repr_html_(self) -> str:
        rows = [
            ["" if value is None else cell(value) for value in row.values()]
            for row in self.to_table().to_pylist()
        ]
        title = as_html(f"<{self._title()}>")
        return f"<div>{title}</div>{html_table(_ROW.names, rows)}"

    def _title(self) -> str:
        sizes = f"{plural(self.rows, 'row')}, {plural(len(self.columns), 'column')}"
        return f"TableProfile of {self.name}: {sizes}"

    def drift(self, older: TableProfile) -> tuple[ColumnDrift, ...]:
        """Compare the distribution of each column with that in another profile.

        Columns are matched by name, in the order of this profile; columns that only the older one
        has come last.

        Args:
            older: The profile of an older version, or of other rows.
        """
        from lancefs.profile.drift import compare

        return compare(older, self)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as a dict of Python values."""
        columns = [column.to_dict() for column in self.columns.values()]
        return {"table": self.name, "rows": self.rows, "total": self.total, "columns": columns}

    def to_table(self) -> pa.Table:
        """Return a row for each column: counts, and the other facts as numbers or short texts."""

        def text(value: Any) -> str | None:
            return None if value is None else cell(value)

        rows = [
            {
                "column": column.name,
                "type": column.type,
                "rows": column.rows,
                "nulls": column.nulls,
                "distinct": column.distinct,
                "min": text(column.min),
                "max": text(column.max),
                "mean": text(column.values.mean if column.values else None),
                "median": text(column.values.quantiles.get(0.5) if column.values else None),
                "spread": _bars(column),
                "mean_length": column.lengths.mean if column.lengths else None,
                "mean_norm": column.norms.mean if column.norms else None,
                "top": text(column.top[0].value if column.top else None),
                "top_share": column.top[0].share if column.top else None,
            }
            for column in self.columns.values()
        ]
        return pa.Table.from_pylist(rows, _ROW)


_ROW = pa.schema(
    [
        *(("column", pa.string()), ("type", pa.string())),
        *((name, pa.int64()) for name in ("rows", "nulls", "distinct")),
        *((name, pa.string()) for name in ("min", "max", "mean", "median", "spread")),
        *((name, pa.float64()) for name in ("mean_length", "mean_norm")),
        *(("top", pa.string()), ("top_share", pa.float64())),
    ]
)


def _bars(column: ColumnProfile) -> str | None:
    """Return the histogram of a column's values, lengths or norms as a text."""
    spread = column.values or column.lengths or column.norms
    return None if spread is None or spread.histogram is None else spread.histogram.bars


def _spread_as_dict(spread: Spread) -> dict[str, Any]:
    histogram = spread.histogram
    return {
        "min": spread.min,
        "max": spread.max,
        "mean": spread.mean,
        "deviation": spread.deviation,
        "quantiles": {f"{share:g}": value for share, value in spread.quantiles.items()},
        "histogram": histogram
        and {"edges": list(histogram.edges), "shares": list(histogram.shares)},
        "is_exact": spread.is_exact,
    }
