"""Telling DuckDB the value ranges of integer columns: as remainders, which equal the integers.

DuckDB knows that the remainder of a division is less than the divisor, even of a column of unknown
range. So a column of numbers from 0 to 99 becomes `mod(column, 100)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from duckdb_adapter.identifiers import quoted
from duckdb_adapter.sources.column_values import MAX_ROWS, is_asked_again
from duckdb_adapter.sources.extremes import extremes_of
from duckdb_adapter.sources.rows import Rows

# The types of DuckDB with the same numbers.
_TYPES = {
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
}
# DuckDB joins so by keys within a range of 1,048,576, and takes remainders to be negative, too.
_MAX_KEY = 512 * 1024
# Rows from which on DuckDB sorts longer than it takes to find out the ranges of so many columns.
_MIN_SORTED, _MAX_SORTED_COLUMNS = 256 * 1024, 16


def ranged_keys(rows: Rows, keys: Collection[str]) -> dict[str, str]:
    """Return what tells DuckDB the range of keys: expressions in SQL by the names of columns.

    A column is read once for a version, when a statement joins by it again.

    Args:
        rows: All rows of a table.
        keys: Columns that a statement joins by.

    Raises:
        LanceError: A column cannot be read.
    """
    numbers = _whole_numbers(rows, keys)
    if not numbers or not is_asked_again(rows.dataset, ("joined by", *numbers)):
        return {}
    return _remainders(rows, numbers, lambda kind: min(_MAX_KEY, 2 ** (kind.bit_width - 1) - 1))


def ranged_to_sort(rows: Rows, columns: Collection[str]) -> dict[str, str]:
    """Return what tells DuckDB the ranges of columns that it sorts, where they take half the bytes.

    Args:
        rows: All rows of a table.
        columns: The columns that a statement sorts, or carries along.

    Raises:
        LanceError: A column cannot be read.
    """
    if (rows.known_count() or 0) < _MIN_SORTED:
        return {}
    numbers = _whole_numbers(rows, columns)
    if not 0 < len(numbers) <= _MAX_SORTED_COLUMNS:
        return {}
    return _remainders(rows, numbers, lambda kind: 2 ** (kind.bit_width // 2 - 1))


def _whole_numbers(rows: Rows, columns: Collection[str]) -> list[str]:
    """Return those of some columns of a local table of which DuckDB computes remainders."""
    if not rows.dataset.is_local or (rows.known_count() or MAX_ROWS) >= MAX_ROWS:
        return []
    kinds = {column: rows.schema.field(column).type for column in columns}
    # Of extension types, those made in Python have no hash.
    integers = {column: kind for column, kind in kinds.items() if pa.types.is_integer(kind)}
    return sorted(column for column, kind in integers.items() if kind in _TYPES)


def _remainders(
    rows: Rows, columns: Collection[str], limit: Callable[[pa.DataType], int]
) -> dict[str, str]:
    """Return columns as remainders in SQL, those whose numbers are from 0 to below a limit."""
    shown = {}
    for column, found in extremes_of(rows, list(columns)).items():
        if found is None or found.ends.null_count:
            continue
        least, most = found.ends.to_pylist()
        kind = rows.schema.field(column).type
        if least >= 0 and most < limit(kind):
            shown[column] = f"system.main.mod({quoted(column)}, {most + 1}::{_TYPES[kind]})"
    return shown
