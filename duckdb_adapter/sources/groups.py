"""The rows for a query that groups by string columns with few values, or computes on them.

DuckDB hashes the strings of every row, and computes functions of every row. For its own
dictionaries it does so once for each value, but it does not recognize the dictionary of one Arrow
batch in the next. So the columns are replaced by one number for each combination of their values,
and the table by a join with a small table of the combinations. DuckDB 2.0 aggregates below such a
join if it can (its `partial_aggregate_pushdown`); otherwise the join gives it dictionaries of its
own, if it joins by an array. The replacement has the same rows and columns as the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.identifiers import fold, quoted
from duckdb_adapter.queries.groups import group_keys
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources.column_values import MAX_ROWS
from duckdb_adapter.sources.combinations import Combinations, few_combinations
from duckdb_adapter.sources.replacement import TableOf
from duckdb_adapter.sources.rows import COUNT_COLUMN, Rows, RowSource
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset

# The column of group numbers, in the rows and in the table of combinations.
GROUP = "__lance_group"
# DuckDB remembers what it found by a name, also where it looks again and is told another query.
_READER, _COMBINATIONS = "grouped reader", "groups"
# A shorter table is grouped by its strings: looking at the values of columns costs time, too.
_MIN_ROWS = 512 * 1024
# Largest number of combinations that DuckDB joins by an array if it knows the ranges of both sides.
# Of more, it copies the strings then.
_MAX_IN_ARRAY = 8 * 1024


class GroupedRows(RowSource):
    """Reads a table with a number in place of some columns.

    Args:
        rows: The rows.
        combinations: The combinations of values of the columns.
        has_ranges: Whether DuckDB is told the range of the numbers, by which it joins by an array.
    """

    def __init__(self, rows: Rows, combinations: Combinations, has_ranges: bool = False) -> None:
        self.rows = rows
        self._combinations = combinations
        self._has_ranges = has_ranges

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, the counting one first and the numbers last."""
        kind = pa.from_numpy_dtype(self._combinations.dtype)
        fields = [self._without_keys(field) for field in self.rows.schema]
        others = [field for field in fields if field is not None]
        return pa.schema([*others, pa.field(GROUP, kind)])

    def _without_keys(self, field: pa.Field) -> pa.Field | None:
        """Return a column without what comes as a number; None where nothing else is in it."""
        keys = self._combinations.columns
        if field.name in keys:
            return None
        if field.name not in self._structs:
            return field
        members = [each for each in field.type if f"{field.name}.{each.name}" not in keys]
        return field.with_type(pa.struct(members)) if members else None

    @cached_property
    def _structs(self) -> frozenset[str]:
        """The structs of which members come as a number."""
        paths = (key.partition(".") for key in self._combinations.columns)
        return frozenset(name for name, dot, _ in paths if dot)

    @property
    def table(self) -> LanceDataset:
        """The table."""
        return self.rows.dataset

    @property
    def required_builtins(self) -> frozenset[str]:
        """Functions that have to be DuckDB's own in the statement."""
        return self.rows.required_builtins

    def query(self, table_of: TableOf) -> str:
        """Return the query that DuckDB reads: the rows with the strings of their numbers."""
        columns = ", ".join(
            self._shown(field) for field in self.rows.schema if field.name != COUNT_COLUMN
        )
        rows, groups = table_of(_READER), table_of(_COMBINATIONS)
        if self._has_ranges:
            number = f"system.main.mod({GROUP}, {self._combinations.count}::INTEGER)"
            ranged = f"(SELECT * REPLACE ({number} AS {GROUP}) FROM {{}})"
            rows = ranged.format(rows)
            if self._combinations.count <= _MAX_IN_ARRAY:
                groups = ranged.format(groups)
            # Each number has its strings. Of a left join, DuckDB 2.0 makes no array.
            return f"SELECT {columns} FROM {rows} JOIN {groups} USING ({GROUP})"
        # A left join, below which DuckDB aggregates anything: below an inner one, which may remove
        # rows, only what cannot fail.
        return f"SELECT {columns} FROM {rows} LEFT JOIN {groups} USING ({GROUP})"

    def _shown(self, field: pa.Field) -> str:
        """Return a column of the rows in SQL: of a struct, put together of its members."""
        name = quoted(field.name)
        if field.name not in self._structs:
            return name
        members = list[str]()
        for member in (each.name for each in field.type):
            path, text = f"{field.name}.{member}", member.replace("'", "''")
            is_key = path in self._combinations.columns
            value = quoted(path) if is_key else f"system.main.struct_extract({name}, '{text}')"
            members.append(f"{quoted(member)} := {value}")
        return f"system.main.struct_pack({', '.join(members)}) AS {name}"

    def variables(self) -> Mapping[str, RowSource | pa.Table]:
        """Return the rows that the query reads: these, and the strings of each number."""
        return {_READER: self, _COMBINATIONS: self._numbered()}

    def _numbered(self) -> pa.Table:
        """Return the values of the columns for each number."""
        numbers = np.arange(self._combinations.count, dtype=self._combinations.dtype)
        return self._combinations.table(numbers).add_column(0, GROUP, to_arrow_numbers(numbers))

    def for_scan(self, needs_all: bool) -> GroupedRows:
        """Return the rows as DuckDB 2.0 scans them; see `RowSource.for_scan`."""
        rows = self.rows.for_scan(needs_all)
        return GroupedRows(rows, self._combinations, self._has_ranges)

    def can_filter(self, column: str) -> bool:
        """Whether filters may speak of a column: not of numbers, and structs without members."""
        is_whole = column != GROUP and column not in self._structs
        return is_whole and self.rows.can_filter(column)

    def filter_field(self, column: str) -> pa.Field:
        """Return a column as filters see it: not encoded."""
        return self.rows.filter_field(column)

    @property
    def takes_conditions(self) -> bool:  # type: ignore[override]
        """Whether reads with more conditions take less time."""
        return self.rows.takes_conditions

    def known_count(self) -> int | None:
        """Return the number of rows, where the manifest tells it."""
        return self.rows.known_count()

    def keeps_most(self, filter: pc.Expression) -> bool:
        """Whether a filter likely keeps so many rows that DuckDB leaves the others out quicker."""
        return self.rows.keeps_most(filter)

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        if GROUP not in names:
            yield from self.rows.batches(names, terms)
            return
        keys = [key.partition(".") for key in self._combinations.columns]
        shown = [name for name in names if name != GROUP]
        read = list(dict.fromkeys([*shown, *(name for name, _, _ in keys)]))
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in self.rows.batches(read, terms):
            arrays = dict(zip(read, batch.columns, strict=True))
            values = [_member(arrays[name], member) for name, _, member in keys]
            for name in self._structs.intersection(shown):
                members = schema.field(name).type.names
                parts = [_member(arrays[name], member) for member in members]
                arrays[name] = pa.StructArray.from_arrays(parts, fields=[*schema.field(name).type])
            arrays[GROUP] = to_arrow_numbers(self._combinations.numbers(values))
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=schema)


def _member(array: pa.Array, name: str) -> pa.Array:
    """Return a member of structs, none of which is missing; the array itself without a name."""
    return array.field(name) if name else array


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
    if keys is None or len(folded) < len(names) or GROUP in folded:
        return rows
    if keys.are_joined_last:
        combinations = few_combinations(rows.dataset, keys.columns)
        return rows if combinations is None else GroupedRows(rows, combinations)
    found = _fitting(rows.dataset, keys.columns)
    return rows if found is None else GroupedRows(rows, found, keys.takes_any_order)


def _fitting(dataset: LanceDataset, columns: Sequence[str]) -> Combinations | None:
    """Return the combinations of as many columns, the first ones first, as have few of them."""
    fitting: Combinations | None = None
    for column in columns:
        before = [] if fitting is None else fitting.columns
        found = few_combinations(dataset, [*before, column])
        fitting = fitting if found is None else found
    return fitting
