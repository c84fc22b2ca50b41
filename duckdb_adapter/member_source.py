"""The rows of a table as far as one query uses them: structs with some of their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.arrow_source import DuckDBColumns, Rows
from duckdb_adapter.duckdb_types import readable_field
from lancefs.lance_dataset import LanceDataset


class MemberRows(Rows):
    """Reads a table, of some structs of which DuckDB sees some members only.

    A struct that is missing comes out as one whose members are missing: a query that uses members
    only cannot tell them apart.

    Args:
        dataset: The table.
        members: Names of members, in the order of the type, by the name of the column.
    """

    def __init__(self, dataset: LanceDataset, members: Mapping[str, Sequence[str]]) -> None:
        super().__init__(dataset)
        self._members = members
        self._fields = {
            name: _with_members(dataset.schema.field(name), members[name]) for name in members
        }

    def _described(self) -> DuckDBColumns:
        whole = super()._described()
        fields = [
            readable_field(self._fields[one.name]) if one.name in self._fields else one
            for one in whole.schema
        ]
        return whole._replace(schema=pa.schema(fields))

    def plain_field(self, column: str) -> pa.Field:
        """Return a column as filters see it, which may name members by their places: whole."""
        if column in self._fields:
            return readable_field(self.dataset.schema.field(column))
        return super().plain_field(column)

    def _read_and_filter(
        self, names: Sequence[str], needed: Sequence[str], filter: pc.Expression
    ) -> Iterator[pa.RecordBatch]:
        whole = Rows(self.dataset).batches(list(dict.fromkeys([*names, *needed])), (filter,))
        for batch in whole:
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in self._fields.keys() & arrays.keys():
                for member in self._members[name]:
                    arrays[f"{name}.{member}"] = pc.struct_field(arrays[name], [member])
            yield self._batch(list(names), arrays)

    def _scanned(self, columns: list[str], **options: Any) -> Iterator[pa.RecordBatch]:
        if not any(name in self._fields for name in columns):  # perhaps none at all
            yield from super()._scanned(columns, **options)
            return
        paths = [
            f"{name}.{member}" if member else name
            for name in columns
            for member in self._members.get(name, ("",))
        ]
        for batch in super()._scanned(paths, **options):
            yield self._batch(columns, dict(zip(paths, batch.columns, strict=True)))

    def _batch(self, columns: list[str], arrays: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return columns, of whose structs there are the members by their paths."""
        return pa.RecordBatch.from_arrays(
            [self._column(name, arrays) for name in columns], names=columns
        )

    def _column(self, name: str, arrays: Mapping[str, pa.Array]) -> pa.Array:
        if name not in self._fields:
            return arrays[name]
        members = [arrays[f"{name}.{member}"] for member in self._members[name]]
        return pa.StructArray.from_arrays(members, fields=list(self._fields[name].type))


def _with_members(field: pa.Field, members: Sequence[str]) -> pa.Field:
    """Return a struct with some of its members, which are missing where it is."""
    kept = [field.type.field(name).with_nullable(True) for name in members]
    return field.with_type(pa.struct(kept))
