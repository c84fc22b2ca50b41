"""Vector indices of releases up to 0.21, which are one file: how they compare vectors.

They are not searched; the vectors of the table are compared by the same metric.

Format page: vector indices (`docs/src/format/index/vector/index.md`).
"""

from __future__ import annotations

import struct

from lancefs.datafile.container import MAGIC
from lancefs.errors import CorruptFile, locating
from lancefs.proto import vectors_pb2
from lancefs.storage import TAIL, File
from lancefs.table.messages import parse_message

# The place of a message, with its length before it; two version numbers; the magic.
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")


def metric_of(file: File) -> str | None:
    """Return how an index compares vectors; None if it is no index of one file.

    Args:
        file: The file `index.idx`.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The file is damaged.
    """
    start, tail = file.read_tail(TAIL)
    if len(tail) < _FOOTER.size:
        return None
    place, major, minor, magic = _FOOTER.unpack(tail[-_FOOTER.size :].tobytes())
    if magic != MAGIC or (major, minor) != (0, 1):
        return None
    with locating(file.url, "footer"):
        size = start + len(tail)
        if not 0 <= place <= size - _FOOTER.size - _LENGTH.size:
            raise CorruptFile(f"a message at byte {place} of {size}")
        data = file.read([(place, size - _FOOTER.size)])[0].tobytes()
        (length,) = _LENGTH.unpack_from(data)
        if length > len(data) - _LENGTH.size:
            raise CorruptFile(f"a message of {length} bytes at byte {place} of {size}")
        message = parse_message(vectors_pb2.Index(), data[_LENGTH.size : _LENGTH.size + length])
    if not message.HasField("vector_index"):
        return None
    return vectors_pb2.VectorIndex.Metric.Name(message.vector_index.metric_type).lower()
