"""Comparisons of a column with a value that DuckDB computes: `x > (SELECT avg(x) FROM 't.lance')`.

Also `ts > now() - INTERVAL 7 DAY` of a column of times without a zone: DuckDB casts the column, in
the zone of the session, and pushes such a comparison down to no scan. Times that a program gives,
`ts > $1`, may have a zone, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.aggregate_values import (
    AggregateValue,
    aggregate_value,
    makes_one_row,
)
from duckdb_adapter.queries.computed_keys import KeySource, computed_keys, is_grouped
from duckdb_adapter.queries.function_names import AGGREGATES
from duckdb_adapter.queries.joins import join_conditions
from duckdb_adapter.queries.parsing import expression_to_sql
from duckdb_adapter.queries.repeatable import is_of_row
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.table_reads import TableRead, count_places, reads_in
from duckdb_adapter.queries.times import ORDERING, ZONED
from duckdb_adapter.queries.trees import (
    NamedColumns,
    compared_values,
    expressions_in,
    function_of,
    name_alone,
)

# Functions of the present time, which has a zone.
_NOW = {"now", "get_current_timestamp", "transaction_timestamp"}
# The same without brackets, which is a name to the parser.
_NAMED_NOW = "current_timestamp"
# A statement without any of these is not parsed.
_MAY_HAVE_ZONES = re.compile(
    r"\bnow\b|\bcurrent_timestamp\b|\btransaction_timestamp\b|timestamptz|\btime\s+zone\b|[$?]",
    re.IGNORECASE,
)
_SELECT, _LISTS = re.compile(r"\bselect\b"), re.compile(r"\b(?:any|unnest|values)\b")
_AGGREGATE = re.compile(rf"\b(?:{'|'.join(sorted(AGGREGATES))})\s*\(")
_MAX = 4


class ComputedBound(NamedTuple):
    """A value that a statement computes, with which it compares a column.

    Attributes:
        column: The column.
        operator: The comparison, a function of Arrow.
        value: The value, and what is read of the table for it.
    """

    column: str
    operator: str
    value: AggregateValue


class ComputedValues(NamedTuple):
    """What DuckDB computes of all rows that a query uses of a table, or of other rows of it.

    Attributes:
        bounds: What columns are compared with.
        keys: What they are equal to one of.
    """

    bounds: list[ComputedBound]
    keys: list[KeySource]


@kept_by_query
def computed_values(query: TableQuery) -> ComputedValues:
    """Return what columns of a table are compared with that DuckDB computes.

    Nothing where the table stands in more places than the one where rows are compared, and those
    where the values are computed.

    Args:
        query: The statement with the table.
    """
    nothing, text = ComputedValues([], []), query.text.lower()
    moments = _moments(query, text) if _MAY_HAVE_ZONES.search(text) else set()
    if not query.columns or not (moments or _may_compute(text)):
        return nothing
    root, read = query.statement_root, _read_of(query)
    if root is None or read is None or read.select.get("sample"):
        return nothing
    compared = _Comparisons(query, read, moments)
    bounds = [bound for term in join_conditions(read.select) for bound in compared.bounds(term)]
    keys = [
        key
        for key in computed_keys(query, read)
        if not key.places or compared.uses_others({*key.read, fold(key.column)})
    ]
    places = 1 + sum(each.value.places for each in bounds) + sum(each.places for each in keys)
    is_known = len(bounds) + len(keys) <= _MAX and places == count_places(root, query.names)
    return ComputedValues(bounds, keys) if is_known else nothing


def _may_compute(text: str) -> bool:
    """Whether a statement in lower case may list values, or compute them of other rows."""
    if _LISTS.search(text) is not None:
        return True
    return len(_SELECT.findall(text)) > 1 and _AGGREGATE.search(text) is not None


def _moments(query: TableQuery, text: str) -> set[str]:
    """Return the columns of times without a zone whose names stand in a text in lower case."""
    kinds = {field.name: field.type for field in query.schema if field.name.lower() in text}
    return {name for name, kind in kinds.items() if pa.types.is_timestamp(kind) and not kind.tz}


def _read_of(query: TableQuery) -> TableRead | None:
    """Return the SELECT that reads the table for other things than aggregates."""
    if query.table_read is not None or query.statement_root is None:
        return query.table_read
    reads = [read for read in reads_in(query.statement_root) if query.names(read.source)]
    others = [
        read
        for read in reads
        if not (makes_one_row(read.select, query) or is_grouped(read.select, query))
    ]
    return others[0] if len(others) == 1 else None


class _Comparisons:
    """What a SELECT compares columns of a table with.

    Args:
        query: The statement with the table.
        read: The SELECT.
        moments: The columns of times without a zone.
    """

    def __init__(self, query: TableQuery, read: TableRead, moments: set[str]) -> None:
        self._query = query
        self._read = read
        self._columns = NamedColumns(query.columns, query.table_names(read.source))
        self._moments = moments

    def bounds(self, term: Mapping[str, Any]) -> Iterator[ComputedBound]:
        """Yield what a condition compares a column with."""
        for column, operator, other in compared_values(term, self._columns):
            value = self._value(column, other) if operator in ORDERING else None
            if value is not None:
                yield ComputedBound(column, operator, value)

    def _value(self, column: str, expression: Mapping[str, Any]) -> AggregateValue | None:
        """Return the value of an expression that DuckDB does not push down; None for others."""
        if column in self._moments and self._may_have_zone(expression):
            text = expression_to_sql(expression)
            return AggregateValue(text, 0, frozenset()) if text else None
        if not self._query.is_by_name:
            return None
        value = aggregate_value(expression, self._query, self._read)
        # If no other columns are used than those that the value takes, it costs what it saves.
        return value if value is None or self.uses_others({*value.used, fold(column)}) else None

    def uses_others(self, columns: set[str]) -> bool:
        """Whether other columns may be used than some, besides those of conditions."""
        if self._query.table_select is None:
            return True
        uses = self._query.uses_in({**self._query.table_select, "where_clause": None})
        return uses is None or not columns.issuperset(uses)

    def _may_have_zone(self, expression: Mapping[str, Any]) -> bool:
        """Whether an expression uses no column, and may be a time with a zone."""
        is_found = False
        for each in expressions_in(expression):
            is_now = name_alone(each) == _NAMED_NOW and _NAMED_NOW not in self._columns.by_name
            is_given = each["class"] == "PARAMETER"
            if not (is_now or is_given) and (each["class"] == "COLUMN_REF" or not is_of_row(each)):
                return False
            is_zoned = each.get("type_expr", {}).get("type_name", "").upper() in ZONED
            is_found |= is_now or is_given or is_zoned or function_of(each) in _NOW
        return is_found
