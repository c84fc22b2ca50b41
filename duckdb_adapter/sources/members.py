"""The rows for a query that uses struct members only, or only whether values are null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.duckdb_types import cast_for_duckdb, field_for_duckdb
from duckdb_adapter.queries.column_uses import inner_paths
from duckdb_adapter.queries.members import UsedColumns
from duckdb_adapter.sources.row_counts import RowCount, table_of_rows
from duckdb_adapter.sources.rows import DuckDBColumns, RecordBatches, Rows
from duckdb_adapter.sources.value_counts import columns_of_paths
from lancefs.datafile.arrays import encode_texts
from lancefs.datafile.validity import validity_array
from lancefs.lance_dataset import LanceDataset
from lancefs.table.dictionary_columns import encoded_type
from lancefs.table.null_free import none_missing
from lancefs.table.per_version import PerVersion

# The type of a column that stands for another one whose nulls alone are used. DuckDB takes bytes
# without a copy, and would unpack bits.
_SHOWN = pa.int8()
# Rows of a batch of such columns only.
_TESTED_ROWS = 256 * 1024
# Rows of a batch in which no value is missing: no memory is touched for it.
_COMPLETE_ROWS = 4 * 1024 * 1024
# Most fragments whose metadata is asked whether values are missing.
_MAX_FRAGMENTS = 64
# Options of a scan that reads some of the rows.
_NARROWING = ("filter", "limit", "offset")
# Columns of open versions -> whether no value is missing, once that was asked, or all rows read.
_COMPLETE = PerVersion[dict[str, bool]](lambda _: {})


class MemberRows(Rows):
    """Reads a table, of some columns of which DuckDB sees less than there is.

    A struct that is missing comes out as one whose members are missing: a query that uses members
    only cannot tell them apart.

    Args:
        dataset: The table.
        used: What the query uses of it.
    """

    def __init__(self, dataset: LanceDataset, used: UsedColumns) -> None:
        super().__init__(dataset)
        self._used = used
        self.has_all_columns = not used.members
        self.required_builtins = frozenset({"count"}) if used.counts else frozenset()
        schema = dataset.schema
        self._fields = {
            name: _with_paths(schema.field(name), name, members, used.tested, frozenset())
            for name, members in used.members.items()
        }
        self._fields |= {
            name: pa.field(name, _SHOWN) for name in schema.names if name in used.tested
        }

    @property
    def encoded_members(self) -> frozenset[str]:
        """The paths of the members of structs that DuckDB 2.0 gets dictionary-encoded."""
        nested = self._known_columns.nested.items()
        is_text = {path: not self.dataset.opened.column(path).children for path, _ in nested}
        return frozenset(path for path, name in nested if path != name and is_text[path])

    def row_count(self, finds_file: Callable[[str], bool]) -> RowCount | None:
        """Return how many rows there are, where that is all that the query uses.

        Args:
            finds_file: Whether there is a file that DuckDB may read.
        """
        used, count = self._used, self.known_count()
        if not used.no_values or count is None or not self._are_there(sorted(used.tested)):
            return None
        columns = {name: used.members.get(name, []) for name in self._fields}
        return RowCount(table_of_rows(count, finds_file), columns, self.required_builtins)

    def _described(self) -> DuckDBColumns:
        whole, used, shown = super()._described(), self._used, self.dataset.schema
        fields = [
            field_for_duckdb(self._fields[one.name]) if one.name in self._fields else one
            for one in whole.schema
        ]
        types = {n: kind for n, kind in whole.nested_types.items() if n not in self._fields}
        nested = {path: name for path, name in whole.nested.items() if name in types}
        for name, members in used.members.items():
            if paths := self._encoded_paths(name):
                found = _with_paths(shown.field(name), name, members, used.tested, paths)
                types[name] = field_for_duckdb(found).type
                nested |= dict.fromkeys(paths, name)
        encoded = whole.encoded - used.tested
        return DuckDBColumns(pa.schema(fields), encoded, whole.changed, nested, types)

    def _encoded_paths(self, name: str) -> frozenset[str]:
        """Return the paths of members of a struct whose strings are stored with dictionaries."""
        paths = (f"{name}.{member}" for member in self._used.members[name])
        read = {path: self.dataset.opened.column(path) for path in paths}
        values = [
            field
            for path, field in read.items()
            if path not in self._used.tested and (self._encodes_lists or not field.children)
        ]
        found = {field.id for field in self._with_dictionaries(values)}
        return frozenset(path for path, field in read.items() if field.id in found)

    def filter_field(self, column: str) -> pa.Field:
        """Return a column as filters see it, which may name members by their places: whole."""
        if column in self._fields:
            return field_for_duckdb(self.dataset.schema.field(column))
        return super().filter_field(column)

    def _read_and_filter(
        self, names: Sequence[str], needed: Sequence[str], filter: pc.Expression
    ) -> RecordBatches:
        whole = Rows(self.dataset)
        whole = whole.with_encoded_lists() if self._encodes_lists else whole
        whole = whole.for_scan(self._needs_all) if self._is_for_scan else whole
        for batch in whole.batches(list(dict.fromkeys([*names, *needed])), (filter,)):
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in self._used.members.keys() & arrays.keys():
                for member in self._used.members[name]:
                    array = pc.struct_field(arrays[name], member.split("."))
                    path = f"{name}.{member}"
                    is_encoded = path in self._columns.nested_encoded
                    arrays[path] = encode_texts(array) if is_encoded else array
            for path in self._used.tested & arrays.keys():
                arrays[path] = _validity_column(validity_array(arrays[path]))
            yield self._batch(list(names), arrays)

    def _growing(self, columns: list[str]) -> RecordBatches:
        """Read all rows, few of them at first, if values are read."""
        paths = self._paths(columns)
        if not all(path in self._used.tested for path in paths):
            return super()._growing(columns)
        if self._are_there(paths):
            return self._complete(columns, paths)
        return self._scanned(columns, batch_size=_TESTED_ROWS)

    def _are_there(self, paths: Sequence[str]) -> bool:
        """Whether no value of columns is missing, as is known or metadata of files tell."""
        version = self.dataset.opened
        known = _COMPLETE.of(version)
        if self.dataset.is_local and len(version.readers) <= _MAX_FRAGMENTS:
            for path in paths:
                if path not in known:
                    field = version.column(path)
                    known[path] = all(none_missing(reader, [field]) for reader in version.readers)
        return all(known.get(path, False) for path in paths)

    def _complete(self, columns: list[str], paths: Sequence[str]) -> RecordBatches:
        """Return all rows of columns of which no value is missing, without reading them."""
        rows = self.dataset.count_rows()
        for first in range(0, rows, _COMPLETE_ROWS):
            there = _with_nulls(None, min(_COMPLETE_ROWS, rows - first))
            yield self._batch(columns, dict.fromkeys(paths, there))

    def _scanned(self, columns: list[str], **options: Any) -> RecordBatches:
        if not any(name in self._fields for name in columns):  # perhaps none at all
            yield from super()._scanned(columns, **options)
            return
        paths = self._paths(columns)
        tested = [path for path in paths if path in self._used.tested]
        missing: set[str] = set()
        for batch in super()._scanned(paths, validity_columns=tested, **options):
            arrays = dict(zip(paths, batch.columns, strict=True))
            for path in self._columns.nested_encoded.intersection(paths):
                arrays[path] = cast_for_duckdb(arrays[path], arrays[path].type)
            shown = {path: _validity_column(arrays[path]) for path in tested}
            missing.update(path for path, array in shown.items() if array.null_count)
            yield self._batch(columns, arrays | shown)
        if all(options.get(narrowing) is None for narrowing in _NARROWING):
            known = {path: path not in missing for path in tested}
            _COMPLETE.of(self.dataset.opened).update(known)

    def _paths(self, columns: list[str]) -> list[str]:
        """Return what is read for columns: members by their paths."""
        return [
            f"{name}.{member}" if member else name
            for name in columns
            for member in self._used.members.get(name, ("",))
        ]

    def _batch(self, columns: list[str], arrays: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return columns, of whose structs there are the members by their paths."""
        return pa.RecordBatch.from_arrays(
            [self._column(name, arrays) for name in columns], names=columns
        )

    def _column(self, name: str, arrays: Mapping[str, pa.Array]) -> pa.Array:
        if name not in self._used.members:
            return arrays[name]
        paths = [f"{name}.{member}" for member in self._used.members[name]]
        return columns_of_paths({path: arrays[path] for path in paths})[name]


