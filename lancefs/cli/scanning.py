"""Scans as the options of a command ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import note
from lancefs.scan.expressions import matching
from lancefs.showing import readable_columns
from lancefs.table.row_metadata import ROW_METADATA

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.scan.scanner import LanceScanner


def scanner(
    target: Target,
    columns: list[str] | None,
    where: str | None,
    limit: int | None = None,
) -> LanceScanner:
    """Return what reads rows of a version.

    Args:
        target: The version.
        columns: In this order; all that can be read by default.
        where: A condition, as `predicate` reads them.
        limit: At most this many rows.

    Raises:
        Failure: The condition cannot be read.
        ColumnNotFound: A column is not in the table.
    """
    if columns is None:
        fields = target.manifest.fields
        columns = readable_columns(fields)
        for field in fields:
            if field.name not in columns:
                note(f"left out: {field.name}, of the type {field.logical_type}")
    if where is None:
        return target.dataset.scanner(columns, limit=limit)
    from lancefs.cli.predicate import parse_predicate

    expression = parse_predicate(where, target.manifest.fields)
    _try(expression, target.dataset.schema, where)
    return target.dataset.scanner(columns, expression, limit=limit)


def _try(expression: pc.Expression, schema: pa.Schema, text: str) -> None:
    """See that Arrow can evaluate a condition, before anything is read or written."""
    fields = [*schema, *(one.to_arrow() for one in ROW_METADATA.values())]
    empty = pa.record_batch([pa.nulls(0, one.type) for one in fields], schema=pa.schema(fields))
    try:
        matching(expression, empty)
    except pa.ArrowException as error:
        raise Failure(f"--where: {text!r} cannot be evaluated: {error}") from error
