"""Comparisons of a column of times with a time that has a zone: `ts > now() - INTERVAL 7 DAY`.

DuckDB casts the column, in the zone of the session, and pushes such a comparison down to no scan.
Times that a program gives, `ts > $1`, may have a zone, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from duckdb_adapter.queries.computed_filters import is_of_row
from duckdb_adapter.queries.parsing import tail_to_sql
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.times import ORDERING, ZONED
from duckdb_adapter.queries.trees import (
    NamedColumns,
    comparison_in,
    expressions_in,
    function_of,
    name_alone,
    terms_of,
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
_MAX_BOUNDS = 4


class ZonedBound(NamedTuple):
    """A time that a statement computes, with which it compares a column.

    Attributes:
        column: The column.
        operator: The comparison, a function of Arrow.
        time: The expression in SQL.
    """

    column: str
    operator: str
    time: str


@kept_by_query
def zoned_bounds(query: TableQuery) -> list[ZonedBound]:
    """Return what columns of times are compared with in all rows that a query uses of a table.

    Args:
        query: The statement with the table.
    """
    tested = query.text.lower().partition("where")[2]
    moments = {
        field.name
        for field in query.schema
        if _is_moment(field.type) and field.name.lower() in tested
    }
    if not (moments and query.columns and _MAY_HAVE_ZONES.search(tested)):
        return []
    read = query.table_read
    where = None if read is None else read.select.get("where_clause")
    if read is None or where is None or read.select.get("sample"):
        return []
    columns = NamedColumns(query.columns, query.table_names(read.source))
    found = (bound for term in terms_of(where) for bound in _bounds(term, columns))
    return [bound for bound in found if bound.column in moments][:_MAX_BOUNDS]


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def _bounds(term: Mapping[str, Any], columns: NamedColumns) -> Iterator[ZonedBound]:
    """Yield what a condition compares a column with."""
    compared = comparison_in(term, columns.by_name)
    column = None if compared is None else columns.find(compared.column)
    if compared is None or column is None:
        return
    for operator, other in zip(compared.operators, compared.others, strict=True):
        if operator in ORDERING and _may_have_zone(other, columns):
            text = tail_to_sql(other, [])
            if text is not None:
                yield ZonedBound(column, operator, text.removeprefix(" WHERE "))


def _may_have_zone(expression: Mapping[str, Any], columns: NamedColumns) -> bool:
    """Whether an expression uses no column, and may be a time with a zone."""
    is_found = False
    for each in expressions_in(expression):
        is_now = name_alone(each) == _NAMED_NOW and _NAMED_NOW not in columns.by_name
        is_given = each["class"] == "PARAMETER"
        if not (is_now or is_given) and (each["class"] == "COLUMN_REF" or not is_of_row(each)):
            return False
        is_zoned = each.get("type_expr", {}).get("type_name", "").upper() in ZONED
        is_found |= is_now or is_given or is_zoned or function_of(each) in _NOW
    return is_found
