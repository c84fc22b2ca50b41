"""The framing of an Arrow IPC file: its messages and footer, everything except values.

pyarrow serializes the schema. The messages of dictionaries and record batches, and the footer,
depend on where values lie; pyarrow can write them only together with the values, so they are
written here. A message is a FlatBuffers table. All messages of one kind have the same fields, so
each is a fixed byte pattern with numbers filled in, and its length depends on the schema alone.

Format: Arrow's `Message.fbs` and `File.fbs`, and "IPC File Format" in its column format page.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.buffers import Ints

# Messages, and the buffers in their bodies, begin at multiples of this many bytes. Arrow recommends
# 64 for SIMD; readers that map the file into memory get buffers with this alignment.
ALIGNMENT = 64

MAGIC = b"ARROW1"
_CONTINUATION = b"\xff\xff\xff\xff"
_END_OF_STREAM = _CONTINUATION + bytes(4)

_V5 = 4  # MetadataVersion.V5
_DICTIONARY_BATCH = 2  # MessageHeader.DictionaryBatch
_RECORD_BATCH = 3  # MessageHeader.RecordBatch

# Each pattern is a FlatBuffers vtable and its table. The vtable holds the lengths in bytes of both
# and the position of each field in the table. Fields refer to other tables and to vectors by their
# distance from the field.
_MESSAGE = struct.Struct("<I4x HHHHHH4x iIqHB5x")
_BATCH = struct.Struct("<HHHHH6x iIqI")
_DICTIONARY = struct.Struct("<HHHH8x iIq")
_FOOTER = struct.Struct("<I4x HHHHHH4x iIIIH10x")
# Positions of numbers in the patterns: the body's length in `_MESSAGE`, the rows in `_BATCH`.
_BODY_LENGTH, _ROWS = 32, 24


def aligned(length: int) -> int:
    """Round a length in bytes up to a multiple of the alignment."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def head(schema: pa.Schema) -> bytes:
    """Return the first bytes of a file: the magic, and the message of the schema."""
    return _frame(_schema_message(schema), MAGIC.ljust(8, b"\0"))


def batch_size(nodes: int, buffers: int) -> int:
    """Return the length in bytes of the message of a record batch.

    Args:
        nodes: Number of nodes: the columns and all arrays below them.
        buffers: Number of their buffers.
    """
    return aligned(8 + _MESSAGE.size + _BATCH.size + 12 + 16 * (nodes + buffers))


def batch_messages(rows: Ints, nodes: Ints, buffers: Ints, bodies: Ints) -> npt.NDArray[np.uint8]:
    """Return the messages of record batches, at least one, which are equally long.

    Args:
        rows: Number of rows of each batch.
        nodes: Length and null count of each node of each batch, of shape (batches, nodes, 2).
        buffers: Offset in the body and length in bytes of each buffer of each batch, of shape
            (batches, buffers, 2).
        bodies: Length of each body in bytes.

    Returns:
        The messages, of shape (batches, length).
    """
    table = _batch_table(int(rows[0]), nodes[0], buffers[0])
    first = _frame(_message_table(_RECORD_BATCH, int(bodies[0])) + table)
    messages = np.tile(np.frombuffer(first, np.uint8), (len(rows), 1))
    vectors = 8 + _MESSAGE.size + _BATCH.size
    numbers = (
        (8 + _BODY_LENGTH, bodies[:, None]),
        (8 + _MESSAGE.size + _ROWS, rows[:, None]),
        (vectors + 4, nodes.reshape(len(rows), -1)),
        (vectors + 12 + 16 * nodes.shape[1], buffers.reshape(len(rows), -1)),
    )
    for at, values in numbers:
        data = np.ascontiguousarray(values, "<i8").view(np.uint8)
        messages[:, at : at + data.shape[1]] = data
    return messages


