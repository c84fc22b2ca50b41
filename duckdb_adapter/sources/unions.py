"""Several tables read as one, with DuckDB's rules for several Parquet files.

The columns are those of the first table, which each of the others has by name; or, by name, those
of all tables, with nulls where a table has no such column.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.identifiers import fold
from duckdb_adapter.sources.conversions import common_type, convert
from duckdb_adapter.sources.rows import (
    COUNT_COLUMN,
    Names,
    RecordBatches,
    Rows,
    RowSource,
    Terms,
    as_filter_type,
)
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.constants import array_of
from lancefs.datafile.decimals import decimal64_array
from lancefs.datafile.logical_types import decimal64_type
from lancefs.errors import ColumnNotFound, UnsupportedFeature
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import columns_of, evaluate_filter
from lancefs.table.dictionary_columns import ENCODED
from lancefs.table.fragments import sum_known
from lancefs.threads import Threads, prefetch, submit

# With more tables, it is not asked which columns have dictionaries: that opens data files of each.
_MAX_ENCODED = 32
# Most remote tables that are read at once; and the most fragments and bytes that each may have,
# since its rows wait in memory for those of the tables before it.
_MAX_AHEAD, _SMALL_FRAGMENTS, _SMALL_BYTES = 16, 64, 4 * 1024 * 1024


class TableUnion(NamedTuple):
    """Tables to be read as one.

    Attributes:
        tables: The tables, each under the name that it was given.
        is_by_name: Whether the columns of all tables count, not of the first one only.
        filename: A column that tells the name of the table of each row; None for no such column.
    """

    tables: Sequence[tuple[str, LanceDataset]]
    is_by_name: bool
    filename: str | None

    def rows(self) -> RowSource:
        """Return the rows, table after table.

        Raises:
            ColumnNotFound: A table lacks a column of the first one.
            UnsupportedFeature: A column has types that are not converted into each other.
            ValueError: The column that tells the name has the name of another.
        """
        encodes = len(self.tables) <= _MAX_ENCODED
        named = [(name, Rows(dataset, encodes)) for name, dataset in self.tables]
        sources = named if self.is_by_name else named[:1]
        fields = _merged([(name, _fields(rows)) for name, rows in sources])
        if self.filename is not None:
            _check_filename(self.filename, fields)
        members = [_member(name, rows, fields, self.is_by_name) for name, rows in named]
        return _UnionRows(members, fields, self.filename)


class _Member(NamedTuple):
    """One of the tables.

    Attributes:
        name: As it was given.
        rows: Its rows.
        columns: What the columns of the union, as far as they are here, are called here.
    """

    name: str
    rows: Rows
    columns: Mapping[str, str]

    @property
    def is_small(self) -> bool:
        """Whether the whole table may be read before its first row is wanted."""
        fragments = self.rows.dataset.manifest.fragments
        if len(fragments) > _SMALL_FRAGMENTS:
            return False
        size = sum_known(fragment.size for fragment in fragments)
        return size is not None and size <= _SMALL_BYTES


class _UnionRows(RowSource):
    """Reads tables, one after the other.

    Args:
        members: The tables.
        fields: The columns, not encoded.
        filename: A column that tells the name of the table.
        as_decimal64: Whether decimals come in 64 bits where DuckDB keeps them so.
    """

    def __init__(
        self,
        members: Sequence[_Member],
        fields: Mapping[str, pa.Field],
        filename: str | None,
        as_decimal64: bool = False,
    ) -> None:
        self._members = members
        self._given, self._as_decimal64 = fields, as_decimal64
        self._fields = {COUNT_COLUMN: pa.field(COUNT_COLUMN, pa.null()), **fields}
        self._filename = filename
        if filename is not None:
            self._fields[filename] = pa.field(filename, pa.string())

    @cached_property
    def schema(self) -> pa.Schema:
        fields = [
            field.with_type(ENCODED) if self._is_encoded(name) else field
            for name, field in self._fields.items()
        ]
        if self._as_decimal64:
            fields = [field.with_type(decimal64_type(field.type) or field.type) for field in fields]
        return pa.schema(fields)

    def for_scan(self, needs_all: bool) -> _UnionRows:
        members = [each._replace(rows=each.rows.for_scan(needs_all)) for each in self._members]
        return _UnionRows(members, self._given, self._filename, as_decimal64=True)

    def _is_encoded(self, column: str) -> bool:
        """Whether a column comes dictionary-encoded: from each table that has it."""
        if column == self._filename:
            return True
        types = {
            member.rows.schema.field(own).type
            for member in self._members
            if (own := member.columns.get(column)) is not None
        }
        return types == {ENCODED} and bool(self._fields[column].type == ENCODED.value_type)

    def can_filter(self, column: str) -> bool:
        """Whether filters may speak of a column: not where its type changes on the way."""
        return all(
            member.rows.can_filter(own)
            for member in self._members
            if (own := member.columns.get(column)) is not None
        )

    def filter_field(self, column: str) -> pa.Field:
        return self._fields[column]

    def known_count(self) -> int | None:
        return sum_known([member.rows.known_count() for member in self._members])

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        first, *others = self._members
        yield from self._batches_of(first, names, terms)
        # Whoever asks for more has read the first table, and wants the others.
        if first.rows.dataset.is_local or not others:
            for member in others:
                yield from self._batches_of(member, names, terms)
            return
        pool = Threads(_MAX_AHEAD, "lancefs-tables")
        try:
            yield from self._ahead(pool, others, names, terms)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _ahead(
        self, pool: Threads, members: Sequence[_Member], names: Names, terms: Terms
    ) -> RecordBatches:
        """Read tables in order; the requests of small ones are under way together."""

        def read(member: _Member) -> list[pa.RecordBatch]:
            return list(self._batches_of(member, names, terms))

        def start(member: _Member) -> Callable[[], Iterable[pa.RecordBatch]]:
            if member.is_small:
                return submit(pool, read, member)
            return partial(self._batches_of, member, names, terms)

        def is_full(under_way: Sequence[_Member]) -> bool:
            return len(under_way) >= _MAX_AHEAD

        for batches in prefetch(members, start, is_full):
            yield from batches

    def _batches_of(self, member: _Member, names: Names, terms: Terms) -> RecordBatches:
        """Read one table, which itself looks at the terms that speak of what it has alone."""
        handed_on: list[pc.Expression] = []
        rest: list[pc.Expression] = []
        needed = dict.fromkeys(names)
        for term in terms:
            columns = columns_of(term, self.schema.names)
            if all(self._is_as_it_is(member, column) for column in columns):
                handed_on.append(term)
            elif member.columns.keys().isdisjoint(columns) and COUNT_COLUMN not in columns:
                if not self._is_true(member, term, columns):
                    return
            else:
                rest.append(term)
                needed |= dict.fromkeys(columns)
        own = [member.columns[name] for name in needed if name in member.columns]
        for batch in member.rows.batches(own or [COUNT_COLUMN], handed_on):
            found = self._completed(member, batch, list(needed))
            for term in rest:
                found = self.filtered(found, term)
            yield found.select(list(names))

    def _is_as_it_is(self, member: _Member, column: str) -> bool:
        """Whether a column of a table is the column of the union as it is."""
        return (
            member.columns.get(column) == column
            and member.rows.can_filter(column)
            and bool(member.rows.filter_field(column).type == self._fields[column].type)
        )

    def _is_true(self, member: _Member, term: pc.Expression, columns: Sequence[str]) -> bool:
        """Whether a term is true that speaks only of what is the same in all rows of a table."""
        row = self._completed(member, pa.record_batch({COUNT_COLUMN: pa.nulls(1)}), columns)
        return bool(evaluate_filter(term, self.for_filter(row))[0].as_py())

    def _completed(
        self, member: _Member, batch: pa.RecordBatch, names: Sequence[str]
    ) -> pa.RecordBatch:
        """Return columns of the union for rows of a table."""
        schema = pa.schema([self.schema.field(name) for name in names])
        arrays = [
            self._array(member, batch, name, kind)
            for name, kind in zip(names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(
        self, member: _Member, batch: pa.RecordBatch, name: str, kind: pa.DataType
    ) -> pa.Array:
        if name == self._filename:
            indices = to_arrow_numbers(np.zeros(batch.num_rows, np.int32))
            return pa.DictionaryArray.from_arrays(indices, array_of([member.name], pa.string()))
        own = member.columns.get(name)
        if own is None:
            return pa.nulls(batch.num_rows, kind)
        array = batch.column(own)
        if array.type == kind:
            return array
        array, plain = as_filter_type(array, member.rows.filter_field(own).type), self._fields[name]
        if array.type != plain.type and pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        try:
            array = array if array.type == plain.type else convert(array, plain.type)
        except pa.ArrowException as error:
            raise _not_converted(member.name, name, array.type, plain.type, str(error)) from None
        return array if kind == plain.type else decimal64_array(array)


def _fields(rows: Rows) -> dict[str, pa.Field]:
    """Return the columns of a table, not encoded."""
    names = [name for name in rows.schema.names if name != COUNT_COLUMN]
    return {name: rows.filter_field(name) for name in names}


def _merged(tables: Sequence[tuple[str, Mapping[str, pa.Field]]]) -> dict[str, pa.Field]:
    """Return the columns of all tables, each with a type that holds its values in all of them."""
    merged: dict[str, pa.Field] = {}
    for table, fields in tables:
        spelled = _Spelling(merged)
        for own, field in fields.items():
            name = spelled.find(own, fields)
            if name is None:
                merged[own] = field.with_nullable(True)
            elif merged[name].type != field.type:
                sides = (merged[name], field.with_name(name))
                merged[name] = _common(table, [_without_dictionary(side) for side in sides])
    return merged


def _common(table: str, fields: Sequence[pa.Field]) -> pa.Field:
    """Return a column with a type that holds the values of all its types."""
    try:
        return fields[0].with_type(common_type(*fields))
    except pa.ArrowException as error:
        name, types = fields[0].name, [field.type for field in fields]
        raise _not_converted(table, name, types[1], types[0], str(error)) from None


def _without_dictionary(field: pa.Field) -> pa.Field:
    is_encoded = pa.types.is_dictionary(field.type)
    return field.with_type(field.type.value_type) if is_encoded else field


def _member(name: str, rows: Rows, fields: Mapping[str, pa.Field], is_by_name: bool) -> _Member:
    """Find the columns of a union in a table, and that their types can be converted."""
    own = _fields(rows)
    spelled = _Spelling(own)
    columns = {}
    for column, field in fields.items():
        found = spelled.find(column, fields)
        if found is not None:
            columns[column] = found
            _check_conversion(name, own[found], field)
        elif not is_by_name:
            raise ColumnNotFound(
                f"{name}: there is no column {column!r}, which the first table has; there are "
                f"{', '.join(own)}. With union_by_name := true, a table may lack columns"
            )
    return _Member(name, rows, columns)


def _check_conversion(table: str, field: pa.Field, wanted: pa.Field) -> None:
    own = _without_dictionary(field).type
    if field.type == wanted.type or own == wanted.type:
        return
    try:
        convert(pa.nulls(0, own), wanted.type)
    except pa.ArrowException as error:
        raise _not_converted(table, wanted.name, own, wanted.type, str(error)) from None


class _Spelling:
    """How names are spelled among others: DuckDB takes capital letters for small ones.

    Args:
        names: The others, as they are now.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._by_letters = {fold(name): name for name in self._names}

    def find(self, name: str, beside: Container[str] = ()) -> str | None:
        """Return what a name is here; None where there is no such name.

        Args:
            name: The name.
            beside: Names that it stands with: those are themselves here.
        """
        if name in self._names:
            return name
        found = self._by_letters.get(fold(name))
        return None if found in beside else found


def _check_filename(filename: str, fields: Iterable[str]) -> None:
    """Refuse a name of a column that is taken.

    Raises:
        ValueError: It is.
    """
    if _Spelling([COUNT_COLUMN, *fields]).find(filename) is not None:
        raise ValueError(
            f"lance_scan: filename adds the column {filename!r}, and the tables have such a "
            "column; name another one, as in filename := 'path'"
        )


def _not_converted(
    table: str, column: str, own: pa.DataType, wanted: pa.DataType, reason: str
) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{table}: column {column!r} is of type {own}, and of type {wanted} in the tables before: "
        f"{reason}. Convert it with CAST in a query for each table, joined by UNION ALL; or, where "
        "the first table has the narrower type, give union_by_name := true"
    )
