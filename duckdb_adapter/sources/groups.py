"""The rows for a query that groups by string columns with few values, or computes on them.

DuckDB hashes the strings of every row, and computes functions of every row. For its own
dictionaries it does so once for each value, but it does not recognize the dictionary of one Arrow
batch in the next. So the columns are replaced by one number for each combination of their values,
or several where there are many, and the table by joins with small tables of the combinations.
DuckDB 2.0 aggregates below such a join if it can (its `partial_aggregate_pushdown`); otherwise the
joins give it dictionaries of its own, if it joins by arrays. The replacement has the same rows and
columns as the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.identifiers import fold, literal, quoted
from duckdb_adapter.queries.groups import GroupKeys, group_keys
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources.column_values import MAX_ROWS, is_asked_again, string_values
from duckdb_adapter.sources.replacement import TableOf
from duckdb_adapter.sources.rows import COUNT_COLUMN, Names, RecordBatches, Rows, RowSource, Terms
from duckdb_adapter.sources.value_counter import MAX_COMBINATIONS, StringCodes, strides_of
from lancefs.datafile.buffers import Array, to_arrow_numbers
from lancefs.errors import ReadFailed
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset

# What the columns of group numbers begin with, in the rows and in the tables of combinations.
GROUP = "__lance_group"
# DuckDB remembers what it found by a name, also where it looks again and is told another query.
_READER, _COMBINATIONS = "grouped reader", "groups"
# A shorter table is grouped by its strings: looking at the values of columns costs time, too.
_MIN_ROWS = 512 * 1024
# What DuckDB calls the types of the numbers.
_SQL_TYPES = {np.dtype(np.uint8): "UTINYINT", np.dtype(np.uint16): "USMALLINT"}
# Of one column with fewer values, DuckDB hashes those of a batch, in place of each row.
_MIN_ALONE = 257


class Combinations:
    """Numbers rows by the values of some columns.

    The number of a row is a sum, to which each column adds a stride times the position of its
    value. A value that is missing has the position after all others.

    Args:
        uri: The table, for messages.
        values: All values of each column but null, each once, by its name.
    """

    def __init__(self, uri: str, values: Mapping[str, pa.Array]) -> None:
        self._uri = uri
        self._values = {
            name: pa.concat_arrays([each, pa.nulls(1, each.type)]) for name, each in values.items()
        }
        self._items = [StringCodes(each.to_pylist()) for each in self._values.values()]
        sizes = [len(each) for each in self._values.values()]
        self._strides = strides_of(sizes)
        self.count = prod(sizes)
        # DuckDB groups by a byte without hashing, and of 16 bits in place of 32, its array join
        # takes half as long. The type has the count, too, of which numbers come as a remainder.
        self.dtype = np.dtype(np.uint8 if self.count < 256 else np.uint16)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._values)

    def table(self, numbers: Array) -> pa.Table:
        """Return the values of the columns for some numbers."""
        columns = {
            name: values.take(to_arrow_numbers(numbers // stride % len(values)))
            for (name, values), stride in zip(self._values.items(), self._strides, strict=True)
        }
        return pa.table(columns)

    def numbers(self, arrays: Sequence[pa.Array]) -> Array:
        """Return the numbers of rows.

        Args:
            arrays: The columns, dictionary-encoded.

        Raises:
            ReadFailed: There are values that were not there before.
        """
        sums: Array | None = np.zeros(len(arrays[0]), np.int32)
        for items, stride, array in zip(self._items, self._strides, arrays, strict=True):
            sums = None if sums is None else items.add(array, stride, sums)
        if sums is None:
            raise ReadFailed(
                f"{self._uri}: a column has other values than a moment ago; a data file was "
                "changed after it was written. Run the query again"
            )
        return sums.astype(self.dtype, copy=False)


def few_combinations(dataset: LanceDataset, columns: Sequence[str]) -> Combinations | None:
    """Return the combinations of the values of columns of strings; None where they are many.

    Args:
        dataset: The table.
        columns: The columns, which come dictionary-encoded.
    """
    found = string_values(dataset, columns)
    if found is None:
        return None
    values = {column: each.drop_null() for column, each in found.items()}
    count = prod(len(each) + 1 for each in values.values())  # null is one
    return Combinations(dataset.uri, values) if count <= MAX_COMBINATIONS else None


class GroupedRows(RowSource):
    """Reads a table with numbers in place of some columns.

    Args:
        rows: The rows.
        combinations: The combinations of values of the columns that each number stands for.
        has_ranges: Whether DuckDB is told the range of the numbers, by which it joins by an array.
    """

    def __init__(
        self, rows: Rows, combinations: Sequence[Combinations], has_ranges: bool = False
    ) -> None:
        self.rows = rows
        self._combinations = {
            f"{GROUP}{index}": each for index, each in enumerate(combinations, start=1)
        }
        self._has_ranges = has_ranges
        self.takes_conditions = rows.takes_conditions
        self.required_builtins = rows.required_builtins
        self.required_intervals = rows.required_intervals

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, the counting one first and the numbers last."""
        fields = [self._without_keys(field) for field in self.rows.schema]
        others = [field for field in fields if field is not None]
        numbers = [
            pa.field(name, pa.from_numpy_dtype(each.dtype))
            for name, each in self._combinations.items()
        ]
        return pa.schema([*others, *numbers])

    @cached_property
    def _keys(self) -> frozenset[str]:
        """The columns that come as numbers; members of structs by their paths."""
        return frozenset(key for each in self._combinations.values() for key in each.columns)

    def _without_keys(self, field: pa.Field) -> pa.Field | None:
        """Return a column without what comes as a number; None where nothing else is in it."""
        return _without(field, field.name, self._keys)

    @cached_property
    def _structs(self) -> frozenset[str]:
        """The structs of which members come as a number."""
        paths = (key.partition(".") for key in self._keys)
        return frozenset(name for name, dot, _ in paths if dot)

    @property
    def table(self) -> LanceDataset:
        return self.rows.dataset

    def query(self, table_of: TableOf) -> str:
        """Return the query that DuckDB reads: the rows with the strings of their numbers."""
        columns = ", ".join(
            self._shown(field) for field in self.rows.schema if field.name != COUNT_COLUMN
        )
        rows = table_of(_READER)
        # A left join, below which DuckDB aggregates anything: below an inner one, which may remove
        # rows, only what cannot fail. Of a left join, DuckDB 2.0 makes no array.
        join = "JOIN" if self._has_ranges else "LEFT JOIN"
        if self._has_ranges:
            rows = _ranged(rows, self._combinations)
        for name, combinations in self._combinations.items():
            groups = table_of(_table_name(name))
            if self._has_ranges:
                groups = _ranged(groups, {name: combinations})
            rows = f"{rows} {join} {groups} USING ({name})"
        return f"SELECT {columns} FROM {rows}"

    def _shown(self, field: pa.Field) -> str:
        """Return a column of the rows in SQL: of a struct, put together of its members."""
        name = quoted(field.name)
        if field.name not in self._structs:
            return name
        return f"{_packed(field, field.name, name, self._keys)} AS {name}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads: these, and the strings of each number."""
        tables = {_table_name(name): _numbered(name, of) for name, of in self._combinations.items()}
        return {_READER: self, **tables}

    def for_scan(self, needs_all: bool) -> GroupedRows:
        rows = self.rows.for_scan(needs_all)
        return GroupedRows(rows, [*self._combinations.values()], self._has_ranges)

    def can_filter(self, column: str) -> bool:
        """Whether filters may speak of a column: not of numbers, and structs without members."""
        is_whole = column not in self._combinations and column not in self._structs
        return is_whole and self.rows.can_filter(column)

    def filter_field(self, column: str) -> pa.Field:
        return self.rows.filter_field(column)

    def known_count(self) -> int | None:
        return self.rows.known_count()

    def keeps_most(self, filter: pc.Expression) -> bool:
        return self.rows.keeps_most(filter)

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        numbered = [name for name in names if name in self._combinations]
        if not numbered:
            yield from self.rows.batches(names, terms)
            return
        keys = {
            name: [key.split(".") for key in self._combinations[name].columns] for name in numbered
        }
        shown = [name for name in names if name not in self._combinations]
        needed = (column for paths in keys.values() for column, *_ in paths)
        read = list(dict.fromkeys([*shown, *needed]))
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in self.rows.batches(read, terms):
            arrays = dict(zip(read, batch.columns, strict=True))
            numbers = dict[str, pa.Array]()
            for name, paths in keys.items():
                values = [_member(arrays[column], members) for column, *members in paths]
                numbers[name] = to_arrow_numbers(self._combinations[name].numbers(values))
            for name in self._structs.intersection(shown):
                arrays[name] = _only(arrays[name], schema.field(name), name, self._keys)
            arrays |= numbers
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=schema)


