"""The pages `log`, `schema`, `describe` and `report`, which tables of the other commands fill."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from lancefs.cli.commands.schema import field_rows
from lancefs.cli.pages.page_request import PageRequest, link, tree_path
from lancefs.cli.pages.parts import anchor, section
from lancefs.cli.render.text import plural
from lancefs.cli.report.facts import gather
from lancefs.cli.report.markup import table
from lancefs.cli.report.page import report_body, version_cells
from lancefs.cli.report.values import describe_values
from lancefs.errors import UnsupportedFeature
from lancefs.forks import Lock
from lancefs.printable import as_html
from lancefs.table.history import Commit, read_history
from lancefs.table.refs import Ref
from lancefs.table.tags_and_branches import list_branches
from lancefs.table.versions import list_versions
from lancefs.views.tree import quote_column

# Versions on a page, by default and at most.
_SHOWN = 100
_MOST = 10_000

# Larger tables are described by so many rows, drawn at random.
_SAMPLE = 100_000
# matplotlib's settings belong to the process.
_ONE_AT_A_TIME = Lock()


def log_page(asked: PageRequest) -> str:
    """Return the versions, with what each did and links to its rows and its difference."""
    where = asked.target.resolved
    newest = min(asked.number("newest", _SHOWN), _MOST)
    total = len(list_versions(where.store))
    commits = list(read_history(where, newest))[::-1]
    rows = [_version_row(commit, where.branch) for commit in commits]
    titles = ("version", "committed (UTC)", "rows", "added", "deleted", "", "operation")
    said = f"<p>{plural(total, 'version')}"
    if len(commits) < total:
        more = link("log", ref=asked.query.get("ref", "latest"), newest=newest * 10)
        said += f", of them the newest {len(commits):,}: {anchor(more, 'show more')}"
    branches = sorted(list_branches(where.root))
    names = [Ref(), *(Ref(branch=name) for name in branches)] if branches else []
    links = " ".join(anchor(link("log", ref=str(ref)), ref.branch or "main") for ref in names)
    branches_line = f"<p>Branches: {links}</p>" if names else ""
    return section(f"{said}</p>{branches_line}{table(titles, rows, (0, 2, 3, 4))}")


def _version_row(commit: Commit, branch: str | None) -> list[str]:
    """Return the cells of a version, as HTML."""
    ref = Ref(version=commit.version, branch=branch)
    links = [anchor(link("rows", ref=str(ref)), "rows")]
    if commit.read_version is not None and 0 < commit.read_version < commit.version:
        before = Ref(version=commit.read_version, branch=branch)
        compared = link("diff", old=str(before), new=str(ref))
        links.append(anchor(compared, "changes"))
    cells = version_cells(commit)
    cells[0] = anchor(f"{tree_path(ref)}/", cells[0])
    return [*cells[:5], " ".join(links), cells[5]]


def schema_page(asked: PageRequest) -> str:
    """Return the columns with their types, and links to their files and values."""
    rows = []
    for row in field_rows(asked.target.manifest.fields):
        name, depth = str(row["column"]), int(str(row["depth"]))
        links = ""
        if depth == 0:
            file = f"{tree_path(asked.ref)}/columns/{quote(quote_column(name))}.arrow"
            values = link("describe", ref=str(asked.ref), column=name)
            links = f"{anchor(file, 'file')} {anchor(values, 'values')}"
        indent = "&emsp;" * depth
        rows.append(
            [
                f"{indent}{as_html(name if depth == 0 else name.rpartition('.')[2])}",
                as_html(str(row["type"] or row["problem"] or "not known to this release")),
                "" if row["nullable"] else "never",
                "key" if row["key"] else "",
                links,
            ]
        )
    return section(table(("column", "type", "null", "", ""), rows))


def describe_page(asked: PageRequest) -> str:
    """Return nulls, quantiles, histograms and frequent values of a column, or of all."""
    column = asked.query.get("column")
    sample = _SAMPLE if asked.dataset.count_rows() > _SAMPLE else None
    profile = asked.dataset.describe(None if column is None else [column], sample=sample)
    return section(describe_values(profile))


def report_page(asked: PageRequest) -> str:
    """Return versions, fragments, storage, columns, indices, and what stands out."""
    try:
        import matplotlib  # noqa: F401  # charts need it
    except ImportError:
        raise UnsupportedFeature(
            "the report needs matplotlib, which the server lacks: pip install 'lancefs[report]'"
        ) from None
    facts = replace(gather(asked.target), name=asked.title)  # not where the table is
    with _ONE_AT_A_TIME:
        return report_body(facts)
