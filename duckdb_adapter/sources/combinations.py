"""Numbers for the combinations of the values of columns, where these are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.sources.column_values import count_values
from duckdb_adapter.sources.tallies import MOST_COMBINATIONS
from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Array, to_arrow_numbers
from lancefs.datafile.kernels import take
from lancefs.errors import ReadFailed
from lancefs.lance_dataset import LanceDataset


class Combinations:
    """Numbers rows by the values of some columns.

    The number of a row is a sum, to which each column adds a step, times the position of its value.
    A value that is missing has the position after all others.

    Args:
        uri: The table, for messages.
        values: All values of each column but null, each once, by its name.
    """

    def __init__(self, uri: str, values: Mapping[str, pa.Array]) -> None:
        self._uri = uri
        self._values = dict(values)
        sizes = [len(each) + 1 for each in values.values()]
        self._steps = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
        self.count = prod(sizes)
        # DuckDB groups by a byte without hashing.
        self.dtype = np.dtype(np.uint8 if self.count <= 256 else np.int32)
        # The last items that values of each column were looked up in, which many batches share, and
        # what each of them adds.
        self._known: dict[str, tuple[pa.Array, Array]] = {}

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._values)

    def table(self, numbers: Array) -> pa.Table:
        """Return the values of the columns for some numbers."""
        columns = {}
        for (name, values), step in zip(self._values.items(), self._steps, strict=True):
            items = pa.concat_arrays([values, pa.nulls(1, values.type)])
            columns[name] = items.take(to_arrow_numbers(numbers // step % len(items)))
        return pa.table(columns)

    def numbers(self, arrays: Sequence[pa.Array]) -> Array:
        """Return the numbers of rows.

        Args:
            arrays: The columns; see `read_values`.

        Raises:
            ReadFailed: There are values that were not there before.
        """
        numbers: Array | None = None
        for name, step, array in zip(self._values, self._steps, arrays, strict=True):
            parts = self._parts(name, step, array)
            numbers = parts if numbers is None else np.add(numbers, parts, out=numbers)
        assert numbers is not None
        return numbers

    def _parts(self, name: str, step: int, array: pa.Array) -> Array:
        """Return what the values of a column add to the numbers of their rows."""
        items = array.dictionary
        codes = numbers_of(array.indices, len(items))
        return take(self._parts_of(name, step, items), codes.view(np.uint32))

    def _parts_of(self, name: str, step: int, items: pa.Array) -> Array:
        """Return what each item adds to the numbers of its rows, and what a missing value does."""
        before = self._known.get(name)
        if before is not None and before[0].equals(items):
            return before[1]
        values = self._values[name]
        positions = pc.index_in(items, values)
        if positions.null_count > items.null_count:
            raise self._changed()
        places = np.append(numbers_of(positions, len(values)), len(values))
        parts = (places * step).astype(self.dtype)
        self._known[name] = items, parts
        return parts

    def _changed(self) -> ReadFailed:
        return ReadFailed(
            f"{self._uri}: a column has other values than a moment ago; a data file was changed "
            "after it was written. Run the query again"
        )


def few_combinations(dataset: LanceDataset, columns: Sequence[str]) -> Combinations | None:
    """Return the combinations of the values of columns of strings; None where they are many.

    Args:
        dataset: The table.
        columns: The columns, which come dictionary-encoded.
    """
    found = count_values(dataset, columns)
    if found is None:
        return None
    values = {column: each.drop_null() for column, each in found.values.items()}
    combinations = Combinations(dataset.uri, values)
    return combinations if combinations.count <= MOST_COMBINATIONS else None
