"""The charts of a report: SVG by matplotlib, with the page's colours.

Each chart is drawn twice, for wide and for narrow screens; the page shows one of them. Colours are
written as names of the page's own, so that they follow its light and dark themes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from lancefs.cli.render.text import count, share, size
from lancefs.cli.report.facts import Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that stand for those of the page: matplotlib wants real ones.
_INK, _MUTED, _GRID = "#010101", "#020202", "#030303"
_CARD = "#0c0c0c"
_FILL, _GOOD, _BAD = "#040404", "#050505", "#060606"
_SERIES = ("#040404", "#070707", "#080808", "#090909", "#0a0a0a", "#0b0b0b")
_PAGE_COLOURS = {
    _INK: "--ink",
    _MUTED: "--muted",
    _GRID: "--line",
    _CARD: "--card",
    _FILL: "--c1",
    _GOOD: "--good",
    _BAD: "--bad",
    **{colour: f"--c{number}" for number, colour in enumerate(_SERIES, 1)},
}
_MOST_BARS = {"wide": 120, "narrow": 40}
_MOST_COLUMNS = 15
_MOST_DOTS = 200
_LONGEST_NAME = {"wide": 28, "narrow": 14}
_WIDTHS = {"wide": 9.6, "narrow": 4.3}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        title: What it shows.
        text: The same in words, for those who do not see it.
        svg: How it looks, by the width of the screen.
    """

    title: str
    text: str
    svg: dict[str, str]


class _Canvas:
    """Axes with the look of the page, and with texts that show when a pointer rests on a mark."""

    def __init__(self, screen: str, height: float) -> None:
        from matplotlib.figure import Figure

        self.screen = screen
        self.figure = Figure(figsize=(_WIDTHS[screen], height), layout="constrained")
        self.axes: Axes = self.figure.add_subplot()
        self._tips: list[str] = []
        self.axes.tick_params(colors=_MUTED, labelsize=9, length=0)
        self.axes.grid(axis="y", color=_GRID, linewidth=0.7)
        self.axes.set_axisbelow(True)
        for name, spine in self.axes.spines.items():
            spine.set_visible(name == "bottom")
            spine.set_color(_GRID)

    def tip(self, mark: Any, text: str) -> None:
        """Give a mark the text that shows when a pointer rests on it."""
        mark.set_gid(f"tip-{len(self._tips)}")
        self._tips.append(text)

    def counts(self, axis: str, show: Callable[[float], str] | None = None) -> None:
        """Show the numbers of an axis as people write them."""
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        chosen = self.axes.yaxis if axis == "y" else self.axes.xaxis
        chosen.set_major_locator(MaxNLocator(5, integer=True))
        chosen.set_major_formatter(FuncFormatter(lambda v, _: (show or _short)(v)))

    def svg(self, salt: str) -> str:
        """Return the drawing as an element of a page."""
        import matplotlib

        sink = io.StringIO()
        settings: dict[str, Any] = {
            "svg.fonttype": "none",
            "svg.hashsalt": f"{salt}-{self.screen}",
            "font.family": "sans-serif",
            "path.simplify": False,
            "text.parse_math": False,
        }
        with matplotlib.rc_context(settings):
            self.figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None})
        text = sink.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        for colour, name in _PAGE_COLOURS.items():
            text = text.replace(colour, f"var({name})")
        # Ids are of the whole page, and both variants of a chart are in it.
        prefix = f"{salt}-{self.screen}-"
        for number, tip in enumerate(self._tips):
            group = f'<g id="tip-{number}">'
            text = text.replace(group, f"<g><title>{escape(tip)}</title>")
        text = re.sub(r'\bid="', f'id="{prefix}', text)
        text = text.replace('xlink:href="#', f'xlink:href="#{prefix}')
        return text.replace("url(#", f"url(#{prefix}")


def timeline(facts: Facts) -> Chart:
    """Draw the rows of each version, with what was added and deleted, and the tags."""
    commits = [one for one in facts.commits if one.rows is not None]
    tags = sum(len(one.tags) for one in facts.commits)
    text = (
        f"Rows of the versions {commits[0].version} to {commits[-1].version}, from "
        f"{count(commits[0].rows)} to {count(commits[-1].rows)}; {tags} tags."
        if commits
        else "The rows of the versions are not known."
    )
    return _both(
        "Rows by version", text, "timeline", lambda screen: _draw_timeline(commits, screen)
    )


