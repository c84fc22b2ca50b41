"""Where the bytes of a version are: by column, with the encodings that they have.

Told from the metadata of the data files: no value is read, but for columns of strings and lists a
sample that tells how large they are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from lancefs.datafile.container import Column, Container, Page
from lancefs.datafile.v2_1.layouts.page_layouts import parse_layout
from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2, encodings_v2_3_pb2
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragments import DataFile, Fragment
from lancefs.threads import in_threads

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.datafile.fields import Field

_READERS = 8
_SAMPLE_ROWS = 16 * 1024
_TOMBSTONE = -2
# What says how a value is compressed, in the messages of both generations of encodings.
_CHOICES = ("compression", "array_encoding")
# Encodings that do not compress: they are shown only where there are no others.
_PLAIN = ("flat", "variable", "binary", "nullable", "fixed_size_list", "list", "struct")


@dataclass(slots=True)
class ColumnUse:
    """The bytes of one column.

    Attributes:
        name: Of the column.
        bytes: In the data files.
        dead: Of them, bytes of rows that are deleted; taken to be as large as others.
        encodings: Bytes by encoding.
        memory: In memory, as Arrow has it, without deleted rows; None where that is not known.
        is_estimate: Whether `memory` was told from a sample.
    """

    name: str
    bytes: int = 0
    dead: int = 0
    encodings: dict[str, int] = field(default_factory=dict)
    memory: int | None = None
    is_estimate: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times larger the column is in memory than in its files."""
        if self.memory is None or not self.bytes:
            return None
        return self.memory / (self.bytes - self.dead) if self.bytes > self.dead else None

    def add(self, size: int, dead: float, encoding: str) -> None:
        """Count some bytes."""
        self.bytes += size
        self.dead += round(size * dead)
        self.encodings[encoding] = self.encodings.get(encoding, 0) + size


@dataclass(slots=True)
class Usage:
    """The bytes of a version.

    Attributes:
        columns: Of each column of the table, in its order.
        tombstoned: Bytes of columns that were dropped or replaced, in files that are still used.
        overhead: Footers and metadata of the data files.
        untold: Bytes of files of the format 0.1, which do not tell their columns apart.
        deletion_files: How many there are; their sizes are not in the manifest.
        total: Of all data files.
        problems: Files that could not be looked at, and why.
    """

    columns: list[ColumnUse]
    tombstoned: int = 0
    overhead: int = 0
    untold: int = 0
    deletion_files: int = 0
    total: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def dead(self) -> int:
        """Bytes that a compaction would free."""
        return self.tombstoned + sum(column.dead for column in self.columns)


@dataclass(frozen=True, slots=True)
class _FileUse:
    """What a data file holds: (field id, bytes, encoding) of its columns, and its size."""

    parts: Sequence[tuple[int, int, str]]
    size: int


def measure(target: Target) -> Usage:
    """Find out where the bytes of a version are, with one request or two for each data file."""
    manifest = target.manifest
    usage = Usage([ColumnUse(one.name) for one in manifest.fields])
    owner = {
        below.id: position for position, top in enumerate(manifest.fields) for below in top.walk()
    }
    work = [(one, file) for one in manifest.fragments for file in one.files]
    usage.deletion_files = sum(one.deletion_file is not None for one in manifest.fragments)
    found = in_threads(lambda part: _look(target.files, part[1]), work, _READERS, "lancefs-du")
    for (fragment, file), result in zip(work, found, strict=True):
        if isinstance(result, str):
            usage.problems.append(result)
        else:
            _count(usage, fragment, file, result, owner)
    for column, one in zip(usage.columns, manifest.fields, strict=True):
        _measure_memory(target, column, one)
    return usage


def _look(files: TableFiles, data_file: DataFile) -> _FileUse | str:
    try:
        file = files.data_file(data_file)
        if data_file.is_legacy:
            return _FileUse((), file.size)
        container = Container(file)
        indices = [one for one in data_file.column_indices if one >= 0]
        container.load_columns(indices)
        pairs = zip(data_file.fields, data_file.column_indices, strict=True)
        parts = [
            (field_id, size, name)
            for field_id, index in pairs
            if index >= 0
            for name, size in _sizes(container.column(index))
        ]
        return _FileUse(parts, file.size)
    except LanceError as error:
        return str(error)


