"""Queries that use struct members, or only whether values are null: `sum(req.status), count(x)`.

DuckDB reads whole structs from the Arrow scan, and the values of columns whose nulls it only
counts. If the text proves that the query uses some members only, the table is shown to DuckDB with
structs of these members; if it uses a column or member only in `count(…)` and `IS [NOT] NULL`, with
a column of booleans with the same nulls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import ColumnUses, PathUse, members_named
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query

# What a text has that may test whether values are missing.
_TESTS = re.compile(r"\bcount\s*\(\s*[^*\s]|null\b", re.IGNORECASE)
# What a text has that counts rows.
_COUNTS = re.compile(r"\bcount\s*\(\s*[*)]", re.IGNORECASE)


class UsedColumns(NamedTuple):
    """What a query uses of columns, where that is less than all.

    Attributes:
        members: Paths of members, in the order of the type, by the name of the struct, of which the
            query uses no others; of one that is a struct, `geo.city` is a member.
        tested: Columns, and members by their paths, of which it uses whether values are missing.
        counts: Whether it does so by `count`, which may also be the name of a macro.
        no_values: Whether it uses nothing but this, and how many rows there are.
    """

    members: Mapping[str, list[str]] = {}
    tested: frozenset[str] = frozenset()
    counts: bool = False
    no_values: bool = False

    @property
    def uses_nothing(self) -> bool:
        """Whether it uses nothing but the number of rows."""
        return self.no_values and not (self.members or self.tested)


@kept_by_query
def used_columns(query: TableQuery) -> UsedColumns:
    """Return what a query uses of columns."""
    text = query.text
    rest = text.replace(query.name, "").lower()
    tests_nulls = _TESTS.search(text) is not None
    counts_rows = _COUNTS.search(text) is not None
    if not (tests_nulls or counts_rows or "." in rest):  # a dot stands before each member
        return UsedColumns()
    structs = {fold(name): kind for name, kind in query.structs.items()}
    if not (tests_nulls or counts_rows or _has_any(structs, rest)):
        return UsedColumns()
    if query.table_select is None or query.uses is None:
        return UsedColumns()
    return reduce_uses(query.uses, structs, query.columns)


@kept_by_query
def untested_members(query: TableQuery) -> Mapping[str, list[str]]:
    """Return the members of structs that a query uses, of which WHERE tests none.

    DuckDB pushes no test down to structs that get more members by a query in between.
    """
    select, members = query.table_select, used_columns(query).members
    if select is None or not members:
        return {}
    kept = ("type", "from_table", "where_clause")
    tested = query.uses_in({key: select[key] if key in kept else [] for key in select})
    return {
        name: paths
        for name, paths in members.items()
        if tested is not None and fold(name) not in tested
    }


def _has_any(columns: Iterable[str], text: str) -> bool:
    """Whether the name of a column may stand in a text, which is in lower case."""
    return any(column.lower() in text for column in columns)


def reduce_uses(
    uses: ColumnUses, structs: Mapping[str, pa.StructType], columns: Mapping[str, str]
) -> UsedColumns:
    """Return what is less than the whole columns that are used.

    Args:
        uses: The uses of columns.
        structs: The structs, by their names in lower case.
        columns: All columns by their names in lower case.
    """
    members: dict[str, list[str]] = {}
    tested: dict[str, PathUse] = {}
    for column, of_column in uses.items():
        name, whole = columns[column], of_column.get("")
        if whole is not None:
            if len(of_column) == 1 and whole.is_tested:
                tested[name] = whole
            continue
        if column not in structs:
            continue
        known = members_named(structs[column], of_column)
        alone = [each for each in known if _is_alone(fold(each), of_column)]
        own = {f"{name}.{each}": of_column[fold(each)] for each in alone}
        own = {path: use for path, use in own.items() if use.is_tested}
        if known and (own or known != structs[column].names):
            members[name] = known
            tested |= own
    counts = any(use.is_count_argument for use in tested.values())
    no_values = len(tested) == sum(map(len, uses.values()))
    return UsedColumns(members, frozenset(tested), counts, no_values)


def _is_alone(path: str, paths: Collection[str]) -> bool:
    """Whether a member is used by its name, and none that is in it."""
    return path in paths and not any(each.startswith(f"{path}.") for each in paths)
