"""The rows for a query that uses only the distinct values of columns and their counts.

The replacement repeats each value, or combination of values, as often as the table has it: by a
join with DuckDB's own `range`. That gives DuckDB constant vectors, which it tests, computes and
groups once for 2,048 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from duckdb_adapter.identifiers import fold, quoted
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.value_counts import value_count_paths
from duckdb_adapter.sources.column_values import (
    MAX_ROWS,
    count_values,
    has_index,
    is_asked_again,
    is_countable,
    type_of,
)
from duckdb_adapter.sources.replacement import Replacement, TableOf
from duckdb_adapter.sources.row_counts import range_table
from duckdb_adapter.sources.rows import Rows, RowSource
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset
from lancefs.table.per_version import PerVersion

# Rows of one value that DuckDB gets at once: as many as its vectors hold, and a part of that.
_BLOCKS = (2048, 256)
# The column that says how often a row is to be repeated.
_TICKS = "__lance_ticks"
_REST = "single rows"
# Up to this many values of a column of strings, handing over a few rows of each is quicker than
# handing over all rows.
_FEW = 1024
# Rows of a table that are counted although an index may find those that are used.
_MAX_COUNTED = 16 * 1024 * 1024


@dataclass(frozen=True)
class ValueCountRows(Replacement):
    """Rows that are some values over and over again: one at least.

    Attributes:
        values: Each combination of the values of the columns once.
        counts: How many rows have it.
        required_builtins: See `Replacement`.
    """

    values: pa.Table
    counts: Ints
    required_builtins: frozenset[str] = frozenset()
    has_all_columns = False

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads."""
        return self._tables

    def query(self, table_of: TableOf) -> str:
        """Return the query that the name of the table stands for."""
        columns = ", ".join(map(quoted, self.values.column_names))
        parts = [
            f"{table_of(_blocks(rows))} CROSS JOIN {range_table(rows)} AS _({_TICKS})"
            for rows in _BLOCKS
            if _blocks(rows) in self._tables
        ]
        if _REST in self._tables:
            parts.append(f"(SELECT {columns}, unnest({_TICKS}) FROM {table_of(_REST)})")
        return " UNION ALL ".join(f"SELECT {columns} FROM {part}" for part in parts)

    @cached_property
    def _tables(self) -> dict[str, pa.Table]:
        tables, left = {}, self.counts
        for rows in _BLOCKS:
            places = np.repeat(np.arange(len(left)), left // rows)
            if len(places):
                blocks = self.values.take(to_arrow_numbers(places)).combine_chunks()
                # Of the two chunks of a cross product, DuckDB makes a constant of each row of the
                # shorter one.
                batches = blocks.to_batches(rows // 2)
                tables[_blocks(rows)] = pa.Table.from_batches(batches, blocks.schema)
            left = left % rows
        if left.any():
            ends = to_arrow_numbers(np.append(0, left.cumsum()).astype(np.int32))
            ticks = pa.ListArray.from_arrays(ends, pa.nulls(int(left.sum())))
            tables[_REST] = self.values.append_column(_TICKS, ticks)
        return tables


def _blocks(rows: int) -> str:
    return f"blocks of {rows}"


def can_name(paths: Sequence[str]) -> bool:
    """Whether a query of `ValueCountRows` has no name of its own that is one of some columns."""
    return not any(fold(path).startswith(_TICKS) for path in paths)


# By columns of a version; None where there are too many values.
_ROWS = PerVersion[dict[tuple[str, ...], ValueCountRows | None]](lambda _: {})


def value_count_rows(
    rows: Rows, query: TableQuery, is_binary: Callable[[], bool]
) -> ValueCountRows | None:
    """Return rows for a query that uses only values of columns, and how often they occur.

    Args:
        rows: The rows of a table that the query names once; see `are_values_cached`.
        query: The query.
        is_binary: Tells whether texts are compared by their bytes. Of different texts that are the
            same for a collation, DuckDB shows the first one, so that the order of rows matters.

    Returns:
        None where the query uses more, or there are too many values.

    Raises:
        LanceError: A column cannot be read.
    """
    dataset = rows.dataset

    def is_counted(path: str) -> bool:
        return is_binary() if _is_text(rows, path) else is_countable(type_of(dataset, path))

    paths = value_count_paths(query)
    values = len(paths) * (rows.known_count() or 0)
    if not (paths and can_name(paths)) or values > MAX_ROWS or not all(map(is_counted, paths)):
        return None
    if _is_answered_by_index(rows, query, paths):
        return None
    if not _are_worth_counting(rows, paths):
        return None
    found = _counted(dataset, paths)
    if found is None:
        return None
    # A string is handed to DuckDB with its row, which takes longer than a number of blocks.
    is_one_text = len(paths) == 1 and paths[0] in rows.encoded and len(found.counts) <= _FEW
    are_long = len(found.counts) * _BLOCKS[-1] <= found.counts.sum()
    return found if is_one_text or are_long else None


def _is_text(rows: Rows, path: str) -> bool:
    """Whether a path is a column of texts, or a member of a struct that is one."""
    return path in rows.encoded or pa.types.is_string(type_of(rows.dataset, path))


def _are_worth_counting(rows: Rows, paths: Sequence[str]) -> bool:
    """Whether values are counted for this query; it is noted for which columns that is asked.

    Texts that come without dictionaries are counted in the time in which DuckDB groups by them, so
    that only another query gains by it.
    """
    plain = [path for path in paths if _is_text(rows, path) and path not in rows.encoded]
    were_asked = [is_asked_again(rows.dataset, ("counted", path)) for path in plain]
    return all(were_asked)


def _is_answered_by_index(rows: Rows, query: TableQuery, paths: Sequence[str]) -> bool:
    """Whether an index may find the rows that are used, sooner than all are counted."""
    select = query.table_select
    is_filtered = select is not None and bool(select.get("where_clause"))
    if (rows.known_count() or 0) <= _MAX_COUNTED or not is_filtered:
        return False
    return tuple(paths) not in _ROWS.of(rows.dataset.opened) and has_index(rows.dataset, paths)


def _counted(dataset: LanceDataset, paths: Sequence[str]) -> ValueCountRows | None:
    kept, key = _ROWS.of(dataset.opened), tuple(paths)
    if key not in kept:
        found = count_values(dataset, paths)
        rows = None
        if found is not None:
            rows = ValueCountRows(with_structs(found.combinations()), found.counts)
        kept[key] = rows
    return kept[key]


def with_structs(values: pa.Table) -> pa.Table:
    """Return columns as DuckDB is shown them: members, which come by their paths, in structs."""
    arrays = [column.combine_chunks() for column in values.columns]
    return pa.table(columns_of_paths(dict(zip(values.column_names, arrays, strict=True))))


def columns_of_paths(arrays: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return columns, of which those of structs come as their members by their paths."""
    columns = dict[str, pa.Array]()
    members = dict[str, dict[str, pa.Array]]()
    for path, array in arrays.items():
        name, _, inner = path.partition(".")
        columns[name] = array
        if inner:
            members.setdefault(name, {})[inner] = array
    for name, inside in members.items():
        found = columns_of_paths(inside)
        columns[name] = pa.StructArray.from_arrays([*found.values()], [*found])
    return columns
