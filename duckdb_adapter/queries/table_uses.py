"""All analyses of a statement, cached by its text, because programs repeat their queries."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.lake_names import LakeTable
from duckdb_adapter.queries.called_functions import (
    CalledFunctions,
    functions_of_sole_use,
    takes_encoded_lists,
)
from duckdb_adapter.queries.computed_filters import ComputedFilter, computed_filter
from duckdb_adapter.queries.extreme_tests import ExtremeUses, extreme_uses
from duckdb_adapter.queries.groups import RepeatedColumns, repeated_columns
from duckdb_adapter.queries.guessed_views import GuessedView
from duckdb_adapter.queries.joins import join_keys, may_join, tests_constants
from duckdb_adapter.queries.limits import LimitedRange, limited_range, sampled_rows
from duckdb_adapter.queries.members import UsedColumns, used_columns
from duckdb_adapter.queries.parsing import is_long
from duckdb_adapter.queries.partitions import top_n_of_partitions
from duckdb_adapter.queries.pivots import BIND_COUNT, pivot_groups
from duckdb_adapter.queries.scan_calls import ScanCall
from duckdb_adapter.queries.sorts import sorted_columns
from duckdb_adapter.queries.table_query import MAX_TEXTS, TableQuery
from duckdb_adapter.queries.top_n import TopN, top_n_of
from duckdb_adapter.queries.unpushed_filters import unpushed_conditions
from lancefs.forks import cached_property

T = TypeVar("T")


class StatementTable(NamedTuple):
    """A table, and how statements may name it.

    Attributes:
        name: As it stands in the text.
        alias: What it is called where the statement gives it no name.
        view: The view through which it is read, if the statement names that.
    """

    name: str
    alias: str
    view: LakeTable | GuessedView | None


class TableUses:
    """What a statement uses of a table.

    Args:
        query: The statement with the table.
    """

    def __init__(self, query: TableQuery) -> None:
        self.query = query

    @cached_property
    def top_n(self) -> TopN | None:
        """The first rows of all, or of each group, where it uses no others."""
        return top_n_of(self.query) or top_n_of_partitions(self.query)

    @cached_property
    def bind_count(self) -> int:
        """How often DuckDB binds the name where the statement selects from it, at its start."""
        return BIND_COUNT if pivot_groups(self.query) else 1

    @cached_property
    def columns(self) -> UsedColumns:
        """How it uses columns."""
        return used_columns(self.query)

    @cached_property
    def join_keys(self) -> frozenset[str]:
        """The columns that it joins the table by."""
        return join_keys(self.query)

    @cached_property
    def sorted_columns(self) -> Collection[str]:
        """The columns that it sorts, or carries along, where it sorts all rows."""
        return sorted_columns(self.query)

    @cached_property
    def may_join(self) -> bool:
        """Whether it is worthwhile to look at how it joins tables."""
        return may_join(self.query.text)

    @cached_property
    def tests_constants(self) -> bool:
        """Whether it joins rows of the table for which a comparison with constants is true."""
        return tests_constants(self.query)

    @cached_property
    def takes_encoded_lists(self) -> bool:
        """Whether lists of strings may come with dictionaries."""
        return takes_encoded_lists(self.query)

    @cached_property
    def repeated_columns(self) -> RepeatedColumns:
        """The columns of whose values each is likely to be used many times."""
        return repeated_columns(self.query)

    @cached_property
    def limited_range(self) -> LimitedRange | None:
        """The rows that it takes by their positions, where it uses no others."""
        return limited_range(self.query)

    @cached_property
    def sampled_rows(self) -> int:
        """How many rows it draws at random, where it uses no others."""
        return sampled_rows(self.query)

    @cached_property
    def functions_of_sole_use(self) -> CalledFunctions | None:
        """The functions that have to be DuckDB's own if it uses the table once; None if it may not.

        See `called_functions.functions_of_sole_use`.
        """
        return functions_of_sole_use(self.query)

    @cached_property
    def extremes(self) -> ExtremeUses | None:
        """The extremes that it computes of the table, or compares columns with."""
        return extreme_uses(self.query)

    @cached_property
    def unpushed_conditions(self) -> list[pc.Expression]:
        """What is true for all rows that it uses, and DuckDB does not push down."""
        return unpushed_conditions(self.query)

    @cached_property
    def computed_filter(self) -> ComputedFilter | None:
        """What WHERE tests, where DuckDB computes a part of it, and other columns are used."""
        return computed_filter(self.query)


def table_uses(
    text: str, table: StatementTable, schema: pa.Schema, call: ScanCall | None
) -> TableUses:
    """Return what a statement uses of a table.

    Args:
        text: The whole statement.
        table: The table.
        schema: Its columns; open versions have one object for them.
        call: The arguments of `lance_scan`, if the name stands for a call of it.
    """
    uses = _uses_in_long if is_long(text) else _uses
    return uses(text, table, _Same(schema), _Same(call))


class _Same(Generic[T]):
    """Something that is equal to itself only."""

    __slots__ = ("it",)

    def __init__(self, it: T) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.it is self.it

    def __hash__(self) -> int:
        return id(self.it)


def _new_uses(
    text: str, table: StatementTable, schema: _Same[pa.Schema], call: _Same[ScanCall | None]
) -> TableUses:
    query = TableQuery(text, table.name, table.alias, schema.it, table.view, call.it)
    return TableUses(query)


_uses = lru_cache(MAX_TEXTS)(_new_uses)
_uses_in_long = lru_cache(2)(_new_uses)
