"""Arrow IPC files that are written from the first byte to the last.

For `.arrow` views that cannot be laid out in advance (see `lazy_file`), in memory at the first
read: those with row-metadata columns (`_rowid`, …), and those with a type that has no shape (see
`shapes`). And for exports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

import pyarrow as pa

from lancefs.datafile.dictionary_chunks import unify_table
from lancefs.datafile.logical_types import has_type
from lancefs.errors import UnsupportedFeature


def encode(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Buffer:
    """Return rows as the bytes of an uncompressed Arrow IPC file.

    Args:
        schema: The schema of the rows.
        batches: The rows; they become the record batches of the file.

    Raises:
        UnsupportedFeature: The dictionaries of a column cannot be unified.
    """
    sink = pa.BufferOutputStream()
    write(schema, batches, sink)
    return sink.getvalue()


def write(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: pa.NativeFile | IO[bytes]
) -> None:
    """Write rows as an uncompressed Arrow IPC file.

    Args:
        schema: The schema of the rows.
        batches: The rows; they become the record batches of the file. If they have dictionaries,
            all are held in memory: a file has one dictionary for each.
        sink: Where the file goes.

    Raises:
        UnsupportedFeature: The dictionaries of a column cannot be unified.
    """
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        if any(has_type(one, pa.types.is_dictionary) for one in schema.types):
            _write_unified(writer, pa.Table.from_batches(batches, schema))
        else:
            for batch in batches:
                writer.write_batch(batch)


def _write_unified(writer: pa.RecordBatchWriter, table: pa.Table) -> None:
    """Write rows whose fragments have different dictionaries: a file has one for each column."""
    try:
        for batch in unify_table(table).to_batches():
            writer.write_batch(batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedFeature(
            f"the dictionaries of the fragments do not fit together into one ({error}), which an "
            "Arrow file needs; the stream, named .arrows, can be read, and single fragments"
        ) from error
