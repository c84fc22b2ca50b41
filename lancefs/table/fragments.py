"""Fragments: the horizontal slices of a table, and the files that hold them.

Plain values, as a manifest records them; nothing here touches a store. Where the files lie is for
`lancefs.table.base_paths` to say.

Format page: table format, sections "Fragments" to "Deletion Files"
(`docs/src/format/table/index.md`).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, overload

from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import table_pb2

# Ids of fragments, and offsets of rows in them, are the two halves of a row's 64-bit address.
_MOST = 2**32
_FILE_VERSIONS = {(0, 0): "0.1", (0, 1): "0.1", (0, 2): "0.1", (0, 3): "2.0"}


class DeletionKind(StrEnum):
    """How the deleted rows are written; the value is the extension of the file's name."""

    ARROW = "arrow"
    BITMAP = "bin"


class DeletionFile(NamedTuple):
    """The file with the offsets of a fragment's deleted rows.

    Attributes:
        kind: How they are written.
        read_version: The version that the deletion started from.
        id: Tells it from the files of writers at the same time.
        num_deleted: How many rows; None where the writer (before 0.8) did not say.
        base_id: The base path that the file lies below; None for the table's own directory.
    """

    kind: DeletionKind
    read_version: int
    id: int
    num_deleted: int | None
    base_id: int | None

    def path(self, fragment_id: int) -> str:
        """Return the name of the file, below `_deletions/`."""
        return f"{fragment_id}-{self.read_version}-{self.id}.{self.kind}"


class DataFile(NamedTuple):
    """A file with some of a fragment's columns, for all of its rows.

    Attributes:
        path: Below `data/`.
        fields: The ids of the fields that it was written with. Those below zero hold nothing that a
            reader wants: -2 stands for one that another file has taken over, -3 to -5 are row ids
            and versions (`HiddenColumn`).
        column_indices: For each of the fields its column in the file, -1 where it has none of its
            own; empty for the format 0.1, where a column goes by the field's id.
        major: Of the file's version, as recorded.
        minor: Of the file's version, as recorded.
        size: In bytes; None where the writer did not say, and for the format 0.1: releases from
            0.27 to 7 say of such files how long they were before their last parts were written.
        base_id: The base path that the file lies below; None for the table's own directory.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int
    size: int | None
    base_id: int | None

    @property
    def version(self) -> str:
        """The format of the file as users know it: `0.1`, `2.0`, `2.1`, …"""
        return _FILE_VERSIONS.get((self.major, self.minor), f"{self.major}.{self.minor}")

    @property
    def is_legacy(self) -> bool:
        """Whether the file is of the format 0.1."""
        return self.version == "0.1"

    @property
    def has_nulls_apart(self) -> bool:
        """Whether nulls lie apart from values, or there are none; later they share chunks."""
        return self.version in ("0.1", "2.0")

    @property
    def columns(self) -> dict[int, int]:
        """The column in the file of each field that has one; empty for the format 0.1."""
        pairs = zip(self.fields, self.column_indices, strict=not self.is_legacy)
        return {field: column for field, column in pairs if field >= 0 and column >= 0}


class DataOverlay(NamedTuple):
    """New values for some cells of a fragment.

    Attributes:
        file: Holds one value for each row that it covers, in row order.
        committed_version: Of two overlays of a cell the one with the higher version wins, then the
            later one.
        shared_coverage: The rows covered in all fields of the file, a 32-bit Roaring bitmap.
        field_coverage: The rows covered, one bitmap for each of the file's fields.
    """

    file: DataFile
    committed_version: int
    shared_coverage: bytes | None
    field_coverage: tuple[bytes, ...]


class Inline(NamedTuple):
    """A serialised sequence that stands in the manifest itself."""

    data: bytes


class External(NamedTuple):
    """A serialised sequence that stands in another file, below the table's directory."""

    path: str
    offset: int
    size: int


class HiddenColumn(NamedTuple):
    """A sequence that is a column of one of the fragment's data files."""

    field_id: int


# Where a fragment's row ids, or the versions that its rows are of, are written.
Lineage: TypeAlias = Inline | External | HiddenColumn


