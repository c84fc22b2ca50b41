"""Manifests: files that each describe one version of a table, without its values.

A manifest file ends with a footer: the position of the message (u64), two version numbers (u16
each) and `LANC`. The message's length (u32) and the message stand at that position. The sections of
the indices, the transaction and auxiliary data lie before the message, each with its length (u32)
in front.

Format page: table format, section "Manifest" (`docs/src/format/table/index.md`); messages:
`protos/table.proto`.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.errors import CorruptFile, MissingFile, ReadFailed, UnsupportedFeature, locating
from lancefs.proto import table_pb2
from lancefs.storage import ByteRange, Bytes, File, holding_tails
from lancefs.storage.web import WEB_PAGE, is_page
from lancefs.table.flags import ReaderFlags, check_reader_flags
from lancefs.table.fragment_table import Fragments, ParsedManifest, parse_manifest
from lancefs.table.messages import parse_message

_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"
_LENGTH = struct.Struct("<I")
# Bytes of the first read, from the end: the whole file, unless there are ten thousand fragments.
# Another request for each look at a section would take longer than these.
_TAIL = 1024 * 1024
# Bytes of the largest remote manifest that is read whole at first, and kept so.
_WHOLE = 8 * 1024 * 1024
# Bytes of the largest message that is kept for the next dataset.
_SHARED_BYTES = 32 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BasePath(NamedTuple):
    """A directory outside of the table's own that holds some of its files.

    Attributes:
        id: Id by which files refer to the base path.
        name: The writer's name for it, for instance the tag that was cloned.
        is_dataset_root: Whether the directory is that of a table, with files below `data/`,
            `_deletions/` and so on; if not, it holds the files directly.
        path: Absolute path, or URL.
    """

    id: int
    name: str | None
    is_dataset_root: bool
    path: str


class Writer(NamedTuple):
    """The library that wrote a version, and its own version."""

    library: str
    version: str

    def __str__(self) -> str:
        """Return both, as `lance 14.0.2`."""
        return f"{self.library} {self.version}"


class Manifest(NamedTuple):
    """One version of a table.

    Attributes:
        path: Path of the manifest file, relative to the directory of the table or branch.
        version: Number of the version.
        timestamp: Time of the commit, in UTC; 1970 if the writer recorded none.
        branch: Branch of the commit; None for the main branch.
        tag: Tag as the earliest releases wrote it; later tags are files of their own.
        fields: The columns, as trees of fields.
        schema_metadata: Metadata of the schema.
        fragments: The fragments, in scan order.
        reader_flags: Features that a reader must support.
        writer_flags: Features that a writer must support.
        writer: The library that wrote the version.
        config: Settings of the table.
        table_metadata: Free metadata of the table.
        base_paths: Directories outside of the table's own that hold files of the version.
        max_fragment_id: Highest fragment id ever used; None before the first fragment.
        max_field_id: Highest field id ever used; None if the table does not record it.
        next_row_id: Next stable row id; 0 in tables without stable ids.
        data_version: Format version of new data files, for instance `2.1`; None if the writer
            (before about 0.14) recorded none.
        transaction_file: Name of the transaction file below `_transactions/`, if there is one.
        index_section: Byte range of the indices in the manifest file, for `read_section`.
        transaction_section: Byte range of the transaction in the manifest file.
        auxiliary_section: Byte range of auxiliary data, for `read_auxiliary_data`.
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
        """Number of rows, deleted rows included; None if only the data files record it."""
        return self.fragments.physical_rows()

    @property
    def num_rows(self) -> int | None:
        """Number of live rows; None if only data files or deletion files record it."""
        return self.fragments.num_rows()


def read_manifest(file: File) -> Manifest:
    """Read a manifest, with one request unless it is large.

    Args:
        file: The manifest file; if it has no size, another request asks for the size.

    Raises:
        MissingFile: The file is gone, for instance because the version was cleaned up.
        CorruptFile: The bytes are not a manifest.
        UnsupportedFeature: The table needs a feature that this release does not read; the message
            names the feature.
    """
    with locating(file.url):
        data, position = _read_message(file)
        if len(data) > _SHARED_BYTES:
            return _parse(data, position, file.path, file.url)
        return _parse_cached(data, position, file.path, file.url)


