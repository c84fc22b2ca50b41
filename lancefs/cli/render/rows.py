"""Arrow batches and records, printed in the formats of `--format`.

JSON is one array with one object per line: it can be parsed as a whole and line by line. NDJSON is
the objects alone.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import IO, Any, cast

import pyarrow as pa

from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import GridColumn, heading, is_terminal, print_grid, print_line
from lancefs.cli.render.json_forms import json_form
from lancefs.cli.render.text import jsonable, row_to_json, to_json
from lancefs.cli.render.xlsx import write_xlsx
from lancefs.datafile.constants import array_of, null_of
from lancefs.printable import printable
from lancefs.short_texts import cell, far_times, plain_type, python_values, readable


def print_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    form: str,
    caption: Callable[[int], str] | None = None,
) -> None:
    """Print rows.

    Args:
        schema: Schema of the rows.
        batches: The rows. A grid collects all of them; other formats are streamed.
        form: One of `shared_options.FORMATS`.
        caption: Returns the text below a grid on a terminal, given the number of rows.

    Raises:
        Failure: The format is one of bytes, and standard output is a terminal; or it cannot hold
            the rows.
    """
    if form == "table":
        columns = [column_of(field) for field in schema]
        table = readable(pa.Table.from_batches(batches, schema))
        values = [python_values(column) for column in table.columns]
        rows = list(zip(*values, strict=True)) if columns else []
        print_grid(columns, rows, caption and caption(table.num_rows))
    elif form in ("arrow", "xlsx") and is_terminal():
        raise Failure(
            f"--format {form} writes bytes: send it to a file or a program, not a terminal"
        )
    else:
        _WRITERS[form](schema, batches, _sink())


def print_expanded(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: str) -> None:
    """Print one value a line, a record after the other, each below its number.

    Args:
        schema: Schema of the rows.
        batches: The rows.
        form: One of `shared_options.FORMATS`.

    Raises:
        Failure: The format is not `table`.
    """
    if form != "table":
        raise Failure(f"--expanded is a table; leave out --expanded, or --format {form}")
    names = [printable(name) for name in schema.names]
    width = max(map(len, names), default=0)
    number = 0
    for batch in batches:
        table = readable(pa.Table.from_batches([batch], schema))
        values = [python_values(column) for column in table.columns]
        for row in zip(*values, strict=True) if values else [()] * table.num_rows:
            number += 1
            heading(f"row {number:,}")
            for name, value in zip(names, row, strict=True):
                print_line(f"  {name.ljust(width)}  {cell(value)}")


def _sink() -> IO[bytes]:
    """Return standard output, through which no control characters reach a terminal."""
    out: IO[bytes] = sys.stdout.buffer
    return cast(IO[bytes], _Terminal(out)) if is_terminal() else out


class _Terminal(io.RawIOBase):
    """Escapes what is written.

    Args:
        sink: Where it goes.
    """

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes of a text in UTF-8."""
        lines = self._decoder.decode(bytes(data)).split("\n")
        self._sink.write("\n".join(map(printable, lines)).encode())
        return len(data)


def print_records(
    schema: pa.Schema,
    records: Sequence[dict[str, Any]],
    form: str,
    columns: Sequence[GridColumn],
    caption: str | None = None,
) -> None:
    """Print records of Python values; grids and JSON need no Arrow arrays, and so no pandas.

    Args:
        schema: Schema of the records, in all formats but `table`.
        records: Values by the names of the schema; missing values are null.
        form: One of `shared_options.FORMATS`.
        columns: Columns of the grid.
        caption: Text below the grid on a terminal.
    """
    if form == "table":
        rows = [[record.get(column.name) for column in columns] for record in records]
        print_grid(columns, rows, caption)
    elif form in ("json", "ndjson"):
        names = schema.names
        shown = ({name: record.get(name) for name in names} for record in records)
        print_them = _print_json if form == "json" else _print_ndjson
        print_them(map(to_json, shown), _sink())
    else:
        table = pa.Table.from_pylist(list(records), schema)
        print_rows(schema, table.to_batches(), form)


def write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    """Write CSV with a header; nested and binary values are written as JSON."""
    _write_separated(schema, batches, sink, ",")


def write_tsv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    """Write CSV with tabs in place of commas."""
    _write_separated(schema, batches, sink, "\t")


