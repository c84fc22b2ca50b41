"""`lancefs log`: the versions of a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.render.grid import Column
from lancefs.cli.render.text import count, moment, words

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

    from lancefs.cli.render.rows import print_records
    from lancefs.table.history import HISTORY, read_history

    where = target.resolved
    beyond = 0
    if target.ref.version is not None or target.ref.tag is not None or target.ref.as_of:
        from lancefs.table.versions import list_versions

        files = list_versions(where.store)
        beyond = sum(file.version > where.file.version for file in files)
    wanted = None if newest is None else newest + beyond
    commits = list(read_history(where.store, where.root, where.branch, wanted))
    commits = commits[: len(commits) - beyond]
    commits = commits if reverse else commits[::-1]
    shown = [
        Column("version", "version", str, right=True, style="cyan"),
        Column("committed (UTC)", "timestamp", moment),
        Column("rows", "rows", count, right=True),
        Column("added", "rows_added", _signed("+"), right=True, style="green"),
        Column("deleted", "rows_deleted", _signed("−"), right=True, style="red"),
        Column("tags", "tags", words, style="yellow"),
        Column("operation", "summary", lambda value: value or "–"),
    ]
    if any(commit.schema_changes for commit in commits):
        shown.append(Column("schema", "schema_changes", words))
    if any(commit.message for commit in commits):
        shown.append(Column("message", "message", lambda value: value or ""))
    if any(commit.note for commit in commits):
        shown.append(Column("note", "note", lambda value: value or ""))
    branch = f" of the branch {where.branch}" if where.branch else ""
    caption = f"{len(commits):,} versions{branch}"
    print_records(HISTORY, [asdict(commit) for commit in commits], form, shown, caption)


def _signed(sign: str) -> Any:
    return lambda value: "–" if value is None else f"{sign}{value:,}" if value else ""