def _count(
    usage: Usage,
    fragment: Fragment,
    file: DataFile,
    found: _FileUse,
    owner: Mapping[int, int],
) -> None:
    physical, deleted = fragment.physical_rows, fragment.num_deleted
    dead = deleted / physical if physical and deleted else 0.0
    usage.total += found.size
    if file.is_legacy:
        only = {owner[one] for one in file.fields if one in owner}
        if len(only) == 1:  # a file of one column needs nobody to tell
            usage.columns[only.pop()].add(found.size, dead, "format 0.1")
        else:
            usage.untold += found.size
        return
    holders = fragment.holders()
    for field_id, size, encoding in found.parts:
        if field_id in owner and holders.get(field_id) == file:
            usage.columns[owner[field_id]].add(size, dead, encoding)
        elif field_id == _TOMBSTONE or field_id >= 0:  # dropped, or another file has taken over
            usage.tombstoned += size
    usage.overhead += max(0, found.size - sum(size for _, size, _ in found.parts))


def _sizes(column: Column) -> Iterator[tuple[str, int]]:
    """Yield the bytes of each page of a column, with its encoding."""
    shared = sum(end - start for start, end in column.buffers)
    for page in column.pages:
        yield _encoding(page), shared + sum(end - start for start, end in page.buffers)
        shared = 0  # the column's own buffers count once


def _encoding(page: Page) -> str:
    """Return the encoding of a page in a few words: `mini-block fsst`."""
    try:
        layout, messages = _described(page)
    except (LanceError, DecodeError) as error:
        return f"not known ({type(error).__name__})"
    names = list(dict.fromkeys(name for message in messages for name in _names(message)))
    special = [name for name in names if name not in _PLAIN]
    return " ".join(part for part in (layout, "+".join(special or names[:1])) if part)


def _described(page: Page) -> tuple[str, Sequence[Message]]:
    """Return the layout of a page, and the messages that say how its values are compressed."""
    name, data = page.encoding.type_name, page.encoding.data
    if name.endswith(".ArrayEncoding"):
        return "", [encodings_v2_0_pb2.ArrayEncoding.FromString(data)]
    if name.endswith(".PlanarLayout"):
        return "planar", [encodings_v2_3_pb2.PlanarLayout.FromString(data)]
    parsed = parse_layout(page.encoding)
    layout = parsed.WhichOneof("layout") or "not known"
    shown = layout.removesuffix("_layout").replace("_", "-")
    if layout != "mini_block_layout":
        return shown, [parsed]
    mini = parsed.mini_block_layout
    if mini.HasField("dictionary"):
        shown += " dictionary"
    return shown, [mini.value_compression]  # and not the levels, which all have the same


def _names(message: Message) -> Iterator[str]:
    """Yield the encodings that a message names, those around others first."""
    oneofs = message.DESCRIPTOR.oneofs_by_name
    for choice in _CHOICES:
        if choice in oneofs:
            name = message.WhichOneof(choice)
            if name is not None:
                yield name
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        several = value if not isinstance(value, Message) else [value]
        for one in several:
            if isinstance(one, Message):
                yield from _names(one)


def _measure_memory(target: Target, column: ColumnUse, one: Field) -> None:
    """Tell how large a column is in memory: from its type, or else from some of its rows."""
    rows = target.manifest.num_rows
    if not rows or not column.bytes:
        return
    try:
        width = _width(one.to_arrow().type)
        if width is not None:
            column.memory = round(rows * width)
            return
        sample = target.dataset.head(_SAMPLE_ROWS, columns=[one.name])
    except (UnsupportedFeature, LanceError):
        return
    if sample.num_rows:
        column.memory = round(sample.nbytes * rows / sample.num_rows)
        column.is_estimate = sample.num_rows < rows


def _width(data_type: pa.DataType) -> float | None:
    """The bytes of a value of fixed width; None for strings, lists and what holds them."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _width(data_type.storage_type)
    if pa.types.is_fixed_size_list(data_type):
        below = _width(data_type.value_type)
        return None if below is None else below * data_type.list_size
    if pa.types.is_dictionary(data_type) or pa.types.is_nested(data_type):
        return None
    try:
        return float(data_type.bit_width) / 8
    except ValueError:
        return None