def write_ndjson(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    """Write one JSON object a line."""
    _print_ndjson(_json_rows(schema, batches), sink)


def column_of(field: pa.Field) -> GridColumn:
    """Return the grid column for a field; numbers are aligned on the right."""
    is_number = any(
        test(field.type)
        for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    )
    return GridColumn(field.name, field.name, right=is_number)


def _write_separated(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes], delimiter: str
) -> None:
    import pyarrow.csv as pacsv

    flat = pa.schema([pa.field(field.name, _csv_type(field.type)) for field in schema])
    how: dict[str, Any] = {"quoting_style": "needed", "delimiter": delimiter}
    pacsv.write_csv(flat.empty_table(), sink, pacsv.WriteOptions(**how))
    for batch in batches:
        if batch.num_rows:
            rows = _flatten(batch, flat)
            pacsv.write_csv(rows, sink, pacsv.WriteOptions(include_header=False, **how))


def _write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    _print_json(_json_rows(schema, batches), sink)


def _json_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    names = _keys(schema.names)
    for batch in batches:
        table = readable(pa.Table.from_batches([batch], schema))
        columns = [
            _jsonable_values(column, field.type)
            for column, field in zip(table.columns, schema, strict=True)
        ]
        yield from map(row_to_json, _records(names, columns, table.num_rows))


def _keys(names: Sequence[str]) -> list[str]:
    """Return names as the keys of an object: one that was there gets a number, as in DuckDB."""
    keys: list[str] = []
    taken = set(names)
    for name in names:
        key = name
        if key in keys:
            key = next(one for n in count(1) if (one := f"{name}_{n}") not in taken)
            taken.add(key)
        keys.append(key)
    return keys


def _jsonable_values(column: pa.ChunkedArray, data_type: pa.DataType) -> list[Any]:
    """Return the values of a column of `readable`, once of a type, as JSON holds them."""
    values, kind = python_values(column), column.type
    if form := json_form(data_type):
        return list(map(form, values))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return values
    if pa.types.is_decimal(kind):
        return [None if value is None else str(value) for value in values]
    return list(map(jsonable, values))


def _print_json(rows: Iterable[str], sink: IO[bytes]) -> None:
    separator = b"[\n"
    for row in rows:
        sink.write(separator + _json_bytes(row))
        separator = b",\n"
    sink.write(b"[]\n" if separator == b"[\n" else b"\n]\n")


def _print_ndjson(rows: Iterable[str], sink: IO[bytes]) -> None:
    for row in rows:
        sink.write(_json_bytes(row) + b"\n")


def _json_bytes(row: str) -> bytes:
    return row.encode("utf-8", "backslashreplace")


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS: dict[str, Callable[[pa.Schema, Iterable[pa.RecordBatch], IO[bytes]], None]] = {
    "json": _write_json,
    "ndjson": write_ndjson,
    "csv": write_csv,
    "tsv": write_tsv,
    "arrow": _write_arrow,
    "xlsx": write_xlsx,
}


def _records(
    names: Sequence[str], columns: Sequence[list[Any]], rows: int
) -> Iterable[dict[str, Any]]:
    if not columns:
        return ({} for _ in range(rows))
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _csv_type(data_type: pa.DataType) -> pa.DataType:
    plain = plain_type(data_type)
    if pa.types.is_float16(plain):  # of which Arrow writes no text
        return pa.float32()
    tests = (
        *(pa.types.is_nested, pa.types.is_interval),
        *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
    )
    is_text = isinstance(plain, pa.BaseExtensionType) or any(test(plain) for test in tests)
    return pa.string() if is_text else plain


def _flatten(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of types that Arrow writes as CSV: those of a schema, or texts of far times."""
    table = readable(pa.Table.from_batches([batch]))
    arrays = []
    for column, field, data_type in zip(table.columns, schema, batch.schema.types, strict=True):
        if far := far_times(column):
            arrays.append(_with_far_times(column, far))
        elif column.type == field.type:
            arrays.append(column.combine_chunks())
        elif pa.types.is_floating(field.type):
            arrays.append(column.cast(field.type).combine_chunks())
        else:
            form = json_form(data_type) or jsonable
            values = map(form, python_values(column))
            texts = [None if value is None else _csv_text(value) for value in values]
            arrays.append(pa.array(texts, pa.string()))
    return pa.record_batch(arrays, names=schema.names)


def _with_far_times(column: pa.ChunkedArray, far: Mapping[int, str]) -> pa.Array:
    """Return the texts of a column of times, those of far ones by their rows."""
    import pyarrow.compute as pc

    near = array_of([row not in far for row in range(len(column))], pa.bool_())
    texts = pc.if_else(near, column, null_of(column.type)).cast(pa.string()).to_pylist()
    for row, text in far.items():
        texts[row] = text
    return array_of(texts, pa.string())


def _csv_text(value: Any) -> str:
    """Return what `jsonable` made of a value: texts are as they are."""
    return value if isinstance(value, str) else to_json(value)
