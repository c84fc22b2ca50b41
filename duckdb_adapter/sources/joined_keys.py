"""The keys that a table has to be joined by, as the scan of the other table has found them.

DuckDB hashes one table of a join, and then scans the other one. Of a Parquet file it leaves out the
row groups in which no key lies between the least and the greatest one that it hashed; the Arrow
scan is not told. But the first table is a scan of ours, too: when DuckDB has read it to its end
before it begins with the second one, its keys are known, and rows with others are left out.

Which columns have to be equal is what the text tells (`queries.joined_columns`). It is right if
DuckDB has bound both names once, and scans both once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.joined_columns import joined_columns
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources.extremes import ends_of, limits_of
from duckdb_adapter.sources.rows import RowSource, as_filter_type
from lancefs.datafile.arrays import is_text
from lancefs.datafile.constants import array_of
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import evaluate_filter
from lancefs.scan.selectivity import is_large, sample_of
from lancefs.scan.settings import BATCH_ROWS

# A shorter table is read with all its rows.
_MIN_ROWS = 2 * BATCH_ROWS
# More keys than this are known by the least and the greatest one alone; they are not looked for
# among more rows.
_MAX_KEYS, _MAX_ROWS = 1024, 256 * 1024
# If more rows than this share are likely to have such keys, DuckDB tests them quicker.
_MAX_PASSED = 1 / 2
# Keys are looked for one by one if they leave out so many of the rows within their range.
_MAX_OF_RANGE = 1 / 2


class FoundKeys:
    """The values of a column in the rows that a scan returns.

    Args:
        kind: The type of the column, as filters see it.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._rows = 0
        self._values: pa.Array | None = array_of([], kind)
        self._ends = list[pa.Array]()

    def add(self, array: pa.Array) -> None:
        """Add the values of more rows.

        Args:
            array: The column, as DuckDB gets it.
        """
        self._rows += len(array)
        if pa.types.is_dictionary(array.type):  # which may hold what no row does
            array = array.unique()
        values = as_filter_type(array, self._kind).drop_null()
        self._ends.append(ends_of(values))
        known = self._values
        if known is None:
            return
        first = values.slice(0, 2 * _MAX_KEYS)
        is_few = self._rows <= _MAX_ROWS and len(first.unique()) <= _MAX_KEYS
        found = pa.concat_arrays([known, values]).unique() if is_few else None
        self._values = None if found is None or len(found) > _MAX_KEYS else found

    def conditions(self, column: str, kind: pa.DataType) -> list[pc.Expression]:
        """Return what is true for all rows that have one of the values, the quicker one first.

        Args:
            column: A column of another table.
            kind: Its type, as filters see it; see `are_comparable`.

        Returns:
            Nothing where there are no values, as DuckDB knows, or none of the type.
        """
        found = pa.concat_arrays(self._ends) if self._ends else array_of([], self._kind)
        ends = _as_type(ends_of(found).drop_null(), kind, is_range=True)
        if not len(ends):
            return []
        field, (least, most) = pc.field(column), ends
        conditions = [(field >= least) & (field <= most)]
        if self._values is not None:
            conditions.append(field.isin(_as_type(self._values, kind)))
        return conditions


