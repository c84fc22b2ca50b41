"""Which values the columns of an open version hold, and how often, where these are few.

They are counted once for a version, which never changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckdb_adapter.sources.rows import Rows
from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Array, Ints
from lancefs.datafile.logical_types import narrow_type
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.constants import array_of
from lancefs.scan.scanner import LanceScanner
from lancefs.scan.settings import BATCH_ROWS
from lancefs.table.per_version import PerVersion

# A shorter table is read with all its rows. To look at the values of a longer one takes seconds,
# which somebody who wants the plan only should not wait for.
LEAST_ROWS, MOST_ROWS = 2 * BATCH_ROWS, 512 * 1024 * 1024
MOST_VALUES = 1024
# Rows of which the values are looked at first.
_PROBED_ROWS = 8 * 1024
# Rows of a batch, each of which costs some Python.
COUNTED_ROWS = 256 * 1024
# Bytes of a dictionary, which is kept.
_MOST_BYTES = 1024 * 1024
# How far apart whole numbers are at most.
_MOST_RANGE = 64 * 1024


class CountedValues(NamedTuple):
    """The values of a column.

    Attributes:
        values: Each value once; null is one of them where values are missing. Also what
            dictionaries hold, and no row does.
        counts: In how many rows each is.
    """

    values: pa.Array
    counts: Ints

    @property
    def present(self) -> pa.Array:
        """The values but null."""
        return self.values.drop_null()


# None where a column has many.
_COUNTS = PerVersion[dict[str, CountedValues | None]](dict)
# Columns that were asked for.
_ASKED = PerVersion[set[tuple[str, ...]]](set)


def are_values_kept(rows: Rows) -> bool:
    """Whether it is worth while to look at the values of columns for the statements that follow."""
    return rows.dataset.is_local and LEAST_ROWS <= (rows.known_count() or 0) <= MOST_ROWS


def is_countable(kind: pa.DataType) -> bool:
    """Whether values of a type can be counted quickly, besides strings with dictionaries."""
    is_whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    return is_whole or pa.types.is_date32(kind) or narrow_type(kind) is not None


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the whole numbers that dates, or decimals of 64 bits, are; or the type."""
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_decimal(kind) and kind.bit_width == 64 else kind


def type_of(dataset: LanceDataset, path: str) -> pa.DataType:
    """Return the type of a column, or of a member of a struct."""
    column, *members = path.split(".")
    kind = dataset.schema.field(column).type
    for member in members:
        kind = kind.field(member).type
    return kind


def read_values(dataset: LanceDataset, paths: Sequence[str], **options: Any) -> LanceScanner:
    """Return a scan of columns whose values are counted.

    Args:
        dataset: The table.
        paths: Columns of strings that come dictionary-encoded, and countable ones; members of
            structs by their paths.
        options: See `LanceDataset.scanner`.
    """
    kinds = {path: type_of(dataset, path) for path in paths}
    encoded = [path for path, kind in kinds.items() if not is_countable(kind)]
    narrow = [path for path, kind in kinds.items() if narrow_type(kind) is not None]
    return dataset.scanner(
        columns=list(paths), dictionary_columns=encoded, narrow_columns=narrow, **options
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


def may_be_few(dataset: LanceDataset, path: str) -> bool:
    """Whether a column may hold few values, as its first rows tell; see `value_counts`."""
    known = _COUNTS.of(dataset.opened)
    if path in known:
        return known[path] is not None
    is_few = _counted(dataset, path, limit=_PROBED_ROWS) is not None
    if not is_few:
        known[path] = None
    return is_few


def value_counts(dataset: LanceDataset, path: str) -> CountedValues | None:
    """Count the values of a column.

    Args:
        dataset: The table.
        path: The column; see `read_values`.

    Returns:
        None where there are many, or the column cannot be read: who reads it says why.
    """
    known = _COUNTS.of(dataset.opened)
    if path not in known and may_be_few(dataset, path):
        known[path] = _counted(dataset, path, batch_size=COUNTED_ROWS)
    return known[path]


def _counted(dataset: LanceDataset, path: str, **options: Any) -> CountedValues | None:
    found: Counter[Any] = Counter()
    try:
        for batch in read_values(dataset, [path], **options).to_batches():
            tally = _tally(batch.column(0))
            found.update(tally or {})
            if tally is None or len(found) > MOST_VALUES:
                return None
    except LanceError:
        return None
    kind = type_of(dataset, path)
    kind = (narrow_type(kind) or kind) if is_countable(kind) else pa.string()
    values = array_of(list(found), stored_type(kind)).view(kind)
    return CountedValues(values, np.array(list(found.values()), np.int64))


def _tally(array: pa.Array) -> Counter[Any] | None:
    """Return how often each value of a batch occurs, numbers as stored; None where many are."""
    is_coded = pa.types.is_dictionary(array.type)
    numbers = array.indices if is_coded else array.view(stored_type(array.type))
    present = numbers_of(numbers.drop_null() if array.null_count else numbers)
    if is_coded:
        tally = _tally_codes(present, array.dictionary)
    else:
        tally = _tally_numbers(present) if len(present) else Counter()
    if tally is not None and array.null_count:
        tally[None] += array.null_count
    return tally


def _tally_codes(codes: Ints, items: pa.Array) -> Counter[Any] | None:
    """Return how often each value occurs, also those of dictionaries that do not."""
    if len(items) > MOST_VALUES or items.nbytes > _MOST_BYTES:
        return None
    counts = np.bincount(codes, minlength=len(items)).tolist()
    tally: Counter[Any] = Counter()  # a dictionary may hold a value twice
    for value, count in zip(items.to_pylist(), counts, strict=True):
        tally[value] += count
    return tally


def _tally_numbers(numbers: Array) -> Counter[Any] | None:
    least = numbers.min()
    if int(numbers.max()) - int(least) >= _MOST_RANGE:
        return None
    if numbers.dtype.itemsize < 4:  # where a difference may be no number of the type
        numbers = numbers.astype(np.int32)
    counts = np.bincount((numbers - least).astype(np.int32, copy=False))
    there = np.flatnonzero(counts)
    if len(there) > MOST_VALUES:
        return None
    values = (int(least) + step for step in there.tolist())
    return Counter(dict(zip(values, counts[there].tolist(), strict=True)))