def _validity_column(array: pa.Array) -> pa.Array:
    """Return the column that DuckDB is shown for the validity of another one."""
    return _with_nulls(array.buffers()[0], len(array), array.offset)


def _with_nulls(valid: pa.Buffer | None, count: int, first: int = 0) -> pa.Array:
    """Return a column with some nulls; its values, which nobody reads, are zeros.

    Args:
        valid: A bit for each value, whether it is there; None where all are.
        count: Number of values.
        first: The first bit.
    """
    zeros = pa.py_buffer(np.zeros(first + count, np.int8))  # as the system gives it: not touched
    return pa.Array.from_buffers(_SHOWN, count, [valid, zeros], offset=first)


def _with_paths(
    field: pa.Field, path: str, members: Sequence[str], tested: Set[str], encoded: Set[str]
) -> pa.Field:
    """Return a column or a member with some of the members in it, which are missing where it is.

    Args:
        field: Its type.
        path: Its path.
        members: The paths of the members in it; an empty one for all of it.
        tested: The paths of those of which only the nulls are used.
        encoded: The paths of those that come dictionary-encoded.
    """
    if not any(members):
        if path in tested:
            return pa.field(field.name, _SHOWN)
        kind = encoded_type(field.type) if path in encoded else field.type
        return field.with_nullable(True).with_type(kind)
    fields = [
        _with_paths(field.type.field(name), f"{path}.{name}", rests, tested, encoded)
        for name, rests in inner_paths(members).items()
    ]
    return field.with_type(pa.struct(fields))
