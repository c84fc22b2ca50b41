"""The rows for a query that uses only their number.

The replacement is a query over DuckDB's own `range`, or over a Parquet file of as many nulls, which
DuckDB counts by its footer (`row_count_files`). Neither reads the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from duckdb_adapter.identifiers import literal, quoted
from duckdb_adapter.queries.column_uses import inner_paths
from duckdb_adapter.sources.replacement import Replacement, TableOf
from duckdb_adapter.sources.row_count_files import RowCountFiles
from duckdb_adapter.sources.rows import RowSource

# What stands for a value that is there.
_THERE = "1::TINYINT"
# Rows from which on DuckDB opens a file sooner than it counts its own `range`.
_MIN_IN_FILE = 1024 * 1024
_files = RowCountFiles()


@dataclass(frozen=True, slots=True)
class RowCount(Replacement):
    """Rows of which only the number is used.

    Attributes:
        source: A table in SQL that has as many rows.
        columns: Columns of which a query asks whether values are missing, which none are; of
            structs with the members of which it asks that.
        required_builtins: See `Replacement`.
    """

    source: str
    columns: Mapping[str, list[str]]
    required_builtins: frozenset[str]
    has_all_columns = False

    def query(self, table_of: TableOf) -> str:
        shown = [
            f"{_constant(members)} AS {quoted(name)}" for name, members in self.columns.items()
        ]
        return f"SELECT {', '.join(shown) or _THERE} FROM {self.source}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads: none."""
        return {}


def table_of_rows(count: int, finds_file: Callable[[str], bool]) -> str:
    """Return a table in SQL of so many rows, which DuckDB counts as quickly as it can.

    Args:
        count: The number.
        finds_file: Whether there is a file that DuckDB may read.
    """
    path = _files.path_of(count, finds_file) if count >= _MIN_IN_FILE else None
    if path is None:
        return range_table(count)
    return f"system.main.read_parquet({literal(path)})"


def range_table(count: int) -> str:
    """Return a table in SQL of so many rows: DuckDB's own function, whatever macros there are."""
    return f"system.main.range({count})"


def _constant(members: Sequence[str]) -> str:
    """Return what stands for values of a column: one that is there, with members that are.

    Args:
        members: Their paths; none of a column whose members are not used.
    """
    if not any(members):
        return _THERE
    inner = inner_paths(members).items()
    values = (f"{quoted(name)}: {_constant(rests)}" for name, rests in inner)
    return "{" + ", ".join(values) + "}"
