"""Scans as the options of a command ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pyarrow as pa

from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import note
from lancefs.cli.render.text import plural
from lancefs.errors import InvalidFilter
from lancefs.printable import printable
from lancefs.showing import readable_columns

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.scan.scanner import LanceScanner


def scanner(
    target: Target,
    columns: list[str] | None,
    where: str | None,
    limit: int | None = None,
    use_index: bool = True,
) -> LanceScanner:
    """Return what reads rows of a version.

    Args:
        target: The version.
        columns: Names in this order; all columns of known types by default.
        where: A condition in SQL text.
        limit: At most this many rows.
        use_index: Whether the condition may be looked up in the indices of the table.

    Raises:
        Failure: The condition cannot be parsed, or does not fit the columns.
        ColumnNotFound: A column is not in the table.
    """
    return target.dataset.scanner(
        selected_columns(target, columns),
        checked_filter(target, where),
        limit=limit,
        use_index=use_index,
    )


def print_some(
    target: Target,
    rows: pa.Table | pa.RecordBatchReader,
    form: str,
    is_expanded: bool,
    where: str | None,
) -> None:
    """Print some rows of a version.

    Args:
        target: The version.
        rows: The rows.
        form: One of `shared_options.FORMATS`.
        is_expanded: Whether to print one value a line, in the format `table`.
        where: The condition that chose them, if any.

    Raises:
        Failure: `is_expanded` is for another format.
    """
    from lancefs.cli.render.rows import print_expanded, print_rows

    def caption(count: int) -> str:
        version = f"version {target.dataset.version}"
        if where:
            return f"{plural(count, 'row')}, {version}"
        return f"{count:,} of {plural(target.dataset.count_rows(), 'row')}, {version}"

    batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
    if is_expanded:
        print_expanded(rows.schema, batches, form)
    else:
        print_rows(rows.schema, batches, form, caption=caption)


def print_explained(text: str) -> None:
    """Print how a scan or a search finds rows."""
    click.echo("\n".join(map(printable, text.split("\n"))))


def selected_columns(target: Target, columns: list[str] | None) -> list[str]:
    """Return the columns to read; a column of an unknown type is left out, with a note."""
    if columns is not None:
        return columns
    fields = target.manifest.fields
    readable = readable_columns(fields)
    for field in fields:
        if field.name not in readable:
            note(f"left out: {field.name}, of the type {field.logical_type}")
    return readable


def checked_filter(target: Target, where: str | None) -> str | None:
    """Return a condition, once it has been parsed: before anything is read or written.

    Raises:
        Failure: The condition cannot be parsed, or does not fit the columns.
        ColumnNotFound: A column is not in the table.
    """
    if where is None:
        return None
    from lancefs.scan.sql_filter import parse_filter

    try:
        parse_filter(where, target.manifest.fields)
    except InvalidFilter as error:
        raise Failure(f"--where: {error} ('lancefs sql' takes all of SQL)") from error
    return where
