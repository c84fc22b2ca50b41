"""What the values of columns are like, as a part of a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lancefs.cli.render.text import plural, share
from lancefs.cli.report.markup import folded, meter, table
from lancefs.printable import as_html, shortened
from lancefs.profile.profiles import ColumnProfile, Histogram, Spread, TableProfile
from lancefs.short_texts import cell

_TITLES = ("column", "type", "missing", "different", "least", "median", "greatest", "mean")
_NUMBERS = (2, 3, 4, 5, 6, 7)
_MAX_CHARACTERS = 24  # of a value
_MAX_TOP = 5
_MAX_OPEN = 25  # columns
# Pixels of a histogram.
_WIDTH, _HEIGHT = 160, 32


def describe_values(profile: TableProfile) -> str:
    """Return a table of the columns, with histograms and frequent values."""
    rows = [row for column in profile.columns.values() for row in _rows(column)]
    what = f"{plural(profile.rows, 'row')} were read"
    if profile.rows < profile.total:
        what = f"{profile.rows:,} rows of {profile.total:,} were drawn at random"
    about = f"<p>{as_html(what)}; ≈ marks numbers that are not exact.</p>"
    every = table((*_TITLES, "spread", "most frequent"), rows, _NUMBERS)
    summary = plural(len(profile.columns), "column")
    return about + folded(summary, every, is_open=len(rows) <= _MAX_OPEN)


def _rows(column: ColumnProfile) -> Iterator[list[str]]:
    """Yield the lines of a column, as HTML."""
    nulls = f"{share(column.null_share)} {meter(column.null_share)}" if column.nulls else ""
    about = "" if column.is_distinct_exact else "≈ "
    distinct = "" if column.distinct is None else f"{about}{column.distinct:,}"
    first = [as_html(column.name), as_html(column.type), nulls, distinct]
    frequent = as_html(column.note) if column.note else _frequent(column)
    if column.values is not None:
        yield [*first, *_spread(column.values), frequent]
    else:
        yield [*first, _value(column.min), "", _value(column.max), "", "", frequent]
    for name, spread in (("length", column.lengths), ("norm", column.norms)):
        if spread is not None:
            yield [f"<small>its {name}</small>", "", "", "", *_spread(spread), ""]


def _spread(spread: Spread) -> list[str]:
    about = "" if spread.is_exact else "≈ "
    mean = f"{spread.mean:.6g}" if isinstance(spread.mean, float) else _value(spread.mean)
    median = f"{about}{_value(spread.quantiles.get(0.5))}"
    shown = "" if spread.histogram is None else _histogram(spread.histogram)
    return [_value(spread.min), median, _value(spread.max), mean, shown]


def _histogram(histogram: Histogram) -> str:
    """Return a histogram as SVG, in the colours of the page; bars tell their bounds and share."""
    most = max(histogram.shares, default=0) or 1
    step = _WIDTH / max(len(histogram.shares), 1)
    bars = []
    for position, part in enumerate(histogram.shares):
        low, high = histogram.edges[position : position + 2]
        height = max(part / most * _HEIGHT, 1 if part else 0)
        tip = as_html(f"{cell(low)} to {cell(high)}: {share(part)}")
        bars.append(
            f'<rect x="{position * step:.1f}" y="{_HEIGHT - height:.1f}" width="{step - 1:.1f}" '
            f'height="{height:.1f}"><title>{tip}</title></rect>'
        )
    text = as_html(f"from {cell(histogram.edges[0])} to {cell(histogram.edges[-1])}")
    return (
        f'<svg class="bars" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" aria-label="Histogram {text}">{"".join(bars)}</svg>'
    )


def _frequent(column: ColumnProfile) -> str:
    """Return the most frequent values with their shares, unless each occurs once."""
    about = "" if column.are_top_exact else "≈ "
    return ", ".join(
        f"{_value(one.value)} <small>{about}{share(one.share)}</small>"
        for one in column.top[:_MAX_TOP]
        if one.count > 1
    )


def _value(value: Any) -> str:
    """Return a value as HTML; nothing for None."""
    if value is None:
        return ""
    return as_html(shortened(cell(value), _MAX_CHARACTERS))
