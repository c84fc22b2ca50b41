"""The ranges of join keys, told to DuckDB: as remainders, which are the numbers themselves.

DuckDB knows that the remainder of a division is less than the divisor, of columns of which it knows
nothing else. So a column of numbers from 0 to 99 comes as `mod(column, 100)`.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from duckdb_adapter.paths import quoted
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


def ranged_keys(rows: Rows, keys: Collection[str]) -> dict[str, str]:
    """Return what tells DuckDB the range of keys: expressions in SQL by the names of columns.

    A column is read once for a version, when a statement joins by it again.

    Args:
        rows: All rows of a table.
        keys: Columns that a statement joins by.

    Raises:
        LanceError: A column cannot be read.
    """
    if not rows.dataset.is_local or (rows.known_count() or MAX_ROWS) >= MAX_ROWS:
        return {}
    kinds = {key: rows.schema.field(key).type for key in keys}
    # Of extension types, those made in Python have no hash.
    integers = {key: kind for key, kind in kinds.items() if pa.types.is_integer(kind)}
    numbers = sorted(key for key, kind in integers.items() if kind in _TYPES)
    if not numbers or not is_asked_again(rows.dataset, ("joined by", *numbers)):
        return {}
    known = extremes_of(rows, numbers)
    shown = {}
    for column, found in known.items():
        if found is None or found.ends.null_count:
            continue
        least, most = found.ends.to_pylist()
        kind = kinds[column]
        if least >= 0 and most < min(_MAX_KEY, 2 ** (kind.bit_width - 1) - 1):
            shown[column] = f"system.main.mod({quoted(column)}, {most + 1}::{_TYPES[kind]})"
    return shown
