"""Values with which a statement compares a column: DuckDB computes them before the scan begins.

What is found here may be true of more rows than the comparison, which DuckDB tests again: a value
that is computed twice, of numbers that are added in another order, is almost the same.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.duckdb_types import or_nan
from duckdb_adapter.queries.computed_values import ComputedBound
from duckdb_adapter.sources.rows import RowSource
from duckdb_adapter.told_values import ToldValues
from lancefs.datafile.arrays import is_text
from lancefs.datafile.constants import array_of
from lancefs.scan.sql_literals import of_units, unit_bounds

# What DuckDB calls a time with a zone, and zones in which clocks are never put back.
_ZONED, _UNCHANGED = "TIMESTAMP WITH TIME ZONE", {"UTC", "Etc/UTC"}
# In another zone, a time of the column is earlier or later than it seems to be by less than this:
# clocks are put back by a day at most, where the date line moves. In microseconds.
_CHANGE = 25 * 60 * 60 * 10**6
# How many units of a type are a microsecond, or how many of these are a unit.
_UNITS = {"s": (1, 10**6), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}
_UNITS_OF_DATES = 1, 24 * 60 * 60 * 10**6
# The types of numbers that DuckDB rounds, and the share of a number by which it may be another one.
_ROUNDED = {"FLOAT": Fraction(1, 10**6), "DOUBLE": Fraction(1, 10**12)}
# The types of numbers that it does not round.
_WHOLE = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}
_DECIMAL = "DECIMAL("
_MAX_FLOAT = 3.4e38


class FoundBound(NamedTuple):
    """What is true for all rows for which comparisons of a column are.

    Attributes:
        kind: The type of the column.
        condition: The condition.
    """

    kind: pa.DataType
    condition: pc.Expression

    def __and__(self, other: FoundBound) -> FoundBound:
        return FoundBound(self.kind, self.condition & other.condition)

    def is_comparable(self, kind: pa.DataType) -> bool:
        """Whether the condition is one of a column of a type."""
        return bool(kind == self.kind)

    def conditions(self, column: str, kind: pa.DataType) -> list[pc.Expression]:
        """Return the condition; see `FoundKeys.conditions`."""
        return [self.condition]


class ToldBound(ToldValues):
    """A value with which a column is compared, once DuckDB has told it.

    Args:
        bound: The comparison.
        kind: The type of the column.

    Attributes:
        column: The column.
        found: What is true for the rows that pass; None where that is not known.
    """

    def __init__(self, bound: ComputedBound, kind: pa.DataType) -> None:
        super().__init__()
        self.column = bound.column
        self.places, self.used = bound.value.places, bound.value.used
        self.reads_tables = bool(self.used)
        self.found: FoundBound | None = None
        self._bound = bound
        self._kind = kind

    def told(self) -> str:
        """Return the condition that tells it; see `condition`."""
        parts = {"type": "system.main.typeof(told)", "missing": "told IS NULL"}
        if _is_time(self._kind):
            local = "TRY_CAST(told AS TIMESTAMP)"  # in the zone of the session
            micros = f"system.main.epoch_us({local})"
            parts["zone"] = "system.main.current_setting('TimeZone')"
            parts["value"] = f"CASE WHEN system.main.isfinite({local}) THEN {micros} END"
        else:
            parts["value"] = "CAST(told AS VARCHAR)"
        listed = ", ".join(f"'{name}', {value}" for name, value in parts.items())
        value = f"SELECT {self._bound.value.expression} AS told"
        return self.condition(f"system.main.json_object({listed})", value)

    def note(self, told: str) -> None:
        """Note the value."""
        found = json.loads(told)
        value, kind = found["value"], found["type"]
        if found["missing"]:  # so that no comparison is true
            nothing = pc.field(self.column).isin(array_of([], self._kind))
            self.found = FoundBound(self._kind, nothing)
        if value is None:
            return
        ends: _Ends | None
        if _is_time(self._kind):
            ends = _around_time(value, _can_change(kind, found["zone"]), self._kind)
        elif is_text(self._kind):
            ends = _Ends.of(value, self._kind) if kind == "VARCHAR" else None
        else:
            ends = _around_number(value, kind, self._kind)
        condition = ends and ends.condition(self.column, self._bound.operator)
        if condition is not None:
            self.found = FoundBound(self._kind, condition)


class _Ends(NamedTuple):
    """The values of a type next to a value, or equal to it; None where all lie beyond."""

    least: pa.Scalar | None
    most: pa.Scalar | None

    @classmethod
    def of(cls, value: object, kind: pa.DataType) -> _Ends:
        """Return a value alone."""
        (scalar,) = array_of([value], kind)
        return cls(scalar, scalar)

    @classmethod
    def in_units(cls, low: Fraction, high: Fraction, kind: pa.DataType) -> _Ends:
        """Return the values around numbers of units of a type."""
        first, last = unit_bounds(kind)
        least, most = math.floor(low), math.ceil(high)
        return cls(
            None if least < first else of_units([min(least, last)], kind)[0],
            None if most > last else of_units([max(most, first)], kind)[0],
        )

    def condition(self, column: str, operator: str) -> pc.Expression | None:
        """Return what is true where a column compares so with one of the values; None for all."""
        field, tests = pc.field(column), list[pc.Expression]()
        if self.least is not None and not operator.startswith("less"):
            test = field >= self.least
            tests.append(test if operator == "equal" else or_nan(test, field, self.least.type))
        if self.most is not None and not operator.startswith("greater"):
            tests.append(field <= self.most)
        return reduce(and_, tests) if tests else None


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def _is_number(kind: pa.DataType) -> bool:
    is_decimal = pa.types.is_decimal128(kind) and kind.scale >= 0
    is_float = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return bool(pa.types.is_integer(kind) or is_decimal or is_float)


def _can_change(kind: str, zone: str) -> bool:
    """Whether a time of one of DuckDB's types is another one in a session that puts clocks back."""
    return kind == _ZONED and zone not in _UNCHANGED


