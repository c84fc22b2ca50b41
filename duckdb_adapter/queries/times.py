"""Comparisons of timestamps in WHERE: `ts >= '2026-01-01'`, as conditions for Arrow.

DuckDB pushes down comparisons of timestamps in seconds, milliseconds and microseconds, but not in
nanoseconds, which pandas wrote before version 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.trees import NamedColumns, comparison_in, constant_text
from lancefs.scan.sql_literals import of_units, parse_moment, unit_bounds

# How DuckDB writes times; it reads more than that.
_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,%d})?)?"
_OFFSET = re.compile(r"(?<=\d)[-+]\d{2}(?::\d{2})?\Z", re.ASCII)
# Types that a text is cast to, and the texts that mean the same time as the type.
_TEXTS = {
    "DATE": re.compile(_DATE, re.ASCII),
    "TIMESTAMP": re.compile(rf"{_DATE}(?:[ T]{_CLOCK % 6})?", re.ASCII),
    "TIMESTAMP_NS": re.compile(rf"{_DATE}(?:[ T]{_CLOCK % 9})?", re.ASCII),
}
# Types of times that have a zone, as texts name them.
ZONED = ("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
# Comparisons of which each says where a time lies beside another one.
ORDERING = {"equal", "less", "greater", "less_equal", "greater_equal"}
_DAY = 24 * 60 * 60 * 10**9
# What DuckDB cuts off a time of a zone.
_MICROSECOND = 1000


class _Instant(NamedTuple):
    """A time that a text means, in nanoseconds: what it may be, where that is not known."""

    least: int
    most: int


class TimeTest(NamedTuple):
    """What a time must be.

    Attributes:
        column: The column of the time.
        kind: Its type.
        operators: The functions of Arrow that must all be true, and what each compares with.
        is_exact: Whether they say all that the query says, and not less.
    """

    column: str
    kind: pa.DataType
    operators: tuple[tuple[str, int], ...]
    is_exact: bool

    @property
    def condition(self) -> pc.Expression:
        """The condition for Arrow."""
        field = pc.field(self.column)
        each = [
            getattr(pc, operator)(field, of_units([number], self.kind)[0])
            for operator, number in self.operators
        ]
        return reduce(and_, each)


def are_nanoseconds(kind: pa.DataType) -> bool:
    """Whether a column holds times for which DuckDB asks no scan."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def time_test(term: Mapping[str, Any], columns: NamedColumns, schema: pa.Schema) -> TimeTest | None:
    """Return what a time of nanoseconds must be for a condition; None for other conditions.

    Args:
        term: The condition.
        columns: The columns of the table, as the query names them.
        schema: Their types.
    """
    compared = comparison_in(term, columns.by_name)
    column = None if compared is None else columns.find(compared.column)
    if compared is None or column is None or not {*compared.operators} <= ORDERING:
        return None
    kind = schema.field(column).type
    if not are_nanoseconds(kind):
        return None
    found = [_instant(other, kind) for other in compared.others]
    tests = list[tuple[str, int]]()
    for operator, instant in zip(compared.operators, found, strict=True):
        if instant is None:
            return None
        tests += _bounds(operator, instant)
    least, most = unit_bounds(kind)
    if not all(least <= number <= most for _, number in tests):
        return None
    return TimeTest(column, kind, tuple(tests), kind.tz is None)


def _bounds(operator: str, instant: _Instant) -> list[tuple[str, int]]:
    """Return what is true of all times that may be compared so with an instant."""
    if instant.least == instant.most:
        return [(operator, instant.least)]
    bounds = list[tuple[str, int]]()
    if "less" not in operator:
        bounds.append(("greater_equal", instant.least))
    if "greater" not in operator:
        bounds.append(("less_equal", instant.most))
    return bounds


def _instant(constant: Mapping[str, Any], kind: pa.DataType) -> _Instant | None:
    """Return the time that a constant means beside a column of times."""
    cast_to = None
    if constant["class"] == "CAST" and not constant["try_cast"]:
        cast_to = constant.get("type_expr", {}).get("type_name", "").upper()
        constant = constant["child"]
    text = constant_text(constant, "STRING")
    if text is None:
        return None
    if kind.tz is None:
        return _local_instant(text, "TIMESTAMP_NS" if cast_to is None else cast_to)
    return _zoned_instant(text, ZONED[0] if cast_to is None else cast_to)


def _local_instant(text: str, cast_to: str) -> _Instant | None:
    if cast_to not in _TEXTS or _TEXTS[cast_to].fullmatch(text) is None:
        return None
    try:
        time = parse_moment(text, "timestamp").nanoseconds
    except ValueError:  # there is no such day: DuckDB says so
        return None
    return _Instant(time, time)


def _zoned_instant(text: str, cast_to: str) -> _Instant | None:
    """Return a time in some zone: without an offset, the text means one in that of the session."""
    is_zoned = cast_to in ZONED
    offset = _OFFSET.search(text) if is_zoned and ":" in text else None
    known = text if offset is None else text[: offset.start()]
    local = _local_instant(known, "TIMESTAMP" if is_zoned else cast_to)
    if local is None:
        return None
    if offset is None:
        return _Instant(local.least - _DAY, local.most + _DAY)
    time = parse_moment(text, "timestamp").nanoseconds
    return _Instant(time - _MICROSECOND, time + _MICROSECOND)
