"""Columns that are read of the rows alone that DuckDB finds by few other columns.

DuckDB 2.0 tests `lower(host) = 'x'` above the scan, for which it reads all columns of all rows, and
so it does for `ORDER BY a * b LIMIT 5`. So a table is replaced by two scans: of the columns that
WHERE and ORDER BY read, with the position of each row, and of all columns. What is found in the
first one is known before the second one begins:

    SELECT * FROM all_columns WHERE (
        SELECT _lancefs_bind(min(_rowoffset, n))
        FROM (SELECT _rowoffset FROM tested_columns WHERE … ORDER BY … LIMIT …)
    ) IS NOT NULL

The function, which is ours, is called with the positions. If DuckDB begins the second scan sooner,
that reads all rows. DuckDB runs the statement over what is read.

Of one column of strings with dictionaries, the values are tested in place of the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.duckdb_types import cast_for_duckdb, field_for_duckdb
from duckdb_adapter.identifiers import quoted
from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.computed_filters import ComputedFilter
from duckdb_adapter.queries.parsing import count_passing
from duckdb_adapter.queries.top_n import MAX_FIRST_ROWS
from duckdb_adapter.sources.column_values import string_values
from duckdb_adapter.sources.members import MemberRows
from duckdb_adapter.sources.replacement import READER, TableOf
from duckdb_adapter.sources.rows import Names, RecordBatches, Rows, RowSource, Terms
from duckdb_adapter.told_values import PassingRows
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.selectivity import sample_of
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.per_version import PerVersion
from lancefs.table.row_metadata import ROW_OFFSET

# The variable by which the query names the scan of the columns of WHERE.
_TESTED = "tested"
# If a larger share of the rows passes, all columns of all rows are read sooner; or is filtered by
# values sooner by DuckDB.
_MAX_PASSED, _MAX_MATCHING = 1 / 64, 1 / 2
# The same share of a remote table, whose pages are fetched with the rows between those that pass.
_MAX_REMOTE = 1 / 1024
# Most of the first rows in some order that are taken from a store, which gets a request for each.
_MAX_REMOTE_FIRST = 256
# Bytes of shares that are kept for a version, and what each takes in addition to its text.
_BYTES, _SHARE_BYTES = 64 * 1024, 200
# The shares of rows that pass filters, by these; None where it is not known.
_SHARES = PerVersion[BudgetCache[str, float | None]](lambda _: BudgetCache(_BYTES))


class ComputedRows(Rows):
    """Reads the rows that pass a filter which DuckDB computes first, of something else.

    Args:
        dataset: The table.
        filter: The filter.
        use: How often the statement uses the table, as far as DuckDB has bound the name.
        most: If more positions than this pass, all rows are read.
    """

    takes_conditions = False
    # The column of the positions of what is tested.
    position: str

    def __init__(
        self, dataset: LanceDataset, filter: ComputedFilter, use: NameUse, most: int
    ) -> None:
        super().__init__(dataset)
        self._filter = filter
        self._use = use
        self._passing = PassingRows(most)

    def query(self, table_of: TableOf) -> str:
        """Return the query that DuckDB reads; see the module."""
        position, alias = quoted(self.position), quoted(self._filter.alias)
        tested = f"SELECT {position} FROM {table_of(_TESTED)} AS {alias}{self._filter.tail}"
        return f"{super().query(table_of)} WHERE {self._passing.told_by(position, tested)}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        return {READER: self, _TESTED: self.tested()}

    @abstractmethod
    def tested(self) -> RowSource | pa.Table:
        """Return what the filter is computed of first: its columns, and that of positions."""

    def take_positions(self) -> Ints | None:
        """Return the positions of what passes; None where that does not tell which rows pass."""
        self._use.mark_read()
        return self._passing.take() if self._use.is_sole else None


class DeferredRows(ComputedRows):
    """Reads the rows that pass, once their positions are known."""

    position = ROW_OFFSET.name

    def tested(self) -> RowSource:
        """Return the columns of the filter, of all rows."""
        tested = MemberRows(self.dataset, self._filter.used).with_columns(self._filter.columns)
        return tested.with_row_metadata(ROW_OFFSET)

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        positions = self.take_positions()
        if positions is None:
            return super().batches(names, terms)
        return self.at_positions(names, positions, reduce(and_, terms) if terms else None)


class MatchingRows(ComputedRows):
    """Reads the rows with those values of a column of strings that pass.

    Args:
        dataset: The table.
        filter: The filter, of this column alone.
        use: How often the statement uses the table, as far as DuckDB has bound the name.
        values: All values of the column; a null is added.
    """

    position = "__lance_place"

    def __init__(
        self, dataset: LanceDataset, filter: ComputedFilter, use: NameUse, values: pa.Array
    ) -> None:
        super().__init__(dataset, filter, use, most=len(values))
        self._values = pa.concat_arrays([values.drop_null(), pa.nulls(1, values.type)])

    def tested(self) -> pa.Table:
        """Return the values."""
        places = to_arrow_numbers(np.arange(len(self._values)))
        (column,) = self._filter.columns
        return pa.table({column: self._values, self.position: places})

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        positions = self.take_positions()
        if positions is None:
            return super().batches(names, terms)
        if not len(positions):
            return iter(())
        passing = self._values.take(to_arrow_numbers(positions))
        field = pc.field(*self._filter.columns)
        condition = field.isin(passing.drop_null())
        if passing.null_count:
            condition = condition | field.is_null()
        return super().batches(names, [*terms, condition])


def computed_rows(rows: Rows, filter: ComputedFilter, use: NameUse) -> Rows | None:
    """Return the rows that pass a filter which DuckDB computes; None where many of a sample do.

    Args:
        rows: The rows of the table.
        filter: The filter.
        use: How often the statement uses the table, as far as DuckDB has bound the name.
    """
    dataset = rows.dataset
    version = dataset.opened
    has_positions = ROW_OFFSET.name not in dataset.schema.names
    if filter.first_rows is not None:
        longest = MAX_FIRST_ROWS if dataset.is_local else _MAX_REMOTE_FIRST
        is_few = has_positions and filter.first_rows <= longest
        return DeferredRows(dataset, filter, use, filter.first_rows) if is_few else None
    share = _SHARES.of(version).get(
        filter.tail,
        lambda: _passing_share(filter, dataset),
        lambda _: _SHARE_BYTES + len(filter.tail),
    )
    # Up to a LIMIT, DuckDB reads few rows if some of a sample pass.
    if share is None or (share and filter.is_limited) or share > _MAX_MATCHING:
        return None
    if len(filter.columns) == 1 and rows.encoded.issuperset(filter.columns):
        values = string_values(dataset, filter.columns)
        if values is not None:
            return MatchingRows(dataset, filter, use, values[filter.columns[0]])
    most = _MAX_PASSED if dataset.is_local else _MAX_REMOTE
    if share > most or not has_positions:
        return None
    return DeferredRows(dataset, filter, use, int(version.num_rows * most))


def _passing_share(filter: ComputedFilter, dataset: LanceDataset) -> float | None:
    """Estimate which share of rows passes; None where a sample does not tell."""
    version = dataset.opened
    arrays = dict[str, pa.Array]()
    for name in filter.columns:
        values = sample_of(version.column(name), version)
        if values is None:
            return None
        arrays[name] = cast_for_duckdb(values, field_for_duckdb(dataset.schema.field(name)).type)
    sample = pa.table(arrays)
    passing = count_passing(sample, filter.alias, filter.tail)
    return None if passing is None else passing / len(sample)
