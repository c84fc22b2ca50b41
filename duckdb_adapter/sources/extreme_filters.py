"""The rows that a statement uses of a table whose columns it compares with extremes.

Also those that have the extremes which it computes. The text tells which ones these are
(`queries.extreme_tests`); it is right if DuckDB binds the name as often as it stands in the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.duckdb_types import MICROSECONDS, or_nan
from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.extreme_tests import Extreme, ExtremeUses, Shift
from duckdb_adapter.queries.members import UsedColumns
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources.column_values import MAX_ROWS
from duckdb_adapter.sources.extremes import ORDERED, extremes_of, limits_of
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.sources.unpushed_filters import FilteredRows
from lancefs.datafile.arrays import is_text
from lancefs.datafile.constants import array_of
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import evaluate_filter, names_in

# Microseconds of the units of intervals, the least and the most.
_DAY = 24 * 60 * 60 * 10**6
_LENGTHS = {
    "year": (365 * _DAY, 366 * _DAY),
    "month": (28 * _DAY, 31 * _DAY),
    "week": (7 * _DAY, 7 * _DAY),
    "day": (_DAY, _DAY),
    "hour": (3600 * 10**6, 3600 * 10**6),
    "minute": (60 * 10**6, 60 * 10**6),
    "second": (10**6, 10**6),
}


class ExtremeRows(FilteredRows):
    """Reads the rows of one place in a statement.

    Args:
        dataset: The table.
        used: What the statement uses of columns in that place.
        uses: The extremes that it computes, and compares columns with.
        query: The statement with the table.
        use: How often it uses the table, as far as DuckDB has bound the name.
        is_first: Whether the name is bound for the first time.
    """

    def __init__(
        self,
        dataset: LanceDataset,
        used: UsedColumns,
        uses: ExtremeUses,
        query: TableQuery,
        use: NameUse,
        is_first: bool,
    ) -> None:
        super().__init__(dataset, used, [], use, uses.places)
        self._uses = uses
        self._query = query
        # Whether the place may be the one that shows rows, and one that computes an extreme.
        self._may_show = uses.has_rows and (is_first or not uses.is_first)
        self._may_compute = not (uses.is_first and is_first)
        functions = {test.extreme.function for test in uses.tests}
        self.required_builtins |= functions | {function for function, _ in uses.extremes}
        shifts = [test.shift for test in uses.tests]
        called = [shift for shift in shifts if shift is not None and shift.is_called]
        self.required_intervals = frozenset(f"{abs(each.amount)} {each.unit}" for each in called)

    def _conditions(self) -> Sequence[pc.Expression]:
        """Return what is true for all rows that the statement uses."""
        shown = self._tests() if self._may_show else []
        if not self._may_compute or not self._uses.extremes:
            return shown
        ends = self._ends()
        if ends is None or (self._may_show and not shown):
            return []
        computed = [pc.field(column) == end for column, end in ends]
        if not self._may_show:
            return [reduce(or_, computed)]
        if all(_are_true(shown, column, end) for column, end in ends):
            return shown
        return [reduce(or_, [reduce(and_, shown), *computed])]

    def _ends(self) -> list[tuple[str, pa.Scalar]] | None:
        """Return the columns and values of the extremes; None where one is not known."""
        ends = list[tuple[str, pa.Scalar]]()
        for function, column in self._uses.extremes:
            end = _end_of(self, function, column) if self._is_known(column) else None
            if end is None:
                return None
            ends.append((column, end))
        return ends

    def _tests(self) -> list[pc.Expression]:
        """Return what is true for rows for which the comparisons are."""
        found = list[pc.Expression]()
        for test in self._uses.tests:
            kind = self.filter_field(test.column).type
            end = self._end(test.extreme) if self._is_known(test.column) else None
            value = None if end is None else _as_type(end, kind)
            if value is None:
                continue
            field = pc.field(test.column)
            if test.shift is None:
                found.append(_compared(field, test.operator, value))
            else:
                found += _shifted(field, test.operator, value, test.shift)
        return found

    def _end(self, extreme: Extreme) -> pa.Scalar | None:
        """Return an extreme of this table, or of another one of the statement."""
        column = extreme.column_of(self._query)
        if column is not None:
            return _end_of(self, extreme.function, column) if self._is_known(column) else None
        for scan in self._use.scans():
            column = extreme.column_of(scan.query)
            if (
                column is not None
                and scan.table is not None
                and scan.query.text == self._query.text
            ):
                return _end_of(Rows(scan.table), extreme.function, column)
        return None

    def _is_known(self, column: str) -> bool:
        return self.can_filter(column) and _is_ordered(self.filter_field(column).type)


def _compared(field: pc.Expression, operator: str, value: pa.Scalar) -> pc.Expression:
    """Return a comparison with a value that is not NaN, which DuckDB puts after all numbers."""
    compared = getattr(pc, operator)(field, value)
    return or_nan(compared, field, value.type) if operator.startswith("greater") else compared


def _are_true(conditions: Sequence[pc.Expression], column: str, value: pa.Scalar) -> bool:
    """Whether all rows that have a value in a column pass conditions, of that column alone."""
    condition = reduce(and_, conditions)
    if names_in(condition) != frozenset({column}):
        return False
    rows = pa.RecordBatch.from_arrays([pa.repeat(value, 1)], [column])
    return bool(evaluate_filter(condition, rows).true_count)


def _is_ordered(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in ORDERED)


def _end_of(rows: Rows, function: str, column: str) -> pa.Scalar | None:
    """Return an extreme of a column, as filters see it; None where it is not known or not clear.

    An error of the read is left to the scan, which may need other rows.
    """
    kind = rows.filter_field(column).type
    is_read = rows.dataset.is_local and (rows.known_count() or 0) <= MAX_ROWS
    if not (is_read and rows.can_filter(column) and _is_ordered(kind)):
        return None
    try:
        known = extremes_of(Rows(rows.dataset), [column])[column]
    except LanceError:
        return None
    if known is None or known.ends.null_count:
        return None
    end = known.ends.cast(kind)[0 if function == "min" else 1]
    is_nan = pa.types.is_floating(kind) and math.isnan(end.as_py())
    return None if is_nan else end  # which Arrow finds equal to nothing


def _as_type(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """Return a value as one of a type; None where DuckDB may compare it otherwise."""
    if value.type == kind:
        return value
    if pa.types.is_integer(kind) and pa.types.is_integer(value.type):
        first, last = limits_of(kind)
        return array_of([value.as_py()], kind)[0] if first <= value.as_py() <= last else None
    if is_text(kind) and is_text(value.type):
        return value.cast(kind)
    return None


def _shifted(
    field: pc.Expression, operator: str, extreme: pa.Scalar, shift: Shift
) -> list[pc.Expression]:
    """Return what is true where a column compares so with something near its extreme.

    Months and years have different lengths, so that more may be true than what is asked for.
    """
    kind, amount = extreme.type, abs(shift.amount)
    is_whole = pa.types.is_integer(kind) or pa.types.is_date32(kind)
    units = MICROSECONDS.get(kind.unit) if pa.types.is_timestamp(kind) else None
    units = _DAY if pa.types.is_date32(kind) else units
    if not shift.unit and is_whole:
        shortest = longest = amount
    elif shift.unit and units is not None:
        # Clocks may change in between, by up to a day at the date line, at both ends.
        slack = 2 * _DAY if pa.types.is_timestamp(kind) and kind.tz is not None else 0
        least, most = (amount * each for each in _LENGTHS[shift.unit])
        shortest, longest = (least - slack) // units, -(-(most + slack) // units)
    else:
        return []
    stored = pa.int32() if pa.types.is_date32(kind) else kind
    stored = pa.int64() if pa.types.is_timestamp(kind) else stored
    value = extreme.cast(stored).as_py()
    ends = [value + shortest, value + longest]
    if shift.amount < 0:
        ends = [value - longest, value - shortest]
    first, last = limits_of(stored)
    if ends[0] < first or ends[1] > last:
        return []
    low, high = array_of(ends, stored).view(kind)
    tests = {"greater": field >= low, "less": field <= high}
    return [
        test for name, test in tests.items() if operator.startswith(name) or operator == "equal"
    ]