def fragments(facts: Facts) -> Chart:
    """Draw the rows of each fragment, live and deleted."""
    text = (
        f"{len(facts.manifest.fragments)} fragments, {count(facts.rows)} rows, "
        f"{count(facts.deleted)} deleted rows."
    )
    return _both(
        "Rows by fragment", text, "fragments", lambda screen: _draw_fragments(facts, screen)
    )


def storage(facts: Facts) -> Chart:
    """Draw the bytes of the largest columns, by encoding."""
    text = f"{size(facts.usage.total)} in data files, by column and encoding."
    return _both("Bytes by column", text, "storage", lambda screen: _draw_storage(facts, screen))


def _both(title: str, text: str, salt: str, draw: Callable[[str], _Canvas]) -> Chart:
    return Chart(title, text, {screen: draw(screen).svg(salt) for screen in _WIDTHS})


def _draw_timeline(commits: Sequence[Any], screen: str) -> _Canvas:
    canvas = _Canvas(screen, 3.0)
    axes = canvas.axes
    versions = [one.version for one in commits]
    rows = [one.rows for one in commits]
    axes.fill_between(versions, rows, step="mid", color=_FILL, alpha=0.16, linewidth=0)
    axes.step(versions, rows, where="mid", color=_FILL, linewidth=1.6)
    top = max([*rows, 1])
    _draw_marks(canvas, commits)
    tagged = [one for one in commits if one.tags]
    for one in tagged[-6:]:
        axes.annotate(
            ", ".join(one.tags)[:18],
            (one.version, one.rows),
            xytext=(0, 11),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=_INK,
            # The line of the next version may run behind it.
            bbox={"boxstyle": "round,pad=0.15", "facecolor": _CARD, "edgecolor": "none"},
        )
    axes.set_ylim(0, top * 1.2)
    if versions:
        axes.set_xlim(versions[0] - 0.6, versions[-1] + 0.6)
    axes.set_xlabel("version", color=_MUTED, fontsize=9)
    canvas.counts("x", lambda value: f"{value:.0f}")
    canvas.counts("y")
    return canvas


def _draw_marks(canvas: _Canvas, commits: Sequence[Any]) -> None:
    """Draw a dot for each version; where they are many, without what it says of itself."""
    size_of_dots = _dot_size(len(commits))
    if len(commits) > _MOST_DOTS:
        for colour in (_GOOD, _BAD):
            some = [one for one in commits if _mark(one) == colour]
            canvas.axes.plot(
                [one.version for one in some],
                [one.rows for one in some],
                "o",
                color=colour,
                markersize=size_of_dots,
            )
        return
    for one in commits:
        change = f"+{one.rows_added or 0:,} −{one.rows_deleted or 0:,}"
        when = f"{one.timestamp:%Y-%m-%d %H:%M}" if one.timestamp else ""
        tip = f"version {one.version}: {one.rows:,} rows ({change})\n{one.summary or ''}\n{when}"
        (dot,) = canvas.axes.plot(
            [one.version], [one.rows], "o", color=_mark(one), markersize=size_of_dots
        )
        canvas.tip(dot, tip)


def _dot_size(number: int) -> float:
    return 5.5 if number <= 60 else 3.0 if number <= 300 else 1.6


def _mark(commit: Any) -> str:
    """The colour of a version: what it did to the rows, on the whole."""
    change = (commit.rows_added or 0) - (commit.rows_deleted or 0)
    return _GOOD if change > 0 else _BAD if change < 0 else _MUTED


