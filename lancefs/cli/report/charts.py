"""Charts of a report: SVG by matplotlib, in the colours of the page.

Each chart is drawn twice, for wide and for narrow screens; the page shows one of both. The SVG
refers to colours by CSS variables of the page, so that charts follow its light and dark themes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancefs.cli.render.text import count, plural, share, size
from lancefs.cli.report.facts import Facts
from lancefs.printable import as_html, printable, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lancefs.cli.usage import ColumnUse

# Placeholders for the colours of the page, since matplotlib takes no CSS variables.
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
_MAX_BARS = {"wide": 120, "narrow": 40}
MAX_COLUMNS = 15
_MAX_TIPS = 200  # versions; charts of more have no texts on their dots
_DOTS = ((_GOOD, _GOOD), (_BAD, _BAD), (_GOOD, _BAD))  # versions that changed rows
_MAX_NAME = {"wide": 28, "narrow": 14}
_WIDTHS = {"wide": 9.6, "narrow": 4.3}


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart.

    Attributes:
        title: Title.
        text: Description, for screen readers.
        svg: SVG elements by the width of the screen, `wide` and `narrow`.
    """

    title: str
    text: str
    svg: dict[str, str]


class _Canvas:
    """Axes in the style of the page, with tooltips on marks."""

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
        """Add a tooltip to a mark."""
        mark.set_gid(f"tip-{len(self._tips)}")
        self._tips.append(text)

    def format_counts(self, axis: str, show: Callable[[float], str] | None = None) -> None:
        """Give an axis ticks at integers, with short labels: `20 k`.

        Args:
            axis: `x` or `y`.
            show: Formats a label; None for a number with a unit.
        """
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        chosen = self.axes.yaxis if axis == "y" else self.axes.xaxis
        # Of a single version there is one integer to see.
        chosen.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        chosen.set_major_formatter(FuncFormatter(lambda v, _: (show or _short)(v)))

    def svg(self, salt: str) -> str:
        """Return the drawing as an SVG element for an HTML page.

        Args:
            salt: Prefix of ids, unique in the page.
        """
        import matplotlib
        from matplotlib.text import Text

        sink = io.StringIO()
        settings: dict[str, Any] = {
            "svg.fonttype": "none",
            "svg.hashsalt": f"{salt}-{self.screen}",
            "font.family": "sans-serif",
            "path.simplify": False,
        }
        for one in self.figure.findobj(Text):  # ticks, which exist by now, have names of columns
            one.set_parse_math(False)
        with matplotlib.rc_context(settings):
            self.figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None})
        text = sink.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        for colour, name in _PAGE_COLOURS.items():
            text = text.replace(colour, f"var({name})")
        # Ids are unique in a page, and the page holds both variants of a chart.
        prefix = f"{salt}-{self.screen}-"
        for number, tip in enumerate(self._tips):
            group = f'<g id="tip-{number}">'
            title = "\n".join(map(as_html, tip.split("\n")))
            text = text.replace(group, f"<g><title>{title}</title>")
        text = re.sub(r'\bid="', f'id="{prefix}', text)
        text = text.replace('xlink:href="#', f'xlink:href="#{prefix}')
        return text.replace("url(#", f"url(#{prefix}")


def timeline(facts: Facts) -> Chart:
    """Draw the rows of each version, with what was added and deleted, and the tags."""
    commits = [commit for commit in facts.commits if commit.rows is not None]
    tags = sum(len(commit.tags) for commit in facts.commits)
    text = (
        f"Rows of the versions {commits[0].version} to {commits[-1].version}, from "
        f"{count(commits[0].rows)} to {count(commits[-1].rows)}; {plural(tags, 'tag')}."
        if commits
        else "The rows of the versions are not known."
    )
    return _draw_variants(
        "Rows by version", text, "timeline", lambda screen: _draw_timeline(commits, screen)
    )


