"""Times with which a statement compares a column: DuckDB computes them before the scan begins."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.zoned_bounds import ZonedBound, zoned_bounds
from duckdb_adapter.sources.rows import RowSource
from duckdb_adapter.told_values import ToldValues
from lancefs.scan.sql_literals import of_units, unit_bounds

# What DuckDB calls a time with a zone, and zones in which clocks are never put back.
_ZONED, _UNCHANGED = "TIMESTAMP WITH TIME ZONE", {"UTC", "Etc/UTC"}
# In another zone, a time of the column is earlier or later than it seems to be by less than this:
# clocks are put back by a day at most, where the date line moves. In microseconds.
_CHANGE = 25 * 60 * 60 * 10**6
# How many units of a type are a microsecond, or how many of these are a unit.
_UNITS = {"s": (1, 10**6), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}


class FoundBound:
    """The times for which a comparison may be true.

    Args:
        kind: Their type.
        least: The first one, in microseconds; None for no limit.
        most: The last one.
    """

    def __init__(self, kind: pa.DataType, least: int | None, most: int | None) -> None:
        self.kind = kind
        self._least = least
        self._most = most

    def conditions(self, column: str, kind: pa.DataType) -> list[pc.Expression]:
        """Return what is true for all rows for which the comparison is.

        Args:
            column: The column.
            kind: Its type.
        """
        many, few = _UNITS[kind.unit]
        first, last = unit_bounds(kind)
        found = list[pc.Expression]()
        if self._least is not None and (least := self._least * many // few) >= first:
            found.append(pc.field(column) >= of_units([min(least, last)], kind)[0])
        if self._most is not None and (most := -(-self._most * many // few)) <= last:
            found.append(pc.field(column) <= of_units([max(most, first)], kind)[0])
        return [found[0] & found[1]] if len(found) > 1 else found


class ToldBound(ToldValues):
    """A time with which a column is compared, once DuckDB has told it.

    Args:
        bound: The comparison.
        kind: The type of the column.

    Attributes:
        column: The column.
        found: The times that pass; None where they are not known.
    """

    def __init__(self, bound: ZonedBound, kind: pa.DataType) -> None:
        super().__init__()
        self.column = bound.column
        self.found: FoundBound | None = None
        self._bound = bound
        self._kind = kind

    def told(self) -> str:
        """Return the condition that tells it; see `condition`."""
        local = "TRY_CAST(time AS TIMESTAMP)"  # in the zone of the session
        micros = f"system.main.epoch_us({local})"
        parts = {
            "type": "system.main.typeof(time)",
            "zone": "system.main.current_setting('TimeZone')",
            "time": f"CASE WHEN system.main.isfinite({local}) THEN {micros} END",
        }
        listed = ", ".join(f"'{name}', {value}" for name, value in parts.items())
        time = f"SELECT {self._bound.time} AS time"
        return self.condition(f"system.main.json_object({listed})", time)

    def note(self, told: str) -> None:
        """Note the time."""
        found = json.loads(told)
        time, operator = found["time"], self._bound.operator
        if time is None:
            return
        is_changed = found["type"] == _ZONED and found["zone"] not in _UNCHANGED
        slack = _CHANGE if is_changed else 1  # which a cast may have cut off
        least = None if operator.startswith("less") else time - slack
        most = None if operator.startswith("greater") else time + slack
        self.found = FoundBound(self._kind, least, most)


def told_bounds(rows: RowSource, query: TableQuery) -> list[ToldBound]:
    """Return the times that a statement compares columns of a table with, to be told.

    Args:
        rows: The rows of the table.
        query: The statement.
    """
    bounds = [bound for bound in zoned_bounds(query) if rows.can_filter(bound.column)]
    return [ToldBound(bound, rows.filter_field(bound.column).type) for bound in bounds]
