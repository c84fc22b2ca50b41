"""The rows of a table as far as one query uses them: less of structs, and the first rows only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.arrow_source import COUNTER, Rows, fitted
from duckdb_adapter.duckdb_types import readable_field
from duckdb_adapter.first_rows import find_first, is_ordered
from duckdb_adapter.uses import FirstRows, Uses
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.settings import BATCH_ROWS
from lancefs.table.members import nested

# A shorter table is read once, not twice.
_LEAST_ROWS = 2 * BATCH_ROWS


class UsedRows(Rows):
    """Reads what a query uses of a table.

    Args:
        dataset: The table.
        uses: What the query uses.
    """

    def __init__(self, dataset: LanceDataset, uses: Uses) -> None:
        super().__init__(dataset)
        self._uses = uses

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, the counting one first; structs have the members that are used."""
        schema = super().schema
        for name, members in self._uses.members.items():
            shown = self.dataset.with_members(*members).schema
            empty = pa.schema([shown.field(member) for member in members]).empty_table()
            batch = nested(
                pa.RecordBatch.from_arrays(
                    [column.combine_chunks() for column in empty.columns], schema=empty.schema
                ),
                self._paths,
            )
            position = schema.get_field_index(name)
            schema = schema.set(position, readable_field(batch.schema.field(0)))
        return schema

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        """The names on the way to each member that is used, by its name."""
        members = [one for each in self._uses.members.values() for one in each]
        return {member: tuple(member.split(".")) for member in members}

    def plain_field(self, column: str) -> pa.Field:
        """Return a column as filters see it: not encoded, and with all members."""
        if column in self._uses.members:
            return readable_field(self.dataset.schema.field(column))
        return super().plain_field(column)

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        first = self._uses.first
        if first is not None and not terms and self._is_worthwhile(first, names):
            schema = pa.schema([self.schema.field(name) for name in names])
            return fitted(self._first([name for name in names if name != COUNTER], first), schema)
        return super().batches(names, terms)

    def _is_worthwhile(self, first: FirstRows, names: Sequence[str]) -> bool:
        """Whether the column that orders is less than what is wanted, and Arrow can order it."""
        is_wide = any(name not in (COUNTER, first.column) for name in names)
        is_long = (self.known_count() or 0) >= _LEAST_ROWS
        is_same = self.can_filter(first.column)
        return is_wide and is_long and is_same and is_ordered(self.plain_field(first.column).type)

    def _first(self, columns: list[str], first: FirstRows) -> Iterator[pa.RecordBatch]:
        """Read the rows that may be among the first ones; all rows where those are many."""
        keys = self.dataset.to_batches(columns=[first.column], batch_size=4 * BATCH_ROWS)
        positions = find_first((batch.column(0) for batch in keys), first.rows, first.descending)
        if positions is None:
            yield from self._growing(columns)
            return
        encoded = [name for name in columns if name in self._encoded]
        scanner = self.dataset.scanner(columns=self._flat(columns), dictionary_columns=encoded)
        for batch in scanner.take(positions).to_batches():
            yield nested(batch, self._paths)

    def _scanned(self, columns: list[str], **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in super()._scanned(self._flat(columns), **options):
            yield nested(batch, self._paths)

    def _flat(self, columns: Sequence[str]) -> list[str]:
        """Return the columns to read: the members in place of structs."""
        members = self._uses.members
        return [name for column in columns for name in members.get(column, (column,))]
