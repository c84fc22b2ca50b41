"""The frame of an Arrow IPC file: everything in it but the values.

pyarrow writes the schema. What depends on where values lie, the messages before them and the footer
at the end, is written here: pyarrow can only write it together with the values. A message is a
FlatBuffers table, and since all of ours have the same fields, each is a fixed pattern of bytes with
numbers in it. How long a message is depends on the schema alone.

Format: Arrow's `Message.fbs` and `File.fbs`, and "IPC File Format" in its column format page.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Messages, and the buffers in them, begin at multiples of this: what Arrow recommends for SIMD, and
# what a reader that maps the file into memory gets as it is.
ALIGNMENT = 64

MAGIC = b"ARROW1"
_CONTINUATION = b"\xff\xff\xff\xff"
_END_OF_STREAM = _CONTINUATION + bytes(4)

_V5 = 4  # of MetadataVersion
_DICTIONARY_BATCH = 2  # of MessageHeader
_RECORD_BATCH = 3

# A table is preceded by its vtable: the bytes of both, then where in the table each field stands.
# Tables and vectors are found by distances from where they are named.
_MESSAGE = struct.Struct("<I4x HHHHHH4x iIqHB5x".replace(" ", ""))
_BATCH = struct.Struct("<HHHHH6x iIqI".replace(" ", ""))
_DICTIONARY = struct.Struct("<HHHH8x iIq".replace(" ", ""))
_FOOTER = struct.Struct("<I4x HHHHHH4x iIIIH10x".replace(" ", ""))

Numbers = npt.NDArray[np.int64]


def aligned(length: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def head(schema: pa.Schema) -> bytes:
    """Return the beginning of a file: its magic, and the message of the schema."""
    return _framed(_schema_message(schema), MAGIC.ljust(8, b"\0"))


def batch_size(nodes: int, buffers: int) -> int:
    """Return the length in bytes of the message of a batch.

    Args:
        nodes: Arrays in a batch, those below others included.
        buffers: Their buffers.
    """
    return aligned(8 + _MESSAGE.size + _BATCH.size + 12 + 16 * (nodes + buffers))


def batch_message(rows: int, nodes: Numbers, buffers: Numbers, body: int) -> bytes:
    """Return the message of a batch.

    Args:
        rows: In the batch.
        nodes: Length and null count of each array, of shape (nodes, 2).
        buffers: Offset in the body and length of each buffer, of shape (buffers, 2).
        body: Length of the body.
    """
    return _framed(_message(_RECORD_BATCH, body) + _batch(rows, nodes, buffers))


def dictionary_message(number: int, nodes: Numbers, buffers: Numbers, body: int) -> bytes:
    """Return the message of a dictionary.

    Args:
        number: Which dictionary: they are counted in the order of the fields, each field before
            those below it.
        nodes: Of the values, as for a batch.
        buffers: Of the values, as for a batch.
        body: Length of the body.
    """
    # Fields: id, data.
    table = _DICTIONARY.pack(8, 16, 8, 4, 16, 28, number)
    batch = _batch(int(nodes[0, 0]), nodes, buffers)
    return _framed(_message(_DICTIONARY_BATCH, body) + table + batch)


def tail(schema: pa.Schema, dictionaries: Numbers, batches: Numbers) -> bytes:
    """Return the end of a file: the end of its messages, and the footer.

    Args:
        schema: Of the rows.
        dictionaries: Offset in the file, length of the message and length of the body of each
            dictionary, of shape (dictionaries, 3).
        batches: The same of each batch.
    """
    blocks = _blocks(dictionaries) + bytes(4) + _blocks(batches)
    # The schema's message can stand here as it is, with a distance that leads into it.
    message = _schema_message(schema)
    to_schema = 52 + len(blocks) + _header_of(message) - 28
    to_batches = 24 + 24 * len(dictionaries)
    # Fields: version, schema, dictionaries, record batches.
    table = _FOOTER.pack(24, 12, 20, 16, 4, 8, 12, 16, to_schema, 20, to_batches, _V5)
    footer = table + blocks + message
    return _END_OF_STREAM + footer + struct.pack("<i", len(footer)) + MAGIC


def _message(kind: int, body: int) -> bytes:
    """The table of a message; its content follows, a vtable of 16 bytes and the table."""
    # Fields: version, kind, content, length of the body.
    return _MESSAGE.pack(24, 12, 24, 16, 18, 4, 8, 16, 36, body, _V5, kind)


def _batch(rows: int, nodes: Numbers, buffers: Numbers) -> bytes:
    """The table of a record batch, which begins at a multiple of 8."""
    # Fields: length, nodes, buffers.
    table = _BATCH.pack(10, 20, 8, 4, 16, 16, 16, rows, 12 + 16 * len(nodes))
    return table + _vector(nodes) + bytes(4) + _vector(buffers)


def _blocks(blocks: Numbers) -> bytes:
    """A vector that says where messages are."""
    table = np.zeros(len(blocks), "<i8,<i4,<i4,<i8")
    table["f0"], table["f1"], table["f3"] = blocks[:, 0], blocks[:, 1], blocks[:, 2]
    return _vector(table)


def _vector(items: npt.NDArray[Any]) -> bytes:
    """A vector of structs: how many, and they."""
    return struct.pack("<I", len(items)) + items.astype(items.dtype.newbyteorder("<")).tobytes()


def _framed(message: bytes, before: bytes = b"") -> bytes:
    """Put the length before a message, and zeros after it so that what follows is aligned.

    Args:
        message: The FlatBuffers table.
        before: What stands between it and the last multiple of the alignment.
    """
    start = len(before) + 8
    size = aligned(start + len(message)) - start
    return before + _CONTINUATION + struct.pack("<i", size) + message.ljust(size, b"\0")


def _schema_message(schema: pa.Schema) -> bytes:
    """The message of a schema, without its frame."""
    return bytes(schema.serialize().to_pybytes()[8:])


def _header_of(message: bytes) -> int:
    """Return where the content of a message begins in it."""
    (table,) = struct.unpack_from("<I", message)
    (vtable,) = struct.unpack_from("<i", message, table)
    (field,) = struct.unpack_from("<H", message, table - vtable + 8)
    (distance,) = struct.unpack_from("<I", message, table + field)
    return int(table + field + distance)
