"""The distinct values of columns of an open version and their counts, if there are few.

They are counted once for a version, which never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckdb_adapter.queries.groups import RepeatedColumns
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.sources.value_counter import ValueCounter, strides_of
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.datafile.constants import array_of
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import decimal64_type
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.scanner import LanceScanner
from lancefs.scan.settings import BATCH_ROWS
from lancefs.table.dictionary_columns import stored_items
from lancefs.table.per_version import PerVersion
from lancefs.table.stored_dictionaries import is_encodable
from lancefs.table.string_cache import BUDGET, MAX_VALUES, STRING_CACHE, CachedStrings

# Rows of the tables whose values are counted: a shorter table is read with all its rows, and
# counting the values of a longer one would delay even an EXPLAIN by seconds.
MIN_ROWS, MAX_ROWS = 2 * BATCH_ROWS, 512 * 1024 * 1024
# Most items in the dictionaries of a column that are read in place of its rows.
_MAX_ITEMS = 16 * 1024
# Rows whose values are looked at first.
_PROBED_ROWS = 2 * MAX_VALUES
# Rows of a column that is kept in memory.
_MAX_KEPT_ROWS = BUDGET // 2
# Rows of a batch, each of which costs some Python.
_COUNTED_ROWS = 256 * 1024
# Least average rows of a fragment with which dictionaries are read in place of rows.
_MIN_FRAGMENT = 64 * 1024


class CombinationCounts(NamedTuple):
    """The combinations of values of some columns, and how often they occur.

    Attributes:
        values: All values of each column, each once; null is one of them where values are missing.
            Also what dictionaries hold, and no row does.
        places: For each column, by its name: the position of its value in `values`, int64, shape
            (combinations,).
        counts: How many rows have each combination, int64, shape (combinations,).
    """

    values: Mapping[str, pa.Array]
    places: Mapping[str, Ints]
    counts: Ints

    def combinations(self) -> pa.Table:
        """Return each combination once, a column for each path."""
        columns = {
            path: values.take(to_arrow_numbers(self.places[path]))
            for path, values in self.values.items()
        }
        return pa.table(columns)

    def of(self, paths: Sequence[str]) -> CombinationCounts:
        """Return the combinations of some of the columns."""
        values = {path: self.values[path] for path in paths}
        strides = strides_of([len(each) for each in values.values()])
        numbers = np.zeros(len(self.counts), np.int64)
        for path, stride in zip(paths, strides, strict=True):
            numbers += self.places[path] * stride
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
        counts = np.zeros(len(first), np.int64)
        np.add.at(counts, which, self.counts)
        return CombinationCounts(values, {path: self.places[path][first] for path in paths}, counts)


# Counts by columns of a version; None for columns with too many values.
_COUNTS = PerVersion[dict[tuple[str, ...], CombinationCounts | None]](lambda _: {})
# The columns with an index, once that was asked.
_INDEXED = PerVersion[list[frozenset[str]]](lambda _: [])
# The items in the dictionaries of columns; None where dictionaries do not hold all values.
_ITEMS = PerVersion[dict[str, pa.Array | None]](lambda _: {})
# Columns whose counts were asked for before.
_ASKED = PerVersion[set[tuple[str, ...]]](lambda _: set())


def are_values_cached(rows: Rows) -> bool:
    """Whether it is worthwhile to look at the values of columns for the statements that follow."""
    return rows.dataset.is_local and MIN_ROWS <= (rows.known_count() or 0) <= MAX_ROWS


def is_countable(kind: pa.DataType) -> bool:
    """Whether values of a type can be counted quickly, besides strings with dictionaries."""
    is_whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    is_stored_whole = pa.types.is_date32(kind) or decimal64_type(kind) is not None
    return is_whole or is_stored_whole or pa.types.is_boolean(kind)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the whole numbers that dates, or decimals of 64 bits, are; or the type."""
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_decimal(kind) and kind.bit_width == 64 else kind