def fragments(facts: Facts) -> Chart:
    """Draw the rows of each fragment, live and deleted."""
    text = (
        f"{plural(len(facts.manifest.fragments), 'fragment')}, {plural(facts.rows, 'row')}, "
        f"{plural(facts.deleted, 'deleted row')}."
    )
    return _draw_variants(
        "Rows by fragment", text, "fragments", lambda screen: _draw_fragments(facts, screen)
    )


def storage(facts: Facts) -> Chart:
    """Draw the bytes of the largest columns, by encoding."""
    text = f"{size(facts.usage.total)} in data files, by column and encoding."
    return _draw_variants(
        "Bytes by column", text, "storage", lambda screen: _draw_storage(facts, screen)
    )


def _draw_variants(title: str, text: str, salt: str, draw: Callable[[str], _Canvas]) -> Chart:
    return Chart(title, text, {screen: draw(screen).svg(salt) for screen in _WIDTHS})


def _draw_timeline(commits: Sequence[Any], screen: str) -> _Canvas:
    canvas = _Canvas(screen, 3.0)
    axes = canvas.axes
    versions = [commit.version for commit in commits]
    rows = [commit.rows for commit in commits]
    axes.fill_between(versions, rows, step="mid", color=_FILL, alpha=0.16, linewidth=0)
    axes.step(versions, rows, where="mid", color=_FILL, linewidth=1.6)
    top = max([*rows, 1])
    _draw_marks(canvas, commits)
    tagged = [commit for commit in commits if commit.tags]
    for commit in tagged[-6:]:
        axes.annotate(
            printable(", ".join(commit.tags))[:18],
            (commit.version, commit.rows),
            xytext=(0, 11),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=_INK,
            # The line of the next version may run behind the text.
            bbox={"boxstyle": "round,pad=0.15", "facecolor": _CARD, "edgecolor": "none"},
        )
    axes.set_ylim(0, top * 1.2)
    if versions:
        axes.set_xlim(versions[0] - 0.6, versions[-1] + 0.6)
    axes.set_xlabel("version", color=_MUTED, fontsize=9)
    canvas.format_counts("x", lambda value: f"{value:.0f}")
    canvas.format_counts("y")
    return canvas


def _draw_marks(canvas: _Canvas, commits: Sequence[Any]) -> None:
    """Draw a dot for each version, with a tooltip unless there are many versions."""
    dot_size = _dot_size(len(commits))
    if len(commits) > _MAX_TIPS:
        for colours in _DOTS:
            dots = [commit for commit in commits if _dot_colours(commit) == colours]
            _draw_dots(canvas, dots, colours, dot_size)
        return
    for commit in commits:
        change = f"+{commit.rows_added or 0:,} −{commit.rows_deleted or 0:,}"
        time = f"{commit.timestamp:%Y-%m-%d %H:%M}" if commit.timestamp else ""
        title = f"version {commit.version}: {plural(commit.rows, 'row')} ({change})"
        dot = _draw_dots(canvas, [commit], _dot_colours(commit), dot_size)
        canvas.tip(dot, f"{title}\n{commit.summary or ''}\n{time}")


def _dot_size(number: int) -> float:
    return 5.5 if number <= 60 else 3.0 if number <= 300 else 1.6


def _draw_dots(
    canvas: _Canvas, commits: Sequence[Any], colours: tuple[str, str], dot_size: float
) -> Any:
    left, right = colours
    (dots,) = canvas.axes.plot(
        [commit.version for commit in commits],
        [commit.rows for commit in commits],
        "o",
        fillstyle="full" if left == right else "left",
        color=left,
        markerfacecoloralt=right,
        markeredgewidth=0,
        markersize=dot_size,
    )
    return dots


def _dot_colours(commit: Any) -> tuple[str, str]:
    """Return the colours of the halves of a dot: whether rows were added, and whether deleted."""
    added, deleted = bool(commit.rows_added), bool(commit.rows_deleted)
    if not added and not deleted:
        return _MUTED, _MUTED
    return _GOOD if added else _BAD, _BAD if deleted else _GOOD


