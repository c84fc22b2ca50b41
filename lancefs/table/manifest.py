"""Manifests: the file that says everything about one version of a table but its values.

A manifest file ends with the position of its message, two version numbers and `LANC`; at the
position stand the message's length (u32) and the message. Sections that only some readers need (the
indices, the transaction) lie before it, framed in the same way.

Format page: table format (`docs/src/format/table/index.md`).
"""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from google.protobuf.message import DecodeError

from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import table_pb2
from lancefs.storage import ByteRange, File
from lancefs.table.flags import ReaderFlags, check_reader_flags
from lancefs.table.fragments import Fragments

_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"
_LENGTH = struct.Struct("<I")
# Read at once from the end of a manifest: all of it, unless the table has thousands of fragments.
_TAIL = 256 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BasePath(NamedTuple):
    """A place outside of the table's directory where some of its files lie.

    Attributes:
        id: What files refer to.
        name: What the writer called it, for instance the tag that was cloned.
        is_dataset_root: Whether the files lie below `data/`, `_deletions/` … there, as in a table,
            or directly in it.
        path: Absolute, or a URL.
    """

    id: int
    name: str | None
    is_dataset_root: bool
    path: str


class Writer(NamedTuple):
    """The library that wrote a version, and its own version."""

    library: str
    version: str


class Manifest(NamedTuple):
    """One version of a table.

    Attributes:
        path: The manifest file, relative to the directory of the table or branch.
        version: Its number.
        timestamp: When it was committed, in UTC; 1970 where the writer did not say.
        branch: The branch that it was committed to; None for the main one.
        tag: A tag as the earliest releases wrote it; today's tags are files of their own.
        fields: The columns.
        schema_metadata: What the schema says besides.
        fragments: The rows, in scan order.
        reader_flags: Features that a reader must know.
        writer_flags: Features that a writer must know.
        writer: Who wrote it.
        config: Settings of the table.
        table_metadata: Notes on the table.
        base_paths: Where else its files lie.
        max_fragment_id: The highest id that a fragment ever had; None before the first.
        max_field_id: The highest id that a field ever had, where the table keeps track.
        next_row_id: The next stable row id, where the table has them.
        data_version: The format of data files written from now on, for instance `2.1`; None where
            the writer (before 0.14 or so) did not say.
        transaction_file: Below `_transactions/`.
        index_section: Where the indices stand in the manifest file, for `read_section`.
        transaction_section: Where the transaction stands in it.
        auxiliary_section: Where auxiliary data stand in it, for `read_auxiliary_data`.
    """

    path: str
    version: int
    timestamp: datetime
    branch: str | None
    tag: str | None
    fields: tuple[Field, ...]
    schema_metadata: Mapping[bytes, bytes]
    fragments: Fragments
    reader_flags: ReaderFlags
    writer_flags: int
    writer: Writer | None
    config: Mapping[str, str]
    table_metadata: Mapping[str, str]
    base_paths: tuple[BasePath, ...]
    max_fragment_id: int | None
    max_field_id: int | None
    next_row_id: int
    data_version: str | None
    transaction_file: str | None
    index_section: ByteRange | None
    transaction_section: ByteRange | None
    auxiliary_section: ByteRange | None

    @property
    def physical_rows(self) -> int | None:
        """Rows with the deleted ones; None where only the data files can tell."""
        return self.fragments.physical_rows()

    @property
    def num_rows(self) -> int | None:
        """Rows that a reader sees; None where only the data and deletion files can tell."""
        return self.fragments.num_rows()


def read_manifest(file: File) -> Manifest:
    """Read a manifest, with one request unless it is large.

    Args:
        file: The manifest file; with its size, no request goes for that.

    Raises:
        MissingFile: The file is gone, for instance because the version was cleaned up.
        CorruptFile: The bytes are not a manifest.
        UnsupportedFeature: The table needs a feature that this release does not read; it is named.
    """
    with locating(file.url):
        message, position = _read_message(file)
        flags = check_reader_flags(message.reader_feature_flags)
        if message.data_format.file_format not in ("", "lance"):
            raise UnsupportedFeature(
                f"the table's data files are of the format {message.data_format.file_format!r}"
            )
        return _manifest(message, flags, position, file)


def read_timestamp(file: File) -> datetime:
    """Read only when a version was committed, also where the rest needs unknown features.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The bytes are not a manifest.
    """
    with locating(file.url):
        return _timestamp(_read_message(file)[0])


def read_section(file: File, section: ByteRange) -> bytes:
    """Read the message in one of the sections of a manifest file, with one request.

    Args:
        file: The manifest file.
        section: One that the manifest names.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The section's length does not fit.
    """
    with locating(file.url, f"section at byte {section[0]}"):
        data = file.read([section])[0].tobytes()
        return data[_LENGTH.size : _LENGTH.size + _length(data)]


