"""How many rows make a batch, or a row group: few where they are wide, to bound memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lancefs.table.fragments import Fragment

# A batch is meant to hold about this many bytes.
_BATCH_BYTES = 8 * 1024 * 1024
_LEAST_ROWS, MOST_ROWS = 64, 64 * 1024
_OFFSET = 4  # bytes, of a string or list
# A row group of a Parquet file ends after the first batch that reaches one of these.
GROUP_ROWS = 256 * 1024
_GROUP_BYTES = 64 * 1024 * 1024


def batch_rows_for(fragment: Fragment, types: Sequence[pa.DataType]) -> int:
    """Say how many rows make a batch of a few megabytes: a power of two.

    Columns of fixed width tell theirs. For the others the size of the data files must do, which
    counts columns too that are not read, and compressed.

    Args:
        fragment: Whose rows are read.
        types: Of the columns that are read.
    """
    width = sum(least_width(data_type) for data_type in types)
    if any(varies(data_type) for data_type in types):
        sizes = sum(file.size or 0 for file in fragment.files)
        width = max(width, 3 * sizes / max(1, fragment.physical_rows or 1))
    rows = int(min(MOST_ROWS, max(_LEAST_ROWS, _BATCH_BYTES // max(1.0, width))))
    return 1 << (rows.bit_length() - 1)


def row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Join batches into tables of the size that a row group of a Parquet file should have.

    Args:
        batches: Of that schema.
        schema: Of the tables.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)


def least_width(data_type: pa.DataType) -> float:
    """Return how many bytes a value of a type has at least: of a string, those of its offset."""
    widths = ((times, _width(part)) for times, part in _parts(data_type))
    return sum(times * (_OFFSET if width is None else width) for times, width in widths)


def varies(data_type: pa.DataType) -> bool:
    """Whether the bytes of a value differ from value to value."""
    return any(_width(part) is None for _, part in _parts(data_type))


def _parts(data_type: pa.DataType, times: int = 1) -> Iterator[tuple[int, pa.DataType]]:
    """Yield what a value consists of, and how many times."""
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _parts(data_type.storage_type, times)
    elif pa.types.is_fixed_size_list(data_type):
        yield from _parts(data_type.value_type, times * data_type.list_size)
    elif pa.types.is_struct(data_type):
        for index in range(data_type.num_fields):
            yield from _parts(data_type.field(index).type, times)
    else:
        yield times, data_type


def _width(data_type: pa.DataType) -> float | None:
    """Bytes of a value that has no parts; None where that differs from value to value."""
    if pa.types.is_null(data_type):
        return 0.0
    try:
        return float(data_type.bit_width / 8)
    except ValueError:  # what pyarrow says of types without a width
        return None
