"""`lancefs ls`: the tables of a folder, or the tree of a table."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from lancefs.cli import shared_options as options
from lancefs.cli.browsing import inside, listing
from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import Column, print_plain, styled
from lancefs.cli.render.rows import print_records
from lancefs.cli.render.text import count, moment, size
from lancefs.cli.target import Target, parse_target
from lancefs.errors import LanceError
from lancefs.storage import Store
from lancefs.table.manifest import read_manifest
from lancefs.table.refs import resolve
from lancefs.table.versions import VERSIONS, list_versions
from lancefs.threads import in_threads

# What a table shows at the top of its tree, as `fsspec` lists it (a test compares them): known
# without the libraries that reading needs.
TREE = (
    *("latest.arrow", "latest.arrows", "latest"),
    *("versions", "history.arrow", "changes", "tags", "branches"),
)
_LOOKERS = 8

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


@options.command(
    examples="""
    lancefs ls
    lancefs ls -l s3://bucket/tables
    lancefs ls data/orders.lance
    lancefs ls -l data/orders.lance@prod
    """
)
@click.argument("path", metavar="[PATH[@REF]]", default=".", shell_complete=options.complete_table)
@click.option("--long", "-l", "is_long", is_flag=True, help="Show versions, rows and bytes, too.")
@options.storage
@options.output
def ls(path: str, is_long: bool, options: dict[str, Any], form: str) -> None:
    """List the tables of a folder, or what a table shows as files.

    Files and folders that are no part of a table are listed only as far as they lead to tables.
    """
    target = parse_target(path, options)
    names = target.store.names()
    if VERSIONS in names:
        _list_tree(target, None, is_long, form)
    elif names and target.ref == parse_target("", {}).ref:
        _list_folder(target.store, is_long, form)
    else:
        table, below = inside(target)
        _list_tree(table, below, is_long, form)


def _list_folder(store: Store, is_long: bool, form: str) -> None:
    entries = store.entries()
    folders = sorted(name for name, info in entries if info.get("type") == "directory")
    if not folders and len(entries) == 1:
        raise Failure(f"{store.url()}: a file; the folder of a table was expected")
    look = _describe if is_long or form != "table" else _identify
    rows = in_threads(
        lambda name: look(Store(store.fs, store.full(name)), name), folders, _LOOKERS, "lancefs-ls"
    )
    if form == "table" and not is_long:
        for row in rows:
            name = row["name"] if row["type"] == "table" else f"{row['name']}/"
            print_plain(styled(name, "bold") if row["type"] == "table" else name)
        return
    shown = [
        Column("name", "name", str, style="bold"),
        Column("version", "version", count, right=True, style="cyan"),
        Column("versions", "versions", count, right=True),
        Column("committed (UTC)", "committed", moment),
        Column("rows", "rows", count, right=True),
        Column("columns", "columns", count, right=True),
        Column("fragments", "fragments", count, right=True),
        Column("bytes", "bytes", size, right=True),
    ]
    if any(row.get("note") for row in rows):
        shown.append(Column("note", "note", lambda value: value or ""))
    print_records(_TABLES, rows, form, shown)


def _identify(store: Store, name: str) -> dict[str, Any]:
    return {"name": name, "type": "table" if VERSIONS in store.names() else "folder"}


def _describe(store: Store, name: str) -> dict[str, Any]:
    """Say what there is to say of the newest version; what is wrong with a table is a note."""
    row = _identify(store, name)
    if row["type"] == "folder":
        return row
    try:
        resolved = resolve(store)
        row |= {"version": resolved.file.version, "versions": len(list_versions(store))}
        manifest = read_manifest(resolved.manifest)
        sizes = [file.size for one in manifest.fragments for file in one.files]
        known = [one for one in sizes if one is not None]
        row |= {
            "committed": manifest.timestamp,
            "rows": manifest.num_rows,
            "columns": len(manifest.fields),
            "fragments": len(manifest.fragments),
            "bytes": sum(known) if len(known) == len(sizes) else None,
        }
    except LanceError as error:
        row["note"] = str(error)
    return row


def _list_tree(target: Target, below: str | None, is_long: bool, form: str) -> None:
    """List a directory of the tree of a table."""
    if below is None and target.ref == parse_target("", {}).ref and not is_long:
        _ = target.resolved  # that it is a table
        entries = [{"name": name, "type": "file" if "." in name else "directory"} for name in TREE]
    else:
        entries = listing(target, below)
    if form == "table" and not is_long:
        for entry in entries:
            name = str(entry["name"])
            print_plain(name if entry["type"] == "file" else f"{name}/")
        return
    shown = [
        Column("size", "size", size, right=True),
        Column("committed (UTC)", "committed", moment),
        Column("name", "name", str),
    ]
    print_records(_FILES, entries, form, shown)
