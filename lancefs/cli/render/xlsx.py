"""Rows as a workbook of Excel (.xlsx), written row by row by XlsxWriter.

Excel's numbers have 15 digits, its dates begin in 1900, its times have milliseconds and no zone:
what it cannot hold is a text in its cell; floats are cut to its digits. Texts are never formulas.
The limits are those of Excel's specifications.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import IO, Any

import pyarrow as pa

from lancefs.cli.exits import MISSING, Failure
from lancefs.cli.render.json_forms import json_form
from lancefs.cli.render.text import to_json
from lancefs.short_texts import python_values, readable

_ROWS = 1_048_576  # the header is one of them
_COLUMNS = 16_384
_CHARACTERS = 32_767  # of UTF-16, in a cell
_DIGITS = 15
# Excel believes in February 29 of 1900; what comes later is a day's number that all agree on.
_FIRST_DATE = date(1900, 3, 1)
_INSTEAD = "choose csv, parquet or arrow"
# Nothing that a text looks like makes something else of it.
_AS_THEY_ARE = {
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}


def write_xlsx(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    """Write a workbook with one sheet, whose first row has the names of the columns.

    Args:
        schema: Schema of the rows.
        batches: The rows; memory does not grow with them, a temporary file does.
        sink: Where the workbook goes.

    Raises:
        Failure: XlsxWriter is not installed, or a sheet cannot hold so many rows or columns, or a
            cell so long a text.
    """
    try:
        from xlsxwriter import Workbook
    except ImportError as error:
        raise Failure(
            "xlsx needs XlsxWriter, which is not installed: pip install 'lancefs[xlsx]'", MISSING
        ) from error
    if len(schema) > _COLUMNS:
        raise Failure(f"a sheet has {_COLUMNS:,} columns at most; name some (-c), or {_INSTEAD}")
    with TemporaryDirectory(prefix="lancefs-xlsx-") as folder:
        path = f"{folder}/rows.xlsx"  # a sink need not be able to seek
        with Workbook(path, {"constant_memory": True, "tmpdir": folder, **_AS_THEY_ARE}) as book:
            sheet = Sheet(book, schema)
            for batch in batches:
                sheet.add(readable(pa.Table.from_batches([batch], schema)))
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sink)


class Sheet:
    """The sheet of a workbook, which gets rows one after the other.

    Args:
        book: The workbook of XlsxWriter.
        schema: The columns, before `readable` casts them.
    """

    def __init__(self, book: Any, schema: pa.Schema) -> None:
        self._sheet, self._names, self._row = book.add_worksheet("rows"), schema.names, 1
        self._forms = [
            None if pa.types.is_timestamp(field.type) else json_form(field.type) for field in schema
        ]
        self._dates = {
            datetime: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss.000"}),
            date: book.add_format({"num_format": "yyyy-mm-dd"}),
        }
        self._sheet.freeze_panes(1, 0)
        bold = book.add_format({"bold": True})
        for column, name in enumerate(self._names):
            self._sheet.write_string(0, column, name, bold)

    def add(self, table: pa.Table) -> None:
        """Add rows, which `readable` has made readable.

        Raises:
            Failure: The sheet cannot hold them.
        """
        if self._row + table.num_rows > _ROWS:
            raise Failure(f"a sheet has {_ROWS:,} rows at most; leave rows out, or {_INSTEAD}")
        values = [
            python_values(column) if form is None else list(map(form, python_values(column)))
            for column, form in zip(table.columns, self._forms, strict=True)
        ]
        for row in zip(*values, strict=True):
            for column, value in enumerate(row):
                if value is not None:
                    self._write(column, value)
            self._row += 1

    def _write(self, column: int, value: Any) -> None:
        at = self._row, column
        if isinstance(value, timedelta):
            value = value.total_seconds()
        if isinstance(value, bool):
            self._sheet.write_boolean(*at, value)
        elif isinstance(value, int | float | Decimal) and _is_exact(value):
            self._sheet.write_number(*at, value)
        elif type(value) in self._dates and _is_known(value):
            self._sheet.write_datetime(*at, value, self._dates[type(value)])
        else:
            self._sheet.write_string(*at, self._checked(column, _text(value)))

    def _checked(self, column: int, text: str) -> str:
        if len(text) > _CHARACTERS // 2 and len(text.encode("utf-16-le")) > 2 * _CHARACTERS:
            raise Failure(
                f"row {self._row:,} of column {self._names[column]!r} has a text of {len(text):,} "
                f"characters; a cell holds {_CHARACTERS:,}. Leave the column out (-c), or "
                f"{_INSTEAD}"
            )
        return text


def _is_exact(value: int | float | Decimal) -> bool:
    """Return whether Excel holds an integer or decimal with all of its digits, or a float."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 1e15
    return len(value.normalize().as_tuple().digits) <= _DIGITS


def _is_known(value: date | datetime) -> bool:
    """Return whether Excel has a date or time."""
    if not isinstance(value, datetime):
        return value >= _FIRST_DATE
    return value.tzinfo is None and value.date() >= _FIRST_DATE and not value.microsecond % 1000


def _text(value: Any) -> str:
    """Return a value as the text that CSV has of it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return str(value)
    text = to_json(value)
    return text[1:-1] if text.startswith('"') else text
