"""The rows of a table as DuckDB reads them: projection and filters in, a stream of batches out.

DuckDB counts rows by reading the first column of a table. So the first column here has no values
and costs nothing to read. Users do not see it, because a table name is replaced by
`SELECT * EXCLUDE (…)` of these rows.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.duckdb_ranges import check_range, is_limited
from duckdb_adapter.duckdb_types import cast_for_duckdb, field_for_duckdb
from duckdb_adapter.endings import streams
from duckdb_adapter.identifiers import fold, quoted
from duckdb_adapter.interrupts import raise_again, reraise_interrupts
from duckdb_adapter.sources.replacement import READER, Replacement, TableOf
from duckdb_adapter.stream_errors import without_traceback
from duckdb_adapter.version_cache import forget
from lancefs.datafile.buffers import Ints
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import decimal64_type, has_type, is_list
from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import columns_of, evaluate_filter
from lancefs.scan.scanner import LanceScanner
from lancefs.scan.selectivity import estimate_selectivity
from lancefs.scan.settings import BATCH_ROWS
from lancefs.table.dictionary_columns import ENCODED, encoded_type
from lancefs.table.fragment_readers import are_several_local
from lancefs.table.per_version import PerVersion
from lancefs.table.string_cache import cached_string_ids

COUNT_COLUMN = "__lance_rows"
_COUNT_FIELD = pa.field(COUNT_COLUMN, pa.null())
# Rows of the first batches, which are small: DuckDB does not say that it wants only some rows, it
# just stops asking, and each of its threads may have asked once by then.
_FIRST_ROWS = (2 * 1024, 8 * 1024)
# How many rows the batches of a long table have: each batch costs some Python, in which no other
# thread decodes. Of a shorter table they are shorter: each of DuckDB's threads gets so many batches
# at least.
LONG_ROWS = 256 * 1024
_MIN_SHARE = 4
# From this number of rows on, threads decode the first rows as well if all rows are needed.
_MIN_LONG = 1024 * 1024
# Largest average rows of small fragments.
_MAX_SMALL_ROWS = 4 * 1024
# Rows of a batch without columns: DuckDB allocates a bit for each.
_MAX_COUNTED = 64 * 1024 * 1024
# The share of rows that a filter keeps at least where DuckDB tests them: it is then given the
# columns of the filter too, of which texts take longest. Measured with 1 to 6 other columns.
_MAX_KEPT, _MAX_KEPT_BY_TEXTS = 0.8, 0.9
_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
# Rows that are taken by their positions at a time.
_TAKEN_ROWS = 64 * 1024
# Wider tables are not asked which columns have dictionaries: each takes 0.1 ms in every query.
_MAX_COLUMNS = 256


# The names of columns, in the order wanted; conditions that must all be true; and rows.
Names: TypeAlias = Sequence[str]
Terms: TypeAlias = Sequence[pc.Expression]
RecordBatches: TypeAlias = Iterator[pa.RecordBatch]
# Takes the columns and the rows that are read, and returns these rows.
Noting: TypeAlias = Callable[[Names, RecordBatches], RecordBatches]


class RowSource(Replacement):
    """Rows that DuckDB scans: of a table, or of several.

    Attributes:
        expressions: Columns that come as an expression in SQL with the same values.
        takes_conditions: Whether a read with more conditions than those that DuckDB knows of takes
            less time, where they leave out rows.
    """

    takes_conditions = False

    expressions: Mapping[str, str] = MappingProxyType({})

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns, the counting one first."""

    @property
    def hidden(self) -> str:
        """The SQL after `*` that hides the counting column; empty if there is no other column."""
        return f" EXCLUDE ({COUNT_COLUMN})" if len(self.schema) > 1 else ""

    def query(self, table_of: TableOf) -> str:
        """Return the query that DuckDB reads; see `Replacement.query`."""
        shown = [f"{sql} AS {quoted(column)}" for column, sql in self.expressions.items()]
        replaced = f" REPLACE ({', '.join(shown)})" if shown else ""
        return f"SELECT *{self.hidden}{replaced} FROM {table_of(READER)}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads: these."""
        return {READER: self}

    @abstractmethod
    def can_filter(self, column: str) -> bool:
        """Whether filters on a column can be pushed down: not if DuckDB sees another type."""

    @abstractmethod
    def filter_field(self, column: str) -> pa.Field:
        """Return a column as filters see it: not encoded, decimals in 128 bits."""

    @abstractmethod
    def known_count(self) -> int | None:
        """Return the number of rows, if manifests record it."""

    def keeps_most(self, filter: pc.Expression) -> bool:
        """Whether a filter likely passes so many rows that DuckDB applies it faster than a scan.

        DuckDB only marks the rows that pass; a scan copies them.
        """
        return False

    @abstractmethod
    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""

    @property
    def table(self) -> LanceDataset | None:
        """The table that the rows are of; None where they are of several."""
        return None

    @abstractmethod
    def for_scan(self, needs_all: bool) -> RowSource:
        """Return the rows as DuckDB 2.0 scans them: decimals in 64 bits where it keeps them so.

        Filters may speak of these columns only as DuckDB 2.0 gives them, see `filter_field`: a
        pyarrow dataset that has such columns gets no filters on them.

        Args:
            needs_all: Whether a query likely needs all rows before it returns one, so that there is
                no reason to begin with short batches.
        """

    def take_filters(self) -> None:
        """Have filters on all columns pushed down that can be, since others use what is read."""
        return

    @reraise_interrupts
    def read(
        self,
        columns: Sequence[str] | None,
        terms: Terms = (),
        noting: Noting | None = None,
    ) -> pa.RecordBatchReader:
        """Read some columns of some rows.

        Args:
            columns: Names, in the order wanted; None for all.
            terms: Conditions; rows for which all are true are read.
            noting: Returns the rows that are read as they are; see `JoinedScan.noting`.
        """
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        batches = self.batches(names, terms)
        return _stream(schema, batches if noting is None else noting(names, batches))

    def for_filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as filters see them; see `filter_field`."""
        arrays = [
            as_filter_type(array, self.filter_field(name).type)
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

    def filtered(self, batch: pa.RecordBatch, filter: pc.Expression) -> pa.RecordBatch:
        """Return those of some rows for which a filter is true, which speaks of `for_filter`."""
        return batch.filter(evaluate_filter(filter, self.for_filter(batch)))


@dataclass(frozen=True)
class DuckDBColumns:
    """The columns of a table as DuckDB sees them.

    Attributes:
        schema: The columns, the counting one first.
        encoded: The names of string columns that come dictionary-encoded.
        changed: The names of columns without filters, see `RowSource.can_filter`.
        nested: The paths of lists of strings, and of members of structs, that are stored with
            dictionaries, each with the name of its column.
        nested_types: The types of these columns, with dictionaries in them, by name.
        decimal64: The names of decimal columns that come in 64 bits, as DuckDB stores them.
        nested_encoded: The paths of `nested` that come dictionary-encoded.
    """

    schema: pa.Schema
    encoded: frozenset[str]
    changed: frozenset[str]
    nested: Mapping[str, str] = field(default_factory=dict)
    nested_types: Mapping[str, pa.DataType] = field(default_factory=dict)
    decimal64: frozenset[str] = frozenset()
    nested_encoded: frozenset[str] = frozenset()

    @cached_property
    def for_scan(self) -> DuckDBColumns:
        """The columns as DuckDB 2.0 scans them; of encoded items, DuckDB 1.4 and 1.5 crash."""
        types = {field.name: decimal64_type(field.type) for field in self.schema}
        decimal64 = {name: kind for name, kind in types.items() if kind is not None}
        changed = {**decimal64, **self.nested_types}
        fields = [field.with_type(changed.get(field.name, field.type)) for field in self.schema]
        return replace(
            self,
            schema=pa.schema(fields),
            decimal64=frozenset(decimal64),
            nested_encoded=frozenset(self.nested),
        )

    @cached_property
    def with_plain_lists(self) -> DuckDBColumns:
        """The columns of a table, none of whose lists come with dictionaries."""
        return replace(self, nested={}, nested_types={}) if self.nested else self

    @cached_property
    def has_lists(self) -> bool:
        """Whether there are lists, also in structs."""
        return any(has_type(kind, is_list) for kind in self.schema.types)


# The columns of whole versions, by the ids of the fields that are kept in memory.
_COLUMNS = PerVersion[dict[frozenset[int], DuckDBColumns]](lambda _: {})


class Rows(RowSource):
    """Reads a table with the counting column before its own.

    A subclass that reads other rows overrides `batches`. One that shows other columns overrides
    `_described`, which tells the columns; `_scanned` and `_growing`, which read some of them with a
    filter, and all rows without one; and `_read_and_filter`.

    Args:
        dataset: The table.
        encodes: Whether columns may come dictionary-encoded.
    """

    takes_conditions = True

    def __init__(self, dataset: LanceDataset, encodes: bool = True) -> None:
        self.dataset = dataset
        self._encodes = encodes
        self._is_for_scan = self._needs_all = self._encodes_lists = False

    @property
    def table(self) -> LanceDataset:
        return self.dataset

    @property
    def schema(self) -> pa.Schema:
        return self._columns.schema

    @property
    def encoded(self) -> frozenset[str]:
        """The names of the columns that come dictionary-encoded."""
        return self._columns.encoded

    @property
    def encoded_members(self) -> frozenset[str]:
        """The paths of the members of structs that DuckDB 2.0 gets dictionary-encoded."""
        return frozenset()

    @property
    def _columns(self) -> DuckDBColumns:
        return self._known_columns.for_scan if self._is_for_scan else self._known_columns

    @cached_property
    def _known_columns(self) -> DuckDBColumns:
        return self._described()

    def _described(self) -> DuckDBColumns:
        """Describe the columns; those of a whole version once for all queries."""
        version = self.dataset.opened
        is_whole = self._encodes and self.dataset.schema is version.shown_schema
        known, kept = _COLUMNS.of(version) if is_whole else {}, cached_string_ids(version)
        found = known.get(kept)
        if found is None:
            found = self._described_newly(kept)
            known.clear()
            known[kept] = found
        return found if self._encodes_lists else found.with_plain_lists

    def _described_newly(self, kept: Set[int]) -> DuckDBColumns:
        version, shown = self.dataset.opened, self.dataset.schema
        own = next((name for name in shown.names if fold(name) == COUNT_COLUMN), None)
        if own is not None:
            raise UnsupportedFeature(
                f"{version.name}: the column {own!r} is called as one that lancefs adds for "
                "DuckDB; read the table with lancefs.open, and give the column another name there"
            )
        encoded, nested = self._encoded_columns(kept)
        plain = [field_for_duckdb(field) for field in shown]
        columns = [field.with_type(ENCODED) if field.name in encoded else field for field in plain]
        types = {field.name: encoded_type(field.type) for field in plain if field.name in nested}
        changed = frozenset(
            field.name
            for field, known in zip(plain, shown, strict=True)
            # Of a member that is a column here, filters speak by the path into the struct.
            if field.name not in version.named_fields or field.type != known.type
        )
        schema = pa.schema([_COUNT_FIELD, *columns])
        return DuckDBColumns(schema, encoded, changed, {name: name for name in nested}, types)

    def _encoded_columns(self, kept: Set[int]) -> tuple[frozenset[str], frozenset[str]]:
        """The string columns that come dictionary-encoded, and the list columns whose items do.

        DuckDB groups by and unnests them faster. It must be known before anything is read, which
        would cost a request for a remote table, and time for a wide one.
        """
        if not (self._encodes and len(self.dataset.schema) <= _MAX_COLUMNS):
            return frozenset(), frozenset()
        version = self.dataset.opened
        fields = list(map(version.column, self.dataset.schema.names))
        found = [field for field in fields if field.id in kept]
        found += self._with_dictionaries([field for field in fields if field.id not in kept])
        nested = frozenset(field.name for field in found if field.children)
        return frozenset(field.name for field in found) - nested, nested

    def _with_dictionaries(self, fields: Sequence[Field]) -> list[Field]:
        """Return the columns whose strings are stored with dictionaries, of some columns."""
        if not self.dataset.is_local:
            return []
        try:
            return self.dataset.opened.with_dictionaries(fields)
        except LanceError:  # reading such a column reports it; other reads need not
            return []

    def for_scan(self, needs_all: bool) -> Self:
        other = copy(self)
        other._is_for_scan, other._needs_all = True, needs_all
        return other

    def with_expressions(self, expressions: Mapping[str, str]) -> Self:
        """Return the rows with columns replaced by SQL expressions that have the same values."""
        other = copy(self)
        other.expressions = expressions
        return other

    @property
    def has_lists(self) -> bool:
        """Whether there are lists, also in structs."""
        return self._known_columns.has_lists

    def with_encoded_lists(self) -> Self:
        """Return the rows with dictionaries in lists, where data files have them.

        For statements that take such lists right, see `queries.called_functions`.
        """
        other = copy(self)
        other._encodes_lists = True
        other._known_columns = other._described()
        return other

    def with_columns(self, names: Collection[str]) -> Self:
        """Return the rows with some of their columns alone, in the order of the table."""
        other, known = copy(self), self._known_columns
        places = sorted(known.schema.get_field_index(name) for name in names)
        schema = pa.schema([_COUNT_FIELD, *map(known.schema.field, places)])
        other._known_columns = replace(
            known,
            schema=schema,
            encoded=known.encoded.intersection(names),
            changed=known.changed.intersection(names),
            nested={path: name for path, name in known.nested.items() if name in names},
            nested_types={n: kind for n, kind in known.nested_types.items() if n in names},
        )
        return other

    def with_row_metadata(self, field: Field) -> Self:
        """Return the rows with one more column, of row metadata."""
        other, known = copy(self), self._known_columns
        schema = known.schema.append(field.to_arrow())
        other._known_columns = replace(known, schema=schema)
        return other

    def can_filter(self, column: str) -> bool:
        return column not in self._columns.changed

    def filter_field(self, column: str) -> pa.Field:
        field = self.schema.field(column)
        if column in self._columns.decimal64:
            return field.with_type(pa.decimal128(field.type.precision, field.type.scale))
        if column in self._columns.nested_types:
            return self._known_columns.schema.field(column)
        return field.with_type(ENCODED.value_type) if column in self.encoded else field

    def known_count(self) -> int | None:
        return self.dataset.manifest.num_rows

    def keeps_most(self, filter: pc.Expression) -> bool:
        try:
            found = estimate_selectivity(filter, self.dataset.opened)
        except (LanceError, pa.ArrowInvalid):  # the scan fails likewise, or need not read it
            return False
        if found is None or not found.is_scattered:
            return False
        columns = columns_of(filter, self.schema.names)
        has_texts = any(has_lengths(self.schema.field(name).type) for name in columns)
        return found.passing_share >= (_MAX_KEPT_BY_TEXTS if has_texts else _MAX_KEPT)

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        filter = None if not terms else reduce(and_, terms)
        if filter is not None and self._columns.changed:
            needed = columns_of(filter, self.schema.names)
            if not all(self.can_filter(name) for name in needed):
                return self._read_and_filter(names, needed, filter)
        schema = pa.schema([self.schema.field(name) for name in names])
        wanted = [name for name in names if name != COUNT_COLUMN]
        count = None if wanted else self._passing_count(filter)
        if count is not None:
            batches = _without_columns(count)
        elif filter is None and (self.known_count() or 0) > 2 * BATCH_ROWS:
            batches = self._growing(wanted)
        else:
            size = self._long_size() if self._needs_all else None
            batches = self._scanned(wanted, filter=filter, batch_size=size)
        return conform_to_schema(batches, schema)

    def at_positions(
        self, names: Names, positions: Ints, filter: pc.Expression | None = None
    ) -> RecordBatches:
        """Read some columns of the rows at some positions, for which a filter is true."""
        tested = [] if filter is None else columns_of(filter, self.schema.names)
        wanted = list(dict.fromkeys([*names, *tested]))
        schema = pa.schema([self.schema.field(name) for name in wanted])
        scanner = self._scanner([name for name in wanted if name != COUNT_COLUMN])
        for start in range(0, len(positions), _TAKEN_ROWS):
            taken = scanner.take(positions[start : start + _TAKEN_ROWS])
            for batch in conform_to_schema(iter(taken.to_batches()), schema):
                yield batch if filter is None else self.filtered(batch, filter).select(names)

    def _read_and_filter(
        self, names: Names, needed: Sequence[str], filter: pc.Expression
    ) -> RecordBatches:
        """Read with a filter that speaks of columns as DuckDB knows them, not as they are."""
        for batch in self.batches(list(dict.fromkeys([*names, *needed])), ()):
            yield self.filtered(batch, filter).select(names)

    def _passing_count(self, filter: pc.Expression | None) -> int | None:
        """Return how many rows pass a filter; None where a scan must tell."""
        if filter is None:
            return self.dataset.count_rows()
        if self.dataset.manifest.index_section is None:
            return None
        return self.dataset.scanner(columns=[], filter=filter).indexed_row_count()

    def _growing(self, columns: list[str]) -> RecordBatches:
        """Read all rows, few of them at first, unless all are needed."""
        if self._has_small_fragments:  # of which scans read a few first
            yield from self._scanned(columns, batch_size=LONG_ROWS)
            return
        done = 0
        for rows in () if self._needs_all else _FIRST_ROWS:
            yield from self._scanned(columns, limit=rows, offset=done)
            done += rows
        yield from self._scanned(columns, offset=done, batch_size=self._long_size())

    def _long_size(self) -> int | None:
        """Return how many rows batches have of a table that is not short; None of others."""
        rows, least = self.known_count() or 0, _MIN_SHARE * (os.cpu_count() or 1)
        lengths = range(LONG_ROWS, BATCH_ROWS, -BATCH_ROWS)
        return next((length for length in lengths if rows >= length * least), None)

    @property
    def _has_small_fragments(self) -> bool:
        """Whether there are many local fragments of few rows each."""
        readers = self.dataset.opened.readers
        is_short = (self.known_count() or 0) <= _MAX_SMALL_ROWS * len(readers)
        return is_short and are_several_local(readers)

    def _in_range(self, names: Names, skipped: int, limit: int | None) -> RecordBatches:
        """Read some columns, in the order wanted, of the rows behind the first ones."""
        schema = pa.schema([self.schema.field(name) for name in names])
        columns = [name for name in names if name != COUNT_COLUMN]
        return conform_to_schema(self._scanned(columns, offset=skipped, limit=limit), schema)

    def _scanned(self, columns: list[str], **options: Any) -> RecordBatches:
        is_long = self._needs_all and (self.known_count() or 0) >= _MIN_LONG
        return self._scanner(columns, **options).for_engine(is_long).to_batches()

    def _scanner(self, columns: list[str], **options: Any) -> LanceScanner:
        """Say what to read, in the form in which DuckDB takes it."""
        in_dictionaries = self.encoded | self._columns.nested_encoded
        encoded = [name for name in columns if name in in_dictionaries]
        decimal64 = [name for name in columns if name in self._columns.decimal64]
        return self.dataset.scanner(
            columns=columns, dictionary_columns=encoded, decimal64_columns=decimal64, **options
        )


def has_lengths(kind: pa.DataType) -> bool:
    """Whether each value has a length of its own, so that DuckDB looks at each to take it."""
    return any(is_kind(kind) for is_kind in _TEXTS)


def as_filter_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column as filters see it.

    Args:
        array: The column as DuckDB gets it.
        kind: The type of `RowSource.filter_field`.
    """
    if array.type == kind:
        return array
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array.cast(kind)


