"""The rows of a table as far as one query uses them: those that a LIMIT and an OFFSET leave."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.limits import LimitedRange
from duckdb_adapter.sources.rows import LONG_ROWS, conform_to_schema
from duckdb_adapter.sources.rows_by_position import RowsByPosition
from lancefs.lance_dataset import LanceDataset

# Fewer rows that are passed over are read with the others.
_MIN_SKIPPED = 64 * 1024


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

    def _some(self, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch] | None:
        before, limit = self._range
        skipped = min(before, self.known_count() or 0)
        if skipped < _MIN_SKIPPED or not all(map(_has_short_nulls, schema.types)):
            skipped = 0
        if limit is None and not skipped:
            return None
        most = None if limit is None else before + limit - skipped
        read = conform_to_schema(self._scanned(columns, offset=skipped, limit=most), schema)
        return chain(_without_values(schema, skipped), read) if skipped else read


def _without_values(schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
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