def read_timestamp(file: File) -> datetime:
    """Read the time of a version's commit, also if the version needs unknown features.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The bytes are not a manifest.
    """
    with locating(file.url):
        return _timestamp(parse_manifest(_read_message(file)[0]).message)


def read_timestamps(files: Sequence[File]) -> list[datetime]:
    """Read the times of several versions' commits, of a remote table in one round of requests.

    Args:
        files: The manifest files.

    Raises:
        LanceError: As `read_timestamp` does.
    """
    for file in files:
        file.tail = _first_read(file)
    with holding_tails(files):
        return [read_timestamp(file) for file in files]


@contextmanager
def reading_sections(file: File, manifest: Manifest) -> Iterator[None]:
    """Check that sections which are read in the context are of the file that a manifest is of.

    The name of a manifest file, unlike those of other files, is used again by a table that is made
    anew. Whether it was is not looked at where that would take another request, and need not be
    where the manifest was read just before.

    Args:
        file: The manifest file.
        manifest: Its message, which was decoded some time ago.

    Raises:
        MissingFile: The file is gone, or it is one of another table now.
    """
    try:
        yield
    finally:  # of another table, a section may as well be damage
        is_held = file.store.is_local or file.stamp is not None
        if is_held and read_timestamp(file) != manifest.timestamp:
            raise made_anew(file.url)


def read_section(file: File, section: ByteRange) -> bytes:
    """Read the message in a section of a manifest file, with one request.

    None is made where the end of the file, which holds the manifest, is cached.

    Args:
        file: The manifest file.
        section: Byte range of a section, from the manifest.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The message is longer than the section.
    """
    with locating(file.url, f"section at byte {section[0]}"):
        data = _read_bytes(file, section).tobytes()
        return data[_LENGTH.size : _LENGTH.size + _length(data)]


def made_anew(name: str) -> MissingFile:
    """Return the error about a version that is gone, whose number is one of another table now.

    Args:
        name: The version, or its manifest file.
    """
    return MissingFile(
        f"{name}: the table was deleted and made anew since this version was opened; open it again"
    )


def read_auxiliary_data(file: File, manifest: Manifest) -> dict[str, bytes]:
    """Read the auxiliary data of a version, by key; most versions have none.

    Args:
        file: The manifest file.
        manifest: Its decoded message.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The data do not decode.
    """
    if manifest.auxiliary_section is None:
        return {}
    with locating(file.url, "auxiliary data"):
        data = read_section(file, manifest.auxiliary_section)
        return dict(parse_message(table_pb2.VersionAuxData(), data).metadata)


def _read_message(file: File) -> tuple[bytes, int]:
    """Return the bytes of the message of a manifest file, and its position in the file."""
    start, tail = file.read_tail(_first_read(file))
    if start == 0 and is_page(tail):
        raise ReadFailed(f"{file.url}: {WEB_PAGE}")
    if len(tail) < _FOOTER.size:
        raise CorruptFile(f"{len(tail)} bytes are too few for a manifest; it was cut short")
    end = start + len(tail) - _FOOTER.size
    position, _, _, magic = _FOOTER.unpack(tail[-_FOOTER.size :].tobytes())
    if magic != _MAGIC:
        raise CorruptFile(f"{_MAGIC!r} was expected at the end; it was cut short")
    if position > end:
        raise CorruptFile(f"the footer at byte {end} places the message at byte {position}")
    head = file.read([(position, start)])[0].tobytes() if position < start else b""
    data = head + tail[max(0, position - start) : -_FOOTER.size].tobytes()
    if _length(data) != len(data) - _LENGTH.size:
        raise CorruptFile(
            f"the message announces {_length(data)} bytes, {len(data) - _LENGTH.size} are there"
        )
    return data[_LENGTH.size :], position