def type_of(dataset: LanceDataset, path: str) -> pa.DataType:
    """Return the type of a column, or of a member of a struct."""
    return member_type(dataset.schema.field, path)


def member_type(field_of: Callable[[str], pa.Field], path: str) -> pa.DataType:
    """Return the type of a column, or of a member of a struct, given the columns by name."""
    column, *members = path.split(".")
    return reduce(lambda kind, member: kind.field(member).type, members, field_of(column).type)


def _read(dataset: LanceDataset, paths: Sequence[str], **options: Any) -> LanceScanner:
    """Return a scan of columns whose values are counted.

    Args:
        dataset: The table.
        paths: Columns of strings that come dictionary-encoded, and countable ones; members of
            structs by their paths.
        options: See `LanceDataset.scanner`.
    """
    kinds = {path: type_of(dataset, path) for path in paths}
    encoded = [path for path, kind in kinds.items() if not is_countable(kind)]
    decimal64 = [path for path, kind in kinds.items() if decimal64_type(kind) is not None]
    return dataset.scanner(
        columns=list(paths), dictionary_columns=encoded, decimal64_columns=decimal64, **options
    ).for_engine()


def is_asked_again(dataset: LanceDataset, columns: Sequence[str]) -> bool:
    """Note that columns of a version are asked for; return whether they were before.

    What costs more than to read them once is not done for the first query: many versions see only
    one.
    """
    asked, key = _ASKED.of(dataset.opened), tuple(columns)
    is_again = key in asked
    asked.add(key)
    return is_again


def has_index(dataset: LanceDataset, paths: Sequence[str]) -> bool:
    """Whether an index may find rows by one of some columns."""
    known = _INDEXED.of(dataset.opened)
    if not known:
        try:
            indices = dataset.indices()
        except LanceError:  # a scan does without those that it cannot read
            indices = []
        known.append(frozenset(path for index in indices for path in index.columns))
    return not known[0].isdisjoint(paths)


def count_values(dataset: LanceDataset, paths: Sequence[str]) -> CombinationCounts | None:
    """Count the combinations of values of columns.

    Args:
        dataset: The table.
        paths: The columns; see `_read`.

    Returns:
        None where there are many.

    Raises:
        LanceError: A column cannot be read.
    """
    known, key = _COUNTS.of(dataset.opened), tuple(paths)
    if key not in known and _have_many(dataset, paths):
        known[key] = None
    if key not in known:
        others = list(known.items())  # other threads add to them
        wider = (other for columns, other in others if {*paths} <= {*columns})
        found = next(filter(None, wider), None)
        known[key] = _count(dataset, paths) if found is None else found.of(paths)
    return known[key]


def _have_many(dataset: LanceDataset, paths: Sequence[str]) -> bool:
    """Whether a column has many values, as was found when it was to be kept."""
    kept = STRING_CACHE.of(dataset.opened)
    found = (kept.get(dataset.opened.column(path).id) for path in paths)
    return any(texts is not None and not texts.is_kept for texts in found)


def keep_texts(rows: Rows, used: RepeatedColumns) -> bool:
    """Cache string columns that are used for the second time, if they have few distinct values.

    Args:
        rows: The rows of a table; see `are_values_cached`.
        used: The columns that a statement uses.

    Returns:
        Whether a column was added to the cache.

    Raises:
        LanceError: A column cannot be read.
    """
    dataset, kept = rows.dataset, STRING_CACHE.of(rows.dataset.opened)
    fields = [dataset.opened.column(name) for name in used.columns if name not in rows.encoded]
    unknown = [field for field in fields if is_encodable(field) and field.id not in kept]
    texts = [field for field in unknown if not field.children]
    is_long = (rows.known_count() or 0) > _MAX_KEPT_ROWS
    if not texts or is_long or has_index(dataset, [*used.tested, *(one.name for one in texts)]):
        return False
    again = [field for field in texts if is_asked_again(dataset, ("kept", field.name))]
    for field in again:
        kept[field.id] = _kept(dataset, field)
    return any(kept[field.id].is_kept for field in again)


