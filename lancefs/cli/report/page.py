"""The page of a report: one file that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from lancefs import __version__
from lancefs.cli.render.text import count, moment, plural, share, size, words
from lancefs.cli.report import charts
from lancefs.cli.report.facts import MOST_VERSIONS, Facts
from lancefs.cli.report.findings import Finding, find

_SHOWN_VERSIONS = 30
_SHOWN_FRAGMENTS = 30


def make_page(facts: Facts) -> str:
    """Return the page about a version of a table."""
    style = (files("lancefs.cli.report") / "page.css").read_text("utf-8")
    title = escape(f"Lance table {facts.name}")
    parts = (
        _top(facts),
        _findings(find(facts)),
        _section("versions", "Versions", _versions(facts)),
        _section("fragments", "Fragments", _fragments(facts)),
        _section("storage", "Storage", _storage(facts)),
        _section("schema", "Columns", _schema(facts)),
        _section("indices", "Indices", _indices(facts)) if facts.indices else "",
    )
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{style}</style></head><body><main>"
        f"{''.join(parts)}"
        f"<footer>Made by lancefs {escape(__version__)}, {made}</footer>"
        "</main></body></html>\n"
    )


def _top(facts: Facts) -> str:
    manifest = facts.manifest
    path, _, version = facts.name.rpartition("@")
    folder, _, name = path.rpartition("/")
    tags = [tag for one in facts.commits if one.version == manifest.version for tag in one.tags]
    numbers = (
        ("rows", count(manifest.num_rows)),
        ("columns", count(len(manifest.fields))),
        ("fragments", count(len(manifest.fragments))),
        ("in data files", size(facts.usage.total)),
        ("versions", count(facts.versions)),
    )
    shown = "".join(
        f"<div><dd>{escape(value)}</dd><dt>{escape(label)}</dt></div>" for label, value in numbers
    )
    writer = f", {manifest.writer.library} {manifest.writer.version}" if manifest.writer else ""
    marks = "".join(f' <span class="tag">{escape(tag)}</span>' for tag in tags)
    about = f"committed {moment(manifest.timestamp)} UTC{writer}"
    if manifest.data_version:
        about += f", data format {manifest.data_version}"
    branches = f"<p>Branches: {escape(words(facts.branches))}</p>" if facts.branches else ""
    return (
        f'<header><p class="path">{escape(folder)}/</p>'
        f'<h1>{escape(name)} <span class="version">version {escape(version)}</span>{marks}</h1>'
        f"<p>{escape(about)}</p>{branches}<dl>{shown}</dl></header>"
    )


def _findings(found: Sequence[Finding]) -> str:
    if not found:
        return '<section class="findings"><p class="fine">Nothing stands out.</p></section>'
    items = "".join(
        f'<li class="{one.level}"><strong>{escape(one.title)}</strong> {escape(one.text)}</li>'
        for one in found
    )
    return f'<section class="findings"><h2>What stands out</h2><ul>{items}</ul></section>'


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape(title)}</h2>{body}</section>'


def _chart(chart: charts.Chart, below: str = "") -> str:
    drawn = "".join(
        f'<div class="chart {screen}" role="img" aria-label="{escape(chart.text)}">{svg}</div>'
        for screen, svg in chart.svg.items()
    )
    return f"<figure><figcaption>{escape(chart.title)}</figcaption>{drawn}{below}</figure>"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<li><i style="background:var({colour})"></i>{escape(text)}</li>'
        for text, colour in entries
    )
    return f'<ul class="legend">{items}</ul>'


def _table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> str:
    """A table; cells are HTML, and those of the columns `numbers` are aligned on the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if position in numbers else ''}>{text}</{tag}>"
            for position, text in enumerate(cells)
        )

    head = line("th", [escape(title) for title in titles])
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _folded(summary: str, body: str, is_open: bool = False) -> str:
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{escape(summary)}</summary>{body}</details>"


def _versions(facts: Facts) -> str:
    shown = list(facts.commits)[::-1][:_SHOWN_VERSIONS]
    rows = [
        [
            str(one.version),
            escape(moment(one.timestamp)),
            count(one.rows),
            f'<span class="good">{f"+{one.rows_added:,}" if one.rows_added else ""}</span>',
            f'<span class="bad">{f"−{one.rows_deleted:,}" if one.rows_deleted else ""}</span>',
            escape(one.summary or one.note or "–")
            + "".join(f' <span class="tag">{escape(tag)}</span>' for tag in one.tags)
            + "".join(f"<br><small>{escape(change)}</small>" for change in one.schema_changes),
        ]
        for one in shown
    ]
    titles = ("version", "committed (UTC)", "rows", "added", "deleted", "operation")
    table = _table(titles, rows, (0, 2, 3, 4))
    told = f"The newest {len(rows):,} of {facts.versions:,} versions"
    summary = told if len(rows) < facts.versions else plural(len(rows), "version")
    kinds = (("rows were added", "--good"), ("rows were deleted", "--bad"), ("neither", "--muted"))
    more = (
        f"<p>Of {facts.versions:,} versions, the chart shows the newest {MOST_VERSIONS:,}.</p>"
        if facts.versions > len(facts.commits)
        else ""
    )
    chart = _chart(charts.timeline(facts), _legend(kinds)) if facts.commits else ""
    return chart + more + _folded(summary, table, is_open=len(rows) <= 12)