def read_auxiliary_data(file: File, manifest: Manifest) -> dict[str, bytes]:
    """Read the data that a version has beside its manifest, by key; most have none.

    Args:
        file: The manifest file.
        manifest: What it says.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The data do not decode.
    """
    if manifest.auxiliary_section is None:
        return {}
    with locating(file.url, "auxiliary data"):
        message = table_pb2.VersionAuxData()
        try:
            message.ParseFromString(read_section(file, manifest.auxiliary_section))
        except DecodeError as error:
            raise CorruptFile(f"the message does not decode: {error}") from error
        return dict(message.metadata)


def _read_message(file: File) -> tuple[table_pb2.Manifest, int]:
    """Return the message of a manifest file, and the position that it stands at."""
    start, tail = file.read_tail(_TAIL)
    if len(tail) < _FOOTER.size:
        raise CorruptFile(f"{len(tail)} bytes are too few for a manifest; it was cut short")
    end = start + len(tail) - _FOOTER.size
    position, _, _, magic = _FOOTER.unpack(tail[-_FOOTER.size :].tobytes())
    if magic != _MAGIC:
        raise CorruptFile(f"{_MAGIC!r} was expected at the end, not {magic!r}; it was cut short")
    if position > end:
        raise CorruptFile(f"the message is said to be at byte {position}, the file ends at {end}")
    head = file.read([(position, start)])[0].tobytes() if position < start else b""
    data = head + tail[max(0, position - start) : -_FOOTER.size].tobytes()
    if _length(data) != len(data) - _LENGTH.size:
        raise CorruptFile(f"{_length(data)} bytes are announced, {len(data) - _LENGTH.size} there")
    message = table_pb2.Manifest()
    try:
        message.ParseFromString(data[_LENGTH.size :])
    except DecodeError as error:
        raise CorruptFile(f"the message does not decode: {error}") from error
    return message, position


def _length(data: bytes) -> int:
    """The length that a framed message announces, checked to be there."""
    if len(data) < _LENGTH.size:
        raise CorruptFile(f"{len(data)} bytes are too few for a message")
    length = int(_LENGTH.unpack_from(data)[0])
    if length > len(data) - _LENGTH.size:
        raise CorruptFile(f"{length} bytes are announced, {len(data) - _LENGTH.size} are there")
    return length


def _manifest(
    message: table_pb2.Manifest, flags: ReaderFlags, position: int, file: File
) -> Manifest:
    index, transaction = _section_starts(message)
    ends = [start for start in (index, transaction, message.version_aux_data) if start]
    ends.append(position)
    return Manifest(
        path=file.path,
        version=message.version,
        timestamp=_timestamp(message),
        branch=message.branch if message.HasField("branch") else None,
        tag=message.tag or None,
        fields=fields_from_proto(message.fields),
        schema_metadata={k.encode(): v for k, v in sorted(message.schema_metadata.items())},
        fragments=Fragments(message.fragments, file.url),
        reader_flags=flags,
        writer_flags=message.writer_feature_flags,
        writer=_writer(message) if message.HasField("writer_version") else None,
        config=dict(message.config),
        table_metadata=dict(message.table_metadata),
        base_paths=tuple(
            BasePath(base.id, base.name or None, base.is_dataset_root, base.path)
            for base in message.base_paths
        ),
        max_fragment_id=message.max_fragment_id if message.HasField("max_fragment_id") else None,
        max_field_id=(
            message.max_allocated_field_id if message.HasField("max_allocated_field_id") else None
        ),
        next_row_id=message.next_row_id,
        data_version=message.data_format.version or None,
        transaction_file=message.transaction_file or None,
        index_section=_section(index, ends),
        transaction_section=_section(transaction, ends),
        auxiliary_section=_section(message.version_aux_data or None, ends),
    )


def _section_starts(message: table_pb2.Manifest) -> tuple[int | None, int | None]:
    """Where the indices and the transaction stand; the latter has moved to another field once."""
    index = message.index_section if message.HasField("index_section") else None
    if message.HasField("transaction_section"):
        return index, message.transaction_section
    if message.HasField("transaction_section_deprecated"):
        return index, message.transaction_section_deprecated
    return index, None


def _section(start: int | None, ends: list[int]) -> ByteRange | None:
    """A section reaches at most to whatever comes next in the file."""
    if start is None:
        return None
    after = [end for end in ends if end > start]
    if not after:
        raise CorruptFile(f"a section is said to be at byte {start}, after the manifest's message")
    return start, min(after)


def _timestamp(message: table_pb2.Manifest) -> datetime:
    stamp = message.timestamp
    return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)


def _writer(message: table_pb2.Manifest) -> Writer:
    writer = message.writer_version
    version = writer.version
    if writer.prerelease:
        version += f"-{writer.prerelease}"
    if writer.build_metadata:
        version += f"+{writer.build_metadata}"
    return Writer(writer.library, version)
