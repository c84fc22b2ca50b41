"""The rows of a table as far as one query uses them: some that are drawn at random."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.sources.rows import conform_to_schema
from duckdb_adapter.sources.rows_by_position import RowsByPosition
from lancefs.lance_dataset import LanceDataset

# With larger samples nearly every page has a sampled row, so that all rows are read. A remote store
# gets a request for each row.
_MAX_ROWS, _MAX_REMOTE_ROWS = 16 * 1024, 256
_MAX_SHARE = 1 / 64


class SampledRows(RowsByPosition):
    """Reads rows of a table that are drawn at random, of which DuckDB draws all.

    Args:
        dataset: The table.
        count: How many rows the statement draws, if it uses the table once.
        use: How often it does, as far as DuckDB has bound the name.
    """

    def __init__(self, dataset: LanceDataset, count: int, use: NameUse) -> None:
        super().__init__(dataset, use)
        self._count = count

    def _some(self, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch] | None:
        rows = self.dataset.count_rows()
        most = _MAX_ROWS if self.dataset.is_local else _MAX_REMOTE_ROWS
        if self._count > min(most, rows * _MAX_SHARE):
            return None
        positions = sorted(random.sample(range(rows), self._count))
        return conform_to_schema(iter(self._scanner(columns).take(positions).to_batches()), schema)