def _around_time(micros: int, can_change: bool, kind: pa.DataType) -> _Ends:
    """Return the values of a type of times around a number of microseconds."""
    slack = _CHANGE if can_change else 1  # which a cast may have cut off
    many, few = _UNITS_OF_DATES if pa.types.is_date32(kind) else _UNITS[kind.unit]
    share = Fraction(many, few)
    return _Ends.in_units((micros - slack) * share, (micros + slack) * share, kind)


def _around_number(text: str, given: str, kind: pa.DataType) -> _Ends | None:
    """Return the values of a type of numbers around one of a type of DuckDB; None for no number."""
    is_rounded = given in _ROUNDED
    if not (is_rounded or given in _WHOLE or given.startswith(_DECIMAL)):
        return None
    if is_rounded and not math.isfinite(float(text)):
        return None
    value = Fraction(text)
    if pa.types.is_floating(kind):
        share = max(_ROUNDED.get(given, 0), _ROUNDED["FLOAT" if kind.bit_width == 32 else "DOUBLE"])
        slack = abs(value) * share
        return _Ends(_as_float(value - slack, kind), _as_float(value + slack, kind))
    slack = abs(value) * _ROUNDED.get(given, 0)
    scale = 10 ** (kind.scale if pa.types.is_decimal(kind) else 0)
    return _Ends.in_units((value - slack) * scale, (value + slack) * scale, kind)


def _as_float(value: Fraction, kind: pa.DataType) -> pa.Scalar | None:
    """Return the float that is nearest to a number; None where that is too large for one."""
    limit = _MAX_FLOAT if kind.bit_width == 32 else sys.float_info.max
    return array_of([float(value)], kind)[0] if abs(value) < limit else None


def told_bounds(
    rows: RowSource, bounds: Sequence[ComputedBound], is_binary: bool
) -> list[ToldBound]:
    """Return the values that a statement compares columns of a table with, to be told.

    Args:
        rows: The rows of the table.
        bounds: The comparisons.
        is_binary: Whether DuckDB compares strings by their bytes.
    """
    found = list[ToldBound]()
    for bound in bounds:
        kind = rows.filter_field(bound.column).type if rows.can_filter(bound.column) else pa.null()
        if _is_time(kind) or _is_number(kind) or (is_text(kind) and is_binary):
            found.append(ToldBound(bound, kind))
    return found
