"""Some rows of a table by their positions: what LIMIT and OFFSET leave, and random samples."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from duckdb_adapter.identifiers import quoted
from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.limits import LimitedRange
from duckdb_adapter.sources.replacement import TableOf
from duckdb_adapter.sources.row_counts import range_table
from duckdb_adapter.sources.rows import COUNT_COLUMN, LONG_ROWS, Names, RecordBatches, Rows, Terms
from lancefs.lance_dataset import LanceDataset

# With larger samples nearly every page has a sampled row, so that all rows are read. A remote store
# gets a request for each row.
_MAX_SAMPLE, _MAX_REMOTE_SAMPLE = 16 * 1024, 256
_MAX_SAMPLED_SHARE = 1 / 64
# If an OFFSET passes over fewer rows than these, they are read with the others.
_MIN_SKIPPED = 64 * 1024


class RowsByPosition(Rows):
    """Reads some rows of a table where the statement uses it once, all rows elsewhere.

    Args:
        dataset: The table.
        use: How often the statement uses it, as far as DuckDB has bound the name.
    """

    takes_conditions = False

    def __init__(self, dataset: LanceDataset, use: NameUse) -> None:
        super().__init__(dataset)
        self._use = use

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        self._use.mark_read()
        has_values = any(name != COUNT_COLUMN for name in names)
        is_enough = self._use.is_sole and has_values and not terms
        found = self._read_some(names) if is_enough else None
        return super().batches(names, terms) if found is None else found

    @abstractmethod
    def _read_some(self, names: Sequence[str]) -> RecordBatches | None:
        """Read columns of the rows that the statement uses; None where all are read as well."""


class RowsBehindNulls(Rows):
    """Reads the rows of a range, which stand behind as many of nulls as come before them.

    DuckDB makes the nulls, each column of them a constant, in a tenth of the time in which it takes
    them from Arrow.

    Args:
        dataset: The table, which has columns.
        range: The range.
    """

    takes_conditions = False

    def __init__(self, dataset: LanceDataset, range: LimitedRange) -> None:
        super().__init__(dataset)
        self._range = range

    def query(self, table_of: TableOf) -> str:
        """Return the query that DuckDB reads; DuckDB keeps the order of UNION ALL."""
        names = [name for name in self.schema.names if name != COUNT_COLUMN]
        columns = ", ".join(f"NULL AS {quoted(name)}" for name in names)
        nulls = range_table(self._range.skipped)
        return f"SELECT {columns} FROM {nulls} UNION ALL {super().query(table_of)}"

    def known_count(self) -> int | None:
        """Return the number of rows of the range, where the manifest tells it."""
        rows = super().known_count()
        if rows is None:
            return None
        left = max(rows - self._range.skipped, 0)
        return left if self._range.limit is None else min(left, self._range.limit)

    def can_filter(self, column: str) -> bool:
        """Whether filters may speak of a column: which rows there are, their positions tell."""
        return False

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        assert not terms, "filters were not accepted"
        return self._in_range(names, *self._range)


def rows_behind_nulls(dataset: LanceDataset, range: LimitedRange) -> RowsBehindNulls | None:
    """Return what stands for a table of which one range of rows is used, and nothing else.

    Args:
        dataset: The table.
        range: The range.

    Returns:
        None where few rows come before the range.
    """
    skipped = min(range.skipped, dataset.manifest.num_rows or 0)
    if skipped < _MIN_SKIPPED or not len(dataset.schema):
        return None
    return RowsBehindNulls(dataset, LimitedRange(skipped, range.limit))


class LimitedRows(RowsByPosition):
    """Reads a table up to the last row that is used, without the values of its first rows.

    Those come as nulls, which DuckDB passes over.

    Args:
        dataset: The table.
        range: The rows that the statement takes, if it uses the table once.
        use: How often it does, as far as DuckDB has bound the name.
    """

    def __init__(self, dataset: LanceDataset, range: LimitedRange, use: NameUse) -> None:
        super().__init__(dataset, use)
        self._range = range

    def _read_some(self, names: Sequence[str]) -> RecordBatches | None:
        before, limit = self._range
        schema = pa.schema([self.schema.field(name) for name in names])
        skipped = min(before, self.known_count() or 0)
        if skipped < _MIN_SKIPPED or not all(map(_has_short_nulls, schema.types)):
            skipped = 0
        if limit is None and not skipped:
            return None
        most = None if limit is None else before + limit - skipped
        read = self._in_range(names, skipped, most)
        return chain(_without_values(schema, skipped), read) if skipped else read


def _without_values(schema: pa.Schema, rows: int) -> RecordBatches:
    """Yield rows of nulls: one at least."""
    length = min(rows, LONG_ROWS)
    nulls = [pa.nulls(length, kind) for kind in schema.types]
    batch = pa.RecordBatch.from_arrays(nulls, schema=schema)
    for start in range(0, rows, length):
        yield batch.slice(0, rows - start)


def _has_short_nulls(kind: pa.DataType) -> bool:
    """Whether nulls of a type take a few bytes, and pyarrow makes some."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_list(kind):
        return False
    if pa.types.is_struct(kind):
        return all(_has_short_nulls(field.type) for field in kind)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)
    return is_list or not (pa.types.is_nested(kind) or pa.types.is_fixed_size_binary(kind))


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

    def _read_some(self, names: Sequence[str]) -> RecordBatches | None:
        rows = self.dataset.count_rows()
        most = _MAX_SAMPLE if self.dataset.is_local else _MAX_REMOTE_SAMPLE
        if self._count > min(most, rows * _MAX_SAMPLED_SHARE):
            return None
        return self.at_positions(names, np.sort(random.sample(range(rows), self._count)))
