"""Statements that name Lance tables: each is analyzed once, since programs repeat theirs."""

from __future__ import annotations

from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from duckdb_adapter.lake_names import LakeTable
from duckdb_adapter.queries.guessed_views import GuessedView
from duckdb_adapter.queries.parsing import is_long
from duckdb_adapter.queries.scan_calls import ScanCall
from duckdb_adapter.queries.table_query import MAX_TEXTS, TableQuery

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


def table_query(
    text: str, table: StatementTable, schema: pa.Schema, call: ScanCall | None
) -> TableQuery:
    """Return a statement with a table, which keeps what is found out about it.

    Args:
        text: The whole statement.
        table: The table.
        schema: Its columns; open versions have one object for them.
        call: The arguments of `lance_scan`, if the name stands for a call of it.
    """
    kept = _kept_long if is_long(text) else _kept
    return kept(text, table, _Same(schema), _Same(call))


class _Same(Generic[T]):
    """Something that is equal to itself only."""

    __slots__ = ("it",)

    def __init__(self, it: T) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.it is self.it

    def __hash__(self) -> int:
        return id(self.it)


def _new_query(
    text: str, table: StatementTable, schema: _Same[pa.Schema], call: _Same[ScanCall | None]
) -> TableQuery:
    return TableQuery(text, table.name, table.alias, schema.it, table.view, call.it)


_kept = lru_cache(MAX_TEXTS)(_new_query)
_kept_long = lru_cache(2)(_new_query)
