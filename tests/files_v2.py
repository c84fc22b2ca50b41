"""Writes data files 2.x for tests: pages with the encodings and bytes that a test gives them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from support import local_store

from lancefs.datafile.container import Container
from lancefs.proto import container_pb2, schema_pb2
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.proto.encodings_v2_1_pb2 import PageLayout
from lancefs.proto.encodings_v2_3_pb2 import PlanarLayout

_PACKAGES = {PageLayout: "lance.encodings21", PlanarLayout: "lance.encodings23"}
PAGE_BUFFER, COLUMN_BUFFER, FILE_BUFFER = range(3)


@dataclass
class PageOf:
    """A page to write: its rows, how they are encoded, and its buffers."""

    rows: int
    encoding: pb.ArrayEncoding | PageLayout | PlanarLayout
    buffers: Sequence[bytes] = ()


@dataclass
class ColumnOf:
    """A column to write."""

    pages: Sequence[PageOf]
    encoding: pb.ColumnEncoding = field(default_factory=lambda: pb.ColumnEncoding(values=Empty()))
    buffers: Sequence[bytes] = ()


def write_file(
    path: Path,
    columns: Sequence[ColumnOf],
    rows: int = 0,
    shared: Sequence[bytes] = (),
    schema: schema_pb2.Schema | None = None,
) -> Container:
    """Write a data file; `shared` are buffers of the file beside its schema.

    It is of the format 2.1 where a page has a `PageLayout`, of 2.3 for a `PlanarLayout`, else 2.0.
    """
    data = bytearray()
    kinds = {type(page.encoding) for column in columns for page in column.pages}
    version = (2, 3) if PlanarLayout in kinds else (2, 1) if PageLayout in kinds else (0, 3)

    def put(payload: bytes) -> tuple[int, int]:
        data.extend(bytes(-len(data) % 64))
        data.extend(payload)
        return len(data) - len(payload), len(payload)

    def described(message: Message) -> container_pb2.Encoding:
        package = _PACKAGES.get(type(message), "lance.encodings")
        any_message = AnyMessage(
            type_url=f"/{package}.{message.DESCRIPTOR.name}", value=message.SerializeToString()
        )
        direct = container_pb2.DirectEncoding(encoding=any_message.SerializeToString())
        return container_pb2.Encoding(direct=direct)

    metadata = []
    for column in columns:
        message = container_pb2.ColumnMetadata(encoding=described(column.encoding))
        for page in column.pages:
            placed = [put(buffer) for buffer in page.buffers]
            message.pages.add(
                length=page.rows,
                encoding=described(page.encoding),
                buffer_offsets=[position for position, _ in placed],
                buffer_sizes=[size for _, size in placed],
            )
        for position, size in map(put, column.buffers):
            message.buffer_offsets.append(position)
            message.buffer_sizes.append(size)
        metadata.append(message.SerializeToString())
    descriptor = schema_pb2.FileDescriptor(schema=schema, length=rows).SerializeToString()
    globals_ = [put(buffer) for buffer in (descriptor, *shared)]
    placed = [put(message) for message in metadata]
    columns_at, _ = put(b"".join(struct.pack("<QQ", *place) for place in placed))
    globals_at, _ = put(b"".join(struct.pack("<QQ", *place) for place in globals_))
    end = (len(globals_), len(columns), *version, b"LANC")
    put(struct.pack("<QQQIIHH4s", placed[0][0], columns_at, globals_at, *end))
    path.write_bytes(data)
    return open_container(path)


def open_container(path: Path) -> Container:
    return Container(local_store(path.parent).file(path.name))


def flat(bits: int, index: int = 0, kind: int = PAGE_BUFFER, scheme: str = "") -> pb.ArrayEncoding:
    message = pb.Flat(
        bits_per_value=bits,
        buffer=pb.Buffer(buffer_index=index, buffer_type=pb.Buffer.BufferType.ValueType(kind)),
    )
    if scheme:
        message.compression.scheme = scheme
    return pb.ArrayEncoding(flat=message)


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def some_nulls(validity: pb.ArrayEncoding, values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    inner = pb.Nullable.SomeNull(validity=validity, values=values)
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=inner))


def all_nulls() -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))


def binary(adjustment: int, first: int = 0) -> pb.ArrayEncoding:
    """Strings: their end offsets in buffer `first`, their bytes in the next."""
    inner = pb.Binary(
        indices=no_nulls(flat(64, first)), bytes=flat(8, first + 1), null_adjustment=adjustment
    )
    return pb.ArrayEncoding(binary=inner)


def dictionary(indices: pb.ArrayEncoding, items: pb.ArrayEncoding, count: int) -> pb.ArrayEncoding:
    inner = pb.Dictionary(indices=indices, items=items, num_dictionary_items=count)
    return pb.ArrayEncoding(dictionary=inner)


def lists(items: int) -> pb.ArrayEncoding:
    inner = pb.List(offsets=no_nulls(flat(64)), null_offset_adjustment=items + 1, num_items=items)
    return pb.ArrayEncoding(list=inner)


def fixed_lists(size: int, items: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=size, items=items))


def bytes_of(values: Sequence[int], dtype: str = "<u8") -> bytes:
    return np.array(values, dtype).tobytes()
