"""Fragments: the horizontal slices of a table, and the files that hold them.

The values are those that a manifest records; nothing here reads from a store.
`lancefs.table.base_paths` finds the files.

Format page: table format, sections "Fragments" to "Deletion Files"
(`docs/src/format/table/index.md`); messages: `protos/table.proto`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, overload

from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.proto import table_pb2

# A row's 64-bit address consists of its fragment's id and its offset: both are below this limit.
_ADDRESS_LIMIT = 2**32
_FILE_VERSIONS = {(0, 0): "0.1", (0, 1): "0.1", (0, 2): "0.1", (0, 3): "2.0"}


class DeletionKind(StrEnum):
    """Format of a deletion file; the value is the extension of the file's name."""

    ARROW = "arrow"
    BITMAP = "bin"


class DeletionFile(NamedTuple):
    """The file with the offsets of a fragment's deleted rows.

    Attributes:
        kind: Format of the file.
        read_version: Version that the deletion started from.
        id: Random number that makes the name unique among concurrent writers.
        num_deleted: Number of deleted rows; None if the writer (before 0.8) recorded none.
        base_id: Id of the base path that the file lies below; None for the table's own directory.
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
    """A file that holds some columns of a fragment, for all rows of the fragment.

    Attributes:
        path: Path below `data/`.
        fields: Ids of the fields that the file was written with. Negative ids are no columns of
            the table: -2 is a field that a later file replaces, -3 to -5 are row ids and versions
            (`HiddenColumn`).
        column_indices: Column of each field in the file, -1 for a field without a column of its
            own; empty in the format 0.1, where columns have the ids of their fields.
        major: Major version of the file, as recorded.
        minor: Minor version of the file, as recorded.
        size: Size in bytes; None if the writer recorded none, and in the format 0.1: releases from
            0.27 to 7 record the size that such a file had before its last parts were written.
        base_id: Id of the base path that the file lies below; None for the table's own directory.
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
        """Whether the format stores validity apart from values: later formats share chunks."""
        return self.version in ("0.1", "2.0")

    @property
    def columns(self) -> dict[int, int]:
        """Column index in the file of each field that has one; empty in the format 0.1."""
        pairs = zip(self.fields, self.column_indices, strict=not self.is_legacy)
        return {field: column for field, column in pairs if field >= 0 and column >= 0}


class DataOverlay(NamedTuple):
    """New values for some cells of a fragment.

    Attributes:
        file: Data file with one value for each row that the overlay covers, in row order.
        committed_version: Version of the overlay's commit. Of two overlays of a cell the one with
            the higher version wins; at the same version, the one that the manifest lists later.
        shared_coverage: Rows covered in all fields of the file, as a 32-bit Roaring bitmap; None
            if `field_coverage` is given.
        field_coverage: Rows covered in each field of the file, as 32-bit Roaring bitmaps.
    """

    file: DataFile
    committed_version: int
    shared_coverage: bytes | None
    field_coverage: tuple[bytes, ...]


class Inline(NamedTuple):
    """A serialized sequence in the manifest itself."""

    data: bytes


class External(NamedTuple):
    """A serialized sequence in another file: path below the table's directory, byte range."""

    path: str
    offset: int
    size: int


class HiddenColumn(NamedTuple):
    """A sequence that is a column of one of the fragment's data files."""

    field_id: int


# Where the row ids or the versions of a fragment's rows are stored.
Lineage: TypeAlias = Inline | External | HiddenColumn


class Fragment(NamedTuple):
    """A horizontal slice of the table: some rows, with all their columns.

    Attributes:
        id: Id, unique in the table and never used again.
        files: Data files, which together hold a column for each field; a field in no file is null.
        deletion_file: File of the deleted rows, if there are any.
        physical_rows: Number of rows, deleted rows included; None if the writer (before 0.8)
            recorded none, so that only a data file tells.
        row_ids: Stable row ids, if the table has them.
        created_at_versions: Versions that inserted the rows, if recorded.
        last_updated_at_versions: Versions that last changed the rows, if recorded.
        overlays: Newer values for some cells, in the order of the manifest.
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
        """Number of deleted rows; None if only the deletion file tells."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted

    @property
    def num_rows(self) -> int | None:
        """Number of live rows; None if the manifest does not record it."""
        deleted = self.num_deleted
        if self.physical_rows is None or deleted is None:
            return None
        return self.physical_rows - deleted

    @property
    def size(self) -> int | None:
        """Size of the data files in bytes; None if the manifest lacks the size of one."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def holders(self) -> dict[int, DataFile]:
        """Return the data file that holds each field, by its id.

        Of two files that list a field the first one holds it, as in Lance: releases around 0.10
        wrote such tables when a column was dropped and another one added.
        """
        return {field: file for file in reversed(self.files) for field in file.fields if field >= 0}


class Fragments(Sequence[Fragment]):
    """The fragments of a version in scan order, each decoded when it is first used.

    A table may have a hundred thousand fragments; a count or the schema needs none of them.

    Args:
        messages: Messages of the fragments, from the manifest.
        url: URL of the manifest file, for error messages.

    Raises:
        CorruptFile: Two fragments have the same id. Indexing raises it for a fragment whose
            message contradicts itself.
    """

    def __init__(self, messages: Sequence[table_pb2.DataFragment], url: str | None = None) -> None:
        self._messages = messages
        self._url = url
        self._built: list[Fragment | None] = [None] * len(messages)
        # Most fragments have the same fields in the same columns: they share one tuple.
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
        """Compare with the fragments of another version.

        Successive versions share most fragments: those alike at both ends are compared in order,
        the rest by id.

        Args:
            others: Fragments of the other version.

        Returns:
            The fragments that only this version has, and those that only the other one has. A
            fragment that differs between the versions is in both lists.
        """
        ours, theirs = self._messages, others._messages
        shorter, start, end = min(len(ours), len(theirs)), 0, 0
        while start < shorter and ours[start] == theirs[start]:
            start += 1
        while end < shorter - start and ours[-1 - end] == theirs[-1 - end]:
            end += 1
        known = {message.id: message for message in theirs[start : len(theirs) - end]}
        left, shared = [], set()
        for position in range(start, len(ours) - end):
            if known.get(ours[position].id) == ours[position]:
                shared.add(ours[position].id)
            else:
                left.append(self[position])
        right = range(start, len(theirs) - end)
        return left, [others[position] for position in right if theirs[position].id not in shared]

    def physical_rows(self) -> int | None:
        """Return the number of rows, deleted rows included; None if only data files tell."""
        counts = [message.physical_rows for message in self._messages]
        return sum(counts) if all(counts) else None

    def num_rows(self) -> int | None:
        """Return the number of live rows; None if only data files or deletion files tell."""
        total = self.physical_rows()
        for message in self._messages:
            if message.HasField("deletion_file"):
                deleted = message.deletion_file.num_deleted_rows
                if total is None or not deleted:
                    return None
                if deleted > message.physical_rows:
                    self._build(message)  # raises the error
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
    if message.id >= _ADDRESS_LIMIT or rows > _ADDRESS_LIMIT:
        raise CorruptFile(f"the id or the number of rows, {rows}, is beyond 32 bits")
    if rows and deleted > rows:
        raise CorruptFile(f"{deleted} of {rows} rows are deleted, which cannot be")
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
            f"data file {message.path!r} has {len(fields)} fields in {len(columns)} columns; one "
            "column for each field was expected"
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