class JoinedScan:
    """A scan of a table, with what others of the same statement find.

    Args:
        use: How often the statement uses the table.
        query: The statement.
        rows: What DuckDB scans.
        compares_bytes: Whether DuckDB compares strings by their bytes.
    """

    def __init__(
        self, use: NameUse, query: TableQuery, rows: RowSource, compares_bytes: bool
    ) -> None:
        self.query = query
        self._use = use
        self._rows = rows
        self._compares_bytes = compares_bytes
        self._opened = 0
        # By their columns, once all rows were read.
        self._found: Mapping[str, FoundKeys] | None = None
        use.add_scan(self)

    @property
    def table(self) -> LanceDataset | None:
        """The table; None where the rows are of several."""
        return self._rows.table

    @property
    def narrows_others(self) -> bool:
        """Whether the scan of another table may be given the keys of this one."""
        return any(other.is_long and other.columns_in(self) for other in self._others())

    @property
    def is_long(self) -> bool:
        """Whether rows are left out of this table, where keys tell which ones."""
        return self._rows.takes_conditions and (self._rows.known_count() or 0) >= _MIN_ROWS

    def columns_in(self, other: JoinedScan) -> list[tuple[str, str]]:
        """Return the columns whose values have to be in columns of another table.

        Args:
            other: The scan of the other table.
        """
        if not (self._is_sole and other._is_sole):
            return []
        pairs = joined_columns(self.query, other.query)
        return [(ours, their) for ours, their in pairs if self._is_comparable(ours, other, their)]

    def open(self) -> list[pc.Expression]:
        """Note that rows are going to be read, and return what is true for all that are needed."""
        self._opened += 1
        self._use.mark_read()
        if self._opened > 1 or not self.is_long:
            return []
        conditions = [
            condition
            for other in self._others()
            if other._found is not None and other._opened == 1
            for ours, their in self.columns_in(other)
            if their in other._found
            for condition in self._worthwhile(other._found[their], ours)
        ]
        return conditions

    def noting(
        self, names: Sequence[str], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are read, and note the keys that other tables are joined by.

        Args:
            names: The columns that are read.
            batches: The rows.
        """
        pairs = [
            pair for other in self._others() if other.is_long for pair in other.columns_in(self)
        ]
        wanted = {their for _, their in pairs}.intersection(names)
        return self._noted(sorted(wanted), batches) if wanted and self._opened == 1 else batches

    def _noted(
        self, columns: Sequence[str], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        found = {column: FoundKeys(self._kind(column)) for column in columns}
        for batch in batches:
            for column, keys in found.items():
                keys.add(batch.column(column))
            yield batch
        self._found = found

    def _others(self) -> list[JoinedScan]:
        """The scans of other tables; none of a table that was bound more than once."""
        return [other for other in self._use.scans() if other.query.name != self.query.name]

    @property
    def _is_sole(self) -> bool:
        """Whether this is the only scan of the table that the statement has."""
        same = [other for other in self._use.scans() if other.query.name == self.query.name]
        return self._use.is_sole and len(same) == 1

    def _kind(self, column: str) -> pa.DataType:
        return self._rows.filter_field(column).type

    def _is_comparable(self, column: str, other: JoinedScan, their: str) -> bool:
        """Whether Arrow finds the values of two columns equal where DuckDB does."""
        if not self._rows.can_filter(column) or their not in other._rows.schema.names:
            return False
        kind = self._kind(column)
        return are_comparable(kind, other._kind(their)) and (
            self._compares_bytes or not is_text(kind)
        )

    def _worthwhile(self, found: FoundKeys, column: str) -> list[pc.Expression]:
        """Return conditions that leave out many rows, as far as a sample tells.

        Args:
            found: The keys.
            column: The column that they are looked for in.
        """
        table, conditions = self._rows.table, found.conditions(column, self._kind(column))
        if table is None or not conditions:
            return []
        if not table.is_local:  # what is left out is not fetched
            return conditions[-1:]
        if not is_large(table.opened):
            return conditions[:1]
        sample = sample_of(table.opened.column(column), table.opened)
        if sample is None:
            return []
        rows = pa.RecordBatch.from_arrays([sample], [column])
        shares = [evaluate_filter(one, rows).true_count / len(sample) for one in conditions]
        # The range is tested sooner, and leaves rows together.
        best = -1 if shares[-1] <= _MAX_OF_RANGE * shares[0] else 0
        return [conditions[best]] if shares[best] <= _MAX_PASSED else []


def are_comparable(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether Arrow finds values of two types equal where DuckDB does, and orders them alike.

    Args:
        one: A type, as filters see it.
        other: Another one.
    """
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return True
    if is_text(one) and is_text(other):
        return True
    if isinstance(one, pa.BaseExtensionType) or one != other:
        return False
    # Of nanoseconds with a zone, DuckDB knows microseconds.
    is_time = pa.types.is_timestamp(one) and (one.tz is None or one.unit == "us")
    return is_time or pa.types.is_date32(one) or pa.types.is_decimal128(one)


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
