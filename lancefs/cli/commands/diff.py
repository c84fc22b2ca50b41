"""`lancefs diff`: what changed between two versions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from lancefs.cli import shared_options
from lancefs.cli.cell_changes import CellChange, changed_cells, counts_by_column, counts_of_rows
from lancefs.cli.exits import Failure, wrong_input
from lancefs.cli.render.grid import GridColumn, Styled, heading, print_document, print_line
from lancefs.cli.render.text import plural, to_json
from lancefs.cli.target import Target, open_store, parse_target
from lancefs.short_texts import cell, python_values, readable
from lancefs.table.versions import VERSIONS

if TYPE_CHECKING:
    from lancefs.table.base_paths import BaseRules

_MARKS = {"insert": "+", "delete": "−", "update_preimage": "<", "update_postimage": ">"}


@shared_options.command(
    examples="""
    lancefs diff orders.lance
    lancefs diff orders.lance 3 7
    lancefs diff orders.lance@prod orders.lance
    lancefs diff orders.lance 3 7 --rows
    lancefs diff orders.lance 3 7 --rows --format csv > changes.csv
    lancefs diff orders.lance 3 7 --key order_id --cells
    """
)
@click.argument("a", metavar="TABLE[@REF]", shell_complete=shared_options.complete_table)
@click.argument("others", metavar="[REF] [REF | TABLE@REF]", nargs=-1)
@click.option("--rows", "-r", "with_rows", is_flag=True, help="Show the rows, too.")
@shared_options.names_option(
    "--key",
    "-k",
    help="Columns whose values tell rows apart: a row whose key is in both versions was updated.",
)
@click.option(
    "--cells", "with_cells", is_flag=True, help="With --key: show the values that updates changed."
)
@click.option(
    "--limit",
    "-n",
    type=shared_options.WholeNumber(0),
    default=20,
    show_default=True,
    help="At most this many rows in a table; other formats have all.",
)
@shared_options.storage
@shared_options.base_rules
@shared_options.output
def diff(
    a: str,
    others: tuple[str, ...],
    with_rows: bool,
    key: list[str] | None,
    with_cells: bool,
    limit: int,
    options: dict[str, Any],
    rules: BaseRules | None,
    form: str,
) -> None:
    """Compare two versions of a table, the older one first: schema, then counts of rows.

    The second version defaults to the newest one, and the first to the one before it, on the
    branch of TABLE@REF. Without --key, an update is a delete and an insert where the table has no
    stable row ids.
    """
    from lancefs.table.schema_changes import schema_differences

    _check_options(key, with_rows, with_cells, form)
    old, new = _pair(a, others, options, rules)
    rows = _changes(old, new, key)
    if with_cells and form != "table":
        _print_cells(rows, key or [], form, None)
        return
    if with_rows and form != "table":
        from lancefs.cli.render.rows import print_rows

        print_rows(rows.schema, rows.to_batches(), form)
        return
    schema = schema_differences(old.opened, new.opened)
    counts = counts_of_rows(rows)
    cells = None if key is None else counts_by_column(rows)
    if form == "json":
        summary: dict[str, Any] = {"old": old.name, "new": new.name, "schema": schema}
        summary |= {"rows": counts} | ({} if cells is None else {"cells": cells})
        print_document(to_json(summary, indent=1))
        return
    _print_summary(old, new, schema, counts, cells)
    if with_rows and rows.num_rows:
        print_line()
        _print_changes(rows, limit)
    if with_cells and cells:
        print_line()
        _print_cells(rows, key or [], form, limit)


def _check_options(key: list[str] | None, with_rows: bool, with_cells: bool, form: str) -> None:
    """Refuse options that do not go together.

    Raises:
        Failure: They do not.
    """
    if with_cells and key is None:
        raise Failure("--cells is for --key: add --key with the columns that tell rows apart")
    if with_cells and with_rows and form != "table":
        raise Failure("--rows and --cells are both shown in a table only: leave one of them out")
    if with_cells and form not in ("table", "json", "ndjson"):
        raise Failure(f"--format {form} has columns of one type: choose json or ndjson for --cells")
    if form not in ("table", "json") and not (with_rows or with_cells):
        raise Failure(f"--format {form} is for rows: add --rows, or choose json")


def _pair(
    a: str, others: tuple[str, ...], options: dict[str, Any], rules: BaseRules | None
) -> tuple[Target, Target]:
    """Parse the arguments to the older and the newer version.

    Raises:
        Failure: The arguments are not two versions of one table, or the newer one comes first.
    """
    first = parse_target(a, options, rules=rules)
    if len(others) > 2:
        raise Failure(f"two versions are compared, {len(others)} were given: {' '.join(others)}")
    if len(others) == 2:
        old, new = first.at(others[0]), _second(first, others[1], options)
    elif len(others) == 1 and _is_table(others[0], options):
        old, new = first, _second(first, others[0], options)
    elif len(others) == 1 and first.ref == first.newest().ref:
        old, new = first.at(others[0]), first  # t.lance 3: from 3 to the newest
    elif len(others) == 1:
        old, new = first, first.at(others[0])
    elif first.ref == first.newest().ref:
        old, new = _version_before(first), first
    else:
        old, new = first, first.newest()
    if old.resolved.root.url() != new.resolved.root.url():
        raise Failure(f"{old.name} and {new.name} are two tables; two versions of one are compared")
    if old.resolved.branch != new.resolved.branch:
        raise Failure(
            f"{old.name} and {new.name} are on two branches; two versions of one are compared"
        )
    if old.manifest.version > new.manifest.version:
        raise Failure(f"{old.name} is newer than {new.name}: the older version is expected first")
    return old, new


def _version_before(newest: Target) -> Target:
    """Return the version before the newest one.

    Raises:
        Failure: There is none.
    """
    before = newest.dataset.versions()[-2:-1]
    if not before:
        raise Failure(f"{newest.name} is the only version, and there is none to compare it with")
    return newest.at(str(before[0]))


def _second(first: Target, text: str, options: dict[str, Any]) -> Target:
    if _is_table(text, options):
        return parse_target(text, options, rules=first.rules)
    return first.at(text)


def _is_table(text: str, options: dict[str, Any]) -> bool:
    """Whether an argument names a table, rather than a ref of the first table."""
    url = parse_target(text, options).url
    return url != text or VERSIONS in open_store(url, options).names()


def _changes(old: Target, new: Target, key: list[str] | None) -> pa.Table:
    from lancefs.cli.render.progress import progress

    with wrong_input(), progress("comparing", None):
        return new.dataset.changes(old.pinned, key=key)


def _print_summary(
    old: Target,
    new: Target,
    schema: list[str],
    counts: dict[str, int],
    cells: dict[str, int] | None,
) -> None:
    print_line(Styled(f"{old.name} → {new.name.rpartition('@')[2]}", "bold"))
    print_line(f"  {plural(counts['inserted'], 'row')} inserted")
    print_line(f"  {plural(counts['deleted'], 'row')} deleted")
    print_line(f"  {plural(counts['updated'], 'row')} updated")
    for column, changed in (cells or {}).items():
        print_line(f"    {column}: {plural(changed, 'value')}")
    if not schema:
        print_line("  the same schema")
    for change in schema:
        print_line(f"  schema: {change}")


def _print_cells(rows: pa.Table, key: list[str], form: str, limit: int | None) -> None:
    """Print the values that updates changed."""
    from lancefs.cli.render.rows import print_records

    records = [one._asdict() for one in islice(changed_cells(rows, key), limit)]
    grid = [
        *(GridColumn(name, "key", _value_of(name), style="cyan") for name in key),
        *(GridColumn(name, name) for name in ("column", "before", "after")),
        GridColumn("version", "version", cell, right=True),
    ]
    # The values of columns have different types; JSON and grids need the names alone.
    schema = pa.schema([(name, pa.null()) for name in CellChange._fields])
    if form == "table":
        heading("values that updates changed")
    print_records(schema, records, form, grid)
    total = sum(counts_by_column(rows).values())
    if form == "table" and len(records) < total:
        print_line(f"… {total - len(records):,} more; --limit {total} shows them")


def _value_of(name: str) -> Callable[[dict[str, Any]], str]:
    """Return what shows the value of a column of a key."""
    return lambda key: cell(key[name])


def _print_changes(rows: pa.Table, limit: int) -> None:
    from lancefs.cli.render.grid import print_grid
    from lancefs.cli.render.rows import column_of

    heading("rows: + inserted, − deleted, < before an update, > after it")
    shown = readable(rows.slice(0, limit))
    names = [name for name in shown.column_names if not name.startswith("_")]
    columns = [
        GridColumn("", "_change_type", lambda value: _MARKS[value]),
        GridColumn("version", "_commit_version", cell, right=True),
        *(column_of(shown.schema.field(name)) for name in names),
    ]
    values = [python_values(shown.column(column.name)) for column in columns]
    print_grid(columns, list(zip(*values, strict=True)))
    if rows.num_rows > limit:
        print_line(f"… {rows.num_rows - limit:,} more; --limit {rows.num_rows} shows them")
