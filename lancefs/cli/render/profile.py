"""Profiles of columns as a grid: a line for each column, and for lengths and norms below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lancefs.cli.render.grid import GridColumn, print_grid
from lancefs.cli.render.text import plural, share
from lancefs.printable import shortened
from lancefs.profile.drift import ColumnDrift
from lancefs.profile.profiles import ColumnProfile, Spread, TableProfile
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
    rows = [row for column in profile.columns.values() for row in _rows(column)]
    caption = f"{plural(profile.rows, 'row')} of {profile.name}"
    if profile.rows < profile.total:
        caption = f"{profile.rows:,} rows at random, of {profile.total:,} of {profile.name}"
    print_grid(_COLUMNS, rows, caption)


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


def _distinct(column: ColumnProfile) -> str:
    about = "" if column.is_distinct_exact else "≈ "
    return "" if column.distinct is None else f"{about}{column.distinct:,}"


def _rows(column: ColumnProfile) -> Iterator[list[str]]:
    """Yield the lines of a column."""
    nulls = share(column.null_share) if column.nulls else ""
    first = [column.name, column.type, nulls, _distinct(column)]
    frequent = column.note or _frequent(column)
    if column.values is not None:
        yield [*first, *_numbers(column.values), frequent]
    else:
        yield [*first, _value(column.min), "", _value(column.max), "", "", frequent]
    for name, spread in (("length", column.lengths), ("norm", column.norms)):
        if spread is not None:
            yield [f"  its {name}", "", "", "", *_numbers(spread), ""]


def _numbers(spread: Spread) -> list[str]:
    median = spread.quantiles.get(0.5)
    about = "" if spread.is_exact else "≈ "
    values = [_value(spread.min), f"{about}{_value(median)}", _value(spread.max)]
    bars = "" if spread.histogram is None else spread.histogram.bars
    return [*values, _mean(spread.mean), bars]


def _mean(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _value(value)


def _value(value: Any) -> str:
    return "" if value is None else shortened(cell(value), _MAX_CHARACTERS)


def _frequent(column: ColumnProfile) -> str:
    """Return the most frequent values with their shares, unless each occurs once."""
    about = "" if column.are_top_exact else "≈ "
    top = [one for one in column.top[:_MAX_TOP] if one.count > 1]
    return ", ".join(f"{_value(one.value)} {about}{share(one.share)}" for one in top)
