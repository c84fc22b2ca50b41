"""Numbers for the combinations of the values of columns, where these are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.sources.column_values import may_be_few, stored_type, value_counts
from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.datafile.buffers import Array, to_arrow_numbers
from lancefs.datafile.kernels import take
from lancefs.errors import ReadFailed
from lancefs.lance_dataset import LanceDataset

_MOST_COMBINATIONS = 16 * 1024
_UNKNOWN = -1


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
        if not pa.types.is_dictionary(array.type):
            return self._parts_of_numbers(name, step, array)
        items = array.dictionary
        codes = numbers_of(array.indices, len(items))
        return take(self._parts_of(name, step, items), codes.view(np.uint32))

    def _parts_of_numbers(self, name: str, step: int, array: pa.Array) -> Array:
        kind = stored_type(array.type)
        known = numbers_of(self._values[name].view(kind))
        least, most = (known.min(), known.max()) if len(known) else (0, 0)
        by_number = np.full(int(most) - int(least) + 1, _UNKNOWN, np.int32)
        by_number[known.astype(np.int64) - int(least)] = np.arange(len(known)) * step
        found = numbers_of(array.view(kind), int(least))
        if len(found) and (found.min() < least or found.max() > most):
            raise self._changed()
        if found.dtype.itemsize < 4:  # where a difference may be no number of the type
            found = found.astype(np.int32)
        parts = take(by_number, (found - least).astype(np.uint32))
        if array.null_count:
            parts[mask_of(array.is_null())] = len(known) * step
        if parts.min(initial=0) < 0:
            raise self._changed()
        return parts.astype(self.dtype, copy=False)

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
    """Return the combinations of the values of columns; None where they are many.

    Args:
        dataset: The table.
        columns: The columns; see `read_values`.
    """
    if not all(may_be_few(dataset, column) for column in columns):
        return None
    counts = {column: value_counts(dataset, column) for column in columns}
    values = {column: found.present for column, found in counts.items() if found is not None}
    combinations = Combinations(dataset.uri, values)
    is_few = len(values) == len(columns) and combinations.count <= _MOST_COMBINATIONS
    return combinations if is_few else None
