"""`lancefs ls`: the tables of a folder, or the tree of a table."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from lancefs.cli import shared_options
from lancefs.cli.browsing import (
    describe_table,
    directory,
    filesystem,
    identify,
    list_folder,
    listing,
    table_of,
)
from lancefs.cli.render.grid import GridColumn, Styled, print_line, tell
from lancefs.cli.render.rows import print_records
from lancefs.cli.render.text import count, moment, size
from lancefs.cli.target import Target, parse_target
from lancefs.storage import Store
from lancefs.table.refs import Ref

# Top of the tree of a table, as the filesystem lists it (a test compares them). A constant, so that
# listing imports none of the libraries that reading needs.
TREE = (
    *("latest.arrow", "latest.arrows", "latest"),
    *("versions", "history.arrow", "changes", "tags", "branches"),
)

_TABLES = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        ("version", pa.int64()),
        ("versions", pa.int64()),
        ("committed", pa.timestamp("us", tz="UTC")),
        ("rows", pa.int64()),
        ("columns", pa.int64()),
        ("fragments", pa.int64()),
        ("bytes", pa.int64()),
        ("note", pa.string()),
    ]
)
_FILES = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        ("size", pa.int64()),
        ("committed", pa.timestamp("us", tz="UTC")),
    ]
)


@shared_options.command(
    examples="""
    lancefs ls
    lancefs ls -l s3://bucket/tables
    lancefs ls data/orders.lance
    lancefs ls -l data/orders.lance@prod
    """
)
@click.argument(
    "path", metavar="[PATH[@REF]]", default=".", shell_complete=shared_options.complete_table
)
@click.option("--long", "-l", "is_long", is_flag=True, help="Show versions, rows and bytes, too.")
@shared_options.storage
@shared_options.output
def ls(path: str, is_long: bool, options: dict[str, Any], form: str) -> None:
    """List the tables of a folder, or the tree of a table.

    Folders are listed, because tables may lie in them; files outside of tables are not.
    """
    target = parse_target(path, options)
    table, below = table_of(target)
    if table is None:
        _list_folder(target.store, is_long, form)
    else:
        _list_tree(table, below, is_long, form)


def _list_folder(store: Store, is_long: bool, form: str) -> None:
    rows = list_folder(store, describe_table if is_long or form != "table" else identify)
    if form == "table" and not is_long:
        for row in rows:
            name = row["name"] if row["type"] == "table" else f"{row['name']}/"
            print_line(Styled(name, "bold") if row["type"] == "table" else name)
            if row.get("note"):
                tell(row["note"])
        return
    columns = [
        GridColumn("name", "name", str, style="bold"),
        GridColumn("version", "version", count, right=True, style="cyan"),
        GridColumn("versions", "versions", count, right=True),
        GridColumn("committed (UTC)", "committed", moment),
        GridColumn("rows", "rows", count, right=True),
        GridColumn("columns", "columns", count, right=True),
        GridColumn("fragments", "fragments", count, right=True),
        GridColumn("bytes", "bytes", size, right=True),
    ]
    if any(row.get("note") for row in rows):
        columns.append(GridColumn("note", "note", lambda value: value or ""))
    print_records(_TABLES, rows, form, columns)


def _list_tree(target: Target, below: str | None, is_long: bool, form: str) -> None:
    """List a directory of the tree of a table."""
    _ = target.resolved  # raises unless it is a table
    if below is None and target.ref == Ref() and not is_long:
        entries: list[dict[str, Any]] = [
            {"name": name, "type": "file" if "." in name else "directory"} for name in TREE
        ]
    else:
        listed = listing(filesystem(target), directory(target) if below is None else below)
        entries = [one.facts() | {"committed": one.committed} for one in listed]
    if form == "table" and not is_long:
        for entry in entries:
            name = str(entry["name"])
            print_line(name if entry["type"] == "file" else f"{name}/")
        return
    columns = [
        GridColumn("size", "size", size, right=True),
        GridColumn("committed (UTC)", "committed", moment),
        GridColumn("name", "name", str),
    ]
    print_records(_FILES, entries, form, columns)
