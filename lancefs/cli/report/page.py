"""Page of a report: one HTML file, which loads nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.cli.render.text import count, moment, plural, share, size, words
from lancefs.cli.report import charts
from lancefs.cli.report.facts import MAX_VERSIONS, Facts
from lancefs.cli.report.findings import Finding, find
from lancefs.cli.report.markup import document, folded, meter, table
from lancefs.cli.report.values import describe_values
from lancefs.printable import as_html
from lancefs.table.fragments import sum_known
from lancefs.table.history import Commit

_MAX_VERSIONS = 30
_MAX_FRAGMENTS = 30


def make_page(facts: Facts) -> str:
    """Return the page about a version of a table."""
    return document(f"Lance table {facts.name}", report_body(facts))


def report_body(facts: Facts) -> str:
    """Return what a report says, as the parts of a page."""
    parts = (
        _top(facts),
        _findings(find(facts)),
        _section("versions", "Versions", _versions(facts)),
        _section("fragments", "Fragments", _fragments(facts)),
        _section("storage", "Storage", _storage(facts)),
        _section("schema", "Columns", _schema(facts)),
        _section("values", "Values", describe_values(facts.profile)) if facts.profile else "",
        _section("indices", "Indices", _indices(facts)) if facts.uncovered else "",
    )
    return "".join(parts)


def _top(facts: Facts) -> str:
    manifest = facts.manifest
    path, _, version = facts.name.rpartition("@")
    folder, _, name = path.rpartition("/")
    commits = [commit for commit in facts.commits if commit.version == manifest.version]
    tags = [tag for commit in commits for tag in commit.tags]
    numbers = (
        ("rows", count(manifest.num_rows)),
        ("columns", count(len(manifest.fields))),
        ("fragments", count(len(manifest.fragments))),
        ("in data files", size(facts.usage.total)),
        ("versions", count(facts.versions)),
    )
    shown = "".join(
        f"<div><dd>{as_html(value)}</dd><dt>{as_html(label)}</dt></div>" for label, value in numbers
    )
    writer = f", {manifest.writer}" if manifest.writer else ""
    marks = "".join(f' <span class="tag">{as_html(tag)}</span>' for tag in tags)
    about = f"committed {moment(manifest.timestamp)} UTC{writer}"
    if manifest.data_version:
        about += f", data format {manifest.data_version}"
    path_line = f'<p class="path">{as_html(folder)}/</p>' if folder else ""
    branches = f"<p>Branches: {as_html(words(facts.branches))}</p>" if facts.branches else ""
    return (
        f"<header>{path_line}"
        f'<h1>{as_html(name)} <span class="version">version {as_html(version)}</span>{marks}</h1>'
        f"<p>{as_html(about)}</p>{branches}<dl>{shown}</dl></header>"
    )


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return '<section class="findings"><p class="fine">Nothing stands out.</p></section>'
    items = "".join(
        f'<li class="{item.level}"><strong>{as_html(item.title)}</strong> {as_html(item.text)}</li>'
        for item in findings
    )
    return f'<section class="findings"><h2>What stands out</h2><ul>{items}</ul></section>'


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}"><h2>{as_html(title)}</h2>{body}</section>'


def _chart(chart: charts.Chart, below: str) -> str:
    variants = "".join(
        f'<div class="chart {screen}" role="img" aria-label="{as_html(chart.text)}">{svg}</div>'
        for screen, svg in chart.svg.items()
    )
    return f"<figure><figcaption>{as_html(chart.title)}</figcaption>{variants}{below}</figure>"


def _legend(entries: Sequence[tuple[str, ...]]) -> str:
    """Return a legend of texts, each with one colour or the colours of two halves."""
    items = "".join(
        f'<li><i style="background:{_background(*colours)}"></i>{as_html(text)}</li>'
        for text, *colours in entries
    )
    return f'<ul class="legend">{items}</ul>'


def _background(left: str, right: str | None = None) -> str:
    if right is None:
        return f"var({left})"
    return f"linear-gradient(90deg, var({left}) 50%, var({right}) 50%)"


def _versions(facts: Facts) -> str:
    shown = list(facts.commits)[::-1][:_MAX_VERSIONS]
    rows = list(map(version_cells, shown))
    titles = ("version", "committed (UTC)", "rows", "added", "deleted", "operation")
    every = table(titles, rows, (0, 2, 3, 4))
    summary = (
        f"The newest {len(rows):,} of {facts.versions:,} versions"
        if len(rows) < facts.versions
        else plural(len(rows), "version")
    )
    kinds = (
        ("rows were added", "--good"),
        ("rows were deleted", "--bad"),
        ("both", "--good", "--bad"),
        ("neither", "--muted"),
    )
    more = (
        f"<p>Of {facts.versions:,} versions, the chart shows the newest {MAX_VERSIONS:,}.</p>"
        if facts.versions > len(facts.commits)
        else ""
    )
    chart = _chart(charts.timeline(facts), _legend(kinds)) if facts.commits else ""
    return chart + more + folded(summary, every, is_open=len(rows) <= 12)


def version_cells(commit: Commit) -> list[str]:
    """Return the cells of a version: number, time, rows, added, deleted, and what was done."""
    below = (*commit.schema_changes, *([commit.note] if commit.note else []))
    return [
        str(commit.version),
        as_html(moment(commit.timestamp)),
        count(commit.rows),
        _signed("+", commit.rows_added, "good"),
        _signed("−", commit.rows_deleted, "bad"),
        as_html(commit.summary or "–")
        + "".join(f' <span class="tag">{as_html(tag)}</span>' for tag in commit.tags)
        + "".join(f"<br><small>{as_html(line)}</small>" for line in below),
    ]


def _signed(sign: str, number: int | None, style: str) -> str:
    return f'<span class="{style}">{sign}{number:,}</span>' if number else ""


def _fragments(facts: Facts) -> str:
    fragments = facts.manifest.fragments
    if not fragments:
        return "<p>There are none: the table is empty.</p>"
    rows = []
    for fragment in fragments[:_MAX_FRAGMENTS]:
        part = (
            fragment.num_deleted / fragment.physical_rows
            if fragment.num_deleted and fragment.physical_rows
            else 0.0
        )
        rows.append(
            [
                str(fragment.id),
                count(fragment.num_rows),
                f"{share(part)} {meter(part)}" if part else "",
                size(fragment.size),
                str(len(fragment.files)),
                as_html(words(sorted({file.version for file in fragment.files}))),
            ]
        )
    titles = ("fragment", "rows", "deleted", "bytes", "files", "format")
    summary = (
        f"The first {len(rows)} of {len(fragments):,}"
        if len(rows) < len(fragments)
        else "All of them"
    )
    kinds = (("rows", "--c1"), ("deleted rows", "--bad"))
    every = table(titles, rows, (0, 1, 2, 3, 4))
    return _chart(charts.fragments(facts), _legend(kinds)) + folded(summary, every)


def _storage(facts: Facts) -> str:
    usage = facts.usage
    if not usage.total:
        return "<p>There are no data files.</p>"
    rows = []
    for column in sorted(usage.columns, key=lambda column: -column.bytes):
        approximately = "≈ " if column.is_estimate else ""
        rows.append(
            [
                as_html(column.name),
                size(column.bytes),
                share(column.bytes / usage.total),
                f"{approximately}{size(column.memory)}",
                "–" if column.ratio is None else f"{column.ratio:.1f}",
                size(column.dead) if column.dead else "",
                as_html(words(sorted(column.encodings, key=lambda name: -column.encodings[name]))),
            ]
        )
    titles = ("column", "bytes", "share", "in memory", "ratio", "dead", "encoding")
    every = table(titles, rows, (1, 2, 3, 4, 5))
    note = (
        f"<p>{size(usage.unattributed)} are in files of format 0.1, which do not record the bytes "
        "of each column.</p>"
        if usage.unattributed
        else ""
    )
    has_chart = usage.unattributed < usage.total
    chart = _chart(charts.storage(facts), _legend(charts.legend(facts))) if has_chart else ""
    return chart + note + _left_out(facts) + folded(plural(len(rows), "column"), every)


def _left_out(facts: Facts) -> str:
    """Say how many columns are not in the chart, if any."""
    columns = sorted(facts.usage.columns, key=lambda column: -column.bytes)
    others = columns[charts.MAX_COLUMNS :]
    if not others:
        return ""
    rest = size(sum(column.bytes for column in others))
    return (
        f"<p>The chart shows the {charts.MAX_COLUMNS} largest of {len(columns):,} columns; the "
        f"others take {rest}.</p>"
    )


def _schema(facts: Facts) -> str:
    rows = [
        [
            f'<span style="padding-left:{row["depth"]}em">'
            f"{as_html(str(row['column']).rpartition('.')[2] or str(row['column']))}</span>",
            str(row["id"]),
            as_html(str(row["type"] or f"{row['logical_type']} (not known)")),
            "" if row["nullable"] else "never null",
            "<br>".join(as_html(text) for text in _changes(facts, str(row["column"]))),
        ]
        for row in facts.schema
    ]
    dropped = [
        f"version {commit.version}: {change}"
        for commit in facts.commits
        for change in commit.schema_changes
        if change.startswith("drop ")
    ]
    every = table(("column", "field id", "type", "", "history"), rows, (1,))
    every += "".join(f"<p><small>{as_html(text)}</small></p>" for text in dropped)
    return folded(plural(len(rows), "field"), every, is_open=len(rows) <= 25)


def _changes(facts: Facts, column: str) -> list[str]:
    """Return the schema changes of a column, oldest first, also under its earlier names."""
    changes: list[str] = []
    for commit in reversed(facts.commits):
        for change in commit.schema_changes:
            if _is_about(change, column):
                changes.append(f"version {commit.version}: {change}")
                if change.startswith("rename "):
                    column = change.removeprefix("rename ").removesuffix(f" to {column}")
    return changes[::-1]


def _is_about(change: str, column: str) -> bool:
    """Whether an entry of `Commit.schema_changes` is about a column."""
    verb, _, rest = change.partition(" ")
    if verb == "add":
        return rest.rpartition(": ")[0] == column
    if verb == "rename":
        return rest.endswith(f" to {column}")
    return rest.startswith(f"{column} from ") or change.startswith(f"{column} may ")


def _indices(facts: Facts) -> str:
    rows = []
    for name, uncovered in facts.uncovered.items():
        first, *_ = segments = facts.indices[name]
        covered = 1 - uncovered / facts.rows if uncovered is not None and facts.rows else None
        rows.append(
            [
                as_html(name),
                as_html(first.type or "not known"),
                as_html(words(first.columns)),
                "–" if covered is None else f"{share(covered)} {meter(covered, good=True)}",
                count(uncovered),
                size(sum_known(segment.size for segment in segments)),
            ]
        )
    titles = ("index", "kind", "columns", "coverage", "rows not covered", "bytes")
    return table(titles, rows, (3, 4, 5))