def dictionary_message(number: int, nodes: Ints, buffers: Ints, body: int) -> bytes:
    """Return the message of a dictionary.

    Args:
        number: Id of the dictionary: ids count the dictionaries of a schema from 0, depth first.
        nodes: Length and null count of each node of the values, of shape (nodes, 2).
        buffers: Offset in the body and length in bytes of each buffer, of shape (buffers, 2).
        body: Length of the body in bytes.
    """
    # Fields: id, data.
    table = _DICTIONARY.pack(8, 16, 8, 4, 16, 28, number)
    batch = _batch_table(int(nodes[0, 0]), nodes, buffers)
    return _frame(_message_table(_DICTIONARY_BATCH, body) + table + batch)


def tail(schema: pa.Schema, dictionaries: Ints, batches: Ints) -> bytes:
    """Return the last bytes of a file: the end-of-stream marker, and the footer.

    Args:
        schema: The schema of the file.
        dictionaries: Offset in the file, length of the message and length of the body of each
            dictionary, in bytes, of shape (dictionaries, 3).
        batches: The same of each record batch, of shape (batches, 3).
    """
    blocks = _block_vector(dictionaries) + bytes(4) + _block_vector(batches)
    # The whole message of the schema is appended; the footer's field points to the schema in it.
    message = _schema_message(schema)
    to_schema = 52 + len(blocks) + _header_position(message) - 28
    to_batches = 24 + 24 * len(dictionaries)
    # Fields: version, schema, dictionaries, record batches.
    table = _FOOTER.pack(24, 12, 20, 16, 4, 8, 12, 16, to_schema, 20, to_batches, _V5)
    footer = table + blocks + message
    return _END_OF_STREAM + footer + struct.pack("<i", len(footer)) + MAGIC


def _message_table(kind: int, body: int) -> bytes:
    """Return a Message table; its header must follow: a vtable of 16 bytes, and its table."""
    # Fields: version, header type, header, body length.
    return _MESSAGE.pack(24, 12, 24, 16, 18, 4, 8, 16, 36, body, _V5, kind)


def _batch_table(rows: int, nodes: Ints, buffers: Ints) -> bytes:
    """Return a RecordBatch table, which must be placed at a multiple of 8 bytes."""
    # Fields: length, nodes, buffers.
    table = _BATCH.pack(10, 20, 8, 4, 16, 16, 16, rows, 12 + 16 * len(nodes))
    return table + _vector(nodes) + bytes(4) + _vector(buffers)


def _block_vector(blocks: Ints) -> bytes:
    """Return a vector of Blocks, which locate messages; `blocks` as in `tail`."""
    table = np.zeros(len(blocks), "<i8,<i4,<i4,<i8")
    table["f0"], table["f1"], table["f3"] = blocks[:, 0], blocks[:, 1], blocks[:, 2]
    return _vector(table)


def _vector(items: npt.NDArray[Any]) -> bytes:
    """Return a vector of structs: the number of items, and the items."""
    return struct.pack("<I", len(items)) + items.astype(items.dtype.newbyteorder("<")).tobytes()


def _frame(message: bytes, before: bytes = b"") -> bytes:
    """Put the continuation marker and the length before a message, and padding after it.

    Args:
        message: The FlatBuffers table.
        before: Bytes between the last multiple of the alignment and the message.
    """
    start = len(before) + 8
    size = aligned(start + len(message)) - start
    return before + _CONTINUATION + struct.pack("<i", size) + message.ljust(size, b"\0")


def _schema_message(schema: pa.Schema) -> bytes:
    """Return the FlatBuffers message of a schema, without its frame."""
    return bytes(schema.serialize().to_pybytes()[8:])


def _header_position(message: bytes) -> int:
    """Return the position in a message of its header table."""
    (table,) = struct.unpack_from("<I", message)
    (vtable,) = struct.unpack_from("<i", message, table)
    (field,) = struct.unpack_from("<H", message, table - vtable + 8)
    (distance,) = struct.unpack_from("<I", message, table + field)
    return int(table + field + distance)
