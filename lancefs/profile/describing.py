"""Profiling the columns of a table in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa

from lancefs.profile.column_pass import ColumnPass
from lancefs.profile.distinct import Hasher
from lancefs.profile.kinds import parts_of, plain_type
from lancefs.profile.profiles import TableProfile
from lancefs.scan.row_groups import grouped
from lancefs.table.schema import UNSUPPORTED

# Rows of the samples that quantiles, histograms and some frequent values are taken of.
SAMPLE_ROWS = 128 * 1024
# Bytes that samples of all columns take, about, and those of one column at least. What else is kept
# of a column takes about as much.
_SAMPLE_BYTES = 128 * 1024 * 1024
_MIN_BYTES = 64 * 1024
# Rows that are looked at together, and their bytes: batches may have fewer.
ROWS_AT_ONCE = 64 * 1024
_BYTES_AT_ONCE = 32 * 1024 * 1024
# The rows of a sample are drawn the same way each time.
_SEED = 20_260_101


def describe(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    name: str,
    total: int | None = None,
    unread: Sequence[pa.Field] = (),
    on_rows: Callable[[int], None] | None = None,
) -> TableProfile:
    """Read rows once and return what their values are like.

    Args:
        schema: The columns.
        batches: The rows.
        name: The table, for the profile.
        total: Number of rows there are; those that are read by default.
        unread: Columns that are not read, since their types are not known.
        on_rows: Called with the number of rows that were read, again and again.

    Raises:
        LanceError: The rows cannot be read.
    """
    parts = [part for field in schema for part in _parts(field.name, field.type)]
    size = max(_SAMPLE_BYTES // max(len(parts), 1), _MIN_BYTES)
    columns = [
        ColumnPass(part, shown, data_type, SAMPLE_ROWS, size) for part, shown, data_type in parts
    ]
    random, rows = np.random.default_rng(_SEED), 0
    with closing(Hasher()) as hasher:
        for batch in map(_join_batches, grouped(batches, ROWS_AT_ONCE, _BYTES_AT_ONCE)):
            rows += batch.num_rows
            _add(batch, columns, hasher, random)
            if on_rows is not None:
                on_rows(batch.num_rows)
    for field in unread:
        note = (field.metadata or {}).get(UNSUPPORTED, b"the type is not known").decode()
        columns.append(ColumnPass(field.name, "unknown", pa.null(), 1, 1, note))
        columns[-1].skip(rows)
    found = {one.name: one.profile() for one in columns}
    return TableProfile(name, rows, rows if total is None else total, found)


def _add(
    batch: pa.RecordBatch,
    columns: Sequence[ColumnPass],
    hasher: Hasher,
    random: np.random.Generator,
) -> None:
    """Add the rows of a batch to the columns."""
    keys = random.random(batch.num_rows)
    arrays = [
        array
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        for _, array in parts_of(name, column)
    ]
    hashed: list[tuple[ColumnPass, pa.Array]] = []
    for column, array in zip(columns, arrays, strict=True):
        stored = column.add(array, keys)
        if stored is not None:
            hashed.append((column, stored))
    found = hasher.hashes([stored for _, stored in hashed])
    for (column, _), hashes in zip(hashed, found, strict=True):
        column.add_hashes(hashes)


def _join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    if not columns:  # a table without columns has rows
        rows = sum(batch.num_rows for batch in batches)
        return pa.record_batch([pa.nulls(rows)], ["rows"]).select([])
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)


def _parts(name: str, shown: pa.DataType) -> Iterator[tuple[str, str, pa.DataType]]:
    """Yield a column and the members of structs in it: names, types as text, plain types."""
    data_type = plain_type(shown)
    is_struct = pa.types.is_struct(data_type)
    yield name, "struct" if is_struct else str(shown), data_type
    if is_struct:
        for member in data_type:
            yield from _parts(f"{name}.{member.name}", member.type)