def _draw_fragments(facts: Facts, screen: str) -> _Canvas:
    canvas = _Canvas(screen, 2.6)
    found = list(facts.manifest.fragments)
    bars = _grouped(found, _MOST_BARS[screen])
    for position, group in enumerate(bars):
        live = sum(one.num_rows or 0 for one in group)
        gone = sum(one.num_deleted or 0 for one in group)
        sizes = sum(file.size or 0 for one in group for file in one.files)
        name = (
            f"fragment {group[0].id}"
            if len(group) == 1
            else f"fragments {group[0].id}–{group[-1].id}"
        )
        part = gone / (live + gone) if live + gone else 0.0
        tip = f"{name}: {live:,} rows, {share(part)} deleted, {size(sizes)}"
        for bottom, height, colour in ((0, live, _FILL), (live, gone, _BAD)):
            (bar,) = canvas.axes.bar([position], [height], bottom=bottom, width=0.82, color=colour)
            canvas.tip(bar, tip)
    grouped = len(bars) < len(found)
    labels = [group[0].id for group in bars]
    step = max(1, -(-len(bars) // (12 if screen == "wide" else 6)))
    canvas.axes.set_xticks(range(0, len(bars), step), [str(one) for one in labels[::step]])
    title = f"fragment, {len(bars[0])} together" if grouped else "fragment"
    canvas.axes.set_xlabel(title, color=_MUTED, fontsize=9)
    if len(bars) < 6:  # a few bars alone would fill the chart
        canvas.axes.set_xlim(-0.8, 5.2)
    canvas.counts("y")
    return canvas


def _grouped(found: Sequence[Any], most: int) -> list[list[Any]]:
    """Put neighbours together, so that there are few enough bars to be seen."""
    together = max(1, -(-len(found) // most))
    return [list(found[i : i + together]) for i in range(0, len(found), together)]


def _draw_storage(facts: Facts, screen: str) -> _Canvas:
    usage = facts.usage
    columns = sorted(usage.columns, key=lambda one: -one.bytes)[:_MOST_COLUMNS]
    columns = [one for one in columns if one.bytes]
    rows: list[tuple[str, dict[str, int]]] = [(one.name, one.encodings) for one in columns]
    for name, total in (("(gone columns)", usage.tombstoned), ("(metadata)", usage.overhead)):
        if total:
            rows.append((name, {name.strip("()"): total}))
    names = _ranked([encodings for _, encodings in rows])
    canvas = _Canvas(screen, 0.8 + 0.27 * max(len(rows), 2))
    axes = canvas.axes
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=_GRID, linewidth=0.7)
    for position, (name, encodings) in enumerate(rows):
        left = 0
        for encoding in sorted(encodings, key=names.index):
            colour = _MUTED if name.startswith("(") else _SERIES[names.index(encoding) % 6]
            (bar,) = axes.barh(
                [position], [encodings[encoding]], left=left, height=0.7, color=colour
            )
            canvas.tip(bar, f"{name}: {size(encodings[encoding])}, {encoding}")
            left += encodings[encoding]
    axes.set_yticks(range(len(rows)), [_fitting(name, screen) for name, _ in rows])
    axes.tick_params(axis="y", labelcolor=_INK)
    axes.invert_yaxis()
    axes.set_xticks(_byte_ticks(max(sum(encodings.values()) for _, encodings in rows)))
    axes.xaxis.set_major_formatter(lambda value, _: size(value).replace(".0 ", " "))
    return canvas


def _byte_ticks(largest: int) -> list[int]:
    """Return round numbers of bytes up to the largest: 0, 512 KiB, 1 MiB, …"""
    step = 1
    while step * 4 < largest:
        step *= 2
    return list(range(0, largest + 1, step))


def legend(facts: Facts) -> list[tuple[str, str]]:
    """Return the encodings of the storage chart, each with the name of its colour."""
    columns = sorted(facts.usage.columns, key=lambda one: -one.bytes)[:_MOST_COLUMNS]
    names = _ranked([one.encodings for one in columns])
    return [(name, _PAGE_COLOURS[_SERIES[i % 6]]) for i, name in enumerate(names[:6])]


def _ranked(encodings: Sequence[dict[str, int]]) -> list[str]:
    """Encodings, those with the most bytes first, so that colours say the same everywhere."""
    totals: dict[str, int] = {}
    for one in encodings:
        for name, number in one.items():
            totals[name] = totals.get(name, 0) + number
    real = [name for name in totals if name not in ("gone columns", "metadata")]
    ranked = sorted(real, key=lambda name: -totals[name])
    return ranked + [name for name in totals if name not in ranked]


def _fitting(name: str, screen: str) -> str:
    longest = _LONGEST_NAME[screen]
    shown = "".join(one if one.isprintable() else "?" for one in name)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _short(value: float) -> str:
    for step, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= step:
            return f"{value / step:g} {unit}"
    return f"{value:g}"
