"""The rows of a table as far as one query uses them, which their positions tell."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.sources.rows import COUNT_COLUMN, Rows
from lancefs.lance_dataset import LanceDataset


class RowsByPosition(Rows):
    """Reads some rows of a table where the statement uses it once, all rows elsewhere.

    Args:
        dataset: The table.
        use: How often the statement uses it, as far as DuckDB has bound the name.
    """

    def __init__(self, dataset: LanceDataset, use: NameUse) -> None:
        super().__init__(dataset)
        self._use = use

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        wanted = [name for name in names if name != COUNT_COLUMN]
        self._use.mark_read()
        found = None
        if self._use.is_sole and wanted and not terms:
            found = self._some(wanted, pa.schema([self.schema.field(name) for name in names]))
        return super().batches(names, terms) if found is None else found

    @abstractmethod
    def _some(self, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch] | None:
        """Read the rows that the statement uses; None where all are read as well.

        Args:
            columns: The columns that are read.
            schema: The columns that DuckDB wants, in its order.
        """
