"""Positions and row ids as callers pass them, checked and converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import array_bytes, has_offsets, numbers_of, without_columns
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.kernels.strings import LARGEST

Positions: TypeAlias = npt.NDArray[np.integer[Any]]
# What callers name rows by.
RowNumbers: TypeAlias = Sequence[int] | Positions | pa.Array

# Up to these bytes, the columns of a result may be slices of decoded arrays, which they keep alive.
_SMALL_TABLE = 64 * 1024


def checked_positions(given: RowNumbers, total: int, table: str) -> npt.NDArray[np.int64]:
    """Return positions of rows as an array, once they are checked.

    Args:
        given: Positions, in any order, also repeated.
        total: How many rows there are.
        table: What an error calls the table.

    Raises:
        IndexError: There is no such row.
        TypeError: They are no list of whole numbers.
    """
    numbers = _whole_numbers(given, "positions")
    if len(numbers):
        least, greatest = int(numbers.min()), int(numbers.max())
        if not 0 <= least <= greatest < total:
            beyond = least if least < 0 else greatest
            raise IndexError(f"there is no row {beyond} of {table}, which has {total} rows")
    return numbers.astype(np.int64, copy=False)


def checked_row_ids(given: RowNumbers) -> npt.NDArray[np.uint64]:
    """Return row ids as an array, once they are checked.

    Args:
        given: Row ids, in any order, also repeated.

    Raises:
        IndexError: No row can have such an id.
        TypeError: They are no list of whole numbers.
    """
    numbers = _whole_numbers(given, "row ids")
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < 2**64:
        raise IndexError("row ids are numbers from 0 to 2^64 - 1")
    return numbers.astype(np.uint64, copy=False)


def sort_numbers(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Positions]:
    """Return numbers in order, each once, and where each of the given ones is among them."""
    order = numbers.argsort(kind="stable")
    ordered = numbers[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.unique(numbers, return_inverse=True)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return ordered, position


def take_rows(table: pa.Table, positions: Positions) -> pa.Table:
    """Return rows of a table by their positions, all of which are in it."""
    if not table.num_columns:  # what Arrow takes of a table without columns has no rows
        return pa.Table.from_batches([without_columns(len(positions))], table.schema)
    batches = table.to_batches()
    if len(batches) != 1:
        return _take_of_many(table, positions)
    if _are_all(batches[0], positions):
        return table
    # Of a few rows, a table takes twice as long as its batch.
    taken = batches[0].take(to_arrow_numbers(positions))
    return pa.Table.from_batches([taken], table.schema)


def _take_of_many(table: pa.Table, positions: Positions) -> pa.Table:
    """Return rows of a table of several chunks, which Arrow joins before."""
    try:
        return table.take(to_arrow_numbers(positions))
    except pa.ArrowInvalid:  # the chunks of a column do not fit into one
        if not any(map(_is_long, table.columns)):
            raise
    columns = [
        take_strings(column, positions)
        if has_offsets(column.type)
        else column.take(to_arrow_numbers(positions))
        for column in table.columns
    ]
    return pa.table(columns, table.schema)


def _is_long(column: pa.ChunkedArray) -> bool:
    return has_offsets(column.type) and sum(map(array_bytes, column.chunks)) > LARGEST


def take_strings(
    column: pa.ChunkedArray, positions: Positions, most: int = LARGEST
) -> pa.ChunkedArray:
    """Return items of a column of strings or binary values, in chunks of a limited size.

    Args:
        column: The column.
        positions: Positions of the items.
        most: Bytes of a chunk.
    """
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    large = column.cast(pa.large_string() if is_text else pa.large_binary())
    whole = pa.concat_arrays(large.chunks)
    lengths = numbers_of(pc.binary_length(whole), 0)[positions].astype(np.int64)
    ends = np.cumsum(lengths)
    parts, first = [], 0
    while first < len(positions):
        room = most + (ends[first - 1] if first else 0)
        end = max(first + 1, int(np.searchsorted(ends, room, "right")))
        taken = whole.take(to_arrow_numbers(positions[first:end]))
        parts.append(taken.cast(column.type))
        first = end
    return pa.chunked_array(parts, column.type)


def _whole_numbers(given: RowNumbers, kind: str) -> npt.NDArray[Any]:
    """Return numbers as an array of integers, or of Python's where 64 bits do not hold them.

    Args:
        given: The numbers.
        kind: What an error calls them.

    Raises:
        TypeError: They are of another type: a float would be cut, and a mask is no list of rows.
    """
    if isinstance(given, pa.Array | pa.ChunkedArray):
        if not (pa.types.is_integer(given.type) or pa.types.is_null(given.type)):
            raise TypeError(f"{kind} are whole numbers, not {given.type}")
        if given.null_count:
            raise TypeError(f"one of the {kind} is missing (null)")
    numbers = np.asarray(given)
    if numbers.ndim != 1:
        shown = f"of shape {numbers.shape}" if numbers.ndim else type(given).__name__
        raise TypeError(f"{kind} are a list of whole numbers, not {shown}")
    if not len(numbers):
        return numbers.astype(np.int64)
    # NumPy makes objects, or floats, of integers that no type of its own holds together.
    if numbers.dtype.kind in "Of" and not isinstance(given, np.ndarray):
        numbers = np.fromiter(given, dtype=object, count=len(numbers))
    if numbers.dtype.kind == "O" and all(_is_whole(one) for one in numbers):
        return numbers
    if numbers.dtype.kind not in "iu":
        shown = _shown_type(numbers)
        hint = "; numpy.flatnonzero(mask) has the positions of a mask" if shown == "bool" else ""
        raise TypeError(f"{kind} are whole numbers, not {shown}{hint}")
    return numbers


def _is_whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _shown_type(numbers: npt.NDArray[Any]) -> str:
    if numbers.dtype.kind != "O":
        return str(numbers.dtype.type.__name__).removesuffix("_")  # `str_`, of NumPy
    return type(next(one for one in numbers if not _is_whole(one))).__name__


def _are_all(batch: pa.RecordBatch, positions: Positions) -> bool:
    """Return whether the rows are those of a small batch, in order."""
    if len(positions) != batch.num_rows:
        return False
    size = 0
    # Not `get_total_buffer_size`, which has the hazard that `array_bytes` tells of.
    for column in batch.columns:
        for buffer in column.buffers():
            size += 0 if buffer is None else buffer.size
    if size > _SMALL_TABLE:
        return False  # a part of larger arrays, which a copy lets go
    return len(positions) == 1 or bool((positions == np.arange(len(positions))).all())
