"""`lancefs log`: the versions of a branch."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from lancefs.cli import shared_options
from lancefs.cli.exits import Failure, choices_hint
from lancefs.cli.render.grid import GridColumn
from lancefs.cli.render.text import count, moment, plural, words

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.table.history import Commit


@shared_options.command(
    examples="""
    lancefs log orders.lance
    lancefs log orders.lance@exp:latest -n 20
    lancefs log orders.lance -c version,writer,bytes
    lancefs log orders.lance --format json | jq '.[] | select(.operation == "Delete")'
    """
)
@shared_options.table
@click.option(
    "--newest", "-n", type=shared_options.WholeNumber(min=1), help="At most this many versions."
)
@click.option("--reverse", is_flag=True, help="The oldest first.")
@shared_options.names_option(
    "--columns", "-c", help="The facts to show, in this order, by the names that --format json has."
)
@shared_options.expanded
@shared_options.output
def log(
    target: Target,
    newest: int | None,
    reverse: bool,
    columns: list[str] | None,
    is_expanded: bool,
    form: str,
) -> None:
    """Show the versions, newest first: when, what was done, rows added and deleted, tags.

    With a ref, the versions of its branch up to that one.
    """
    from lancefs.cli.render.rows import print_expanded, print_records
    from lancefs.table.history import HISTORY

    schema = HISTORY if columns is None else _chosen(HISTORY, columns)
    commits = _commits(target, newest)
    commits = commits if reverse else commits[::-1]
    records = [asdict(commit) for commit in commits]
    if is_expanded:
        shown = [{name: record[name] for name in schema.names} for record in records]
        print_expanded(schema, pa.Table.from_pylist(shown, schema).to_batches(), form)
        return
    branch = f" of the branch {target.resolved.branch}" if target.resolved.branch else ""
    caption = f"{plural(len(commits), 'version')}{branch}"
    grid = _grid_columns(commits) if columns is None else [*map(_grid_column, columns)]
    print_records(schema, records, form, grid, caption)


def _chosen(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """Return some columns of a schema.

    Raises:
        Failure: There is no such column.
    """
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise Failure(f"a version has no {unknown[0]!r}; {choices_hint(unknown[0], schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def _commits(target: Target, newest: int | None) -> list[Commit]:
    """Read the versions up to the target, oldest first, with progress."""
    from lancefs.cli.render.progress import progress
    from lancefs.table.history import read_history
    from lancefs.table.versions import list_versions

    where = target.resolved
    files = list_versions(where.store)
    newer = 0
    if target.ref.version is not None or target.ref.tag is not None or target.ref.as_of:
        newer = sum(file.version > where.file.version for file in files)
    limit = None if newest is None else newest + newer
    commits = []
    with progress("reading", min(limit or len(files), len(files)), "versions") as shown:
        for commit in read_history(where, limit):
            commits.append(commit)
            shown.advance(1)
    return commits[: len(commits) - newer]


def _with_sign(sign: str) -> Any:
    return lambda value: "–" if value is None else f"{sign}{value:,}" if value else ""


_COLUMNS = (
    GridColumn("version", "version", str, right=True, style="cyan"),
    GridColumn("committed (UTC)", "timestamp", moment),
    GridColumn("rows", "rows", count, right=True),
    GridColumn("added", "rows_added", _with_sign("+"), right=True, style="green"),
    GridColumn("deleted", "rows_deleted", _with_sign("−"), right=True, style="red"),
    GridColumn("tags", "tags", words, style="yellow"),
    GridColumn("operation", "summary", lambda value: value or "–"),
)
# Columns that are shown where a version has anything in them.
_RARE = (
    GridColumn("schema", "schema_changes", words),
    GridColumn("message", "message", lambda value: value or ""),
    GridColumn("note", "note", lambda value: value or ""),
)


def _grid_columns(commits: list[Commit]) -> list[GridColumn]:
    rare = [one for one in _RARE if any(getattr(commit, one.name) for commit in commits)]
    return [*_COLUMNS, *rare]


def _grid_column(name: str) -> GridColumn:
    """Return the column of a fact that was asked for by its name."""
    from lancefs.cli.render.rows import column_of
    from lancefs.table.history import HISTORY

    known = next((one for one in (*_COLUMNS, *_RARE) if one.name == name), None)
    return column_of(HISTORY.field(name)) if known is None else replace(known, title=name)
