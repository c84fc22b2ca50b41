"""Reading a damaged table, and what may come of it: its rows, or a `LanceError`."""

from __future__ import annotations

import time
import traceback
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import lancefs
from lancefs.datafile.fields import Field
from lancefs.datafile.outlines import outline_of
from lancefs.datafile.validity import validity_array
from lancefs.errors import CorruptFile, LanceError
from lancefs.scan.decoded_columns import validity_fields
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.row_metadata import ROW_METADATA
from lancefs.views.view_batches import Batch, batches_of, read_together

SECONDS = 10.0  # of the processor
# Memory that does not depend on the table: footers and metadata read ahead, messages, threads.
_OVERHEAD = 4 << 20
# The tables have fewer rows; a damaged manifest may tell of any number.
_MAX_ROWS = 1 << 20
# Buffers may outlive the reading that made them, and need their pool for as long.
_POOLS: list[pa.MemoryPool] = []


class Unacceptable(Exception):
    """What must not come of damage."""

    outcome = "unacceptable"


class CaughtByNet(Unacceptable):
    """A `CorruptFile` in place of what a library raised: an explicit check is missing."""

    outcome = "net"


@dataclass(frozen=True)
class Sound:
    """What is known of a table before it is damaged."""

    rows: int
    size: int  # bytes of all its columns, decoded


def read_sound(uri: str) -> Sound:
    """Read a table that is not damaged."""
    table = lancefs.open(uri).to_table()
    return Sound(table.num_rows, table.nbytes)


def judge(uri: str, sound: Sound | None, rng: np.random.Generator) -> str:
    """Read a damaged table.

    Args:
        uri: The table.
        sound: What is known of it; None where the damage may be to what it says of itself.
        rng: Chooses rows.

    Returns:
        The outcome: `rows`, or the name of the `LanceError`.

    Raises:
        Unacceptable: Another error, a wrong number of rows, rows that are no valid Arrow data, or
            too much time of the processor.
        CaughtByNet: No explicit check refused the damage.
    """
    started = time.process_time()  # the machine may be busy with other things
    outcome = _outcome(lambda: _read(uri, sound, rng))
    seconds = time.process_time() - started
    if seconds > SECONDS:
        raise Unacceptable(f"{outcome}, but after {seconds:.1f} s")
    return outcome


def _outcome(read: Callable[[], str]) -> str:
    try:
        return read()
    except LanceError as error:
        if isinstance(error, CorruptFile) and error.is_caught_by_net:
            raise CaughtByNet(f"{error} (raised at {_origin(error)})") from error
        return type(error).__name__
    except Unacceptable:
        raise
    except Exception as error:
        where = _origin(error)
        raise Unacceptable(f"{type(error).__name__}: {error} (raised at {where})") from error


def _origin(error: BaseException) -> str:
    """Name the line that raised an error, or the first cause of one."""
    while error.__cause__ is not None:
        error = error.__cause__
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def judge_memory(judge_it: Callable[[], str], size: int) -> str:
    """Judge, and hold the memory that it took against the decoded size of the table.

    Raises:
        Unacceptable: It took more than 4 times as much; or as `judge`.
    """
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        outcome = judge_it()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(pa.system_memory_pool())
    peak += pool.max_memory() or 0
    if peak > 4 * size + _OVERHEAD:
        raise Unacceptable(f"{outcome}, with {peak:,} bytes for {size:,} bytes of values")
    return outcome


def _read(uri: str, sound: Sound | None, rng: np.random.Generator) -> str:
    dataset = lancefs.open(uri)
    rows = dataset.count_rows()
    if sound is not None:
        _check_outlines(dataset)
        _check_validity(dataset)
        _check_blobs(dataset, sound.rows)
        check_table(dataset.to_table(), sound.rows)
        rows = sound.rows
    else:
        _check_metadata(dataset)
        check_table(dataset.to_table(), None)
    if 0 < rows < _MAX_ROWS:
        wanted = rng.integers(0, rows, 5)
        check_table(dataset.take(wanted), len(wanted))
    check_table(dataset.head(3), min(3, rows) if sound is not None else None)
    return "rows"


def _check_metadata(dataset: lancefs.LanceDataset) -> None:
    """Read all that a table tells beside its rows: each apart, as the others may be sound."""
    reads = (
        dataset.versions,
        dataset.tags,
        dataset.branches,
        dataset.history,
        dataset.transaction,
        dataset.auxiliary_data,
        dataset.indices,
        *(partial(_read_row_metadata, dataset, name) for name in ROW_METADATA),
    )
    for read in reads:
        _outcome(lambda: str(read()))  # noqa: B023


