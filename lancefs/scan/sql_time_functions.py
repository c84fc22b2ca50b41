"""Functions of SQL text that take dates and times: parts of them, and their beginnings.

Parts of times with a zone are those in this zone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.scan.sql_operands import Literal, Operand, SqlFunction, Typed, result, to_typed
from lancefs.scan.sql_tokens import Refused

# What a part of a date or time is computed by; Sunday is the day 0 of a week.
_OF_DAYS: dict[str, Callable[..., Any]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "doy": pc.day_of_year,
    "dow": partial(pc.day_of_week, week_start=7),
}
_OF_TIMES: dict[str, Callable[..., Any]] = {
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_PARTS = _OF_DAYS | _OF_TIMES
# What times begin with: weeks on a Monday.
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
# The names of functions that return a part.
_NAMED = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "dayofweek": "dow",
    "dayofyear": "doy",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}


def part_of(name: str, part: str, start: int, operand: Operand) -> Typed:
    """Return a part of dates or times, a whole number.

    Args:
        name: The function, for the error.
        part: What is wanted, such as `month`.
        start: Index of its first character in the filter.
        operand: The dates or times.

    Raises:
        Refused: There is no such part.
    """
    kernel = _PARTS.get(part.lower())
    if kernel is None:
        raise Refused(f"{name} knows no {part!r}; there are {', '.join(_PARTS)}", start)
    values = _moments(name, operand)
    if part.lower() in _OF_TIMES and not pa.types.is_timestamp(values.type):
        raise Refused(f"a date has no {part.lower()}", operand.start)
    return result(kernel(values.expression).cast(pa.int64()), pa.int64(), values)


def _moments(name: str, operand: Operand) -> Typed:
    values = to_typed(operand)
    if not (pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)):
        raise Refused(f"{name} takes a date or a timestamp, not {values.type}", operand.start)
    return values


def _date_part(name: str, part: Operand, operand: Operand) -> Typed:
    return part_of(name, _unit(name, part), part.start, operand)


def _unit(name: str, operand: Operand) -> str:
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        return operand.value
    raise Refused(f"{name} takes a unit in quotes first, such as 'month'", operand.start)


def _date_trunc(name: str, unit: Operand, operand: Operand) -> Typed:
    wanted = _unit(name, unit).lower()
    if wanted not in _UNITS:
        raise Refused(f"{name} knows no {wanted!r}; there are {', '.join(_UNITS)}", unit.start)
    values = _moments(name, operand)
    stamps, kind = values.expression, values.type
    if pa.types.is_date(kind):
        kind = pa.timestamp("s")
        stamps = stamps.cast(kind)
    return result(pc.floor_temporal(stamps, unit=wanted), kind, values)


def _named(part: str, name: str, operand: Operand) -> Typed:
    return part_of(name, part, operand.start, operand)


TIME_FUNCTIONS: dict[str, SqlFunction] = {
    **{name: SqlFunction(partial(_named, part), 1, 1) for name, part in _NAMED.items()},
    "date_part": SqlFunction(_date_part, 2, 2),
    "datepart": SqlFunction(_date_part, 2, 2),
    "date_trunc": SqlFunction(_date_trunc, 2, 2),
    "datetrunc": SqlFunction(_date_trunc, 2, 2),
}
