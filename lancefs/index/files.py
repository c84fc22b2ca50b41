"""Files of an index: data files of Lance, whose schema is their own.

Format page: indices (`docs/src/format/index/index.md`).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, expanding, reserve
from lancefs.datafile.container import MAGIC, Container
from lancefs.datafile.data_file import FieldReader, open_data_file
from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.datafile.legacy.footer import VERSIONS as LEGACY_VERSIONS
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import schema_pb2
from lancefs.storage import ByteRange, Bytes, File, read_all, run

# The end of a data file: two version numbers, and the magic.
_VERSIONS = struct.Struct("<HH4s")
# Numbers in index files are counts and positions below this limit; larger ones are damage.
_MAX_COUNT = 2**48
# Largest remote file of which parts are read only to estimate the cost of a look-up.
_SMALL_BYTES = 4 * 1024 * 1024


class IndexReader:
    """A file of an index, open.

    Args:
        file: The file.
        max_memory: Bytes that a read may expand to; None for the default limit.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The file is not a data file, or damaged.
        UnsupportedFeature: The format of the file is not one that this release reads.
    """

    def __init__(self, file: File, max_memory: int | None = None) -> None:
        self.file = file
        self._max_memory = max_memory
        self._buffers: Sequence[ByteRange] = ()
        self._held: Mapping[int, Bytes] = {}  # see `holding_buffers`
        if _is_legacy(file):
            from lancefs.datafile.legacy.reader import LegacyReader

            legacy = LegacyReader(file)
            self.num_rows = legacy.num_rows
            self._read_schema(legacy.footer.schema.fields, legacy.footer.schema.schema_metadata)
            self._reader: FieldReader = legacy
            self._has_nodes = True
            return
        container = Container(file)
        descriptor = container.descriptor()
        self._buffers = container.footer.global_buffers
        self.num_rows = int(descriptor.length)
        self._read_schema(descriptor.schema.fields, descriptor.schema.metadata)
        self._has_nodes = container.footer.version == (2, 0)
        columns = _columns(self._fields.values(), every_node=self._has_nodes)
        self._reader = open_data_file(file, columns, False, self.num_rows)

    def _read_schema(
        self, fields: Iterable[schema_pb2.Field], metadata: Mapping[str, bytes]
    ) -> None:
        with locating(self.file.url, "schema"):
            self._fields = {field.name: field for field in fields_from_proto(fields)}
        self.metadata: Mapping[str, bytes] = dict(metadata)

    @property
    def reads_spans(self) -> bool:
        """Whether spans of rows that lie apart are read at once, by a kernel that finds them."""
        return self.file.is_in_memory and not self._has_nodes

    @property
    def is_cheap(self) -> bool:
        """Whether parts are read to estimate what a look-up costs: the file is local, or small."""
        return self.file.store.is_local or self.file.size <= _SMALL_BYTES

    @property
    def url(self) -> str:
        """URL of the file, for errors."""
        return self.file.url

    @property
    def names(self) -> Collection[str]:
        """Names of the columns."""
        return self._fields.keys()

    def column_type(self, name: str) -> pa.DataType:
        """Return the type of a column.

        Raises:
            CorruptFile: The file has no such column.
            UnsupportedFeature: The type is not known.
        """
        return self._field(name).storage_type

    def read(
        self, names: Sequence[str], ranges: Sequence[RowRange] | None = None
    ) -> list[pa.Array]:
        """Read rows of columns.

        Args:
            names: Names of the columns.
            ranges: Ranges of rows, ascending and disjoint; None for all rows.

        Raises:
            CorruptFile: The file is damaged, or has no such column.
            MemoryLimitExceeded: The rows take too much memory.
        """
        return self.read_parts(names, [[(0, self.num_rows)] if ranges is None else ranges])[0]

    def read_keys(self, name: str, values: str) -> pa.Array:
        """Read a column whole, and what tells where rows of another one are.

        Of a remote file, the rows of the other column that are wanted next take one round of
        requests less.

        Args:
            name: Name of the column.
            values: Name of the other one.

        Raises:
            LanceError: As `read` does.
        """
        reader, field = self._reader, self._field(name)
        if self.file.store.is_local or not isinstance(reader, StructuralReader):
            return self.read([name])[0]
        whole = reader.read_all([field], [(0, self.num_rows)])
        with expanding(self._max_memory, 1):
            ahead = reader.load_indices([self._field(values)])
            return run([(self.file, whole), (self.file, ahead)])[0][0]

    def read_parts(
        self, names: Sequence[str], parts: Sequence[Sequence[RowRange]]
    ) -> list[list[pa.Array]]:
        """Read parts of columns in the same rounds of requests; see `read`.

        Args:
            names: Names of the columns.
            parts: The ranges of rows of each part.

        Returns:
            For each part, an array for each column.
        """
        fields = [self._field(name) for name in names]
        with expanding(self._max_memory, len(fields)):
            return run([(self.file, self._reader.read_all(fields, part)) for part in parts])

    def allow(self, size: int, stored: int) -> None:
        """Allow memory for what values of the file expand to.

        Args:
            size: Bytes.
            stored: Bytes of the values.

        Raises:
            MemoryLimitExceeded: It is too much.
        """
        with locating(self.file.url), expanding(self._max_memory, 1):
            reserve(size, stored)

    def counts(self, name: str, values: pa.Array, missing: int | None = None) -> Ints:
        """Return the values of a column of whole numbers from 0 on.

        Args:
            name: Name of the column.
            values: Its values.
            missing: What stands for values that are missing; None where none may be.

        Raises:
            CorruptFile: The values are others.
        """
        is_whole = pa.types.is_integer(values.type)
        if not is_whole or (values.null_count and missing is None):
            raise self.damage(f"{name} is {values.type}; whole numbers were expected")
        numbers = numbers_of(values, missing)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < _MAX_COUNT:
            raise self.damage(f"{name} has numbers from {numbers.min()} to {numbers.max()}")
        return numbers.astype(np.int64)

    def number(self, key: str, default: int) -> int:
        """Return a number from the metadata of the schema.

        Raises:
            CorruptFile: The value is no number.
        """
        text = self.metadata.get(key)
        if text is None:
            return default
        if not text.isdigit() or len(text) > 18:
            raise self.damage(f"{key} is {text[:40]!r}, a number was expected")
        return int(text)

    def buffer(self, number: int) -> bytes:
        """Return a global buffer; 0 is the schema.

        Raises:
            CorruptFile: There is no such buffer.
        """
        if not 0 <= number < len(self._buffers):
            raise self.damage(f"buffer {number} is wanted, the file has {len(self._buffers)}")
        held = self._held.get(number)
        return (self.file.read([self._buffers[number]])[0] if held is None else held).tobytes()

    def damage(self, what: str) -> CorruptFile:
        """Return an error about the content of the file."""
        error = CorruptFile(what)
        error.path = self.file.url
        return error

    def unsupported(self, what: str) -> UnsupportedFeature:
        """Return an error about content that this release does not read."""
        error = UnsupportedFeature(what)
        error.path = self.file.url
        return error

    def _field(self, name: str) -> Field:
        field = self._fields.get(name)
        if field is None:
            raise self.damage(f"no column {name!r}; the file has {', '.join(self._fields)}")
        return field


@contextmanager
def holding_buffers(readers: Sequence[IndexReader], numbers: Sequence[int]) -> Iterator[None]:
    """Read global buffers of several files in one round of requests, and hold them in memory.

    `IndexReader.buffer` makes no request for them inside of the context.

    Args:
        readers: The files.
        numbers: Numbers of the buffers; those that a file does not have are left out.
    """
    there = [[number for number in numbers if number < len(one._buffers)] for one in readers]
    wanted = [
        (one.file, [one._buffers[number] for number in own])
        for one, own in zip(readers, there, strict=True)
    ]
    for one, own, read in zip(readers, there, read_all(wanted), strict=True):
        one._held = dict(zip(own, read, strict=True))
    try:
        yield
    finally:
        for one in readers:
            one._held = {}


def _is_legacy(file: File) -> bool:
    """Tell whether a file has format 0.1, which releases up to 0.21 wrote for some indices."""
    _, tail = file.read_tail()  # as `Container` reads it
    if len(tail) < _VERSIONS.size:
        return False
    ending = _VERSIONS.unpack(tail[-_VERSIONS.size :].tobytes())
    return ending in [(*version, MAGIC) for version in LEGACY_VERSIONS]


def _columns(fields: Iterable[Field], every_node: bool) -> dict[int, int]:
    """Return the index of each field's column, by field id.

    Args:
        fields: The fields of the file.
        every_node: Whether lists and structs have columns too, as in format 2.0.
    """
    nodes = [node for field in fields for node in field.walk() if every_node or node.is_leaf]
    return {node.id: index for index, node in enumerate(nodes)}
