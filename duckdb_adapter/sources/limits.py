"""The rows of a table as far as one query uses them: those that a LIMIT and an OFFSET leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.limits import LimitedRange
from duckdb_adapter.sources.rows import COUNT_COLUMN, LONG_ROWS, Rows, conform_to_schema
from lancefs.lance_dataset import LanceDataset

# Fewer rows that are passed over are read with the others.
_MIN_SKIPPED = 64 * 1024


class LimitedRows(Rows):
    """Reads a table up to the last row that is used, without the values of its first rows.

    Those come as nulls, which DuckDB passes over.

    Args:
        dataset: The table.
        range: The rows that the statement takes, if it uses the table once.
        use: How often it does, as far as DuckDB has bound the name.
    """

    def __init__(self, dataset: LanceDataset, range: LimitedRange, use: NameUse) -> None:
        super().__init__(dataset)
        self._range = range
        self._use = use

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        wanted = [name for name in names if name != COUNT_COLUMN]
        self._use.mark_read()
        if not self._use.is_sole or not wanted or terms:
            return super().batches(names, terms)
        schema = pa.schema([self.schema.field(name) for name in names])
        skipped = min(self._range.skipped, self.known_count() or 0)
        if skipped < _MIN_SKIPPED or not all(map(_has_short_nulls, schema.types)):
            skipped = 0
        if self._range.limit is None:
            if not skipped:
                return super().batches(names, terms)
            read = self._scanned(wanted, offset=skipped)
        else:
            last = self._range.skipped + self._range.limit
            read = self._scanned(wanted, offset=skipped, limit=max(last - skipped, 0))
        return chain(_without_values(schema, skipped), conform_to_schema(read, schema))


def _without_values(schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of nulls."""
    if not rows:
        return
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