def _kept(dataset: LanceDataset, field: Field) -> CachedStrings:
    """Read a column that is to be kept, until it has many values."""
    texts, column = CachedStrings(), field.name
    first = _read(dataset, [column], limit=_PROBED_ROWS).to_table()[column].combine_chunks()
    if len(first.dictionary) > MAX_VALUES:  # before others are read ahead
        texts.let_go()
        return texts
    STRING_CACHE.of(dataset.opened)[field.id] = texts
    with _read(dataset, [column], batch_size=_COUNTED_ROWS).to_reader() as reader:
        for _ in reader:
            if not texts.is_kept:
                break
    return texts


def string_values(dataset: LanceDataset, columns: Sequence[str]) -> Mapping[str, pa.Array] | None:
    """Return all values of columns of strings, each once; also what only dictionaries hold.

    Args:
        dataset: The table.
        columns: The columns, which come dictionary-encoded.

    Returns:
        None where there are many.

    Raises:
        LanceError: A column cannot be read.
    """
    known = _ITEMS.of(dataset.opened)
    for column in columns:
        if column not in known:
            known[column] = _items(dataset, column)
    values = {column: items for column in columns if (items := known[column]) is not None}
    others = [column for column in columns if column not in values]
    if others:
        counted = count_values(dataset, others)
        if counted is None:
            return None
        values |= counted.values
    return {column: values[column] for column in columns}


def _items(dataset: LanceDataset, column: str) -> pa.Array | None:
    """Return what the dictionaries of a column hold, each value once.

    None where the column does not have them everywhere, they hold many values, or there are so many
    fragments that rows are read as quickly.
    """
    version, items = dataset.opened, dict[str | None, None]()
    if version.is_fresh or version.num_rows < _MIN_FRAGMENT * len(version.readers):
        return None
    for reader in version.readers:
        found = stored_items(reader, version.column(column))
        if found is None or len(found) > _MAX_ITEMS:
            return None
        items |= dict.fromkeys(found.to_pylist())
    return array_of([*items], pa.string()) if len(items) <= _MAX_ITEMS else None


def _count(dataset: LanceDataset, paths: Sequence[str]) -> CombinationCounts | None:
    is_few = _counted(dataset, paths, limit=_PROBED_ROWS) is not None
    return _counted(dataset, paths, batch_size=_COUNTED_ROWS) if is_few else None


def _counted(
    dataset: LanceDataset, paths: Sequence[str], **options: Any
) -> CombinationCounts | None:
    kinds = {path: type_of(dataset, path) for path in paths}
    tally = ValueCounter([not is_countable(kind) for kind in kinds.values()])
    for batch in _read(dataset, paths, **options).to_batches():
        if not tally.add([_to_stored(array) for array in batch.columns]):
            return None
    values = {
        path: _array(found, kind)
        for (path, kind), found in zip(kinds.items(), tally.values(), strict=True)
    }
    places, counts = tally.combinations()
    return CombinationCounts(values, dict(zip(paths, places, strict=True)), counts)


def _to_stored(array: pa.Array) -> pa.Array:
    """Return numbers as they are stored, flags as 0 and 1; dictionaries as they are."""
    if pa.types.is_boolean(array.type):
        return array.cast(pa.uint8())
    is_coded = pa.types.is_dictionary(array.type)
    return array if is_coded else array.view(stored_type(array.type))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values of a column, given as `_to_stored` has them."""
    if pa.types.is_boolean(kind):
        return array_of(values, pa.uint8()).cast(kind)
    kind = (decimal64_type(kind) or kind) if is_countable(kind) else pa.string()
    return array_of(values, stored_type(kind)).view(kind)
