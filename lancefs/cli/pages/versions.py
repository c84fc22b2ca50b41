"""The page `log`: the versions of a branch, newest first."""

from __future__ import annotations

from lancefs.cli.pages.page_request import PageRequest, link, tree_path
from lancefs.cli.pages.parts import anchor, section
from lancefs.cli.render.text import count, moment, plural
from lancefs.cli.report.markup import table
from lancefs.printable import as_html
from lancefs.table.history import Commit, read_history
from lancefs.table.refs import Ref, list_branches
from lancefs.table.versions import list_versions

_SHOWN = 100
_MOST = 10_000


def make(asked: PageRequest) -> str:
    """Return the versions, with what each did and links to its rows and its difference."""
    where = asked.target.resolved
    newest = min(asked.number("newest", _SHOWN), _MOST)
    total = len(list_versions(where.store))
    commits = list(read_history(where.store, where.root, where.branch, newest))[::-1]
    rows = [_row(commit, where.branch) for commit in commits]
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


def _row(commit: Commit, branch: str | None) -> list[str]:
    """Return the cells of a version, as HTML."""
    ref = Ref(version=commit.version, branch=branch)
    links = [anchor(link("rows", ref=str(ref)), "rows")]
    if commit.read_version is not None and 0 < commit.read_version < commit.version:
        before = Ref(version=commit.read_version, branch=branch)
        compared = link("diff", old=str(before), new=str(ref))
        links.append(anchor(compared, "changes"))
    tags = "".join(f' <span class="tag">{as_html(tag)}</span>' for tag in commit.tags)
    schema = "".join(f"<br><small>{as_html(change)}</small>" for change in commit.schema_changes)
    note = f"<br><small>{as_html(commit.note)}</small>" if commit.note else ""
    return [
        anchor(f"{tree_path(ref)}/", str(commit.version)),
        as_html(moment(commit.timestamp)),
        count(commit.rows),
        _signed("+", commit.rows_added, "good"),
        _signed("−", commit.rows_deleted, "bad"),
        " ".join(links),
        f"{as_html(commit.summary or '–')}{tags}{schema}{note}",
    ]


def _signed(sign: str, number: int | None, style: str) -> str:
    return f'<span class="{style}">{sign}{number:,}</span>' if number else ""
