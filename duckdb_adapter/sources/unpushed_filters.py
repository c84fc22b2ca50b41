"""The rows that pass conditions that DuckDB does not push down."""

from __future__ import annotations

from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.days import has_days
from duckdb_adapter.queries.members import UsedColumns
from duckdb_adapter.queries.times import are_nanoseconds
from duckdb_adapter.sources.members import MemberRows
from duckdb_adapter.sources.rows import Names, RecordBatches, Terms
from lancefs.datafile.arrays import is_text
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import columns_of, evaluate_filter
from lancefs.scan.selectivity import estimate_selectivity
from lancefs.scan.settings import BATCH_ROWS

# A shorter table is read with all its rows.
_MIN_ROWS = 2 * BATCH_ROWS
# Without an estimate, this many rows are tested first. If more than `_MAX_PASSED` of them pass, the
# filter is left to DuckDB, which tests all rows that pass once more.
_PROBED_ROWS = 8 * 1024
_MAX_PASSED = 1 / 2


class FilteredRows(MemberRows):
    """Reads the rows for which conditions are true.

    Args:
        dataset: The table.
        used: What the statement uses of columns.
        conditions: What is true for all rows that the statement uses, if it uses the table once.
        use: How often it does, as far as DuckDB has bound the name.
        places: How often the name stands in the text, with those uses that the conditions allow.
    """

    def __init__(
        self,
        dataset: LanceDataset,
        used: UsedColumns,
        conditions: Terms,
        use: NameUse,
        places: int = 1,
    ) -> None:
        super().__init__(dataset, used)
        self._given = conditions
        self._use = use
        self._places = places

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        self._use.mark_read()
        conditions = self._conditions() if self._use.is_bound_in(self._places) else []
        if conditions:
            condition = reduce(and_, conditions)
            terms = [*terms, condition] if self._is_worthwhile(condition) else terms
        return super().batches(names, terms)

    def _conditions(self) -> Terms:
        """Return what is true for all rows that the statement uses."""
        return self._given

    def _is_worthwhile(self, condition: pc.Expression) -> bool:
        """Whether the values are known as DuckDB knows them, and many rows are left out."""
        columns = columns_of(condition, self.schema.names)
        if not all(map(self._is_known, columns)) or (self.known_count() or 0) < _MIN_ROWS:
            return False
        if not self.dataset.is_local:  # what is left out is not fetched
            return True
        found = estimate_selectivity(condition, self.dataset.opened)
        if found is not None:
            return found.passing_share <= _MAX_PASSED
        probed = self.dataset.scanner(columns=columns, limit=_PROBED_ROWS).to_table()
        passed = sum(evaluate_filter(condition, batch).true_count for batch in probed.to_batches())
        return bool(passed <= _MAX_PASSED * probed.num_rows)

    def _is_known(self, column: str) -> bool:
        kind = self.filter_field(column).type
        is_time = are_nanoseconds(kind) or has_days(kind)
        is_one = is_text(kind) or pa.types.is_boolean(kind) or is_time
        return self.can_filter(column) and is_one