def _first_read(file: File) -> int:
    """Return how many of the last bytes are read at first.

    The message is most of a remote manifest, so that another request for its start, at each look at
    it, would take longer than the bytes before it.
    """
    return _WHOLE if not file.store.is_local and file.size <= _WHOLE else _TAIL


def _read_bytes(file: File, wanted: ByteRange) -> Bytes:
    if not file.store.is_local and file.stamp is not None and wanted[1] <= file.size:
        start, tail = file.read_tail(_first_read(file))
        if wanted[0] >= start:
            return tail[wanted[0] - start : wanted[1] - start]
    return file.read([wanted])[0]


def _length(data: bytes) -> int:
    """Return the length in front of a message; check that the data have that many bytes."""
    if len(data) < _LENGTH.size:
        raise CorruptFile(f"{len(data)} bytes are too few for a message")
    length = int(_LENGTH.unpack_from(data)[0])
    if length > len(data) - _LENGTH.size:
        raise CorruptFile(
            f"the message announces {length} bytes, {len(data) - _LENGTH.size} are there"
        )
    return length


@lru_cache(maxsize=64)  # a program that asks a little of a table opens it each time
def _parse_cached(data: bytes, position: int, path: str, url: str) -> Manifest:
    return _parse(data, position, path, url)


def _parse(data: bytes, position: int, path: str, url: str) -> Manifest:
    """Return the manifest whose message is at a position of a file."""
    parsed = parse_manifest(data)
    message = parsed.message
    flags = check_reader_flags(message.reader_feature_flags)
    if message.data_format.file_format not in ("", "lance"):
        raise UnsupportedFeature(
            f"the table's data files are of the format {message.data_format.file_format!r}"
        )
    return _manifest(parsed, flags, position, path, url)


def _manifest(
    parsed: ParsedManifest, flags: ReaderFlags, position: int, path: str, url: str
) -> Manifest:
    message = parsed.message
    index, transaction = _section_starts(message)
    ends = [start for start in (index, transaction, message.version_aux_data) if start]
    ends.append(position)
    return Manifest(
        path=path,
        version=message.version,
        timestamp=_timestamp(message),
        branch=message.branch if message.HasField("branch") else None,
        tag=message.tag or None,
        fields=_fields(parsed.schema),
        schema_metadata={k.encode(): v for k, v in sorted(message.schema_metadata.items())},
        fragments=Fragments(parsed.data, parsed.columns, url),
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


@lru_cache(maxsize=64)  # the versions of a table mostly have the same schema
def _fields(schema: bytes) -> tuple[Field, ...]:
    """Return the columns, from the serialized fields of the schema in a manifest."""
    return fields_from_proto(parse_message(table_pb2.Manifest(), schema).fields)


def _section_starts(message: table_pb2.Manifest) -> tuple[int | None, int | None]:
    """Return the positions of the indices and the transaction.

    Earlier releases gave the position of the transaction in another field.
    """
    index = message.index_section if message.HasField("index_section") else None
    if message.HasField("transaction_section"):
        return index, message.transaction_section
    if message.HasField("transaction_section_deprecated"):
        return index, message.transaction_section_deprecated
    return index, None


def _section(start: int | None, ends: list[int]) -> ByteRange | None:
    """Return the byte range of a section, which ends where the next section or message begins."""
    if start is None:
        return None
    later = [end for end in ends if end > start]
    if not later:
        raise CorruptFile(f"a section is at byte {start}, after the manifest's message")
    return start, min(later)


def _timestamp(message: table_pb2.Manifest) -> datetime:
    stamp = message.timestamp
    try:
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise CorruptFile(
            f"committed {stamp.seconds} s after 1970, outside of the years 1 to 9999"
        ) from error


def _writer(message: table_pb2.Manifest) -> Writer:
    writer = message.writer_version
    version = writer.version
    if writer.prerelease:
        version += f"-{writer.prerelease}"
    if writer.build_metadata:
        version += f"+{writer.build_metadata}"
    return Writer(writer.library, version)
