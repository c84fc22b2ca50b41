"""The keys that a table has to be joined by, as the scan of the other table has found them.

DuckDB hashes one table of a join, and then scans the other one. Of a Parquet file it leaves out the
row groups in which no key lies between the least and the greatest one that it hashed; the Arrow
scan is not told. But the first table is a scan of ours, too: when DuckDB has read it to its end
before it begins with the second one, its keys are known, and rows with others are left out.

Which columns have to be equal is what the text tells (`queries.joined_columns`). It is right if
DuckDB has bound both names once, and scans both once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_nested

from duckdb_adapter.identifiers import fold
from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.joined_columns import joined_columns
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources.found_keys import FoundKeys, are_comparable
from duckdb_adapter.sources.rows import COUNT_COLUMN, Names, RecordBatches, RowSource, has_lengths
from duckdb_adapter.sources.told_bounds import FoundBound, ToldBound
from duckdb_adapter.sources.told_keys import ToldKeys
from lancefs.datafile.arrays import is_text
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import evaluate_filter
from lancefs.scan.selectivity import is_large, sample_of
from lancefs.scan.settings import BATCH_ROWS

# A shorter table is read with all its rows.
_MIN_ROWS = 2 * BATCH_ROWS
# If more rows than this share are likely to have such keys, DuckDB tests them quicker.
_MAX_PASSED = 1 / 2
# Keys are looked for one by one if they leave out so many of the rows within their range.
_MAX_OF_RANGE = 1 / 2


class JoinedScan:
    """A scan of a table, with what others of the same statement find.

    Args:
        use: How often the statement uses the table.
        query: The statement.
        rows: What DuckDB scans.
        compares_bytes: Whether DuckDB compares strings by their bytes.
        told: What DuckDB tells of values of columns before the scan begins.
    """

    def __init__(
        self,
        use: NameUse,
        query: TableQuery,
        rows: RowSource,
        compares_bytes: bool,
        told: Sequence[ToldKeys | ToldBound],
    ) -> None:
        self.query = query
        self._use = use
        self._rows = rows
        self._compares_bytes = compares_bytes
        self._told = told
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
        return is_long(self._rows)

    def columns_in(self, other: JoinedScan) -> list[tuple[str, str]]:
        """Return the columns whose values have to be in columns of another table.

        Args:
            other: The scan of the other table.
        """
        if not (self._is_sole and other._is_sole):
            return []
        pairs = joined_columns(self.query, other.query)
        return [(ours, their) for ours, their in pairs if self._is_comparable(ours, other, their)]

    def open(self, names: Sequence[str]) -> list[pc.Expression]:
        """Note that rows are going to be read, and return what is true for all that are needed.

        Args:
            names: The columns that are read.
        """
        self._opened += 1
        self._use.mark_read()
        if self._opened > 1 or not self.is_long:
            return []
        found: list[tuple[str, FoundKeys | FoundBound]] = [
            (ours, other._found[their])
            for other in self._others()
            if other._found is not None and other._opened == 1
            for ours, their in self.columns_in(other)
            if their in other._found
        ]
        found += self._found_values() if self._is_told(names) else ()
        return [one for ours, keys in found for one in self._worthwhile(keys, ours, names)]

    def noting(self, names: Names, batches: RecordBatches) -> RecordBatches:
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

    def _noted(self, columns: Sequence[str], batches: RecordBatches) -> RecordBatches:
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

    def _found_values(self) -> list[tuple[str, FoundKeys | FoundBound]]:
        """Return what was told, by the columns; the ranges of one as one."""
        keys, bounds = list[tuple[str, FoundKeys | FoundBound]](), dict[str, FoundBound]()
        for told in self._told:
            found, column = told.found, told.column
            kind = self._kind(column)
            if found is None or not found.is_comparable(kind):
                continue
            if isinstance(found, FoundKeys) and found.operator == "equal":
                keys.append((column, found))
                continue
            for condition in found.conditions(column, kind):
                bound = FoundBound(kind, condition)
                bounds[column] = bounds[column] & bound if column in bounds else bound
        return [*keys, *bounds.items()]

    def _is_told(self, names: Names) -> bool:
        """Whether what is told holds for a scan of columns: that of rows that are compared.

        The statement reads the table for these, and twice for each value that is computed of it:
        itself, and to tell the value. Those scans read no columns but the ones that this takes.
        """
        twice = 2 * sum(told.places for told in self._told)
        if not twice:
            return self._is_sole
        used = frozenset[str]().union(*(told.used for told in self._told))
        return self._use.is_bound_in(1 + twice) and not used.issuperset(
            fold(name) for name in names if name != COUNT_COLUMN
        )

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

    def _worthwhile(
        self, found: FoundKeys | FoundBound, column: str, names: Sequence[str]
    ) -> list[pc.Expression]:
        """Return conditions that leave out many rows, as far as a sample tells.

        Args:
            found: The keys, or times.
            column: The column that they are looked for in.
            names: The columns that are read.
        """
        table, conditions = self._rows.table, found.conditions(column, self._kind(column))
        if table is None or not conditions:
            return []
        if not table.is_local:  # what is left out is not fetched
            return conditions[-1:]
        if not is_large(table.opened):
            return conditions[:1]
        if not self._costs_more(names, column):
            conditions = conditions[:1]
        sample = sample_of(table.opened.column(column), table.opened)
        if sample is None:
            return []
        rows = pa.RecordBatch.from_arrays([sample], [column])
        shares = [evaluate_filter(one, rows).true_count / len(sample) for one in conditions]
        # The range is tested sooner, and leaves rows together.
        best = -1 if shares[-1] <= _MAX_OF_RANGE * shares[0] else 0
        return [conditions[best]] if shares[best] <= _MAX_PASSED else []

    def _costs_more(self, names: Sequence[str], column: str) -> bool:
        """Whether reading columns takes longer than looking for keys one by one.

        Args:
            names: The columns that are read.
            column: That of the keys.
        """
        table, others = self._rows.table, [name for name in names if name != column]
        if table is not None and table.manifest.index_section is not None:
            return True
        kinds = [self._rows.schema.field(name).type for name in others]
        return len(others) > 1 or any(has_lengths(kind) or is_nested(kind) for kind in kinds)


def is_long(rows: RowSource) -> bool:
    """Whether rows are left out of a table, where keys tell which ones.

    Args:
        rows: Its rows.
    """
    return rows.takes_conditions and (rows.known_count() or 0) >= _MIN_ROWS