def _draw_fragments(facts: Facts, screen: str) -> _Canvas:
    canvas = _Canvas(screen, 2.6)
    fragments = list(facts.manifest.fragments)
    bars = _group(fragments, _MAX_BARS[screen])
    for position, group in enumerate(bars):
        live = sum(fragment.num_rows or 0 for fragment in group)
        deleted = sum(fragment.num_deleted or 0 for fragment in group)
        bytes_ = sum(file.size or 0 for fragment in group for file in fragment.files)
        name = (
            f"fragment {group[0].id}"
            if len(group) == 1
            else f"fragments {group[0].id}–{group[-1].id}"
        )
        part = deleted / (live + deleted) if live + deleted else 0.0
        tip = f"{name}: {plural(live, 'row')}, {share(part)} deleted, {size(bytes_)}"
        for bottom, height, colour in ((0, live, _FILL), (live, deleted, _BAD)):
            (bar,) = canvas.axes.bar([position], [height], bottom=bottom, width=0.82, color=colour)
            canvas.tip(bar, tip)
    is_grouped = len(bars) < len(fragments)
    labels = [str(group[0].id) for group in bars]
    step = max(1, -(-len(bars) // (12 if screen == "wide" else 6)))
    canvas.axes.set_xticks(range(0, len(bars), step), labels[::step])
    title = f"fragment, {len(bars[0])} together" if is_grouped else "fragment"
    canvas.axes.set_xlabel(title, color=_MUTED, fontsize=9)
    if len(bars) < 6:  # a few bars would be as wide as the chart
        canvas.axes.set_xlim(-0.8, 5.2)
    canvas.format_counts("y")
    return canvas


def _group(fragments: Sequence[Any], max_groups: int) -> list[list[Any]]:
    """Group neighbouring fragments, so that the bars are wide enough to be seen."""
    length = max(1, -(-len(fragments) // max_groups))
    return [list(fragments[i : i + length]) for i in range(0, len(fragments), length)]


def _draw_storage(facts: Facts, screen: str) -> _Canvas:
    usage = facts.usage
    columns = [column for column in _largest_columns(facts) if column.bytes]
    rows = [(column.name, column.encodings) for column in columns]
    for name, total in (("(dropped columns)", usage.tombstoned), ("(metadata)", usage.overhead)):
        if total:
            rows.append((name, {name.strip("()"): total}))
    names = _rank([encodings for _, encodings in rows])
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
    axes.set_yticks(range(len(rows)), [_shorten(name, screen) for name, _ in rows])
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
    """Return the encodings of the storage chart, each with the CSS variable of its colour."""
    names = _rank([column.encodings for column in _largest_columns(facts)])
    return [(name, _PAGE_COLOURS[_SERIES[i % 6]]) for i, name in enumerate(names[:6])]


def _largest_columns(facts: Facts) -> list[ColumnUse]:
    return sorted(facts.usage.columns, key=lambda column: -column.bytes)[:MAX_COLUMNS]


def _rank(encodings: Sequence[dict[str, int]]) -> list[str]:
    """Return the names of encodings, most bytes first; the rank of a name gives its colour.

    Args:
        encodings: Bytes by encoding of each column.
    """
    totals: dict[str, int] = {}
    for column in encodings:
        for name, number in column.items():
            totals[name] = totals.get(name, 0) + number
    real = [name for name in totals if name not in ("dropped columns", "metadata")]
    ranked = sorted(real, key=lambda name: -totals[name])
    return ranked + [name for name in totals if name not in ranked]


def _shorten(name: str, screen: str) -> str:
    return shortened(printable(name), _MAX_NAME[screen])


def _short(value: float) -> str:
    for step, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= step:
            return f"{value / step:g} {unit}"
    return f"{value:g}"
