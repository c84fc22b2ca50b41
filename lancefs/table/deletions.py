"""Deletion files: the offsets of a fragment's rows that are deleted.

A few of them are one column of an Arrow IPC file (`.arrow`), many are a Roaring bitmap (`.bin`).
Offsets count the rows of the data files, deleted ones included.

Format page: table format, section "Deletion Files" (`docs/src/format/table/index.md`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import stored_values
from lancefs.datafile.buffers import expanding, reserve
from lancefs.errors import CorruptFile, locating
from lancefs.storage import Bytes
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragments import DeletionFile, DeletionKind, Fragment

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints

# Fragments of writers that did not record their rows (before 0.8) are never as large as this.
MAX_ROWS = 2**27
# Bytes of a file beside its values, which take 8 each at most: of an Arrow file the schema, the
# metadata of the batch and the footer.
_OVERHEAD = 64 * 1024
_ARROW_MAGIC = b"ARROW1"
# Numbers of fields: of `Message` the first, of `RecordBatch` the others.
_HEADER, _BUFFERS, _COMPRESSION = 2, 2, 3
_PROPERTY = b"ARROW:experimental_compression"
# The offsets as they are stored, as 64-bit integers, and sorted.
_COPIES = 4
# Bytes of the largest file whose offsets are kept, by its bytes, for datasets that open it again;
# and bytes of offsets that are kept.
_MAX_KNOWN = 16 * 1024
_KNOWN: BudgetCache[tuple[object, ...], Ints] = BudgetCache(4 * 1024 * 1024)
# What pyarrow raises over the bytes of a damaged Arrow file; `OSError` over those of a frame.
_UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError)


def read_deletions(files: TableFiles, fragment: Fragment, physical_rows: int | None = None) -> Ints:
    """Return the offsets of a fragment's deleted rows, sorted, each once.

    Args:
        files: Finds the deletion file.
        fragment: The fragment; one without a deletion file has no deleted rows.
        physical_rows: Its rows, for fragments whose manifest does not record them (by writers
            before 0.8).

    Raises:
        MissingFile: The deletion file is gone.
        CorruptFile: It is damaged, names rows beyond the fragment's end, or not as many as the
            manifest says.
        MemoryLimitExceeded: It expands to too many offsets.
    """
    deletion = fragment.deletion_file
    if deletion is None:
        return np.empty(0, dtype=np.int64)
    file = files.deletion_file(fragment)
    rows = fragment.physical_rows if fragment.physical_rows is not None else physical_rows
    limit = MAX_ROWS if rows is None else rows
    data = file.read_whole(_OVERHEAD + 8 * limit)
    with locating(file.url), expanding(files.max_memory, 1):
        if len(data) > _MAX_KNOWN:
            return _decoded(data, deletion, limit)
        key = data.tobytes(), deletion.kind, deletion.num_deleted, limit
        return _KNOWN.get(key, lambda: _decoded(data, deletion, limit), lambda found: found.nbytes)


def _decoded(data: Bytes, deletion: DeletionFile, limit: int) -> Ints:
    """Return the offsets in a deletion file, sorted, each once; nobody changes them."""
    if deletion.kind is DeletionKind.BITMAP:
        from lancefs.table.bitmaps import read_bitmap

        offsets = read_bitmap(data, limit, deletion.num_deleted)
    else:
        try:
            offsets = _read_arrow(data, limit)
        except _UNREADABLE as error:
            raise CorruptFile(f"the Arrow file does not decode: {error}") from error
    if deletion.num_deleted is not None and len(offsets) != deletion.num_deleted:
        raise CorruptFile(
            f"{len(offsets)} rows are deleted, the manifest says {deletion.num_deleted}"
        )
    offsets.flags.writeable = False
    return offsets


def _read_arrow(data: Bytes, limit: int) -> Ints:
    """Read the one batch of an Arrow IPC file, message by message, to see what it expands to."""
    has_magic = data[:6].tobytes() == data[-6:].tobytes() == _ARROW_MAGIC
    if not has_magic or len(data) <= 2 * len(_ARROW_MAGIC):
        raise CorruptFile("not an Arrow file, or it was cut short")
    # Writers pad the magic to 8 or to 64 bytes; the first message starts with a mark of 0xFF.
    start = len(_ARROW_MAGIC) + int(np.argmax(data[len(_ARROW_MAGIC) :] != 0))
    messages = list(pa.ipc.MessageReader.open_stream(pa.py_buffer(data[start:])))
    kinds = [message.type for message in messages]
    if kinds != ["schema", "record batch"]:
        raise CorruptFile(f"a schema and one batch were expected, not {', '.join(kinds)}")
    schema = pa.ipc.read_schema(messages[0])
    if len(schema) != 1 or not pa.types.is_integer(schema.types[0]):
        raise CorruptFile(f"one column of offsets was expected, not {schema.types}")
    _check_expansion(messages[1], limit)
    batch = pa.ipc.read_record_batch(messages[1], schema)
    batch.validate(full=True)
    if batch.column(0).null_count:
        raise CorruptFile("offsets without nulls were expected")
    column = batch.column(0).cast(pa.int64(), safe=False)
    offsets = np.unique(stored_values(column, np.int64))
    if len(offsets) and (offsets[0] < 0 or offsets[-1] >= limit):
        beyond = offsets[0] if offsets[0] < 0 else offsets[-1]
        raise CorruptFile(f"row {beyond} is deleted, the fragment has {limit} rows")
    return offsets


def _check_expansion(message: pa.ipc.Message, limit: int) -> None:
    """Refuse compressed buffers that would expand to more than the rows could need.

    Arrow allocates what each buffer announces, whatever the codec, and whatever the frame holds. A
    batch is compressed if it says so, or if the message has the property by which Arrow 0.17 said
    it, which Arrow heeds to this day.

    A compressed buffer is the length that it expands to (i64; −1: it is stored as it is) and a
    frame of Zstandard or lz4.

    Format: Arrow's `Message.fbs`.
    """
    metadata, body = message.metadata.to_pybytes(), message.body.to_pybytes()
    root = _referred(metadata, 0)
    batch = _referred(metadata, _place_of(metadata, root, _HEADER))
    if _PROPERTY in metadata:
        raise CorruptFile("the batch is compressed as Arrow 0.17 did; no writer of Lance did that")
    if not _place_of(metadata, batch, _COMPRESSION):
        return
    buffers = _referred(metadata, _place_of(metadata, batch, _BUFFERS))
    (count,) = struct.unpack_from("<I", metadata, buffers)
    for start, size in struct.iter_unpack("<qq", metadata[buffers + 4 : buffers + 4 + 16 * count]):
        if not size:
            continue
        if not 0 <= start <= start + 8 <= start + size <= len(body):
            raise CorruptFile(f"a buffer of {size} bytes at {start}, {len(body)} are there")
        (expanded,) = struct.unpack_from("<q", body, start)
        if not -1 <= expanded <= 8 * limit + 64:
            raise CorruptFile(f"{expanded} bytes are announced for offsets of {limit} rows")
        reserve(_COPIES * max(expanded, 0), size)


def _referred(metadata: bytes, place: int | None) -> int:
    """Return where a FlatBuffers table or vector begins, from the place that refers to it."""
    if place is None:
        raise CorruptFile("the message of a batch does not describe its buffers")
    return place + int.from_bytes(metadata[place : place + 4], "little")


def _place_of(metadata: bytes, table: int, field: int) -> int | None:
    """Return where a field of a FlatBuffers table is; None where it is not set.

    pyarrow has verified that all tables lie within the message.
    """
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    entry, (size,) = 4 + 2 * field, struct.unpack_from("<H", metadata, vtable)
    within = struct.unpack_from("<H", metadata, vtable + entry)[0] if entry < size else 0
    return table + within if within else None
