"""How the values of columns differ between two profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from lancefs.profile.profiles import ColumnProfile, Spread, TableProfile

# Number of values that are named: those whose shares changed most.
_MAX_VALUES = 10
_NUMBERS = (int, float, Decimal)


@dataclass(frozen=True, slots=True)
class ShareChange:
    """A value whose share of the rows changed.

    Attributes:
        value: The value; None for missing ones.
        old: Its share before.
        new: Its share now.
    """

    value: Any
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """How the values of a column differ.

    Attributes:
        name: The column.
        change: `added` or `dropped` where one of the profiles lacks the column, `retyped` where its
            type is another; None else.
        old: Its profile before; None where there was no such column.
        new: Its profile now; None where there is none.
        distance: How far the distributions are apart, from 0 (alike) to 1. Of numbers, times,
            lengths and norms the largest difference of the shares of values up to any number
            (Kolmogorov and Smirnov's), to half a percent; of other values half the sum of the
            differences of their shares, missing values among them; texts of more than 1,000
            different values are compared by their lengths. None where nothing compares.
        quantiles: Old and new quantiles, by their share.
        shares: The values whose shares changed most, the largest change first.
    """

    name: str
    change: Literal["added", "dropped", "retyped"] | None
    old: ColumnProfile | None
    new: ColumnProfile | None
    distance: float | None = None
    quantiles: Mapping[float, tuple[Any, Any]] | None = None
    shares: tuple[ShareChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return all that is known, as Python values."""
        quantiles = (self.quantiles or {}).items()
        return {
            "name": self.name,
            "change": self.change,
            "distance": self.distance,
            "quantiles": {f"{share:g}": list(values) for share, values in quantiles},
            "shares": [{"value": o.value, "old": o.old, "new": o.new} for o in self.shares],
            "old": self.old and self.old.to_dict(),
            "new": self.new and self.new.to_dict(),
        }


def compare(old: TableProfile, new: TableProfile) -> tuple[ColumnDrift, ...]:
    """Tell how the values of each column differ between two profiles.

    Args:
        old: The profile before.
        new: The profile now, in whose order the columns come; dropped ones come last.
    """
    names = [*new.columns, *(name for name in old.columns if name not in new.columns)]
    return tuple(_drift(name, old.columns.get(name), new.columns.get(name)) for name in names)


def _drift(name: str, old: ColumnProfile | None, new: ColumnProfile | None) -> ColumnDrift:
    if old is None or new is None:
        return ColumnDrift(name, "added" if old is None else "dropped", old, new)
    is_retyped = old.type != new.type
    if not (old.rows and new.rows):
        return ColumnDrift(name, "retyped" if is_retyped else None, old, new)
    spreads = _spreads(old, new)
    if spreads is None:
        shares = [] if is_retyped else _share_changes(old, new)
        is_told = not is_retyped and old.has_all_values and new.has_all_values
        distance = sum(abs(one.new - one.old) for one in shares) / 2 if is_told else None
        quantiles = None
    else:
        shares = [] if is_retyped else _share_changes(old, new)
        distance = max(_distance(*spreads), abs(new.null_share - old.null_share))
        quantiles = {
            share: (spreads[0].quantiles.get(share), value)
            for share, value in spreads[1].quantiles.items()
        }
    shares = [one for one in shares if one.old != one.new][:_MAX_VALUES]
    change: Literal["retyped"] | None = "retyped" if is_retyped else None
    return ColumnDrift(name, change, old, new, distance, quantiles, tuple(shares))


def _spreads(old: ColumnProfile, new: ColumnProfile) -> tuple[Spread, Spread] | None:
    """Return what the distributions of columns are compared by; None for their frequent values."""
    for name in ("values", "norms"):
        before, now = getattr(old, name), getattr(new, name)
        if before is not None and now is not None and _are_alike(old, new):
            return before, now
    if old.has_all_values and new.has_all_values:
        return None
    if old.lengths is not None and new.lengths is not None:
        return old.lengths, new.lengths
    return None


def _are_alike(old: ColumnProfile, new: ColumnProfile) -> bool:
    """Whether the numbers of both have the same unit: a time is none of another type."""
    return old.type == new.type or all(isinstance(one.min, _NUMBERS) for one in (old, new))


def _distance(old: Spread, new: Spread) -> float:
    """Return the largest difference of the shares of values up to any number."""
    before, now = np.asarray(old.grid), np.asarray(new.grid)
    if not (len(before) and len(now)):
        return 0.0 if len(before) == len(now) else 1.0
    places = np.union1d(before, now)
    shares = [np.searchsorted(grid, places, side="right") / len(grid) for grid in (before, now)]
    return float(np.abs(shares[0] - shares[1]).max())


def _share_changes(old: ColumnProfile, new: ColumnProfile) -> list[ShareChange]:
    """Return the shares of missing and of frequent values, the largest change first.

    A value that one profile does not list is left out, unless that one lists all values.
    """
    before = {_key(one.value): one.share for one in old.frequent}
    now = {_key(one.value): one.share for one in new.frequent}
    values = {_key(one.value): one.value for one in (*old.frequent, *new.frequent)}
    changes = [
        ShareChange(value, before.get(key, 0.0), now.get(key, 0.0))
        for key, value in values.items()
        if (key in before or old.has_all_values) and (key in now or new.has_all_values)
    ]
    changes.append(ShareChange(None, old.null_share, new.null_share))
    return sorted(changes, key=lambda one: -abs(one.new - one.old))


def _key(value: Any) -> Any:
    """Return what tells values apart: NaN is one value."""
    return "nan" if isinstance(value, float) and value != value else (type(value), value)