def _fragments(facts: Facts) -> str:
    found = facts.manifest.fragments
    if not found:
        return "<p>There are none: the table is empty.</p>"
    rows = []
    for one in found[:_SHOWN_FRAGMENTS]:
        part = one.num_deleted / one.physical_rows if one.num_deleted and one.physical_rows else 0.0
        rows.append(
            [
                str(one.id),
                count(one.num_rows),
                f"{share(part)} {_meter(part)}" if part else "",
                size(one.size),
                str(len(one.files)),
                escape(words(sorted({file.version for file in one.files}))),
            ]
        )
    titles = ("fragment", "rows", "deleted", "bytes", "files", "format")
    summary = (
        f"The first {len(rows)} of {len(found):,}" if len(rows) < len(found) else "All of them"
    )
    kinds = (("rows", "--c1"), ("deleted rows", "--bad"))
    table = _table(titles, rows, (0, 1, 2, 3, 4))
    return _chart(charts.fragments(facts), _legend(kinds)) + _folded(summary, table)


def _storage(facts: Facts) -> str:
    usage = facts.usage
    if not usage.total:
        return "<p>There are no data files.</p>"
    rows = []
    for one in sorted(usage.columns, key=lambda column: -column.bytes):
        around = "≈ " if one.is_estimate else ""
        rows.append(
            [
                escape(one.name),
                size(one.bytes),
                share(one.bytes / usage.total),
                f"{around}{size(one.memory)}",
                "–" if one.ratio is None else f"{one.ratio:.1f}",
                size(one.dead) if one.dead else "",
                escape(words(sorted(one.encodings, key=lambda name: -one.encodings[name]))),
            ]
        )
    titles = ("column", "bytes", "share", "in memory", "ratio", "dead", "encoding")
    table = _table(titles, rows, (1, 2, 3, 4, 5))
    told = (
        f"<p>{size(usage.untold)} are in files of the format 0.1, which do not tell their columns "
        "apart.</p>"
        if usage.untold
        else ""
    )
    is_told = usage.untold < usage.total
    chart = _chart(charts.storage(facts), _legend(charts.legend(facts))) if is_told else ""
    return chart + told + _folded(plural(len(rows), "column"), table)


def _schema(facts: Facts) -> str:
    rows = [
        [
            f'<span style="padding-left:{row["depth"]}em">'
            f"{escape(str(row['column']).rpartition('.')[2] or str(row['column']))}</span>",
            str(row["id"]),
            escape(str(row["type"] or f"{row['logical_type']} (not known)")),
            "" if row["nullable"] else "never null",
            "<br>".join(escape(text) for text in _changes(facts, str(row["column"]))),
        ]
        for row in facts.schema
    ]
    gone = [
        f"version {commit.version}: {change}"
        for commit in facts.commits
        for change in commit.schema_changes
        if change.startswith("drop ")
    ]
    table = _table(("column", "field id", "type", "", "history"), rows, (1,))
    table += "".join(f"<p><small>{escape(text)}</small></p>" for text in gone)
    return _folded(plural(len(rows), "field"), table, is_open=len(rows) <= 25)


def _changes(facts: Facts, column: str) -> list[str]:
    """Return what happened to a column, oldest first, under whatever names it had."""
    found: list[str] = []
    for commit in reversed(facts.commits):
        for change in commit.schema_changes:
            if _is_about(change, column):
                found.append(f"version {commit.version}: {change}")
                if change.startswith("rename "):
                    column = change.removeprefix("rename ").removesuffix(f" to {column}")
    return found[::-1]


def _is_about(change: str, column: str) -> bool:
    """Whether a change, as `Commit.schema_changes` puts it, is about a column."""
    verb, _, rest = change.partition(" ")
    if verb == "add":
        return rest.rpartition(": ")[0] == column
    if verb == "rename":
        return rest.endswith(f" to {column}")
    return rest.startswith(f"{column} from ") or change.startswith(f"{column} may ")


def _indices(facts: Facts) -> str:
    rows: list[Sequence[Any]] = []
    for one in facts.indices:
        covered = None
        if one.uncovered is not None and one.rows:
            covered = 1 - one.uncovered / one.rows
        rows.append(
            [
                escape(one.name),
                escape(one.kind),
                escape(words(one.columns)),
                "–" if covered is None else f"{share(covered)} {_meter(covered, good=True)}",
                count(one.uncovered),
                size(one.bytes),
            ]
        )
    titles = ("index", "kind", "columns", "coverage", "rows not covered", "bytes")
    return _table(titles, rows, (3, 4, 5))


def _meter(part: float, good: bool = False) -> str:
    colour = "--good" if good else "--bad"
    return (
        f'<span class="meter"><i style="width:{part * 100:.1f}%;background:var({colour})"></i>'
        "</span>"
    )
