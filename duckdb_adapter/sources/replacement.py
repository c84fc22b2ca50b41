"""`Replacement`: the base of everything that DuckDB can read in place of a table name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb_adapter.sources.rows import RowSource

# The variable by which a replacement query names its reader.
READER = "reader"
# Returns the table in SQL that a variable of a replacement is.
TableOf: TypeAlias = "Callable[[str], str]"


class Replacement(ABC):
    """A query over variables that hold rows, which DuckDB reads in place of a name.

    Attributes:
        required_builtins: Functions that have to be DuckDB's own in the statement: a macro of such
            a name may use more of the rows than the function does.
        required_intervals: Intervals, such as `7 DAY`, that functions have to make as DuckDB's own
            do.
        has_all_columns: Whether the query returns all columns of what the name stands for.
    """

    required_builtins: frozenset[str] = frozenset()
    required_intervals: frozenset[str] = frozenset()
    has_all_columns = True

    @abstractmethod
    def query(self, table_of: TableOf) -> str:
        """Return the query.

        Args:
            table_of: Returns each of `variables` as a table in SQL.
        """

    @abstractmethod
    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads."""


@dataclass(frozen=True, slots=True)
class TableInMemory(Replacement):
    """An Arrow table, such as the rows of a table function.

    Attributes:
        table: The table.
    """

    table: pa.Table

    def query(self, table_of: TableOf) -> str:
        return f"SELECT * FROM {table_of(READER)}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        return {READER: self.table}
