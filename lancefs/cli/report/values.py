"""What the values of columns are like, as a part of a page."""

from __future__ import annotations

from lancefs.cli.render.profile import ProfileLine, lines_of
from lancefs.cli.render.text import plural, share
from lancefs.cli.report.markup import folded, meter, table
from lancefs.printable import as_html
from lancefs.profile.profiles import Histogram, TableProfile
from lancefs.short_texts import cell

_TITLES = ("column", "type", "missing", "different", "least", "median", "greatest", "mean")
_NUMBERS = (2, 3, 4, 5, 6, 7)
_MAX_TOP = 5
_MAX_OPEN = 25  # columns
# Pixels of a histogram.
_WIDTH, _HEIGHT = 160, 32


def describe_values(profile: TableProfile) -> str:
    """Return a table of the columns, with histograms and frequent values."""
    every = profile.columns.values()
    rows = [_row(line) for column in every for line in lines_of(column, _MAX_TOP)]
    what = f"{plural(profile.rows, 'row')} were read"
    if profile.rows < profile.total:
        what = f"{profile.rows:,} rows of {profile.total:,} were drawn at random"
    about = f"<p>{as_html(what)}; ≈ marks numbers that are not exact.</p>"
    shown = table((*_TITLES, "spread", "most frequent"), rows, _NUMBERS)
    summary = plural(len(profile.columns), "column")
    return about + folded(summary, shown, is_open=len(rows) <= _MAX_OPEN)


def _row(line: ProfileLine) -> list[str]:
    name, nulls = as_html(line.name), line.nulls
    return [
        name if line.type else f"<small>{name}</small>",
        as_html(line.type),
        f"{share(nulls)} {meter(nulls)}" if nulls else "",
        line.distinct,
        *map(as_html, line.numbers),
        "" if line.histogram is None else _histogram(line.histogram),
        as_html(line.note)
        or ", ".join(f"{as_html(value)} <small>{part}</small>" for value, part in line.frequent),
    ]


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
