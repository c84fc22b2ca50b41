"""The keys that a table has to be joined by, as DuckDB finds them in something of its own.

Such as a table, a DataFrame or a Parquet file (`queries.outside_tables`). DuckDB does not tell the
Arrow scan which keys it has hashed. So a condition of what stands for the Lance table reads them,
before its scan begins, and tells them by a call of our function:

    SELECT * FROM reader WHERE (
        SELECT _lancefs_bind(keys) FROM (SELECT name AS key FROM hosts WHERE …)
    ) IS NOT NULL

Nothing is told of views, which may return other rows when they are read again; of columns that the
other table has not, which are columns of another one then; of strings that are compared in another
way than by their bytes; and of many rows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence, Sized
from typing import TypeGuard

import pyarrow as pa

from duckdb_adapter.engine_settings import EngineSettings
from duckdb_adapter.identifiers import fold, literal, quoted
from duckdb_adapter.queries.computed_keys import KeySource
from duckdb_adapter.sources.extremes import ends_of
from duckdb_adapter.sources.found_keys import MAX_KEYS, FoundKeys, can_find
from duckdb_adapter.sources.rows import RowSource
from duckdb_adapter.told_values import ToldValues
from lancefs.datafile.arrays import is_text
from lancefs.datafile.constants import array_of
from lancefs.scan.selectivity import sample_of

# The types of keys, as Arrow has them, by DuckDB's names.
_KINDS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_ENUM, _DOUBLE = "ENUM(", "DOUBLE"
# Whole numbers below this are the only ones that a number of 64 bits is equal to.
_MAX_EXACT = 2**53
# Keys are looked for among so many rows, which takes DuckDB some milliseconds: those that pass a
# condition, and all rows, of which those of a large table are likely to have most keys.
_MAX_PASSING, _MAX_ROWS = 64 * 1024, 16 * 1024
# What DuckDB calls the type of a column that another scope gives.
_MISSING = '"NULL"'
# Times and dates as DuckDB writes them that Arrow reads, too: years of four digits.
_DAY = r"\d{4}-\d\d-\d\d"
_TEXTS = {"DATE": re.compile(_DAY), "TIMESTAMP": re.compile(rf"{_DAY} \d\d:\d\d:\d\d(\.\d+)?")}
# Whether strings are compared by something else than their bytes: in each of DuckDB's collations,
# one of these pairs is equal.
_EQUAL_PAIRS = (
    ("chr(65)", "chr(97)"),
    ("chr(97)", "chr(225)"),
    ("chr(225)", "concat('a', system.main.chr(769))"),
)
_ROW = "rowid"
# What the keys are called beside the columns of the scope around them.
_FOUND = "lancefs_found"
# Classes of what holds rows in memory, by their libraries.
_HOLDING = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}
# A view that pandas' rows were registered by, as DuckDB writes it.
_REGISTERED = " AS SELECT * FROM pandas_scan() AS __duckdb_source_"


class ToldKeys(ToldValues):
    """The keys of a table, once DuckDB has told them.

    Args:
        key: Where they are.
        is_variable: Whether that is a variable of Python, if it is no table of the database.
        is_text: Whether the column of the table that is joined by them is one of strings.

    Attributes:
        column: The column of the table that is joined by them.
        found: The keys; None where they are not known.
    """

    reads_tables = True

    def __init__(self, key: KeySource, is_variable: bool, is_text: bool) -> None:
        super().__init__()
        self.column = key.column
        self.places, self.used = key.places, key.read
        self.found: FoundKeys | None = None
        self._key = key
        self._is_variable = is_variable
        self._is_text = is_text
        self._most = _MAX_PASSING if key.has_where else _MAX_ROWS

    def told(self) -> str:
        """Return the condition that tells them; see `condition`."""
        least, most = "system.main.min(key)", "system.main.max(key)"
        parts = {
            "type": f"system.main.typeof({least})",
            "rows": "system.main.sum(rows)",
            "count": "system.main.count(key)",
            "ends": f"CAST(system.main.list_value({least}, {most}) AS VARCHAR[])",
            "keys": f"CAST(system.main.min(key, {MAX_KEYS}) AS VARCHAR[])",
            "collated": self._is_collated(),
        }
        listed = ", ".join(f"'{name}', {value}" for name, value in parts.items())
        return self.condition(f"system.main.json_object({listed})", self._grouped())

    def note(self, told: str) -> None:
        """Note the keys."""
        found = json.loads(told)
        count = found["count"]
        if count and found["rows"] <= self._most and not found["collated"]:
            keys = found["keys"] if count <= MAX_KEYS else None
            self.found = _found_keys(found["type"], found["ends"], keys)
            if self.found is not None:
                self.found.operator = self._key.operator

    def _grouped(self) -> str:
        """Return the query of the keys, each once, with the number of its rows."""
        key = self._key
        alias, names = quoted(key.alias), list(map(quoted, key.used))
        # Where the other one lacks a column, that of a scope around it is meant.
        scope = ", ".join(
            f"NULL AS {quoted(name)}" for name in sorted({_ROW, *map(fold, key.used)})
        )
        tests = [f"system.main.typeof({alias}.{name}) <> '{_MISSING}'" for name in names]
        where = f"{key.rows} {'AND' if key.has_where else 'WHERE'}"
        tested = " AND ".join([*tests, self._is_same()])
        rows = f"SELECT {alias}.{quoted(key.key)} AS key{where} {tested}"
        if key.function:  # the statement's own, which may be a macro
            rows = f"SELECT {key.function}(key) AS key FROM ({rows})"
        rows = f"{rows} LIMIT {self._most + 1}"
        return (
            f"SELECT key, system.main.count(*) AS rows "
            f"FROM (SELECT {_FOUND}.key FROM (SELECT {scope}) AS {alias}, ({rows}) AS {_FOUND}) "
            "GROUP BY key"
        )

    def _is_same(self) -> str:
        """Return a condition that is false of views, which may return other rows another time."""
        key = self._key
        if not key.name or key.is_captured:
            return "true"
        if not self._is_variable:  # no view has this column, nor has what is no table
            return f"{quoted(key.alias)}.{_ROW} IS NOT NULL"
        return (
            "NOT EXISTS (FROM system.main.duckdb_views() WHERE system.main.lower(view_name) = "
            f"system.main.lower({literal(key.name)}) AND NOT "
            f"system.main.contains(sql, {literal(_REGISTERED)}))"
        )

    def _is_collated(self) -> str:
        """Return whether keys are compared by something else than their bytes, in SQL."""
        key = self._key
        if not self._is_text or self._is_variable or not key.name or key.is_captured:
            return "false"
        pairs = (
            f"CASE WHEN key IS NULL THEN key ELSE system.main.{one} END = system.main.{other}"
            for one, other in _EQUAL_PAIRS
        )
        return f"system.main.bool_or({' OR '.join(pairs)})"


def told_keys(
    rows: RowSource, wanted: Sequence[KeySource], settings: EngineSettings
) -> list[ToldKeys]:
    """Return the keys of something else that a table has to be joined by, to be told.

    Args:
        rows: The rows of the table.
        wanted: Where there are keys.
        settings: How DuckDB answers it.
    """
    keys = list[ToldKeys]()
    for key in wanted:
        kind = rows.filter_field(key.column).type if rows.can_filter(key.column) else pa.null()
        if not can_find(kind) or (is_text(kind) and not settings.compares_bytes()):
            continue
        if not (all(map(_can_be_read_twice, key.files)) and _has_few_groups(rows, key.groups)):
            continue
        variable = settings.variable(key.name) if key.name else None
        held = variable if _holds_rows(variable) else None
        if held is not None and not (key.has_where or key.function) and len(held) > _MAX_ROWS:
            continue
        if held is not None or (variable is None and not key.is_captured):
            keys.append(ToldKeys(key, held is not None, is_text(kind)))
    return keys


def _has_few_groups(rows: RowSource, columns: Sequence[str]) -> bool:
    """Whether a table has few combinations of values, so that they are found in a short time."""
    if rows.table is None:
        return False
    version = rows.table.opened
    samples = [sample_of(version.column(name), version) for name in columns]
    return all(each is not None and 2 * len(each.unique()) <= len(each) for each in samples)


def _can_be_read_twice(path: str) -> bool:
    """Whether a path is one of a file here, or a pattern: not of a pipe, nor of a store."""
    return "://" not in path and (os.path.isfile(path) or any(sign in path for sign in "*?["))


def _holds_rows(variable: object) -> TypeGuard[Sized]:
    """Whether a variable of Python holds rows that can be read twice."""
    kind = type(variable)
    return (kind.__module__.partition(".")[0], kind.__name__) in _HOLDING


def _found_keys(kind: str, ends: Sequence[str], keys: Sequence[str] | None) -> FoundKeys | None:
    """Return keys as texts as such of a type; None where Arrow has them not as DuckDB does.

    Args:
        kind: DuckDB's name of the type.
        ends: The least and the greatest key.
        keys: All of them; None for too many.
    """
    if kind == _DOUBLE:
        kind, keys = "BIGINT", None if keys is None else _as_integers(keys)
    elif kind.startswith(_ENUM):
        kind = "VARCHAR"
    elif kind in _TEXTS and not all(map(_TEXTS[kind].fullmatch, ends)):
        return None
    else:
        return _of_texts(kind, ends, keys)
    # The ends are those of another order.
    return None if keys is None else _of_texts(kind, keys, keys)


def _of_texts(kind: str, ends: Sequence[str], keys: Sequence[str] | None) -> FoundKeys | None:
    decimal = _DECIMAL.fullmatch(kind)
    arrow = pa.decimal128(*map(int, decimal.groups())) if decimal else _KINDS.get(kind)
    if arrow is None:
        return None
    first_last = ends_of(array_of(ends, pa.string()).cast(arrow))
    return FoundKeys.of(first_last, keys and array_of(keys, pa.string()).cast(arrow))


def _as_integers(keys: Sequence[str]) -> Sequence[str] | None:
    """Return the whole numbers among keys; None where one may be equal to several."""
    numbers = list(map(float, keys))
    if any(abs(number) >= _MAX_EXACT for number in numbers):
        return None
    return [str(int(number)) for number in numbers if number.is_integer()]
