"""Reading the manifests and transactions of many versions.

A version that is gone or cannot be read gives a commit with a note, so that a history goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lancefs.errors import CorruptFile, LanceError, MissingFile, UnsupportedFeature
from lancefs.storage import ByteRange, Bytes, File, Store, read_all
from lancefs.table.manifest import Manifest, read_manifest, read_timestamp
from lancefs.table.transactions import Transaction, read_transaction
from lancefs.table.versions import VersionFile, list_versions
from lancefs.threads import in_threads

# Manifests of one round of requests, and the largest size of a manifest that joins it.
_BATCH = 64
_MAX_BYTES = 1024 * 1024
_THREADS = 8


@dataclass(frozen=True, slots=True)
class CommitFile:
    """The manifest and the transaction of a version; None for what cannot be read.

    Attributes:
        file: The manifest file.
        timestamp: Time of the commit, in UTC.
        manifest: The decoded manifest.
        transaction: The transaction that made the version.
        note: Description of what cannot be read, and why.
    """

    file: VersionFile
    timestamp: datetime | None = None
    manifest: Manifest | None = None
    transaction: Transaction | None = None
    note: str | None = None


class _InMemoryFile(File):
    """A file whose bytes are already read."""

    def __init__(self, file: File, data: Bytes) -> None:
        super().__init__(file.store, file.path, len(data))
        self._data = data

    def read(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        for start, end in ranges:
            if not 0 <= start <= end <= len(self._data):
                error = CorruptFile(
                    f"bytes {start}–{end} are needed, the file has {len(self._data)} bytes"
                )
                error.path = self.url
                raise error
        return [self._data[start:end] for start, end in ranges]


def read_commits(store: Store, versions: Sequence[VersionFile]) -> Iterator[CommitFile]:
    """Read manifests and transactions lazily, 64 versions at a time.

    Args:
        store: The directory of the table, or of the branch.
        versions: The versions.

    Yields:
        The commits, in the order of the versions.

    Raises:
        CorruptFile: A manifest is damaged.
        ReadFailed: The store refused or failed.
    """
    for start in range(0, len(versions), _BATCH):
        yield from _read_batch(store, versions[start : start + _BATCH])


def commits_between(store: Store, since: int, until: int) -> list[CommitFile]:
    """Read the commits from one version to another, as far as they are there.

    Where one of them restored a version from before the first, those from there on are read too.

    Args:
        store: The directory of the table, or of the branch.
        since: The first version, which is itself left out.
        until: The last one.
    """
    commits: list[CommitFile] = []
    first, start = until + 1, since + 1
    while start < first:
        versions = list_versions(store, with_sizes=False, since=start)
        begin, end = (bisect_left(versions, at, key=_number_of) for at in (start, first))
        commits = [*read_commits(store, versions[begin:end]), *commits]
        done = [one.transaction for one in commits if one.transaction is not None]
        restored = [one.details.get("version", 0) for one in done if one.operation == "Restore"]
        first, start = start, min([start, *restored])
    return commits


def _number_of(file: VersionFile) -> int:
    return file.version


def _read_batch(store: Store, versions: Sequence[VersionFile]) -> list[CommitFile]:
    pairs = list(zip(versions, _prefetch(store, versions), strict=True))
    if store.is_local:  # reads do not wait for a network
        return [_read_commit(store, version, file) for version, file in pairs]
    return in_threads(lambda pair: _read_commit(store, *pair), pairs, _THREADS, "lancefs-history")


def _prefetch(store: Store, versions: Sequence[VersionFile]) -> list[File]:
    """Return the manifest files; those of a remote store that are small are read together."""
    files = [store.file(version.path, version.size) for version in versions]
    small = [
        position
        for position, version in enumerate(versions)
        if not store.is_local and version.size is not None and version.size <= _MAX_BYTES
    ]
    try:
        contents = read_all([(files[position], [(0, files[position].size)]) for position in small])
    except LanceError:
        return files  # reading each file alone finds the one that fails
    for position, (data,) in zip(small, contents, strict=True):
        files[position] = _InMemoryFile(files[position], data)
    return files


def _read_commit(store: Store, version: VersionFile, file: File) -> CommitFile:
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
