"""Profiles of columns as a grid: a line for each column, and for lengths and norms below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lancefs.cli.render.grid import GridColumn, print_grid
from lancefs.cli.render.text import plural, share
from lancefs.printable import shortened
from lancefs.profile.drift import ColumnDrift
from lancefs.profile.profiles import ColumnProfile, Histogram, Spread, TableProfile
from lancefs.short_texts import NULL, cell

_MAX_CHARACTERS = 26  # of a value
_MAX_TOP = 3
_MIN_CHANGE = 0.005  # of a share that is shown

_COLUMNS = (
    *(GridColumn(name, name, str) for name in ("column", "type")),
    *(GridColumn(name, name, str, right=True) for name in ("nulls", "distinct")),
    *(GridColumn(name, name, str, right=True) for name in ("min", "median", "max", "mean")),
    *(GridColumn(name, name, str) for name in ("spread", "most frequent")),
)
_DRIFT_COLUMNS = tuple(
    GridColumn(name, name, str)
    for name in ("column", "distance", "nulls", "distinct", "median", "mean", "shares")
)


def print_profile(profile: TableProfile) -> None:
    """Print a profile."""
    every = profile.columns.values()
    rows = [_row(line) for column in every for line in lines_of(column, _MAX_TOP)]
    caption = f"{plural(profile.rows, 'row')} of {profile.name}"
    if profile.rows < profile.total:
        caption = f"{profile.rows:,} rows at random, of {profile.total:,} of {profile.name}"
    print_grid(_COLUMNS, rows, caption)


def _row(line: ProfileLine) -> list[str]:
    name = line.name if line.type else f"  {line.name}"
    bars = "" if line.histogram is None else line.histogram.bars
    frequent = line.note or ", ".join(map(" ".join, line.frequent))
    nulls = share(line.nulls) if line.nulls else ""
    return [name, line.type, nulls, line.distinct, *line.numbers, bars, frequent]


def print_drift(old: TableProfile, new: TableProfile) -> None:
    """Print what differs between the values of two versions."""
    rows = [_drift_row(drift) for drift in new.drift(old)]
    caption = f"{plural(new.rows, 'row')} of {new.name}, {plural(old.rows, 'row')} of {old.name}"
    print_grid(_DRIFT_COLUMNS, rows, caption)


def _drift_row(drift: ColumnDrift) -> list[str]:
    old, new = drift.old, drift.new
    if old is None or new is None:
        known = new or old
        assert known is not None
        return [drift.name, drift.change or "", "", _distinct(known), "", "", ""]
    medians = (drift.quantiles or {}).get(0.5, (None, None))
    distance = "" if drift.distance is None else f"{drift.distance:.3f}"
    nulls = _change(share(old.null_share), share(new.null_share))
    shares = [
        f"{_value(one.value) or NULL} {share(one.old)} → {share(one.new)}"
        for one in drift.shares
        if abs(one.new - one.old) >= _MIN_CHANGE
    ]
    return [
        drift.name,
        f"{old.type} → {new.type}" if drift.change else distance,
        nulls if old.nulls or new.nulls else "",
        _change(_distinct(old), _distinct(new)),
        _change(*map(_value, medians)),
        _change(*(_mean(one.values.mean if one.values else None) for one in (old, new))),
        ", ".join(shares[:_MAX_TOP]),
    ]


def _change(old: str, new: str) -> str:
    return new if old == new else f"{old} → {new}"


class ProfileLine(NamedTuple):
    """A column, or the lengths or norms of its values, in texts; those that it has not are empty.

    Attributes:
        name: The column, or what is below it.
        type: Its type.
        nulls: Share of missing values.
        distinct: Number of different values.
        numbers: The least value, the median, the greatest value, the mean.
        histogram: How values are spread.
        note: Why there are no values.
        frequent: The most frequent values, with their shares, unless each occurs once.
    """

    name: str
    type: str
    nulls: float
    distinct: str
    numbers: Sequence[str]
    histogram: Histogram | None
    note: str = ""
    frequent: Sequence[tuple[str, str]] = ()


def lines_of(column: ColumnProfile, most_top: int) -> Iterator[ProfileLine]:
    """Yield the lines of a column, with so many frequent values."""
    about = "" if column.are_top_exact else "≈ "
    frequent = [
        (_value(one.value), f"{about}{share(one.share)}")
        for one in column.top[:most_top]
        if one.count > 1
    ]
    numbers = [_value(column.min), "", _value(column.max), ""]
    spread = column.values
    yield ProfileLine(
        column.name,
        column.type,
        column.null_share,
        _distinct(column),
        numbers if spread is None else _numbers(spread),
        None if spread is None else spread.histogram,
        column.note or "",
        frequent,
    )
    for name, below in (("length", column.lengths), ("norm", column.norms)):
        if below is not None:
            yield ProfileLine(f"its {name}", "", 0.0, "", _numbers(below), below.histogram)


def _distinct(column: ColumnProfile) -> str:
    about = "" if column.is_distinct_exact else "≈ "
    return "" if column.distinct is None else f"{about}{column.distinct:,}"


def _numbers(spread: Spread) -> list[str]:
    about = "" if spread.is_exact else "≈ "
    median = _value(spread.quantiles.get(0.5))
    return [_value(spread.min), f"{about}{median}", _value(spread.max), _mean(spread.mean)]


def _mean(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _value(value)


def _value(value: Any) -> str:
    return "" if value is None else shortened(cell(value), _MAX_CHARACTERS)
