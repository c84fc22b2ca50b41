"""Reading what made versions: many manifests at once, with their transactions.

What is gone, or cannot be read, is noted: a history goes on past it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lancefs.errors import CorruptFile, LanceError, MissingFile, UnsupportedFeature
from lancefs.storage import ByteRange, Bytes, File, Store, read_all
from lancefs.table.manifest import Manifest, read_manifest, read_timestamp
from lancefs.table.transactions import Transaction, read_transaction
from lancefs.table.versions import VersionFile
from lancefs.threads import in_threads

# Manifests that are read together, and the size up to which they are read whole.
_BATCH = 64
_WHOLE = 1024 * 1024
_READERS = 8


@dataclass(frozen=True, slots=True)
class CommitFile:
    """What is read of a version; what could not be read is None.

    Attributes:
        file: Its manifest file.
        timestamp: When it was committed.
        manifest: What the manifest says.
        transaction: What made the version.
        note: What could not be read, and why.
    """

    file: VersionFile
    timestamp: datetime | None = None
    manifest: Manifest | None = None
    transaction: Transaction | None = None
    note: str | None = None


class _Fetched(File):
    """A file whose bytes are at hand."""

    def __init__(self, file: File, data: Bytes) -> None:
        super().__init__(file.store, file.path, len(data))
        self._data = data

    def read(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        for start, end in ranges:
            if not 0 <= start <= end <= len(self._data):
                error = CorruptFile(f"bytes {start}–{end} are wanted of {len(self._data)}")
                error.path = self.url
                raise error
        return [self._data[start:end] for start, end in ranges]


def read_commits(store: Store, versions: Sequence[VersionFile]) -> Iterator[CommitFile]:
    """Read manifests and transactions, many at once, while they are asked for.

    Args:
        store: The directory of the table, or of the branch.
        versions: Which ones, in the order wanted.

    Raises:
        CorruptFile: A manifest is damaged.
        ReadFailed: The store refused or failed.
    """
    for start in range(0, len(versions), _BATCH):
        yield from _read(store, versions[start : start + _BATCH])


def _read(store: Store, versions: Sequence[VersionFile]) -> list[CommitFile]:
    files = _fetch(store, versions)
    if store.is_local:  # nothing to wait for
        return [_read_one(store, *one) for one in zip(versions, files, strict=True)]
    wanted = list(zip(versions, files, strict=True))
    return in_threads(lambda one: _read_one(store, *one), wanted, _READERS, "lancefs-history")


def _fetch(store: Store, versions: Sequence[VersionFile]) -> list[File]:
    """Return manifest files: small remote ones read, together, others left to be read alone."""
    files = [store.file(one.path, one.size) for one in versions]
    small = [
        position
        for position, one in enumerate(versions)
        if not store.is_local and one.size is not None and one.size <= _WHOLE
    ]
    try:
        read = read_all([(files[position], [(0, files[position].size)]) for position in small])
    except LanceError:
        return files  # the one that is to blame is found when it is read alone
    for position, (data,) in zip(small, read, strict=True):
        files[position] = _Fetched(files[position], data)
    return files


def _read_one(store: Store, version: VersionFile, file: File) -> CommitFile:
    try:
        manifest = read_manifest(file)
    except MissingFile:
        return CommitFile(version, note="the manifest is gone: the version was cleaned up")
    except UnsupportedFeature as error:
        return CommitFile(version, read_timestamp(file), note=str(error))
    try:
        transaction = read_transaction(store, file, manifest)
        note = None if transaction is not None else "the version names no transaction"
    except MissingFile:
        transaction, note = None, f"the transaction {manifest.transaction_file} is gone"
    except CorruptFile as error:
        transaction, note = None, str(error)
    return CommitFile(version, manifest.timestamp, manifest, transaction, note)
