"""The rows of a table for a query that groups by several columns of strings with few values.

DuckDB hashes the strings of each row: it keeps the hashes of dictionaries of its own, but those of
Arrow arrays have no identity for it. By numbers it groups several times as quickly. So the columns
come as one number for each combination of their values, and the name of the table stands for a join
with a small table of the combinations. DuckDB 2.0 aggregates below such a join where it can (its
`partial_aggregate_pushdown`); elsewhere it keeps the hashes of what the join adds. The query that
the name stands for has the same rows and columns as the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.arrow_source import LONG_ROWS, Rows, RowSource
from duckdb_adapter.group_query import group_keys
from lancefs.datafile.buffers import Array
from lancefs.datafile.kernels import take
from lancefs.errors import LanceError, ReadFailed
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset
from lancefs.table.dictionary_columns import ENCODED
from lancefs.table.per_version import PerVersion

# The column of the numbers, among the rows and in the table of the combinations.
GROUP = "__lance_group"
# A shorter table is grouped by its strings: to look at the values of columns costs some time, too,
# which somebody who wants the plan only should not wait for.
_LEAST_ROWS, _MOST_ROWS = 512 * 1024, 512 * 1024 * 1024
# Values of a column, and combinations of those of several.
_MOST_VALUES = 1024
_MOST_GROUPS = 16 * 1024
# Rows of which the values are looked at first.
_PROBED_ROWS = 8 * 1024

# The values of columns of an open version; None where those of one are many.
_VALUES = PerVersion[dict[str, pa.StringArray | None]](dict)


class GroupedRows(RowSource):
    """Reads a table with a number in place of some columns.

    Args:
        rows: The rows.
        keys: The columns: strings that come dictionary-encoded.
        values: All values of each column.
    """

    def __init__(self, rows: Rows, keys: Sequence[str], values: Sequence[pa.StringArray]) -> None:
        self.rows = rows
        self._keys = list(keys)
        self._values = list(values)
        # The number of a row is the sum of these steps, times the positions of its values. A value
        # that is missing has the position after all others.
        sizes = [len(each) + 1 for each in values]
        self._steps = [prod(sizes[position + 1 :]) for position in range(len(sizes))]
        self._groups = prod(sizes)
        # The last dictionary of each column, which many batches share, and what its items add.
        self._known: list[tuple[pa.StringArray, Array] | None] = [None] * len(sizes)
        # DuckDB groups by a byte without hashing.
        self._dtype = np.dtype(np.uint8 if self._groups <= 256 else np.int32)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, the counting one first and the numbers last."""
        others = [field for field in self.rows.schema if field.name not in self._keys]
        return pa.schema([*others, pa.field(GROUP, pa.from_numpy_dtype(self._dtype))])

    @property
    def table(self) -> LanceDataset:
        """The table."""
        return self.rows.dataset

    def columns(self) -> list[str]:
        """Return the columns of the table, in its order."""
        return [field.name for field in self.rows.schema][1:]

    def combinations(self) -> pa.Table:
        """Return the values of the columns for each number."""
        numbers = np.arange(self._groups, dtype=self._dtype)
        columns: dict[str, pa.Array] = {GROUP: pa.array(numbers)}
        for name, values, step in zip(self._keys, self._values, self._steps, strict=True):
            positions = np.arange(self._groups) // step % (len(values) + 1)
            items = pa.concat_arrays([values, pa.nulls(1, values.type)])
            columns[name] = items.take(pa.array(positions))
        return pa.table(columns)

    def for_scan(self, needs_all: bool) -> GroupedRows:
        """Return the rows as DuckDB 2.0 scans them; see `RowSource.for_scan`."""
        return GroupedRows(self.rows.for_scan(needs_all), self._keys, self._values)

    def can_filter(self, column: str) -> bool:
        """Whether filters may speak of a column: not of the numbers."""
        return column != GROUP and self.rows.can_filter(column)

    def plain_field(self, column: str) -> pa.Field:
        """Return a column as filters see it: not encoded."""
        return self.rows.plain_field(column)

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
        read = [name for name in names if name != GROUP] + self._keys
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in self.rows.batches(read, terms):
            arrays = dict(zip(read, batch.columns, strict=True))
            arrays[GROUP] = self._numbers([arrays[key] for key in self._keys])
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=schema)

    def _numbers(self, keys: Sequence[pa.DictionaryArray]) -> pa.Array:
        numbers: Array | None = None
        for place, array in enumerate(keys):
            parts = self._parts(place, array)
            numbers = parts if numbers is None else np.add(numbers, parts, out=numbers)
        return pa.array(numbers)

    def _parts(self, place: int, array: pa.DictionaryArray) -> Array:
        """Return what the values of a column add to the numbers of their rows."""
        items, indices = array.dictionary, array.indices
        if array.null_count:
            indices = indices.fill_null(len(items))
        return take(self._parts_of(place, items), indices.to_numpy().view(np.uint32))

    def _parts_of(self, place: int, items: pa.StringArray) -> Array:
        """Return what each item of a dictionary adds, and what a missing value does."""
        before = self._known[place]
        if before is not None and before[0].equals(items):
            return before[1]
        values = self._values[place]
        positions = pc.index_in(items, values)
        if positions.null_count > items.null_count:
            raise ReadFailed(
                f"{self.table.uri}: a column has other values than a moment ago; a data file was "
                "changed after it was written. Run the query again"
            )
        places = np.append(positions.fill_null(len(values)).to_numpy(), len(values))
        parts = (places * self._steps[place]).astype(self._dtype)
        self._known[place] = items, parts
        return parts


def grouped(rows: Rows, text: str, name: str) -> RowSource:
    """Return rows as a query groups them; the rows themselves where it does not, or it costs more.

    Args:
        rows: Of a table that the query names once.
        text: The whole statement.
        name: The table, as it stands in the text.
    """
    if not _LEAST_ROWS <= (rows.known_count() or 0) <= _MOST_ROWS:
        return rows
    names, keys = rows.schema.names, group_keys(text, name, rows.encoded)
    is_clear = len({each.lower() for each in names}) == len(names)  # DuckDB renames others
    if not keys or not is_clear:
        return rows
    values = [_values_of(rows.dataset, key) for key in keys]
    known = [each for each in values if each is not None]
    if len(known) < len(keys) or prod(len(each) + 1 for each in known) > _MOST_GROUPS:
        return rows
    return GroupedRows(rows, keys, known)


def _values_of(dataset: LanceDataset, column: str) -> pa.StringArray | None:
    """Return the values of a column of strings, each once; None where there are many.

    They are kept with the version. A column that cannot be read has many: who reads it says so.
    """
    values = _VALUES.of(dataset.opened)
    if column not in values:
        try:
            values[column] = _read_values(dataset, column)
        except LanceError:
            values[column] = None
    return values[column]


def _read_values(dataset: LanceDataset, column: str) -> pa.StringArray | None:
    read = partial(dataset.scanner, columns=[column], dictionary_columns=[column])
    probed, whole = read(limit=_PROBED_ROWS), read(batch_size=LONG_ROWS).for_engine()
    found, last = pa.array([], ENCODED.value_type), None
    for batch in chain(probed.to_batches(), whole.to_batches()):
        items = batch.column(0).dictionary
        if last is not None and items.equals(last):
            continue
        last = items
        found = pc.unique(pa.concat_arrays([found, items.drop_null()]))
        if len(found) > _MOST_VALUES:
            return None
    return found
