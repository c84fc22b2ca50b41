"""Numbering the combinations of the values of several columns, if there are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pyarrow as pa

from duckdb_adapter.sources.column_values import string_values
from duckdb_adapter.sources.value_counter import MAX_COMBINATIONS, StringCodes, strides_of
from lancefs.datafile.buffers import Array, to_arrow_numbers
from lancefs.errors import ReadFailed
from lancefs.lance_dataset import LanceDataset


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
