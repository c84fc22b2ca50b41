"""The columns of a table, and how a query may name them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.trees import column_of


class NamedColumns(NamedTuple):
    """The columns of a table, and how a query may name them.

    Attributes:
        by_name: The columns by their names in lower case.
        tables: The qualifiers that mean this table, in lower case; None if it is the only table.
    """

    by_name: Mapping[str, str]
    tables: Set[str] | None

    def find(self, expression: Mapping[str, Any]) -> str | None:
        """Return the column that an expression is; None where it is another one."""
        column = column_of(expression, self.by_name)
        if column is None:
            return None
        table = [fold(part) for part in expression["column_names"][:-1]]
        is_ours = self.tables is None or {*table} <= self.tables
        return self.by_name[column] if is_ours else None
