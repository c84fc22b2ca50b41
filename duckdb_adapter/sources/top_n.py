"""The rows of a table as far as one query uses them: the first ones in some order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pins import Use
from duckdb_adapter.queries.top_n import FirstRows
from duckdb_adapter.sources.rows import COUNTER, Rows, fitted
from duckdb_adapter.sources.top_n_rows import find_first, is_ordered
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import AND, as_comparison, chain_terms, clear_tree
from lancefs.scan.settings import BATCH_ROWS
from lancefs.table.row_metadata import ROW_OFFSET

# A shorter table is read once, not twice.
_LEAST_ROWS = 2 * BATCH_ROWS


class TopNRows(Rows):
    """Reads the rows that may be the first ones.

    Args:
        dataset: The table.
        first: Which rows are wanted.
        use: How often the statement uses the table, where its text does not tell.
    """

    def __init__(self, dataset: LanceDataset, first: FirstRows, use: Use | None = None) -> None:
        super().__init__(dataset)
        self._wanted = first
        self._use = use

    def keeps_most(self, filter: pc.Expression) -> bool:
        """Whether DuckDB leaves rows out: not where the first of those that pass are wanted."""
        return False

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        is_all = self._use is None or self._use.read_once()
        if not (is_all and self._are_all(terms) and self._is_worthwhile(names)):
            return super().batches(names, terms)
        schema = pa.schema([self.schema.field(name) for name in names])
        wanted = [name for name in names if name != COUNTER]
        return fitted(self._first(wanted, terms), schema)

    def _are_all(self, terms: Sequence[pc.Expression]) -> bool:
        """Whether the rows for which all terms are true are those that pass WHERE."""
        compared = [_compared(term) for term in terms]
        found = Counter(column for columns in compared for column in columns or ())
        return None not in compared and found == Counter(self._wanted.tested)

    def _is_worthwhile(self, names: Sequence[str]) -> bool:
        """Whether the columns that tell the rows are less than what is wanted, and in an order."""
        column, tested = self._wanted.column, self._wanted.tested
        is_wide = any(name not in (COUNTER, column, *tested) for name in names)
        is_long = (self.known_count() or 0) >= _LEAST_ROWS
        is_same = all(map(self.can_filter, (column, *tested)))
        return is_wide and is_long and is_same and is_ordered(self.plain_field(column).type)

    def _first(
        self, columns: list[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that may be among the first ones; all that pass where those are many."""
        filter = reduce(and_, terms) if terms else None
        positions = find_first(self._values(filter), self._wanted.rows, self._wanted.descending)
        if positions is None:
            yield from super().batches(columns, terms)
            return
        yield from self._scanner(columns).take(positions).to_batches()

    def _values(self, filter: pc.Expression | None) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yield the values that order the rows that pass, with the positions of these rows."""
        column, size = self._wanted.column, 4 * BATCH_ROWS
        if filter is not None:
            columns = [column, ROW_OFFSET.name]
            for batch in self.dataset.to_batches(columns, filter=filter, batch_size=size):
                yield batch.column(0), batch.column(1).cast(pa.int64())
            return
        start = 0
        for batch in self.dataset.to_batches([column], batch_size=size):
            end = start + batch.num_rows
            yield batch.column(0), pa.array(np.arange(start, end))
            start = end


def _compared(term: pc.Expression) -> list[str] | None:
    """Return the columns that a condition compares, each as often as it does.

    None where it is not made of comparisons that must all be true.
    """
    tree, columns = clear_tree(term), list[str]()
    for each in () if tree is None else chain_terms(tree, AND):
        test = as_comparison(each)
        if test is None:
            return None
        columns.append(test.column)
    return columns or None
