"""Arrow IPC files that are encoded whole, in memory, when they are first read.

For `.arrow` views that cannot be laid out before (see `lazy_file`): those with columns that say
which row a row is, and those of types that `shapes` does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from lancefs.errors import UnsupportedFeature


def encode(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Buffer:
    """Return rows as the bytes of an Arrow IPC file, without compression.

    Args:
        schema: Of the rows.
        batches: The rows; they are the batches of the file.

    Raises:
        UnsupportedFeature: The rows do not fit into a file.
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        if any_type(schema, pa.types.is_dictionary):
            _write_unified(writer, pa.Table.from_batches(batches, schema))
        else:
            for batch in batches:
                writer.write_batch(batch)
    return sink.getvalue()


def _write_unified(writer: pa.RecordBatchWriter, table: pa.Table) -> None:
    """Write rows with dictionaries: a file has one for each column, while fragments differ."""
    try:
        writer.write_table(table)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(
            f"the dictionaries of the fragments do not fit together into one ({error}), which an "
            "Arrow file needs; the stream, named .arrows, can be read, and single fragments"
        ) from error


def any_type(schema: pa.Schema, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is among those of the columns, or anywhere below them."""
    waiting = [field.type for field in schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, pa.BaseExtensionType):
            one = one.storage_type
        if is_wanted(one):
            return True
        waiting.extend(one.field(position).type for position in range(one.num_fields))
    return False
