"""The rows of a table as far as one query uses them: some that are drawn at random."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.sources.rows import COUNT_COLUMN, Rows, conform_to_schema
from lancefs.lance_dataset import LanceDataset

# Of more rows, or a greater part of all, most pages have some. A store is asked for each row.
_MAX_ROWS, _MAX_REMOTE_ROWS = 16 * 1024, 256
_MAX_SHARE = 1 / 64


class SampledRows(Rows):
    """Reads rows of a table that are drawn at random, of which DuckDB draws all.

    Args:
        dataset: The table.
        count: How many rows the statement draws, if it uses the table once.
        use: How often it does, as far as DuckDB has bound the name.
    """

    def __init__(self, dataset: LanceDataset, count: int, use: NameUse) -> None:
        super().__init__(dataset)
        self._count = count
        self._use = use

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        rows, wanted = self.dataset.count_rows(), [name for name in names if name != COUNT_COLUMN]
        most = _MAX_ROWS if self.dataset.is_local else _MAX_REMOTE_ROWS
        is_few = self._count <= min(most, rows * _MAX_SHARE)
        self._use.mark_read()
        if not (self._use.is_sole and wanted and is_few) or terms:
            return super().batches(names, terms)
        positions = sorted(random.sample(range(rows), self._count))
        schema = pa.schema([self.schema.field(name) for name in names])
        return conform_to_schema(iter(self._scanner(wanted).take(positions).to_batches()), schema)
