"""Rows of Arrow batches, in the formats that `--format` names.

JSON is an array with one object a line, so that it can be read line by line and as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import IO, Any

import pyarrow as pa

from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import Column, is_terminal, print_grid
from lancefs.cli.render.text import to_json
from lancefs.showing import plain_type, readable


def print_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    form: str,
    caption: Callable[[int], str] | None = None,
) -> None:
    """Print rows.

    Args:
        schema: Of the rows.
        batches: The rows; in the formats for programs they are printed as they come.
        form: One of `shared_options.FORMATS`.
        caption: Says what stands below a table on a terminal, given the number of rows.

    Raises:
        Failure: Bytes would go to a terminal.
    """
    if form == "table":
        shown = [column_of(field) for field in schema]
        table = readable(pa.Table.from_batches(batches, schema))
        values = [table.column(column.name).to_pylist() for column in shown]
        rows = list(zip(*values, strict=True)) if shown else []
        print_grid(shown, rows, caption and caption(table.num_rows))
    elif form == "arrow" and is_terminal():
        raise Failure("--format arrow writes bytes: send it to a file or a program, not a terminal")
    else:
        _WRITERS[form](schema, batches, sys.stdout.buffer)


def print_records(
    schema: pa.Schema,
    records: Sequence[dict[str, Any]],
    form: str,
    columns: Sequence[Column],
    caption: str | None = None,
) -> None:
    """Print facts that are Python values; unlike Arrow arrays of them, they need no pandas.

    Args:
        schema: Of the records, in the formats for programs.
        records: The facts, by the names of the schema; those that are missing are null.
        form: One of `shared_options.FORMATS`.
        columns: What a table shows of them, and how.
        caption: What stands below a table on a terminal.
    """
    if form == "table":
        rows = [[record.get(column.name) for column in columns] for record in records]
        print_grid(columns, rows, caption)
    elif form == "json":
        names = schema.names
        _print_json({name: record.get(name) for name in names} for record in records)
    else:
        table = pa.Table.from_pylist(list(records), schema)
        print_rows(schema, table.to_batches(), form)


def write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    """Write CSV with a header; what is nested or binary is written as JSON."""
    import pyarrow.csv as pacsv

    flat = pa.schema([pa.field(field.name, _csv_type(field.type)) for field in schema])
    options = pacsv.WriteOptions(quoting_style="needed")
    empty = pa.RecordBatch.from_pylist([], flat)
    with pacsv.CSVWriter(sink, flat, write_options=options) as writer:
        for batch in chain([empty], batches):
            if batch.num_rows:
                writer.write_batch(_flattened(batch, flat))


def column_of(field: pa.Field) -> Column:
    """Return how a table shows a column: numbers on the right."""
    numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    return Column(field.name, field.name, right=numeric or pa.types.is_decimal(field.type))


def _write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    tables = (readable(pa.Table.from_batches([batch], schema)) for batch in batches)
    _print_json((row for table in tables for row in _records(table)), sink)


def _print_json(rows: Iterable[dict[str, Any]], sink: IO[bytes] | None = None) -> None:
    sink = sys.stdout.buffer if sink is None else sink
    before = b"[\n"
    for row in rows:
        sink.write(before + to_json(row).encode("utf-8", "backslashreplace"))
        before = b",\n"
    sink.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS: dict[str, Callable[[pa.Schema, Iterable[pa.RecordBatch], IO[bytes]], None]] = {
    "json": _write_json,
    "csv": write_csv,
    "arrow": _write_arrow,
}


def _records(table: pa.Table) -> Iterable[dict[str, Any]]:
    if table.num_columns == 0:
        return ({} for _ in range(table.num_rows))
    names = table.column_names
    values = [column.to_pylist() for column in table.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _csv_type(data_type: pa.DataType) -> pa.DataType:
    plain = plain_type(data_type)
    nested = pa.types.is_nested(plain)
    binary = any(
        kind(plain)
        for kind in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    )
    if nested or binary or pa.types.is_float16(plain):
        return pa.string()
    return plain


def _flattened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    table = readable(pa.Table.from_batches([batch]))
    arrays = []
    for column, field in zip(table.columns, schema, strict=True):
        if column.type != field.type:
            texts = [None if value is None else _csv_text(value) for value in column.to_pylist()]
            arrays.append(pa.array(texts, pa.string()))
        else:
            arrays.append(column.combine_chunks())
    return pa.record_batch(arrays, schema=schema)


def _csv_text(value: Any) -> str:
    text = to_json(value)
    return text[1:-1] if isinstance(value, bytes) else text
