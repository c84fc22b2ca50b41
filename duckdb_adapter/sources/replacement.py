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
    """A query over variables that hold rows, which DuckDB reads in place of a name."""

    @property
    def required_builtins(self) -> frozenset[str]:
        """Functions that have to be DuckDB's own in the statement.

        A macro of such a name may use more of the rows than the function does.
        """
        return frozenset()

    @property
    def required_intervals(self) -> frozenset[str]:
        """Intervals, such as `7 DAY`, that functions have to make as DuckDB's own do."""
        return frozenset()

    @property
    def has_all_columns(self) -> bool:
        """Whether the query returns all columns of what the name stands for."""
        return True

    @abstractmethod
    def query(self, table_of: TableOf) -> str:
        """Return the query.

        Args:
            table_of: Returns each of `variables` as a table in SQL.
        """

    @abstractmethod
    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads."""


class NamedColumnsOnly(Replacement):
    """A replacement with those columns alone that the statement names.

    Attributes:
        functions: The functions that have to be DuckDB's own, see `required_builtins`.
    """

    functions: frozenset[str]

    @property
    def required_builtins(self) -> frozenset[str]:
        """Functions that have to be DuckDB's own in the statement."""
        return self.functions

    @property
    def has_all_columns(self) -> bool:
        """Whether the query returns all columns: it does not."""
        return False


@dataclass(frozen=True, slots=True)
class TableInMemory(Replacement):
    """An Arrow table, such as the rows of a table function.

    Attributes:
        table: The table.
    """

    table: pa.Table

    def query(self, table_of: TableOf) -> str:
        """Return the query."""
        return f"SELECT * FROM {table_of(READER)}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads."""
        return {READER: self.table}
