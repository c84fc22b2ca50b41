"""Rows as a pyarrow dataset, which any DuckDB reads; `scan_sources` is for DuckDB 2.0 alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.interrupts import reraise_interrupts
from duckdb_adapter.sources.rows import RowSource
from lancefs.arrow_dataset import pads


class ArrowDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Rows as a pyarrow dataset, which DuckDB has always been able to scan.

    Args:
        rows: The rows of a table, or of several.
    """

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    @property
    @reraise_interrupts
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @reraise_interrupts
    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> _Scanner:
        """Say what to read: columns by name, and the rows for which a filter is true."""
        return _Scanner(self._rows, columns, filter)


class _Scanner:
    """What DuckDB wants of a pyarrow scanner."""

    def __init__(
        self, rows: RowSource, columns: Sequence[str] | None, filter: pc.Expression | None
    ) -> None:
        self._arguments = rows, columns, filter

    @property
    @reraise_interrupts
    def projected_schema(self) -> pa.Schema:
        rows, columns, _ = self._arguments
        return pa.schema([rows.schema.field(name) for name in columns or rows.schema.names])

    def to_reader(self) -> pa.RecordBatchReader:
        rows, columns, filter = self._arguments
        return rows.read(columns, () if filter is None else (filter,))