def _without_columns(rows: int) -> RecordBatches:
    for first in range(0, rows, _MAX_COUNTED):
        yield _nothing(min(_MAX_COUNTED, rows - first))


def _nothing(rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(rows)], schema=pa.schema([_COUNT_FIELD]))


def _stream(schema: pa.Schema, batches: RecordBatches) -> pa.RecordBatchReader:
    """Return batches as DuckDB takes them, which calls for the next one in any of its threads."""

    def read() -> Iterator[pa.RecordBatch | None]:
        try:
            yield None  # from here on, an interrupt that waits for the call is passed on
            yield from streams.read(batches)
        except KeyboardInterrupt as error:
            raise_again(error)
            raise
        except LanceError as error:  # says all; DuckDB would add the way that it came
            forget()
            raise error.with_traceback(None) from None

    reader = read()
    next(reader)
    return without_traceback(pa.RecordBatchReader.from_batches(schema, reader))


def conform_to_schema(batches: RecordBatches, schema: pa.Schema) -> RecordBatches:
    """Add the counting column where it is wanted, and convert what DuckDB does not read.

    Args:
        batches: Rows of a table.
        schema: The columns as DuckDB reads them, in the order wanted.

    Raises:
        UnsupportedFeature: A value is out of DuckDB's range.
    """
    position = schema.get_field_index(COUNT_COLUMN)
    limited = [index for index, kind in enumerate(schema.types) if is_limited(kind)]
    is_encoded = any(has_type(kind, pa.types.is_dictionary) for kind in schema.types)
    for batch in batches:
        if not (limited or is_encoded) and batch.schema == schema:
            yield batch
            continue
        arrays = list(batch.columns)
        if position >= 0 and batch.schema.get_field_index(COUNT_COLUMN) < 0:
            arrays.insert(position, pa.nulls(batch.num_rows))
        for index in limited:
            check_range(arrays[index], schema.names[index])
        arrays = [
            cast_for_duckdb(array, kind) for array, kind in zip(arrays, schema.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
