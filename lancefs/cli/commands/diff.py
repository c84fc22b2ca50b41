"""`lancefs diff`: what changed between two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options as options
from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import Column, heading, print_plain, styled
from lancefs.cli.render.text import plural, to_json
from lancefs.cli.target import Target, open_store, parse_target
from lancefs.showing import cell, readable
from lancefs.table.versions import VERSIONS

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = ("insert", "delete", "update_preimage", "update_postimage")
_MARKS = {"insert": "+", "delete": "−", "update_preimage": "<", "update_postimage": ">"}


@options.command(
    examples="""
    lancefs diff orders.lance 3 7
    lancefs diff orders.lance@prod orders.lance
    lancefs diff orders.lance 3 7 --rows
    lancefs diff orders.lance 3 7 --rows --format csv > changes.csv
    """
)
@click.argument("a", metavar="TABLE[@REF]", shell_complete=options.complete_table)
@click.argument("others", metavar="[REF] [REF | TABLE@REF]", nargs=-1)
@click.option("--rows", "-r", "with_rows", is_flag=True, help="Show the rows, too.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="At most this many rows in a table; other formats have all.",
)
@options.storage
@options.output
def diff(
    a: str,
    others: tuple[str, ...],
    with_rows: bool,
    limit: int,
    options: dict[str, Any],
    form: str,
) -> None:
    """Compare two versions of a table, the older one first: schema, then counts of rows.

    Without the second version, that is the newest. Where the table has no stable row ids, an
    update is a delete and an insert.
    """
    from lancefs.table.history import schema_differences

    old, new = _pair(a, others, options)
    rows = _changes(old, new)
    if with_rows and form != "table":
        from lancefs.cli.render.rows import print_rows

        print_rows(rows.schema, rows.to_batches(), form)
        return
    schema = schema_differences(old.manifest.fields, new.manifest.fields)
    counts = _counts(rows)
    if form == "json":
        said = {"old": old.name, "new": new.name, "schema": schema, "rows": counts}
        print_plain(to_json(said, indent=1))
        return
    if form != "table":
        raise Failure(f"--format {form} is for rows: add --rows, or choose json")
    _print_summary(old, new, schema, counts)
    if with_rows and rows.num_rows:
        print_plain()
        _print_changes(rows, limit)


def _pair(a: str, others: tuple[str, ...], options: dict[str, Any]) -> tuple[Target, Target]:
    """Read which two versions are meant.

    Raises:
        Failure: They are not two versions of one table, or the newer one comes first.
    """
    first = parse_target(a, options)
    if len(others) > 2:
        raise Failure(f"two versions are compared, {len(others)} were given: {' '.join(others)}")
    if len(others) == 2:
        old, new = first.at(others[0]), _second(first, others[1], options)
    elif len(others) == 1 and _is_table(others[0], options):
        old, new = first, _second(first, others[0], options)
    elif len(others) == 1 and first.ref == Target("").ref:
        old, new = first.at(others[0]), first  # t.lance 3: from 3 to the newest
    elif len(others) == 1:
        old, new = first, first.at(others[0])
    else:
        old, new = first, Target(first.url, options=options)
    if old.resolved.root.url() != new.resolved.root.url():
        raise Failure(f"{old.name} and {new.name} are two tables; two versions of one are compared")
    if old.manifest.version > new.manifest.version:
        raise Failure(f"{old.name} is newer than {new.name}: the older version is expected first")
    return old, new


def _second(first: Target, text: str, options: dict[str, Any]) -> Target:
    return parse_target(text, options) if _is_table(text, options) else first.at(text)


def _is_table(text: str, options: dict[str, Any]) -> bool:
    """Whether an argument names a table, and is no ref of the first one."""
    url = parse_target(text, options).url
    return url != text or VERSIONS in open_store(url, options).names()


def _changes(old: Target, new: Target) -> pa.Table:
    try:
        return new.dataset.changes(old.dataset._ref, new.dataset._ref)
    except ValueError as error:
        raise Failure(str(error)) from error


def _counts(rows: pa.Table) -> dict[str, int]:
    kinds = rows.column("_change_type").value_counts().to_pylist()
    found = {str(one["values"]): int(one["counts"]) for one in kinds}
    return {
        "inserted": found.get("insert", 0),
        "deleted": found.get("delete", 0),
        "updated": found.get("update_postimage", 0),
    }


def _print_summary(old: Target, new: Target, schema: list[str], counts: dict[str, int]) -> None:
    print_plain(styled(f"{old.name} → {new.name.rpartition('@')[2]}", "bold"))
    print_plain(f"  {plural(counts['inserted'], 'row')} inserted")
    print_plain(f"  {plural(counts['deleted'], 'row')} deleted")
    print_plain(f"  {plural(counts['updated'], 'row')} updated")
    if not schema:
        print_plain("  the same schema")
    for change in schema:
        print_plain(f"  schema: {change}")


def _print_changes(rows: pa.Table, limit: int) -> None:
    from lancefs.cli.render.grid import print_grid
    from lancefs.cli.render.rows import column_of

    heading("rows: + inserted, − deleted, < before an update, > after it")
    shown = readable(rows.slice(0, limit))
    last = ["_change_type", "_commit_version"]
    names = [n for n in shown.column_names if not n.startswith("_") and n not in last]
    columns = [
        Column("", "_change_type", lambda value: _MARKS[value]),
        Column("version", "_commit_version", cell, right=True),
        *(column_of(shown.schema.field(name)) for name in names),
    ]
    values = [shown.column(column.name).to_pylist() for column in columns]
    print_grid(columns, list(zip(*values, strict=True)))
    if rows.num_rows > limit:
        print_plain(f"… {rows.num_rows - limit:,} more; --limit {rows.num_rows} shows them")
