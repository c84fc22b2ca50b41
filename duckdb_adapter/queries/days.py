"""Comparisons of the days of timestamps in WHERE: `ts::DATE BETWEEN '2026-01-01' AND '2026-01-31'`.

DuckDB pushes down `ts::DATE = …`, as a range of times, and no other comparison of days.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.trees import NamedColumns, comparison_in, constant_text
from lancefs.scan.sql_literals import of_units, unit_bounds

# What a statement has one of that may be found here.
HAS_DAYS = re.compile(r"::\s*date\b|\bcast\s*\(", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_EPOCH = datetime.date(1970, 1, 1).toordinal()
# How many units a day has. DuckDB rounds nanoseconds before 1970 towards it.
_UNITS = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6}
# A comparison of days -> those of the time, each with what it compares with: so many days more.
_OF_TIMES = {
    "equal": (("greater_equal", 0), ("less", 1)),
    "less": (("less", 0),),
    "less_equal": (("less", 1),),
    "greater": (("greater_equal", 1),),
    "greater_equal": (("greater_equal", 0),),
}


def has_days(kind: pa.DataType) -> bool:
    """Whether a column holds times whose days are those of DuckDB: no zone, no nanoseconds."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is None and kind.unit in _UNITS)


def day_condition(
    term: Mapping[str, Any], columns: NamedColumns, schema: pa.Schema
) -> pc.Expression | None:
    """Return what a time must be for a condition on its day; None for other conditions.

    Args:
        term: The condition.
        columns: The columns of the table, as the query names them.
        schema: Their types.
    """
    column, tests = _days_in(term, columns)
    if column is None or not tests or not has_days(schema.field(column).type):
        return None
    kind = schema.field(column).type
    conditions = list[pc.Expression]()
    for operator, day in tests:
        for of_time, more in _OF_TIMES[operator]:
            number = (day + more) * _UNITS[kind.unit]
            least, most = unit_bounds(kind)
            if not least <= number <= most:
                return None
            compare = getattr(pc, of_time)
            conditions.append(compare(pc.field(column), of_units([number], kind)[0]))
    return reduce(and_, conditions)


def _days_in(
    term: Mapping[str, Any], columns: NamedColumns
) -> tuple[str | None, Sequence[tuple[str, int]]]:
    """Return the column whose day is compared, and the comparisons with days since 1970.

    All of these are true of a day that is in a list: it is none before the first.
    """
    if term["type"] == "COMPARE_IN":
        cast, *others = term["children"]
        days = [_day(each) for each in others]
        known = [day for day in days if day is not None]
        if len(known) < len(days):
            return None, ()
        return _column_of(cast, columns), (
            ("greater_equal", min(known)),
            ("less_equal", max(known)),
        )
    for place in ("input", "left", "right"):
        column = _column_of(term[place], columns) if place in term else None
        if column is None:
            continue
        compared = comparison_in({**term, place: term[place]["child"]}, columns.by_name)
        if compared is None or columns.find(compared.column) != column:
            return None, ()
        tests = [
            (operator, day)
            for operator, other in zip(compared.operators, compared.others, strict=True)
            if operator in _OF_TIMES and (day := _day(other)) is not None
        ]
        return column, tests
    return None, ()


def _column_of(expression: Mapping[str, Any], columns: NamedColumns) -> str | None:
    """Return the column that is cast to a day; None for anything else."""
    return columns.find(expression["child"]) if _is_day(expression) else None


def _is_day(expression: Mapping[str, Any]) -> bool:
    named = expression.get("type_expr") or {}
    is_plain = expression["class"] == "CAST" and not expression["try_cast"]
    return bool(is_plain and named.get("type_name", "").upper() == "DATE")


def _day(constant: Mapping[str, Any]) -> int | None:
    """Return the days since 1970 of a constant date; None for anything else."""
    text = constant_text(constant["child"] if _is_day(constant) else constant, "STRING")
    if text is None or _DATE.fullmatch(text) is None:
        return None
    try:
        return datetime.date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:  # there is no such day: DuckDB says so
        return None
