"""Bytes of a version by column and encoding.

The sizes come from the metadata of the data files. Values are read only for the size in memory of
columns of variable width: a sample of their first rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from lancefs.datafile.container import ColumnPages, Container, Page
from lancefs.datafile.logical_types import has_type
from lancefs.datafile.v2_1.layouts.page_layouts import parse_layout
from lancefs.datafile.value_widths import has_variable_width, min_value_bytes
from lancefs.errors import LanceError
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
# Names of the oneofs that select an encoding: of formats 2.1 and newer, and of 2.0.
_ONEOFS = ("compression", "array_encoding")
# Encodings that do not compress. They are shown only for pages without other encodings.
_PLAIN = ("flat", "variable", "binary", "nullable", "fixed_size_list", "list", "struct")


@dataclass(slots=True)
class ColumnUse:
    """Bytes of one column.

    Attributes:
        name: Name of the column.
        bytes: Bytes in the data files.
        dead: Estimated bytes of deleted rows, a part of `bytes`; rows count as equally large.
        encodings: Bytes by encoding.
        memory: Bytes of the live rows as Arrow arrays; None if not known.
        is_estimate: Whether `memory` is extrapolated from a sample.
    """

    name: str
    bytes: int = 0
    dead: int = 0
    encodings: dict[str, int] = field(default_factory=dict)
    memory: int | None = None
    is_estimate: bool = False

    @property
    def ratio(self) -> float | None:
        """Bytes in memory per live byte in the data files; None if not known."""
        if self.memory is None or not self.bytes:
            return None
        return self.memory / (self.bytes - self.dead) if self.bytes > self.dead else None

    def add(self, size: int, dead: float, encoding: str) -> None:
        """Add the bytes of a page.

        Args:
            size: Bytes of the page.
            dead: Share of the fragment's rows that is deleted, 0 to 1.
            encoding: Encoding of the page.
        """
        self.bytes += size
        self.dead += round(size * dead)
        self.encodings[encoding] = self.encodings.get(encoding, 0) + size


@dataclass(slots=True)
class Usage:
    """Bytes of a version.

    Attributes:
        columns: Bytes of each column, in schema order.
        tombstoned: Bytes of dropped or replaced columns in data files that are still used.
        overhead: Bytes of footers and metadata in the data files.
        unattributed: Bytes of files of format 0.1, whose metadata has no sizes of columns.
        total: Bytes of all data files.
        problems: Errors of data files that cannot be read.
    """

    columns: list[ColumnUse]
    tombstoned: int = 0
    overhead: int = 0
    unattributed: int = 0
    total: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def dead(self) -> int:
        """Bytes that a compaction would free."""
        return self.tombstoned + sum(column.dead for column in self.columns)


# Of a data file: field id, bytes and encoding of each page; and its bytes.
_FileUse: TypeAlias = tuple[Sequence[tuple[int, int, str]], int]


def measure_bytes(target: Target) -> Usage:
    """Measure the bytes of a version, with one or two requests for each data file."""
    manifest = target.manifest
    usage = Usage([ColumnUse(field.name) for field in manifest.fields])
    column_of = {
        field.id: position for position, top in enumerate(manifest.fields) for field in top.walk()
    }
    work = [(fragment, file) for fragment in manifest.fragments for file in fragment.files]
    results = in_threads(
        lambda item: _read_use(target.files, item[1]), work, _READERS, "lancefs-du"
    )
    for (fragment, file), result in zip(work, results, strict=True):
        if isinstance(result, str):
            usage.problems.append(result)
        else:
            _add_file(usage, fragment, file, *result, column_of)
    for column, top in zip(usage.columns, manifest.fields, strict=True):
        _measure_memory(target, column, top)
    return usage


def _read_use(files: TableFiles, data_file: DataFile) -> _FileUse | str:
    """Read the bytes of a data file from its metadata; return the message of an error."""
    try:
        file = files.data_file(data_file)
        if data_file.is_legacy:
            return (), file.size
        container = Container(file)
        indices = [index for index in data_file.column_indices if index >= 0]
        container.load_columns(indices)
        pairs = zip(data_file.fields, data_file.column_indices, strict=True)
        pages = [
            (field_id, size, name)
            for field_id, index in pairs
            if index >= 0
            for name, size in _page_sizes(container.column(index))
        ]
        return pages, file.size
    except LanceError as error:
        return str(error)


def _add_file(
    usage: Usage,
    fragment: Fragment,
    file: DataFile,
    pages: Sequence[tuple[int, int, str]],
    size: int,
    column_of: Mapping[int, int],
) -> None:
    """Add the bytes of a data file.

    Args:
        usage: Sums that the bytes are added to.
        fragment: Fragment of the file.
        file: The file, as the manifest describes it.
        pages: Field id, bytes and encoding of each page.
        size: Bytes of the file.
        column_of: Position of the top-level column of each field id.
    """
    physical, deleted = fragment.physical_rows, fragment.num_deleted
    dead = deleted / physical if physical and deleted else 0.0
    usage.total += size
    if file.is_legacy:
        columns = {column_of[field_id] for field_id in file.fields if field_id in column_of}
        if len(columns) == 1:
            usage.columns[columns.pop()].add(size, dead, "format 0.1")
        else:
            usage.unattributed += size
        return
    holders = fragment.holders()
    for field_id, part, encoding in pages:
        if field_id in column_of and holders.get(field_id) == file:
            usage.columns[column_of[field_id]].add(part, dead, encoding)
        elif field_id == _TOMBSTONE or field_id >= 0:  # dropped, or replaced by a newer file
            usage.tombstoned += part
    usage.overhead += max(0, size - sum(part for _, part, _ in pages))


def _page_sizes(column: ColumnPages) -> Iterator[tuple[str, int]]:
    """Yield the encoding and the bytes of each page of a column."""
    shared = sum(end - start for start, end in column.buffers)
    for page in column.pages:
        yield _encoding(page), shared + sum(end - start for start, end in page.buffers)
        shared = 0  # the first page gets the buffers of the column


def _encoding(page: Page) -> str:
    """Return the layout and the encodings of a page: `mini-block fsst`."""
    try:
        layout, messages = _parse_encoding(page)
    except (LanceError, DecodeError) as error:
        return f"not known ({type(error).__name__})"
    names = list(dict.fromkeys(name for message in messages for name in _encoding_names(message)))
    compressing = [name for name in names if name not in _PLAIN]
    return " ".join(part for part in (layout, "+".join(compressing or names[:1])) if part)


def _parse_encoding(page: Page) -> tuple[str, Sequence[Message]]:
    """Return the layout of a page, and the messages that describe the encoding of its values."""
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
    return shown, [mini.value_compression]  # not of the levels, whose encoding is always the same


def _encoding_names(message: Message) -> Iterator[str]:
    """Yield the encodings in a message, outer ones first."""
    oneofs = message.DESCRIPTOR.oneofs_by_name
    for oneof in _ONEOFS:
        if oneof in oneofs:
            name = message.WhichOneof(oneof)
            if name is not None:
                yield name
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        children = value if not isinstance(value, Message) else [value]
        for child in children:
            if isinstance(child, Message):
                yield from _encoding_names(child)


def _measure_memory(target: Target, column: ColumnUse, field: Field) -> None:
    """Set the size in memory of a column: exact for fixed width, else from a sample of rows."""
    rows = target.manifest.num_rows
    if not rows or not column.bytes:
        return
    try:
        kind = field.to_arrow().type
        if not (has_variable_width(kind) or has_type(kind, pa.types.is_dictionary)):
            column.memory = round(rows * min_value_bytes(kind))
            return
        sample = target.dataset.head(_SAMPLE_ROWS, columns=[field.name])
    except LanceError:
        return
    if sample.num_rows:
        column.memory = round(sample.nbytes * rows / sample.num_rows)
        column.is_estimate = sample.num_rows < rows