def _read_row_metadata(dataset: lancefs.LanceDataset, name: str) -> int:
    rows = dataset.count_rows()
    if rows < _MAX_ROWS:
        check_table(dataset.to_table(columns=[name]), rows)
    return rows


def _check_blobs(dataset: lancefs.LanceDataset, rows: int) -> None:
    """Read the bytes of blobs, of each column alone."""
    for field in dataset.manifest.fields:
        if field.is_blob:
            read = partial(dataset.to_table, columns=[field.name], blobs="bytes")
            _outcome(lambda: check_table(read(), rows) or "rows")  # noqa: B023


def _check_outlines(dataset: lancefs.LanceDataset) -> None:
    """Read what views are laid out by: of each column alone, as the others may be sound."""
    outlines = [outline_of(field) for field in dataset.manifest.fields]
    for batch in batches_of(dataset.opened.readers):
        for outline in outlines:
            if outline is not None:
                _outcome(partial(_read_outline, batch, outline))


def _read_outline(batch: Batch, outline: Field) -> str:
    ((array,),) = read_together([batch], [outline])
    array.validate(full=True)
    if len(array) != batch.rows:
        raise Unacceptable(f"an outline of {len(array)} rows, there are {batch.rows}")
    return "rows"


def _check_validity(dataset: lancefs.LanceDataset) -> None:
    """Read which values are missing: of each column alone, as the others may be sound."""
    for reader in dataset.opened.readers:
        for field in dataset.manifest.fields:
            asked = validity_fields(reader, [field], {field.id})
            if field not in asked:
                _outcome(partial(_read_validity, reader, asked))


def _read_validity(reader: FragmentReader, asked: Sequence[Field]) -> str:
    rows = reader.physical_rows
    if rows < _MAX_ROWS:
        (array,) = reader.read(asked, [(0, rows)] if rows else [])
        array.validate(full=True)
        told = validity_array(array)
        told.validate(full=True)
        if len(told) != rows:
            raise Unacceptable(f"the validity of {len(told)} rows, there are {rows}")
    return "rows"


def check_table(table: pa.Table, rows: int | None) -> None:
    """Check that a table is valid, and has the rows that it should.

    Raises:
        Unacceptable: It is not.
    """
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        _check_layout(table)
    if rows is not None and table.num_rows != rows:
        raise Unacceptable(f"{table.num_rows} rows, there are {rows}")


def _check_layout(table: pa.Table) -> None:
    """Check all but the ranges of values.

    The bytes of a time hold more than a day, those of a decimal more digits than it may have. Such
    values come from damage as others do, and from writers that do not look; they come out as they
    are stored, as they do of pylance.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            stored = _without_ranges(chunk.type)
            try:
                # A view cuts the items of a list of nulls to the number of the lists.
                (chunk if stored == chunk.type else chunk.view(stored)).validate(full=True)
            except pa.ArrowException as error:
                raise Unacceptable(f"rows that are not valid: {name!r}: {error}") from error


def _without_ranges(type_: pa.DataType) -> pa.DataType:
    """Return the type of the same layout in which all bytes are values."""
    if pa.types.is_time32(type_):
        return pa.int32()
    if pa.types.is_time64(type_) or pa.types.is_date64(type_):
        return pa.int64()
    if pa.types.is_decimal(type_):
        return pa.binary(type_.byte_width)
    if isinstance(type_, pa.BaseExtensionType):
        return _without_ranges(type_.storage_type)
    if pa.types.is_struct(type_):
        return pa.struct([_field_without_ranges(field) for field in type_])
    if pa.types.is_map(type_):
        key, item = _field_without_ranges(type_.key_field), _field_without_ranges(type_.item_field)
        return pa.map_(key, item, type_.keys_sorted)
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(_field_without_ranges(type_.value_field), type_.list_size)
    if pa.types.is_large_list(type_):
        return pa.large_list(_field_without_ranges(type_.value_field))
    if pa.types.is_list(type_):
        return pa.list_(_field_without_ranges(type_.value_field))
    return type_


def _field_without_ranges(field: pa.Field) -> pa.Field:
    return field.with_type(_without_ranges(field.type))
