"""`lancefs log`: the versions of a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.render.grid import GridColumn
from lancefs.cli.render.text import count, moment, plural, words

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs log orders.lance
    lancefs log orders.lance@exp:latest -n 20
    lancefs log orders.lance --format json | jq '.[] | select(.operation == "Delete")'
    """
)
@shared_options.table
@click.option("--newest", "-n", type=click.IntRange(min=1), help="At most this many versions.")
@click.option("--reverse", is_flag=True, help="The oldest first.")
@shared_options.output
def log(target: Target, newest: int | None, reverse: bool, form: str) -> None:
    """Show the versions, newest first: when, what was done, rows added and deleted, tags.

    With a ref, the versions of its branch up to that one.
    """
    from dataclasses import asdict

    from lancefs.cli.render.progress import progress
    from lancefs.cli.render.rows import print_records
    from lancefs.table.history import HISTORY, read_history
    from lancefs.table.versions import list_versions

    where = target.resolved
    files = list_versions(where.store)
    newer = 0
    if target.ref.version is not None or target.ref.tag is not None or target.ref.as_of:
        newer = sum(file.version > where.file.version for file in files)
    limit = None if newest is None else newest + newer
    commits = []
    with progress("reading", min(limit or len(files), len(files)), "versions") as shown:
        for commit in read_history(where.store, where.root, where.branch, limit):
            commits.append(commit)
            shown.advance(1)
    commits = commits[: len(commits) - newer]
    commits = commits if reverse else commits[::-1]
    columns = [
        GridColumn("version", "version", str, right=True, style="cyan"),
        GridColumn("committed (UTC)", "timestamp", moment),
        GridColumn("rows", "rows", count, right=True),
        GridColumn("added", "rows_added", _with_sign("+"), right=True, style="green"),
        GridColumn("deleted", "rows_deleted", _with_sign("−"), right=True, style="red"),
        GridColumn("tags", "tags", words, style="yellow"),
        GridColumn("operation", "summary", lambda value: value or "–"),
    ]
    if any(commit.schema_changes for commit in commits):
        columns.append(GridColumn("schema", "schema_changes", words))
    if any(commit.message for commit in commits):
        columns.append(GridColumn("message", "message", lambda value: value or ""))
    if any(commit.note for commit in commits):
        columns.append(GridColumn("note", "note", lambda value: value or ""))
    branch = f" of the branch {where.branch}" if where.branch else ""
    caption = f"{plural(len(commits), 'version')}{branch}"
    print_records(HISTORY, [asdict(commit) for commit in commits], form, columns, caption)


def _with_sign(sign: str) -> Any:
    return lambda value: "–" if value is None else f"{sign}{value:,}" if value else ""
