"""Columns that are read of the rows alone that pass a filter which DuckDB computes.

DuckDB 2.0 tests `lower(host) = 'x'` above the scan, for which it reads all columns of all rows. So
a table is replaced by two scans: of the columns that WHERE reads, with the position of each row,
and of all columns. What passes WHERE in the first one is known before the second one begins:

    SELECT * FROM all_columns
    WHERE (SELECT _lancefs_bind(min(_rowoffset, n)) FROM tested_columns WHERE …) IS NOT NULL

The function, which is ours, is called with the positions. If DuckDB begins the second scan sooner,
that reads all rows. DuckDB computes WHERE again of what is read, as the statement says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.bind_callback import BIND_FUNCTION
from duckdb_adapter.duckdb_types import cast_for_duckdb, field_for_duckdb
from duckdb_adapter.identifiers import quoted
from duckdb_adapter.passing_rows import PassingRows
from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.computed_filters import ComputedFilter
from duckdb_adapter.queries.parsing import count_passing
from duckdb_adapter.sources.members import MemberRows
from duckdb_adapter.sources.replacement import READER, TableOf
from duckdb_adapter.sources.rows import COUNT_COLUMN, Rows, RowSource, conform_to_schema
from lancefs.datafile.buffers import Ints
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import columns_of
from lancefs.scan.selectivity import is_large, sample_of
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.per_version import PerVersion
from lancefs.table.row_metadata import ROW_OFFSET

# The variable by which the query names the scan of the columns of WHERE.
_TESTED = "tested"
# If a larger share of the rows passes, all columns of all rows are read sooner.
_MAX_PASSED = 1 / 64
# Bytes of shares that are kept for a version, and what each takes in addition to its text.
_BYTES, _SHARE_BYTES = 64 * 1024, 200
# Rows that are taken at a time.
_TAKEN_ROWS = 64 * 1024
# The shares of rows that pass filters, by these; None where it is not known.
_SHARES = PerVersion[BudgetCache[str, float | None]](lambda _: BudgetCache(_BYTES))


class DeferredRows(Rows):
    """Reads the rows that pass a filter which DuckDB computes.

    Args:
        dataset: The table.
        filter: The filter.
        use: How often the statement uses the table, as far as DuckDB has bound the name.
    """

    takes_conditions = False

    def __init__(self, dataset: LanceDataset, filter: ComputedFilter, use: NameUse) -> None:
        super().__init__(dataset)
        self._filter = filter
        self._use = use
        self._found = PassingRows(int((self.known_count() or 0) * _MAX_PASSED))

    def query(self, table_of: TableOf) -> str:
        """Return the query that DuckDB reads; see the module."""
        told = self._found.argument(quoted(ROW_OFFSET.name))
        where, alias = self._filter.where, quoted(self._filter.alias)
        tested = f"SELECT system.main.{BIND_FUNCTION}({told}) FROM {table_of(_TESTED)} AS {alias}"
        return f"{super().query(table_of)} WHERE ({tested} WHERE {where}) IS NOT NULL"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads."""
        tested = MemberRows(self.dataset, self._filter.used).with_columns(self._filter.columns)
        return {READER: self, _TESTED: tested.with_row_metadata(ROW_OFFSET)}

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        self._use.mark_read()
        positions = self._found.take() if self._use.is_sole else None
        if positions is None:
            return super().batches(names, terms)
        return self._taken(names, positions, reduce(and_, terms) if terms else None)

    def _taken(
        self, names: Sequence[str], positions: Ints, filter: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows at some positions for which a filter is true."""
        tested = [] if filter is None else columns_of(filter, self.schema.names)
        wanted = list(dict.fromkeys([*names, *tested]))
        schema = pa.schema([self.schema.field(name) for name in wanted])
        scanner = self._scanner([name for name in wanted if name != COUNT_COLUMN])
        for start in range(0, len(positions), _TAKEN_ROWS):
            taken = scanner.take(positions[start : start + _TAKEN_ROWS])
            for batch in conform_to_schema(iter(taken.to_batches()), schema):
                yield batch if filter is None else self.filtered(batch, filter).select(names)


def deferred_rows(dataset: LanceDataset, filter: ComputedFilter, use: NameUse) -> Rows | None:
    """Return the rows that pass a filter which DuckDB computes; None unless they are few of many.

    Args:
        dataset: The table.
        filter: The filter.
        use: How often the statement uses the table, as far as DuckDB has bound the name.
    """
    version = dataset.opened
    if ROW_OFFSET.name in dataset.schema.names:
        return None
    share = _SHARES.of(version).get(
        filter.where,
        lambda: _passing_share(filter, dataset),
        lambda _: _SHARE_BYTES + len(filter.where),
    )
    # Up to a LIMIT, DuckDB reads few rows if some of a sample pass.
    most = 0 if filter.is_limited else _MAX_PASSED
    return None if share is None or share > most else DeferredRows(dataset, filter, use)


def _passing_share(filter: ComputedFilter, dataset: LanceDataset) -> float | None:
    """Estimate which share of rows passes; None where a sample does not tell."""
    version = dataset.opened
    if not is_large(version):
        return None
    arrays = dict[str, pa.Array]()
    for name in filter.columns:
        values = sample_of(version.column(name), version)
        if values is None:
            return None
        arrays[name] = cast_for_duckdb(values, field_for_duckdb(dataset.schema.field(name)).type)
    sample = pa.table(arrays)
    passing = count_passing(sample, filter.alias, filter.where)
    return None if passing is None else passing / len(sample)