def _table_name(number: str) -> str:
    """Return the variable with the strings of the numbers in a column."""
    return f"{_COMBINATIONS} {number}"


def _numbered(number: str, combinations: Combinations) -> pa.Table:
    """Return the values of the columns for each number."""
    numbers = np.arange(combinations.count, dtype=combinations.dtype)
    return combinations.table(numbers).add_column(0, number, to_arrow_numbers(numbers))


def _ranged(table: str, combinations: Mapping[str, Combinations]) -> str:
    """Return a table in SQL, of whose numbers DuckDB knows the range."""
    ranged = [
        f"system.main.mod({number}, {each.count}::{_SQL_TYPES[each.dtype]}) AS {number}"
        for number, each in combinations.items()
    ]
    return f"(SELECT * REPLACE ({', '.join(ranged)}) FROM {table})"


def _member(array: pa.Array, names: Sequence[str]) -> pa.Array:
    """Return a member of structs, none of which is missing; the array itself without a name."""
    for name in names:
        array = array.field(name)
    return array


def _are_in(path: str, keys: Collection[str]) -> bool:
    """Whether some of the members in a struct come as numbers."""
    return any(key.startswith(f"{path}.") for key in keys)


def _without(field: pa.Field, path: str, keys: Collection[str]) -> pa.Field | None:
    """Return a column, or a member by its path, without the keys in it; None if nothing is left."""
    if path in keys:
        return None
    if not _are_in(path, keys):
        return field
    found = [_without(each, f"{path}.{each.name}", keys) for each in field.type]
    members = [each for each in found if each is not None]
    return field.with_type(pa.struct(members)) if members else None


