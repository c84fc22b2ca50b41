"""Conditions in WHERE that DuckDB does not push down to the Arrow scan.

DuckDB scans all rows, and tests each of them. Rows that do not pass what is found here are left out
by the scan, where dictionaries, indices and the lengths of other columns make it cheap. DuckDB
tests the other rows again, so that a condition may be found that is true of more rows than the one
in the query, never of fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.days import HAS_DAYS, day_condition, has_days
from duckdb_adapter.queries.likes import HAS_PATTERNS, pattern_conditions
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.times import are_nanoseconds, time_test
from duckdb_adapter.queries.trees import NamedColumns, terms_of


@kept_by_query
def unpushed_conditions(query: TableQuery) -> list[pc.Expression]:
    """Return conditions that are true for all rows that a query uses of a table."""
    read = query.table_read if query.columns and _may_have_some(query) else None
    where = None if read is None else read.select.get("where_clause")
    if read is None or where is None or read.select.get("sample"):
        return []
    # A column may be that of another table even where the SELECT has none: a LATERAL subquery names
    # those of tables around it.
    columns = NamedColumns(query.columns, query.table_names(read.source))
    return [each for term in terms_of(where) for each in _conditions(term, columns, query)]


def _may_have_some(query: TableQuery) -> bool:
    """Whether it is worthwhile to parse a statement."""
    if HAS_PATTERNS.search(query.text) is not None:
        return True
    casts = HAS_DAYS.search(query.text) is not None
    names = [
        field.name.lower()
        for field in query.schema
        if _is_unpushed(field.type) or (casts and has_days(field.type))
    ]
    text = query.text.lower() if names else ""
    return "where" in text and any(name in text for name in names)


def _is_unpushed(kind: pa.DataType) -> bool:
    return pa.types.is_boolean(kind) or are_nanoseconds(kind)


def _conditions(
    term: Mapping[str, Any], columns: NamedColumns, query: TableQuery
) -> Iterator[pc.Expression]:
    """Yield what is true of all rows for which a condition is."""
    if term["type"] == "CONJUNCTION_OR":
        either = [list(_conditions(each, columns, query)) for each in term["children"]]
        if all(either):
            yield reduce(or_, [reduce(and_, conditions) for conditions in either])
        return
    if term["class"] == "CONJUNCTION":
        for each in terms_of(term):
            yield from _conditions(each, columns, query)
        return
    yield from pattern_conditions(term, columns)
    flag = flag_condition(term, columns, query.schema)
    if flag is not None:
        yield flag
    time = time_test(term, columns, query.schema)
    if time is not None:
        yield time.condition
    day = day_condition(term, columns, query.schema)
    if day is not None:
        yield day


def flag_condition(
    term: Mapping[str, Any], columns: NamedColumns, schema: pa.Schema
) -> pc.Expression | None:
    """Return what a flag must be for a condition such as `WHERE is_active`; None for others.

    DuckDB pushes down comparisons, such as `is_active = true`, but not the flag alone.

    Args:
        term: The condition.
        columns: The columns of the table, as the query names them.
        schema: Their types.
    """
    is_not = term["type"] == "OPERATOR_NOT"
    column = columns.find(term["children"][0] if is_not else term)
    if column is None or not pa.types.is_boolean(schema.field(column).type):
        return None
    return ~pc.field(column) if is_not else pc.field(column)