class Fragment(NamedTuple):
    """Some rows of the table, with all their columns.

    Attributes:
        id: Unique in the table, never used again.
        files: Its data files, together one column for each field; a field in none is null.
        deletion_file: Its deleted rows, if any.
        physical_rows: Rows with the deleted ones; None where the writer (before 0.8) did not say
            and a data file must be asked.
        row_ids: Its stable row ids, if the table has them.
        created_at_versions: The versions that the rows appeared in, if recorded.
        last_updated_at_versions: The versions that the rows last changed in, if recorded.
        overlays: Newer values for some of its cells, the oldest first.
    """

    id: int
    files: tuple[DataFile, ...]
    deletion_file: DeletionFile | None = None
    physical_rows: int | None = None
    row_ids: Lineage | None = None
    created_at_versions: Lineage | None = None
    last_updated_at_versions: Lineage | None = None
    overlays: tuple[DataOverlay, ...] = ()

    @property
    def num_deleted(self) -> int | None:
        """How many of the rows are deleted; None where only the deletion file can tell."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted

    @property
    def num_rows(self) -> int | None:
        """How many rows a reader sees; None where the manifest does not tell."""
        deleted = self.num_deleted
        if self.physical_rows is None or deleted is None:
            return None
        return self.physical_rows - deleted

    @property
    def size(self) -> int | None:
        """Bytes of its data files; None where the manifest does not tell those of all."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def holders(self) -> dict[int, DataFile]:
        """Return the data file that holds each field, by its id.

        A field that two files claim is the first one's: releases around 0.10 wrote such tables when
        a column was dropped and another added, and Lance reads them so.
        """
        return {field: file for file in reversed(self.files) for field in file.fields if field >= 0}


class Fragments(Sequence[Fragment]):
    """The fragments of a version in scan order, each built when it is first asked for.

    A table may have a hundred thousand, of which a count or a look at the schema needs none.

    Args:
        messages: As the manifest holds them.
        url: The manifest file, for messages.

    Raises:
        CorruptFile: Two have the same id; when one is asked for, also that it makes no sense.
    """

    def __init__(self, messages: Sequence[table_pb2.DataFragment], url: str | None = None) -> None:
        self._messages = messages
        self._url = url
        self._built: list[Fragment | None] = [None] * len(messages)
        # Most fragments have the same fields in the same columns: one tuple serves them all.
        self._shared: _Shared = {}
        if len({message.id for message in messages}) != len(messages):
            raise CorruptFile("two fragments have the same id")

    def __len__(self) -> int:
        return len(self._built)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...

    @overload
    def __getitem__(self, index: slice) -> "Fragments": ...

    def __getitem__(self, index: int | slice) -> "Fragment | Fragments":
        if isinstance(index, slice):
            return Fragments(self._messages[index], self._url)
        fragment = self._built[index]
        if fragment is None:
            fragment = self._built[index] = self._build(self._messages[index])
        return fragment

    def __repr__(self) -> str:
        return f"<{len(self)} fragments>"

    def __reduce__(self) -> tuple[Any, ...]:
        data = table_pb2.Manifest(fragments=self._messages).SerializeToString()
        return _unpickle, (data, self._url)

    def differences(self, others: "Fragments") -> tuple[list[Fragment], list[Fragment]]:
        """Compare with the fragments of another version; most of a table's versions share most.

        Args:
            others: Of the other version.

        Returns:
            Those here that are not there, and those there that are not here. One that is in both,
            but changed, is among both.
        """
        ours, theirs = self._messages, others._messages
        shorter, start, end = min(len(ours), len(theirs)), 0, 0
        while start < shorter and ours[start] == theirs[start]:
            start += 1
        while end < shorter - start and ours[-1 - end] == theirs[-1 - end]:
            end += 1
        known = {one.id: one for one in theirs[start : len(theirs) - end]}
        left, shared = [], set()
        for position in range(start, len(ours) - end):
            if known.get(ours[position].id) == ours[position]:
                shared.add(ours[position].id)
            else:
                left.append(self[position])
        right = range(start, len(theirs) - end)
        return left, [others[position] for position in right if theirs[position].id not in shared]

    def physical_rows(self) -> int | None:
        """Count the rows with the deleted ones, None where only the data files can tell."""
        counts = [message.physical_rows for message in self._messages]
        return sum(counts) if all(counts) else None

    def num_rows(self) -> int | None:
        """Count the rows that a reader sees, None where only other files can tell."""
        total = self.physical_rows()
        for message in self._messages:
            if message.HasField("deletion_file"):
                deleted = message.deletion_file.num_deleted_rows
                if total is None or not deleted:
                    return None
                if deleted > message.physical_rows:  # building it says what is wrong
                    self._build(message)
                total -= deleted
        return total

    def _build(self, message: table_pb2.DataFragment) -> Fragment:
        try:
            return _fragment(message, self._shared)
        except (CorruptFile, UnsupportedFeature):
            with locating(self._url, f"fragment {message.id}"):
                raise


