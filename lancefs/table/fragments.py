"""Fragments: the horizontal slices of a table, and the files that hold them.

The values are those that a manifest records; nothing here reads from a store.
`lancefs.table.base_paths` finds the files.

Format page: table format, sections "Fragments" to "Deletion Files"
(`docs/src/format/table/index.md`); messages: `protos/table.proto`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile

_FILE_VERSIONS = {(0, 0): "0.1", (0, 1): "0.1", (0, 2): "0.1", (0, 3): "2.0"}
_LEGACY_VERSIONS = frozenset({(0, 0), (0, 1), (0, 2)})


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


# Field id of a column of a data file that a later file of the fragment replaces; readers skip it.
REPLACED_FIELD = -2


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
        return (self.major, self.minor) in _LEGACY_VERSIONS

    @property
    def has_nulls_apart(self) -> bool:
        """Whether the format stores validity apart from values: later formats share chunks."""
        return self.version in ("0.1", "2.0")

    @property
    def columns(self) -> Mapping[int, int]:
        """Column index in the file of each field that has one; empty in the format 0.1."""
        return _columns(self.fields, self.column_indices, not self.is_legacy)

    def check_columns(self, fields: Iterable[Field]) -> None:
        """Check that the file has a column for each leaf of some fields that it lists.

        Args:
            fields: Columns of the table, or parts of them.

        Raises:
            CorruptFile: It lists a leaf without a column; the values would be taken for nulls.
        """
        bare = _without_column(self.fields, self.column_indices)
        if not bare:
            return
        for leaf in (leaf for field in fields for leaf in field.leaves()):
            if leaf.id in bare:
                raise CorruptFile(
                    f"data file {self.path!r} lists field {leaf.id} ({leaf.name}), and names no "
                    "column of it"
                )


@lru_cache(maxsize=64)
def _without_column(fields: tuple[int, ...], columns: tuple[int, ...]) -> frozenset[int]:
    """Return the fields that a file lists without a column: as a rule structs and lists."""
    if min(columns, default=0) >= 0:
        return frozenset()
    pairs = zip(fields, columns, strict=False)
    return frozenset(field for field, column in pairs if field >= 0 > column)


@lru_cache(maxsize=64)  # most files of a table have the same fields in the same columns
def _columns(
    fields: tuple[int, ...], columns: tuple[int, ...], are_paired: bool
) -> Mapping[int, int]:
    pairs = zip(fields, columns, strict=are_paired)
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


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of numbers; None if one of them is None, because it is not recorded."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


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
        return sum_known(file.size for file in self.files)

    def holders(self) -> dict[int, DataFile]:
        """Return the data file that holds each field, by its id.

        Of two files that list a field the first one holds it, as in Lance: releases around 0.10
        wrote such tables when a column was dropped and another one added.
        """
        return {field: file for file in reversed(self.files) for field in file.fields if field >= 0}
