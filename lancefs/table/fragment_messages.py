"""Fragments from the messages of a manifest."""

from collections import Counter
from functools import lru_cache
from typing import TypeAlias

from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import table_pb2
from lancefs.table.fragments import (
    DataFile,
    DataOverlay,
    DeletionFile,
    DeletionKind,
    External,
    Fragment,
    HiddenColumn,
    Inline,
    Lineage,
)

# A row's 64-bit address consists of its fragment's id and its offset: both are below this limit.
ADDRESS_LIMIT = 2**32

# Tuples of numbers by themselves: most fragments have the same fields in the same columns.
Shared: TypeAlias = dict[tuple[int, ...], tuple[int, ...]]


def build_fragment(message: table_pb2.DataFragment, shared: Shared) -> Fragment:
    """Make a fragment of its message.

    Args:
        message: The message.
        shared: Tuples that fragments share; new ones are added.

    Raises:
        CorruptFile: The message contradicts itself.
        UnsupportedFeature: The fragment has a deletion file of an unknown kind.
    """
    deletion = _deletion_file(message.deletion_file) if message.HasField("deletion_file") else None
    rows = message.physical_rows
    deleted = 0 if deletion is None else deletion.num_deleted or 0
    if message.id >= ADDRESS_LIMIT or rows > ADDRESS_LIMIT:
        raise CorruptFile(f"the id or the number of rows, {rows}, is beyond 32 bits")
    if rows and deleted > rows:
        raise CorruptFile(f"{deleted} of {rows} rows are deleted, which cannot be")
    return Fragment(
        id=message.id,
        files=tuple([_data_file(file, shared) for file in message.files]),
        deletion_file=deletion,
        physical_rows=rows or None,
        row_ids=_lineage(message, "row_id_sequence", -3),
        created_at_versions=_lineage(message, "created_at_version_sequence", -4),
        last_updated_at_versions=_lineage(message, "last_updated_at_version_sequence", -5),
        overlays=tuple([_overlay(overlay, shared) for overlay in message.overlays]),
    )


def _data_file(message: table_pb2.DataFile, shared: Shared) -> DataFile:
    fields, columns = tuple(message.fields), tuple(message.column_indices)
    file = DataFile(
        path=message.path,
        fields=shared.setdefault(fields, fields),
        column_indices=shared.setdefault(columns, columns),
        major=message.file_major_version,
        minor=message.file_minor_version,
        size=message.file_size_bytes or None,
        base_id=message.base_id if message.HasField("base_id") else None,
    )
    if file.is_legacy:
        return file._replace(size=None)
    if len(fields) != len(columns):
        raise CorruptFile(
            f"data file {message.path!r} has {len(fields)} fields in {len(columns)} columns; one "
            "column for each field was expected"
        )
    twice = _repeated(fields)
    if twice is not None:
        raise CorruptFile(
            f"data file {message.path!r} lists the field {twice} twice; one column for each field "
            "was expected"
        )
    return file


@lru_cache(maxsize=64)  # most files of a table have the same fields in the same columns
def _repeated(numbers: tuple[int, ...]) -> int | None:
    """Return a number, from 0 on, that occurs twice; None if none does."""
    counts = Counter(number for number in numbers if number >= 0)
    return counts.most_common(1)[0][0] if len(counts) < counts.total() else None


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


def _overlay(message: table_pb2.DataOverlayFile, shared: Shared) -> DataOverlay:
    is_shared = message.HasField("shared_offset_bitmap")
    return DataOverlay(
        file=_data_file(message.data_file, shared),
        committed_version=message.committed_version,
        shared_coverage=message.shared_offset_bitmap if is_shared else None,
        field_coverage=tuple(message.field_coverage.offset_bitmaps),
    )


def _lineage(message: table_pb2.DataFragment, sequence: str, hidden: int) -> Lineage | None:
    """Return where a sequence is stored: the row ids, or the versions, of a fragment's rows.

    Args:
        message: The fragment.
        sequence: Which sequence.
        hidden: Field id of the hidden column that may hold it.
    """
    kind = message.WhichOneof(sequence)
    if kind is None:
        return None
    stored = getattr(message, kind)
    if isinstance(stored, bytes):
        return Inline(stored)
    if isinstance(stored, table_pb2.ExternalFile):
        return External(stored.path, stored.offset, stored.size)
    return HiddenColumn(hidden)