def _unpickle(data: bytes, url: str | None) -> Fragments:
    return Fragments(table_pb2.Manifest.FromString(data).fragments, url)


_Shared: TypeAlias = dict[tuple[int, ...], tuple[int, ...]]


def _fragment(message: table_pb2.DataFragment, shared: _Shared) -> Fragment:
    deletion = _deletion_file(message.deletion_file) if message.HasField("deletion_file") else None
    rows = message.physical_rows
    deleted = 0 if deletion is None else deletion.num_deleted or 0
    if message.id >= _MOST or rows > _MOST or (rows and deleted > rows):
        raise CorruptFile(f"there are {rows} rows, {deleted} of them deleted, which cannot be")
    return Fragment(
        id=message.id,
        files=tuple([_data_file(file, shared) for file in message.files]),
        deletion_file=deletion,
        physical_rows=rows or None,
        row_ids=_row_ids(message),
        created_at_versions=_created_at(message),
        last_updated_at_versions=_last_updated_at(message),
        overlays=tuple([_overlay(overlay, shared) for overlay in message.overlays]),
    )


def _data_file(message: table_pb2.DataFile, shared: _Shared) -> DataFile:
    fields, columns = tuple(message.fields), tuple(message.column_indices)
    version = (message.file_major_version, message.file_minor_version)
    is_legacy = _FILE_VERSIONS.get(version) == "0.1"
    file = DataFile(
        path=message.path,
        fields=shared.setdefault(fields, fields),
        column_indices=shared.setdefault(columns, columns),
        major=message.file_major_version,
        minor=message.file_minor_version,
        size=None if is_legacy else message.file_size_bytes or None,
        base_id=message.base_id if message.HasField("base_id") else None,
    )
    if len(fields) != len(columns) and not is_legacy:
        raise CorruptFile(
            f"data file {message.path!r} has {len(fields)} fields in {len(columns)} columns"
        )
    return file


def _deletion_file(message: table_pb2.DeletionFile) -> DeletionFile:
    is_bitmap = message.file_type == table_pb2.DeletionFile.BITMAP
    if not is_bitmap and message.file_type != table_pb2.DeletionFile.ARROW_ARRAY:
        raise UnsupportedFeature(f"deletion files of the kind {message.file_type}")
    return DeletionFile(
        kind=DeletionKind.BITMAP if is_bitmap else DeletionKind.ARROW,
        read_version=message.read_version,
        id=message.id,
        num_deleted=message.num_deleted_rows or None,
        base_id=message.base_id if message.HasField("base_id") else None,
    )


def _overlay(message: table_pb2.DataOverlayFile, shared: _Shared) -> DataOverlay:
    is_shared = message.HasField("shared_offset_bitmap")
    return DataOverlay(
        file=_data_file(message.data_file, shared),
        committed_version=message.committed_version,
        shared_coverage=message.shared_offset_bitmap if is_shared else None,
        field_coverage=tuple(message.field_coverage.offset_bitmaps),
    )


def _row_ids(message: table_pb2.DataFragment) -> Lineage | None:
    match message.WhichOneof("row_id_sequence"):
        case "inline_row_ids":
            return Inline(message.inline_row_ids)
        case "external_row_ids":
            return _external(message.external_row_ids)
        case "row_id_column":
            return HiddenColumn(-3)
    return None


def _created_at(message: table_pb2.DataFragment) -> Lineage | None:
    match message.WhichOneof("created_at_version_sequence"):
        case "inline_created_at_versions":
            return Inline(message.inline_created_at_versions)
        case "external_created_at_versions":
            return _external(message.external_created_at_versions)
        case "created_at_version_column":
            return HiddenColumn(-4)
    return None


def _last_updated_at(message: table_pb2.DataFragment) -> Lineage | None:
    match message.WhichOneof("last_updated_at_version_sequence"):
        case "inline_last_updated_at_versions":
            return Inline(message.inline_last_updated_at_versions)
        case "external_last_updated_at_versions":
            return _external(message.external_last_updated_at_versions)
        case "last_updated_at_version_column":
            return HiddenColumn(-5)
    return None


def _external(message: table_pb2.ExternalFile) -> External:
    return External(message.path, message.offset, message.size)
