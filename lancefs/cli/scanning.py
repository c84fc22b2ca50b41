"""Scans as the options of a command ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import note, print_document
from lancefs.cli.render.text import plural
from lancefs.errors import InvalidFilter
from lancefs.short_texts import readable_columns

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.scan.scanner import LanceScanner
    from lancefs.search.hybrid_search import HybridSearch
    from lancefs.search.text_search import TextSearch
    from lancefs.search.vector_search import VectorSearch


class RowOptions(NamedTuple):
    """The options of the commands that show some rows.

    Attributes:
        rows: How many rows.
        columns: Names in this order; None for all columns of known types.
        where: A condition in SQL text.
        use_index: Whether the indices of the table may be used.
        is_expanded: Whether to print one value a line, in the format `table`.
        form: One of `shared_options.FORMATS`.
    """

    rows: int
    columns: list[str] | None
    where: str | None
    use_index: bool
    is_expanded: bool
    form: str


def scanner(target: Target, wanted: RowOptions, limit: int | None = None) -> LanceScanner:
    """Return what reads rows of a version.

    Args:
        target: The version.
        wanted: Which columns and rows.
        limit: At most this many rows.

    Raises:
        Failure: The condition cannot be parsed, or does not fit the columns.
        ColumnNotFound: A column is not in the table.
    """
    return target.dataset.scanner(
        selected_columns(target, wanted.columns),
        checked_filter(target, wanted.where),
        limit=limit,
        use_index=wanted.use_index,
    )


def print_some(target: Target, rows: pa.Table | pa.RecordBatchReader, wanted: RowOptions) -> None:
    """Print some rows of a version.

    Args:
        target: The version.
        rows: The rows.
        wanted: How they are printed, and the condition that chose them, if any.

    Raises:
        Failure: `is_expanded` is for another format.
    """
    from lancefs.cli.render.rows import print_expanded, print_rows

    def caption(count: int) -> str:
        version = f"version {target.dataset.version}"
        if wanted.where:
            return f"{plural(count, 'row')}, {version}"
        return f"{count:,} of {plural(target.dataset.count_rows(), 'row')}, {version}"

    batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
    if wanted.is_expanded:
        print_expanded(rows.schema, batches, wanted.form)
    else:
        print_rows(rows.schema, batches, wanted.form, caption=caption)


def print_found(
    target: Target,
    search: VectorSearch | TextSearch | HybridSearch,
    wanted: RowOptions,
    explain: bool,
) -> None:
    """Print the rows that a search finds, or how it finds them."""
    if explain:
        print_document(search.explain())
    else:
        print_some(target, search.to_table(), wanted)


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