def _packed(field: pa.Field, path: str, value: str, keys: Collection[str]) -> str:
    """Return a column, or a member by its path, in SQL.

    Args:
        field: Its type, with all its members.
        path: Its path.
        value: What it is in SQL if no member in it comes as a number.
        keys: The paths of those that do.
    """
    if path in keys:
        return quoted(path)
    if not _are_in(path, keys):
        return value
    members = list[str]()
    for each in field.type:
        inner = f"system.main.struct_extract({value}, {literal(each.name)})"
        found = _packed(each, f"{path}.{each.name}", inner, keys)
        members.append(f"{quoted(each.name)} := {found}")
    return f"system.main.struct_pack({', '.join(members)})"


def _only(array: pa.Array, field: pa.Field, path: str, keys: Collection[str]) -> pa.Array:
    """Return a column, or a member by its path, with what `_without` leaves of it.

    Args:
        array: With all its members; no struct is missing in which there are keys.
        field: Its type without the keys.
        path: Its path.
        keys: The paths of those that come as numbers.
    """
    if not _are_in(path, keys):
        return array
    parts = [
        _only(array.field(each.name), each, f"{path}.{each.name}", keys) for each in field.type
    ]
    return pa.StructArray.from_arrays(parts, fields=[*field.type])


def group_by_codes(rows: Rows, query: TableQuery) -> Rows | GroupedRows:
    """Return rows as a query groups them; the rows themselves where it does not, or it costs more.

    Args:
        rows: The rows of a table that the query names once.
        query: The query.

    Raises:
        LanceError: A column cannot be read.
    """
    if not _MIN_ROWS <= (rows.known_count() or 0) <= MAX_ROWS:
        return rows
    names, keys = rows.schema.names, group_keys(query, rows.encoded | rows.encoded_members)
    folded = {fold(each) for each in names}  # DuckDB renames columns that are spelled alike
    is_taken = any(name.startswith(GROUP) for name in folded)
    if keys is None or len(folded) < len(names) or is_taken:
        return rows
    dataset = rows.dataset
    if keys.are_joined_last:
        combinations = few_combinations(dataset, keys.columns)
        if combinations is not None:
            return GroupedRows(rows, [combinations])
    found = _fitting(dataset, [one for one in keys.columns if _pays(dataset, keys, one)])
    if not keys.takes_any_order:
        del found[1:]  # only by an array are several joins quicker
    return GroupedRows(rows, found, keys.takes_any_order) if found else rows


def _pays(dataset: LanceDataset, keys: GroupKeys, column: str) -> bool:
    """Whether numbers pay for a column: of one by which a query groups alone, for many values."""
    if column not in keys.alone:
        return True
    if not is_asked_again(dataset, ("alone", column)):  # to find its values takes time, too
        return False
    found = few_combinations(dataset, [column])
    return found is not None and found.count >= _MIN_ALONE


def _fitting(dataset: LanceDataset, columns: Sequence[str]) -> list[Combinations]:
    """Return the combinations of columns: of those together, in their order, that have few."""
    fitting = list[Combinations]()
    for column in columns:
        together = few_combinations(dataset, [*fitting[-1].columns, column]) if fitting else None
        alone = few_combinations(dataset, [column]) if together is None else None
        if together is not None:
            fitting[-1] = together
        elif alone is not None:
            fitting.append(alone)
    return fitting
