"""The rows of a table as far as one query uses them: the first ones in some order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.arrow_source import COUNTER, Rows, fitted
from duckdb_adapter.top_n_query import FirstRows
from duckdb_adapter.top_n_rows import find_first, is_ordered
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.settings import BATCH_ROWS

# A shorter table is read once, not twice.
_LEAST_ROWS = 2 * BATCH_ROWS


class TopNRows(Rows):
    """Reads the rows that may be the first ones.

    Args:
        dataset: The table.
        first: Which rows are wanted.
    """

    def __init__(self, dataset: LanceDataset, first: FirstRows) -> None:
        super().__init__(dataset)
        self._wanted = first

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        if terms or not self._is_worthwhile(names):
            return super().batches(names, terms)
        schema = pa.schema([self.schema.field(name) for name in names])
        return fitted(self._first([name for name in names if name != COUNTER]), schema)

    def _is_worthwhile(self, names: Sequence[str]) -> bool:
        """Whether the column that orders is less than what is wanted, and Arrow can order it."""
        column = self._wanted.column
        is_wide = any(name not in (COUNTER, column) for name in names)
        is_long = (self.known_count() or 0) >= _LEAST_ROWS
        is_same = self.can_filter(column)
        return is_wide and is_long and is_same and is_ordered(self.plain_field(column).type)

    def _first(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows that may be among the first ones; all rows where those are many."""
        wanted = self._wanted
        keys = self.dataset.to_batches(columns=[wanted.column], batch_size=4 * BATCH_ROWS)
        values = (batch.column(0) for batch in keys)
        positions = find_first(values, wanted.rows, wanted.descending)
        if positions is None:
            yield from self._growing(columns)
            return
        encoded = [name for name in columns if name in self._encoded]
        scanner = self.dataset.scanner(columns=columns, dictionary_columns=encoded)
        yield from scanner.take(positions).to_batches()
