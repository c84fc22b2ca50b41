"""The keys that a table has to be joined by: the values that were found in another one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.sources.extremes import ends_of, limits_of
from duckdb_adapter.sources.rows import as_filter_type
from lancefs.datafile.arrays import is_text
from lancefs.datafile.constants import array_of

# More keys than this are known by the least and the greatest one alone; they are not looked for
# among more rows.
MAX_KEYS, MAX_ROWS = 16 * 1024, 256 * 1024


class FoundKeys:
    """The values of a column in the rows that a scan returns.

    Args:
        kind: The type of the column, as filters see it.

    Attributes:
        kind: This type.
        operator: How a column of another table has to compare with one of them, a function of
            Arrow.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.operator = "equal"
        self._rows = 0
        self._values: pa.Array | None = array_of([], kind)
        self._ends = list[pa.Array]()

    @classmethod
    def of(cls, ends: pa.Array, values: pa.Array | None) -> FoundKeys:
        """Return values that were found elsewhere.

        Args:
            ends: The least and the greatest one.
            values: All of them, each once; None for too many.
        """
        found = cls(ends.type)
        found._ends, found._values = [ends], values
        return found

    def add(self, array: pa.Array) -> None:
        """Add the values of more rows.

        Args:
            array: The column, as DuckDB gets it.
        """
        self._rows += len(array)
        if pa.types.is_dictionary(array.type):  # which may hold what no row does
            array = array.unique()
        values = as_filter_type(array, self.kind).drop_null()
        self._ends.append(ends_of(values))
        known = self._values
        if known is None:
            return
        first = values.slice(0, 2 * MAX_KEYS)
        is_few = self._rows <= MAX_ROWS and len(first.unique()) <= MAX_KEYS
        found = pa.concat_arrays([known, values]).unique() if is_few else None
        self._values = None if found is None or len(found) > MAX_KEYS else found

    def is_comparable(self, kind: pa.DataType) -> bool:
        """Whether Arrow finds these values in a column of a type where DuckDB does."""
        return are_comparable(kind, self.kind)

    def conditions(self, column: str, kind: pa.DataType) -> list[pc.Expression]:
        """Return what is true for all rows that compare with a value, the quicker one first.

        Args:
            column: A column of another table.
            kind: Its type, as filters see it; see `are_comparable`.

        Returns:
            Nothing where there are no values, as DuckDB knows, or none of the type.
        """
        found = pa.concat_arrays(self._ends) if self._ends else array_of([], self.kind)
        ends = _as_type(ends_of(found).drop_null(), kind, is_range=True)
        if not len(ends):
            return []
        field, (least, most) = pc.field(column), ends
        if self.operator != "equal":
            return [field >= least if self.operator.startswith("greater") else field <= most]
        conditions = [(field >= least) & (field <= most)]
        if self._values is not None:
            conditions.append(field.isin(_as_type(self._values, kind)))
        return conditions


def are_comparable(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether Arrow finds values of two types equal where DuckDB does, and orders them alike.

    Args:
        one: A type, as filters see it.
        other: Another one.
    """
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return True
    return can_find(one) and (one == other or (is_text(one) and is_text(other)))


def can_find(kind: pa.DataType) -> bool:
    """Whether Arrow finds values of a type equal where DuckDB does, and orders them alike.

    Args:
        kind: The type, as filters see it.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_timestamp(kind):  # of nanoseconds with a zone, DuckDB knows microseconds
        return kind.tz is None or bool(kind.unit == "us")
    ordered = (pa.types.is_integer, is_text, pa.types.is_date32, pa.types.is_decimal128)
    return any(is_kind(kind) for is_kind in ordered)


def _as_type(values: pa.Array, kind: pa.DataType, is_range: bool = False) -> pa.Array:
    """Return those of some values that are values of a type, too.

    Args:
        values: The values.
        kind: The type.
        is_range: Whether they are the ends of a range, of which the part in the type is wanted.
    """
    if values.type == kind or not pa.types.is_integer(kind):
        return values.cast(kind)
    first, last = limits_of(kind)
    numbers = values.to_pylist()
    if is_range and numbers and numbers[0] <= last and numbers[1] >= first:
        numbers = [max(numbers[0], first), min(numbers[1], last)]
    return array_of([each for each in numbers if first <= each <= last], kind)
